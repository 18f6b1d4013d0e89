//! Output as plain text: without the sequences that command a terminal.

use std::borrow::Cow;

use vte::{Params, Parser, Perform};

/// Removes escape sequences and control characters, line ends and tabs aside. What is not UTF-8 stays as it is or becomes
/// U+FFFD.
pub fn plain_text(bytes: &[u8]) -> Cow<'_, [u8]> {
    // 0xc2 begins the UTF-8 form of the C1 controls; all other bytes from 0x80 on are parts of text, or invalid.
    let harmless = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\t' | 0x20..=0x7e | 0x80..);
    if bytes.iter().all(|byte| harmless(byte) && *byte != 0xc2) {
        return Cow::Borrowed(bytes);
    }
    let mut kept = Kept::default();
    Parser::new().advance(&mut kept, bytes);
    Cow::Owned(kept.text)
}

/// Makes a stream of chunks safe to show on a terminal: colours stay, everything else that commands the terminal
/// (titles, clipboard, cursor, screen) goes.
#[derive(Default)]
pub struct SafeForTerminal {
    parser: Parser,
}

/// See [`SafeForTerminal`].
pub fn safe_for_terminal() -> SafeForTerminal {
    SafeForTerminal::default()
}

impl SafeForTerminal {
    pub fn chunk(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut kept = Kept {
            text: Vec::with_capacity(bytes.len()),
            colours: true,
        };
        self.parser.advance(&mut kept, bytes);
        kept.text
    }
}

impl std::fmt::Debug for SafeForTerminal {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("SafeForTerminal")
    }
}

#[derive(Default)]
struct Kept {
    text: Vec<u8>,
    colours: bool,
}

impl Perform for Kept {
    fn print(&mut self, c: char) {
        // C1 controls arrive here when they are written as UTF-8.
        if !c.is_control() {
            self.text
                .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    fn execute(&mut self, byte: u8) {
        if matches!(byte, b'\n' | b'\r' | b'\t') {
            self.text.push(byte);
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _: bool, action: char) {
        if !self.colours || action != 'm' || !intermediates.is_empty() {
            return;
        }
        self.text.extend_from_slice(b"\x1b[");
        for (index, param) in params.iter().enumerate() {
            if index > 0 {
                self.text.push(b';');
            }
            let parts: Vec<String> = param.iter().map(u16::to_string).collect();
            self.text.extend_from_slice(parts.join(":").as_bytes());
        }
        self.text.push(b'm');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_go_and_text_stays() {
        let text = "a\x1b[1;31mb\x1b[0mc\x1b]0;title\x07d\x1b]52;c;aGk=\x1b\\e\n\tü\r\x1b[2Jf";
        assert_eq!(plain_text(text.as_bytes()), "abcde\n\tü\rf".as_bytes());
    }

    #[test]
    fn only_colours_pass_to_a_terminal() {
        let mut safe = safe_for_terminal();
        let mut shown = Vec::new();
        for chunk in [
            "\x1b[38;5;1",
            "96mx\x1b[0m\x1b[2J\x1b]0;t",
            "itle\x07y\x1b[?1049h\u{9b}31mz",
        ] {
            shown.extend(safe.chunk(chunk.as_bytes()));
        }
        assert_eq!(
            String::from_utf8_lossy(&shown),
            "\x1b[38;5;196mx\x1b[0my31mz"
        );
    }

    proptest! {
        #[test]
        fn nothing_that_commands_a_terminal_survives(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = plain_text(&bytes);
            let text = String::from_utf8_lossy(&text);
            prop_assert!(text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')));
        }
    }
}
