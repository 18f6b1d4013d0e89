//! Output as plain text: without the sequences that command a terminal.
//!
//! A line end ends every sequence. A terminal would go on waiting for the end of an unfinished one, and an agent could
//! hide from the scan what it prints after it.

use std::borrow::Cow;

/// Removes escape sequences and control characters, line ends and tabs aside. What is not UTF-8 stays as it is.
pub fn plain_text(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut sequences = Sequences::default();
    // Most output needs no change, and then no copy.
    let Some(first) = bytes.iter().position(|byte| !sequences.passes(*byte)) else {
        return Cow::Borrowed(bytes);
    };
    let mut text = bytes[..first].to_vec();
    let rest = &bytes[first + 1..];
    text.extend(rest.iter().filter(|byte| sequences.passes(**byte)));
    Cow::Owned(text)
}

/// The same, without a second buffer.
pub(super) fn make_plain(bytes: &mut Vec<u8>) {
    let mut sequences = Sequences::default();
    bytes.retain(|byte| sequences.passes(*byte));
}

/// A text of one line that commands nothing: control characters, and those that turn the direction of writing, are
/// shown as escapes.
pub fn inert(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmful(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Where in an escape sequence a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Text,
    Escape,
    /// `ESC [`, parameters, a final letter.
    Control,
    /// `ESC ]` and others: text up to BEL or `ESC \`.
    String,
    StringEscape,
}

/// Tells text from sequences, byte by byte.
#[derive(Debug, Default)]
struct Sequences {
    state: State,
    /// The byte that passed last.
    last: u8,
}

impl Sequences {
    fn passes(&mut self, byte: u8) -> bool {
        let passes = self.step(byte);
        if passes {
            self.last = byte;
        }
        passes
    }

    fn step(&mut self, byte: u8) -> bool {
        use State::{Control, Escape, String, StringEscape, Text};
        self.state = match (self.state, byte) {
            (_, b'\n' | b'\r') => {
                self.state = Text;
                return true;
            }
            (Text, 0x1b) | (Escape | Control, 0x1b) => Escape,
            (Text, _) => return self.is_text(byte),
            (Escape, b'[') => Control,
            (Escape, b']' | b'P' | b'X' | b'^' | b'_') => String,
            (Escape, 0x20..=0x2f) => Escape,
            (Control, 0x20..=0x3f) => Control,
            (Escape, _) | (Control, 0x40..=0x7e) => Text,
            (Control, _) => {
                // No sequence after all.
                self.state = Text;
                return self.is_text(byte);
            }
            (String, 0x1b) => StringEscape,
            (String | StringEscape, 0x07 | 0x18 | 0x1a) | (StringEscape, b'\\') => Text,
            (String | StringEscape, _) => String,
        };
        false
    }

    /// Tabs, and what can be seen. The C1 controls are written as 0xc2 and a byte from 0x80 to 0x9f.
    fn is_text(&self, byte: u8) -> bool {
        match byte {
            b'\t' | 0x20..=0x7e => true,
            0x80..=0x9f => self.last != 0xc2,
            0xa0.. => true,
            _ => false,
        }
    }
}

/// Makes a stream of chunks safe to show on a terminal: colours stay, everything else that commands the terminal
/// (titles, clipboard, cursor, screen) goes.
#[derive(Debug, Default)]
pub struct SafeForTerminal {
    sequences: Sequences,
    /// A sequence that may turn out to be a colour.
    parameters: Vec<u8>,
    coloured: bool,
}

impl SafeForTerminal {
    pub fn chunk(&mut self, bytes: &[u8]) -> Vec<u8> {
        /// No colour needs more.
        const LONGEST: usize = 64;
        let mut shown = Vec::with_capacity(bytes.len());
        for byte in bytes {
            let before = self.sequences.state;
            if self.sequences.passes(*byte) {
                shown.push(*byte);
            } else if before != State::Control {
                self.parameters.clear();
            } else if *byte == b'm' && self.sequences.state == State::Text {
                if self.parameters.len() <= LONGEST {
                    shown.extend_from_slice(b"\x1b[");
                    shown.append(&mut self.parameters);
                    shown.push(b'm');
                    self.coloured = true;
                }
            } else if matches!(byte, b'0'..=b'9' | b';' | b':') {
                self.parameters.push(*byte);
            } else {
                // Not a colour, whatever its last letter is.
                self.parameters.resize(LONGEST + 1, 0);
            }
        }
        shown
    }

    /// What makes the terminal as it was before, and forgets what was not finished.
    pub fn reset(&mut self) -> &'static [u8] {
        let was_coloured = self.coloured;
        *self = SafeForTerminal::default();
        if was_coloured { b"\x1b[0m" } else { b"" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_go_and_text_stays() {
        for (text, plain) in [
            (
                "a\x1b[1;31mb\x1b[0mc\x1b]0;title\x07d\x1b]52;c;aGk=\x1b\\e\n\tü\r\x1b[2Jf",
                "abcde\n\tü\rf",
            ),
            ("a\x1b(Bb\x1b7c\x1bPdata\x1b\\d\x1b[?25le", "abcde"),
            ("x\u{9b}31my\u{7f}\u{0}z", "x\u{fffd}31myz"),
            ("", ""),
        ] {
            let mut bytes = text.as_bytes().to_vec();
            assert_eq!(
                String::from_utf8_lossy(&plain_text(&bytes)),
                plain,
                "{text:?}"
            );
            make_plain(&mut bytes);
            assert_eq!(String::from_utf8_lossy(&bytes), plain, "{text:?}");
        }
    }

    #[test]
    fn an_unfinished_sequence_hides_nothing_after_its_line() {
        for open in ["\x1b[", "\x1b]", "\x1bP", "\x1bX", "\x1b_", "\x1b^", "\x1b"] {
            let text = format!("a\n{open}stray\nseen\n");
            let plain = plain_text(text.as_bytes()).into_owned();
            assert!(plain.ends_with(b"\nseen\n"), "{open:?}");
        }
    }

    #[test]
    fn only_colours_pass_to_a_terminal() {
        let mut safe = SafeForTerminal::default();
        let mut shown = Vec::new();
        for chunk in [
            "\x1b[38;5;1",
            "96mx\x1b[0m\x1b[2J\x1b]0;t",
            "itle\x07y\x1b[?1049h\x1b[>4;2mz\n",
        ] {
            shown.extend(safe.chunk(chunk.as_bytes()));
        }
        assert_eq!(
            String::from_utf8_lossy(&shown),
            "\x1b[38;5;196mx\x1b[0myz\n"
        );
        assert_eq!(safe.reset(), b"\x1b[0m");
        assert_eq!(safe.reset(), b"");
    }

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(inert("plain ü"), "plain ü");
        assert_eq!(
            inert("a\nError: b\x1b[2J\u{202e}"),
            "a\\nError: b\\u{1b}[2J\\u{202e}"
        );
    }

    proptest! {
        #[test]
        fn nothing_that_commands_a_terminal_survives(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = plain_text(&bytes);
            let text = String::from_utf8_lossy(&text);
            prop_assert!(text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')));
        }

        #[test]
        fn with_or_without_a_buffer_it_is_the_same(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut made = bytes.clone();
            make_plain(&mut made);
            prop_assert_eq!(plain_text(&bytes).into_owned(), made);
        }
    }
}
