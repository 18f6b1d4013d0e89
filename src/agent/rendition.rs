//! What people are shown of an agent's output: plain text as it is, events as readable lines.

use std::borrow::Cow;

use super::transcript::Note;

/// Turns notes into text, and keeps the lines apart.
#[derive(Debug)]
pub struct Rendition {
    at_line_start: bool,
    /// Whether the line so far is the assistant's, which ends where other text begins.
    is_spoken: bool,
}

impl Default for Rendition {
    fn default() -> Self {
        Rendition {
            at_line_start: true,
            is_spoken: false,
        }
    }
}

impl Rendition {
    /// The text for a note. Nothing, if it is not for people.
    pub fn show<'n>(&mut self, note: &Note<'n>) -> Cow<'n, [u8]> {
        let shown: Cow<[u8]> = match note {
            Note::Text(bytes) if self.is_spoken && !self.at_line_start => {
                Cow::Owned([b"\n", *bytes].concat())
            }
            Note::Text(bytes) => Cow::Borrowed(*bytes),
            Note::Words { text, begins } if *begins => {
                Cow::Owned(format!("{}{text}", self.new_line()).into_bytes())
            }
            Note::Words { text, .. } => Cow::Borrowed(text.as_bytes()),
            Note::Tool { name, about } => self.line(format_args!("→ {name}: {about}")),
            Note::Retry { message } => self.line(format_args!("… {message}")),
            Note::Usage(_) => return Cow::Borrowed(&[]),
        };
        if let Some(last) = shown.last() {
            self.at_line_start = *last == b'\n';
            self.is_spoken = matches!(note, Note::Words { .. });
        }
        shown
    }

    fn line(&self, line: std::fmt::Arguments) -> Cow<'static, [u8]> {
        Cow::Owned(format!("{}{line}\n", self.new_line()).into_bytes())
    }

    fn new_line(&self) -> &'static str {
        match self.at_line_start {
            true => "",
            false => "\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Usage;

    #[test]
    fn events_become_lines_of_their_own() {
        let mut rendition = Rendition::default();
        let words = |text, begins| Note::Words { text, begins };
        let notes = [
            Note::Text(b"Loading"),
            words("I will ", true),
            words("look.", false),
            Note::Tool {
                name: "Bash",
                about: "ls -l",
            },
            Note::Usage(Usage::default()),
            words("Done.", true),
            Note::Text(b"a warn"),
            Note::Text(b"ing\n"),
            words("Really.\n", true),
            Note::Retry {
                message: "overloaded, trying again",
            },
            Note::Text(b"bye\n"),
        ];
        let shown: Vec<u8> = notes
            .iter()
            .flat_map(|note| rendition.show(note).into_owned())
            .collect();
        assert_eq!(
            String::from_utf8_lossy(&shown),
            "Loading\nI will look.\n→ Bash: ls -l\nDone.\na warning\nReally.\n… overloaded, trying again\nbye\n"
        );
    }
}
