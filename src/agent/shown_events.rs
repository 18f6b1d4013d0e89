//! Events of a CLI in what is otherwise plain text: a stream that nobody recognised, or a file that was shown.

use memchr::memmem::Finder;

use super::dialect::{self, Dialect};
use super::json;
use super::record::Record;
use super::transcript::Note;
use crate::config::Format;

/// The formats that an event can be of.
const FORMATS: [Format; 5] = [
    Format::Claude,
    Format::Codex,
    Format::Gemini,
    Format::Opencode,
    Format::Copilot,
];

/// The text with the assistant's words in the place of every event, so that what a tool printed does not pass for them.
/// JSON that is no such event stays as it is; what looks like JSON and cannot be read goes.
pub fn with_words_for_events(text: Vec<u8>) -> Vec<u8> {
    let has_type = Finder::new("\"type\"");
    if has_type.find(&text).is_none() {
        return text;
    }
    let mut translator = Translator::default();
    let mut plain = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match has_type.find(line) {
            Some(at) => translator.translate(line, at, &mut plain),
            None => plain.extend_from_slice(line),
        }
    }
    plain
}

#[derive(Default)]
struct Translator {
    dialect: Option<(Format, Box<dyn Dialect>)>,
}

impl Translator {
    /// `at`: where the line names a type.
    fn translate(&mut self, line: &[u8], at: usize, plain: &mut Vec<u8>) {
        let Some(start) = line[..at]
            .iter()
            .position(|byte| matches!(byte, b'{' | b'['))
        else {
            plain.extend_from_slice(line);
            return;
        };
        let (before, rest) = line.split_at(start);
        let mut words = Vec::new();
        let mut is_event = false;
        let is_json = json::each(rest, &mut |event| {
            let format = dialect::begun_by(event).or_else(|| {
                FORMATS
                    .into_iter()
                    .find(|format| dialect::is_of(*format, event))
            });
            let Some(format) = format else { return };
            is_event = true;
            let is_known = self
                .dialect
                .as_ref()
                .is_some_and(|(known, _)| *known == format);
            if !is_known {
                self.dialect = dialect::of(format).map(|dialect| (format, dialect));
            }
            if let Some((_, dialect)) = &mut self.dialect {
                let mut record = Record::new(rest.len());
                dialect.hear(event, &mut record, &mut |note| {
                    if let Note::Words { text, .. } = note {
                        words.extend_from_slice(text.as_bytes());
                        words.push(b'\n');
                    }
                });
            }
        });
        match (is_event, is_json) {
            (false, true) => plain.extend_from_slice(line),
            (true, _) | (false, false) => {
                plain.extend_from_slice(before);
                plain.push(b'\n');
                plain.extend_from_slice(&words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        String::from_utf8_lossy(&with_words_for_events(text.as_bytes().to_vec())).into_owned()
    }

    #[test]
    fn only_the_assistants_words_are_left_of_events() {
        let text = r#"Loading... {"type":"thread.started","thread_id":"1"}
{"type":"item.completed","item":{"id":"0","type":"command_execution","aggregated_output":"TAG"}}
{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"I read it."}}
Bye.
"#;
        assert_eq!(told(text), "Loading... \n\n\nI read it.\nBye.\n");
    }

    #[test]
    fn other_json_stays_and_what_cannot_be_read_goes() {
        let other = "{\"type\":\"mine\",\"text\":\"TAG\"}\n";
        assert_eq!(told(other), other);
        let prose = "The key \"type\" is {missing}.\n";
        assert_eq!(told(prose), prose);
        let half = "x {\"type\":\"user\",\"message\":{\"content\":\"TAG";
        assert_eq!(told(half), "x \n");
        assert_eq!(told("no events\n"), "no events\n");
    }
}
