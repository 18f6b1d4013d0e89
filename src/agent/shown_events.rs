//! Events of a CLI in what is otherwise plain text: a stream that nobody recognised, or a file that was shown.

use memchr::memmem::{self, Finder};
use serde::de::IgnoredAny;
use serde_json::Deserializer;

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

/// How many values that are none are looked at. Prose has few of them, and looking for more could take long.
const MOST_FAILURES: u32 = 256;

/// The text with the assistant's words in the place of every event, so that what a tool printed does not pass for them.
/// JSON that is no such event stays as it is; half an event goes. `is_cut`: the beginning of the text is missing.
pub fn with_words_for_events(text: Vec<u8>, is_cut: bool) -> Vec<u8> {
    let has_type = Finder::new("\"type\"");
    if has_type.find(&text).is_none() {
        return text;
    }
    let mut translator = Translator::default();
    let mut plain = Vec::with_capacity(text.len());
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        // The other half of an event says as little as the first.
        let is_half = index == 0 && is_cut && line.trim_ascii_end().ends_with(b"}");
        if is_half {
            plain.push(b'\n');
        } else if has_type.find(line).is_some() {
            translator.translate(line, &mut plain);
        } else {
            plain.extend_from_slice(line);
        }
    }
    plain
}

#[derive(Default)]
struct Translator {
    dialect: Option<(Format, Box<dyn Dialect>)>,
    failures: u32,
}

impl Translator {
    fn translate(&mut self, line: &[u8], plain: &mut Vec<u8>) {
        let mut rest = line;
        while let Some(start) = memmem::find(rest, b"{\"") {
            let (before, value) = rest.split_at(start);
            plain.extend_from_slice(before);
            let mut values = Deserializer::from_slice(value).into_iter::<IgnoredAny>();
            match values.next() {
                Some(Ok(_)) => {
                    let (value, after) = value.split_at(values.byte_offset());
                    self.value(value, plain);
                    rest = after;
                }
                Some(Err(error)) if !error.is_eof() && self.failures < MOST_FAILURES => {
                    self.failures += 1;
                    let (brace, after) = value.split_at(1);
                    plain.extend_from_slice(brace);
                    rest = after;
                }
                Some(Err(_)) | None => rest = b"\n",
            }
        }
        plain.extend_from_slice(rest);
    }

    /// Words for an event, nothing for what is too large to be one, and all else as it is.
    fn value(&mut self, value: &[u8], plain: &mut Vec<u8>) {
        let mut words = Vec::new();
        let mut is_event = false;
        let is_json = json::each(value, &mut |event| {
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
                let mut record = Record::new(value.len());
                dialect.hear(event, &mut record, &mut |note| {
                    if let Note::Words { text, .. } = note {
                        words.extend_from_slice(text.as_bytes());
                        words.push(b'\n');
                    }
                });
            }
        });
        match (is_event, is_json) {
            (true, _) => {
                plain.push(b'\n');
                plain.extend_from_slice(&words);
            }
            (false, true) => plain.extend_from_slice(value),
            (false, false) => plain.push(b'\n'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        String::from_utf8_lossy(&with_words_for_events(text.as_bytes().to_vec(), false))
            .into_owned()
    }

    #[test]
    fn only_the_assistants_words_are_left_of_events() {
        let text = r#"Loading... {"type":"thread.started","thread_id":"1"}
{"type":"item.completed","item":{"id":"0","type":"command_execution","aggregated_output":"TAG"}}
{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"I read it."}}
Bye.
"#;
        assert_eq!(told(text), "Loading... \n\n\n\n\nI read it.\n\nBye.\n");
    }

    #[test]
    fn json_in_a_sentence_does_not_swallow_the_rest_of_it() {
        for prose in [
            "I set {\"type\":\"module\"} in package.json. TAG\n",
            "- [x] added the \"type\" field. TAG\n",
            "I could not set [\"type\"]: TAG\n",
        ] {
            assert!(told(prose).contains("TAG"), "{prose}");
        }
        let stamped = "[12:00:01] {\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"TAG\"}}\n";
        assert!(told(stamped).contains("TAG"));
    }

    #[test]
    fn an_event_that_is_too_large_is_no_text() {
        let event = r#"{"type":"user","session_id":"s","message":{"content":[{"type":"tool_result","content":"TAG"}]}}"#;
        let zeros = "0,".repeat(1 << 16);
        let large = event.replacen('{', &format!("[{{\"z\":[{zeros}0],"), 1) + "]";
        assert!(!told(&large).contains("TAG"));
    }

    #[test]
    fn half_an_event_says_nothing_at_either_end() {
        let half = b"esult\",\"content\":\"TAG\"}]}}\n{\"type\":\"other\"}\nTAG\n".to_vec();
        let told = with_words_for_events(half, true);
        assert_eq!(told, b"\n{\"type\":\"other\"}\nTAG\n");
    }

    #[test]
    fn much_that_is_nearly_json_takes_no_time() {
        let nearly = "{\"type\":".repeat(200_000);
        assert!(told(&nearly).len() <= nearly.len());
        let lines = "{\"type\" x\n".repeat(200_000);
        assert!(told(&lines).len() <= lines.len());
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
