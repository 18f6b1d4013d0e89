//! One line of the log, as people or machines read it.

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tracing::Level;

use crate::config::{LogFormat, TimestampFormat};
use crate::event::Moment;
use crate::iteration::inert;
use crate::report::workflow::inert_line;

/// How lines look.
#[derive(Debug, Clone)]
pub struct LineStyle {
    pub format: LogFormat,
    pub timestamps: TimestampFormat,
    pub colour: bool,
    /// Whether a runner reads the log, which obeys what looks like a command.
    pub for_runner: bool,
    pub zone: TimeZone,
}

/// A line before it is formatted.
#[derive(Debug)]
pub struct LogLine<'a> {
    pub at: Moment,
    pub level: Level,
    pub message: &'a str,
    /// Progress is told without a word for its level, errors aside.
    pub is_progress: bool,
    /// Belongs to the line before: indented, without a time.
    pub is_continuation: bool,
    /// What happened, for machines.
    pub event: Option<Value>,
}

impl LineStyle {
    /// The line with its end, or nothing where it adds nothing: for machines, a continuation repeats what the event
    /// before it said.
    pub fn line(&self, line: &LogLine) -> String {
        match self.format {
            LogFormat::Json if line.is_continuation => String::new(),
            // In JSON these characters stand nowhere but in texts, where they have another spelling.
            LogFormat::Json if self.for_runner => json_line(line).replace("##[", "##\\u005b"),
            LogFormat::Json => json_line(line),
            LogFormat::Text if self.for_runner => {
                let text = self.text_line(line);
                format!("{}\n", inert_line(text.trim_end_matches('\n')))
            }
            LogFormat::Text => self.text_line(line),
        }
    }

    fn text_line(&self, line: &LogLine) -> String {
        // Whatever ends up in a message, it stays on its line.
        let message = inert(line.message);
        if line.is_continuation {
            return format!("  {message}\n");
        }
        let time = self.time(line.at);
        let (word, colour) = match line.level {
            Level::ERROR => ("ERROR: ", "31"),
            Level::WARN if line.is_progress => ("", "33"),
            Level::WARN => ("WARNING: ", "33"),
            Level::INFO => ("", ""),
            _ => ("DEBUG: ", "2"),
        };
        if self.colour && !colour.is_empty() {
            format!("{time}\x1b[{colour}m{word}{message}\x1b[0m\n")
        } else {
            format!("{time}{word}{message}\n")
        }
    }

    fn time(&self, at: Moment) -> String {
        let local = || at.time.to_zoned(self.zone.clone());
        match self.timestamps {
            TimestampFormat::Time => format!("[{}] ", local().strftime("%H:%M:%S")),
            TimestampFormat::TimeMs => format!("[{}] ", local().strftime("%H:%M:%S%.3f")),
            TimestampFormat::Iso => format!("[{}] ", at.time.strftime("%Y-%m-%dT%H:%M:%SZ")),
            TimestampFormat::Relative => {
                let tenths = at.since_start.as_millis() / 100;
                let (minutes, seconds) = (tenths / 600, tenths % 600);
                format!("[+{minutes}:{:02}.{}] ", seconds / 10, seconds % 10)
            }
            TimestampFormat::None => String::new(),
        }
    }
}

fn json_line(line: &LogLine) -> String {
    let mut object = json!({
        "time": line.at.time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        "level": line.level.as_str().to_ascii_lowercase(),
        "message": line.message,
    });
    if let (Value::Object(object), Some(Value::Object(event))) = (&mut object, line.event.clone()) {
        object.extend(event);
    }
    format!("{object}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use std::time::Duration;

    fn line(message: &str, level: Level) -> LogLine<'_> {
        LogLine {
            at: Moment {
                time: Timestamp::new(1_700_000_445, 123_000_000).unwrap_or_default(),
                since_start: Duration::from_millis(105_150),
            },
            level,
            message,
            is_progress: false,
            is_continuation: false,
            event: None,
        }
    }

    fn style(timestamps: TimestampFormat) -> LineStyle {
        LineStyle {
            format: LogFormat::Text,
            timestamps,
            colour: false,
            for_runner: false,
            zone: TimeZone::fixed(jiff::tz::offset(1)),
        }
    }

    #[test]
    fn every_timestamp_format() {
        let shown = |timestamps| style(timestamps).line(&line("x", Level::INFO));
        assert_eq!(shown(TimestampFormat::Time), "[23:20:45] x\n");
        assert_eq!(shown(TimestampFormat::TimeMs), "[23:20:45.123] x\n");
        assert_eq!(shown(TimestampFormat::Relative), "[+1:45.1] x\n");
        assert_eq!(shown(TimestampFormat::Iso), "[2023-11-14T22:20:45Z] x\n");
        assert_eq!(shown(TimestampFormat::None), "x\n");
    }

    #[test]
    fn levels_and_colours() {
        let mut style = style(TimestampFormat::None);
        assert_eq!(style.line(&line("x", Level::ERROR)), "ERROR: x\n");
        assert_eq!(style.line(&line("x", Level::WARN)), "WARNING: x\n");
        assert_eq!(style.line(&line("x", Level::DEBUG)), "DEBUG: x\n");
        style.colour = true;
        assert_eq!(
            style.line(&line("x", Level::ERROR)),
            "\x1b[31mERROR: x\x1b[0m\n"
        );
        assert_eq!(style.line(&line("x", Level::INFO)), "x\n");
    }

    #[test]
    fn a_message_cannot_begin_a_line_of_its_own() {
        let shown = style(TimestampFormat::None).line(&line("a\nb\r\nc", Level::INFO));
        assert_eq!(shown, "a\\nb\\r\\nc\n");
    }

    #[test]
    fn a_runner_obeys_nothing_in_a_line() {
        let mut style = style(TimestampFormat::None);
        style.for_runner = true;
        for message in [
            "::error::x",
            " ::set-output name=a::b",
            "a ##[error]x",
            "###[x]",
        ] {
            let shown = style.line(&line(message, Level::INFO));
            assert!(!shown.trim_start().starts_with("::"), "{shown}");
            assert!(!shown.contains("##["), "{shown}");
        }
        style.format = LogFormat::Json;
        let shown = style.line(&line("###[error]x", Level::INFO));
        assert!(!shown.contains("##["), "{shown}");
        let object: Value = serde_json::from_str(&shown).unwrap_or_default();
        assert_eq!(object["message"], "###[error]x");
    }

    #[test]
    fn json_is_one_object_per_line() {
        let mut style = style(TimestampFormat::Time);
        style.format = LogFormat::Json;
        let mut line = line("said \"x\"\n", Level::WARN);
        line.event = Some(json!({"event": "run_started", "iteration": 1}));
        assert_eq!(
            style.line(&line),
            concat!(
                r#"{"time":"2023-11-14T22:20:45.123Z","level":"warn","message":"said \"x\"\n","#,
                r#""event":"run_started","iteration":1}"#,
                "\n"
            )
        );
        line.is_continuation = true;
        assert_eq!(style.line(&line), "");
    }
}
