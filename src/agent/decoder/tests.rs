//! The recorded streams, and how output is cut into events. tests/events.rs has what single events mean,
//! tests/hostile.rs what must not come of anything.

mod events;
mod hostile;

use std::fmt::Write;

use include_dir::{Dir, include_dir};

use super::*;
use crate::agent::Usage;

/// What real CLIs printed. tests/fixtures/agents is never edited: it is what they are.
static RECORDED: Dir = include_dir!("$CARGO_MANIFEST_DIR/tests/fixtures/agents");

const LIMIT: usize = 10_000_000;
const TAG: &str = "<promise>";

fn recorded(name: &str) -> &'static [u8] {
    RECORDED.get_file(name).unwrap().contents()
}

/// Every recorded stream of events, with its name and its format.
fn streams() -> Vec<(&'static str, Format, &'static [u8])> {
    let mut streams = Vec::new();
    for file in RECORDED.files() {
        let name = file.path().to_str().unwrap();
        // What Gemini prints as one object on many lines is no stream.
        if !name.contains(".json") || name.contains("stderr") || name == "gemini-success-json.json"
        {
            continue;
        }
        let format = match name.split('-').next().unwrap() {
            "claude" => Format::Claude,
            "codex" => Format::Codex,
            "gemini" => Format::Gemini,
            "opencode" => Format::Opencode,
            "copilot" => Format::Copilot,
            other => panic!("{other}"),
        };
        streams.push((name, format, file.contents()));
    }
    streams.sort_unstable_by_key(|(name, ..)| *name);
    streams
}

/// The exit code that was recorded, where it says more than that something failed.
fn exit_code(name: &str) -> Option<i32> {
    match name {
        "gemini-err400-stream.jsonl" => Some(144),
        "gemini-err401-stream.jsonl" => Some(145),
        "gemini-err404-stream.jsonl" => Some(1),
        "gemini-err429-long-stream.jsonl" => Some(173),
        "gemini-err503-stream.jsonl" => Some(247),
        _ => None,
    }
}

/// What is heard, text and words put together, however they come in pieces.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    text: Vec<u8>,
    words: String,
    tools: Vec<String>,
    retries: Vec<String>,
    usage: Vec<Usage>,
}

impl Heard {
    fn note(&mut self, note: Note) {
        match note {
            Note::Text(bytes) => self.text.extend_from_slice(bytes),
            Note::Words { text, begins } => {
                if begins && !self.words.is_empty() && !self.words.ends_with('\n') {
                    self.words.push('\n');
                }
                self.words.push_str(text);
            }
            Note::Tool { name, about } => self.tools.push(format!("{name}: {about}")),
            Note::Retry { message } => self.retries.push(message.to_owned()),
            Note::Usage(usage) => self.usage.push(usage),
        }
    }
}

fn decoded(expected: Format, output: &[u8], size: usize, exit: Option<i32>) -> (Transcript, Heard) {
    let mut decoder = Decoder::new(expected, LIMIT);
    let mut heard = Heard::default();
    for chunk in output.chunks(size) {
        decoder.feed(Stream::Stdout, chunk, &mut |note| heard.note(note));
    }
    let transcript = decoder.finish(exit, &mut |note| heard.note(note));
    (transcript, heard)
}

fn whole(expected: Format, output: &[u8]) -> Transcript {
    decoded(expected, output, usize::MAX, None).0
}

/// A transcript as a few lines that can be read and compared.
fn row(transcript: &Transcript, heard: &Heard) -> String {
    let mut row = String::new();
    let mut line = |name: &str, value: String| writeln!(row, "    {name}: {value}").unwrap();
    line("words", format!("{:?}", transcript.words));
    if !transcript.words.ends_with(&transcript.final_message) {
        line("final message", format!("{:?}", transcript.final_message));
    }
    let usage = transcript.usage;
    if usage.has_tokens {
        line(
            "tokens",
            format!("{} in, {} out", usage.input_tokens, usage.output_tokens),
        );
    }
    if usage.cost_usd.is_some() || usage.turns.is_some() {
        line(
            "cost, turns",
            format!("{:?}, {:?}", usage.cost_usd, usage.turns),
        );
    }
    if let Some(context) = usage.context {
        line(
            "context",
            format!("{} of {:?}", context.used, context.window),
        );
    }
    if heard.usage.len() > 1 {
        line("usage heard", heard.usage.len().to_string());
    }
    let tools = &transcript.tools;
    if tools.used + tools.denied > 0 {
        let (used, done, denied) = (tools.used, tools.done, tools.denied);
        line(
            "tools",
            format!("{used} used, {done} done, {denied} denied"),
        );
    }
    for tool in &heard.tools {
        line("tool", tool.clone());
    }
    if let Some(denied) = &tools.first_denied {
        line("first denied", denied.clone());
    }
    for retry in &heard.retries {
        line("retry", retry.clone());
    }
    let has_session = transcript.session.is_some();
    let (model, version) = (&transcript.model, &transcript.version);
    line(
        "session",
        format!("{has_session}, model {model:?}, version {version:?}"),
    );
    if let Some(trouble) = &transcript.trouble {
        line(
            "trouble",
            format!("{:?}: {}", trouble.kind, trouble.message),
        );
        if let Some(time) = trouble.resets_at {
            line("resets at", time.to_string());
        }
        if let Some(time) = trouble.retry_after {
            line("retry after", format!("{time:?}"));
        }
    }
    line("ended", transcript.has_ended.to_string());
    row
}

#[test]
fn every_recorded_stream_is_read_to_the_right_words_and_figures() {
    let mut table = String::new();
    for (name, format, output) in streams() {
        let (transcript, heard) = decoded(format, output, usize::MAX, exit_code(name));
        assert_eq!(
            (transcript.format, transcript.missed),
            (format, None),
            "{name}"
        );
        assert_eq!(heard.words, transcript.words, "{name}");
        assert_eq!(String::from_utf8_lossy(&heard.text), "", "{name}");
        let last = heard.usage.last().copied();
        assert_eq!(last.unwrap_or_default(), transcript.usage, "{name}");
        writeln!(table, "{name}\n{}", row(&transcript, &heard)).unwrap();
    }
    insta::assert_snapshot!("recorded_streams", table);
}

#[test]
fn how_it_is_cut_and_whether_it_is_expected_changes_nothing() {
    for (name, format, output) in streams() {
        let expected = decoded(format, output, usize::MAX, exit_code(name));
        for size in [1, 7, 4096] {
            assert!(
                decoded(format, output, size, exit_code(name)) == expected,
                "{name} {size}"
            );
        }
        for size in [1, usize::MAX] {
            assert!(
                decoded(Format::Auto, output, size, exit_code(name)) == expected,
                "{name} {size}"
            );
        }
    }
}

#[test]
fn plain_text_stays_plain_text() {
    for file in RECORDED.files() {
        let name = file.path().to_str().unwrap();
        if !name.ends_with(".txt") && name != "gemini-success-json.json" {
            continue;
        }
        for expected in [Format::Auto, Format::Text, Format::Claude, Format::Gemini] {
            for size in [1, 7, usize::MAX] {
                let (transcript, heard) = decoded(expected, file.contents(), size, Some(0));
                let named = matches!(expected, Format::Claude | Format::Gemini);
                let plain = Transcript {
                    missed: named.then_some(expected),
                    ..Transcript::new(Format::Text)
                };
                assert_eq!(transcript, plain, "{name}");
                assert_eq!(heard.text, file.contents(), "{name}");
            }
        }
    }
}

#[test]
fn another_cli_than_expected_is_understood_and_told() {
    let output = recorded("codex-success-json.jsonl");
    let transcript = whole(Format::Claude, output);
    assert_eq!(transcript.format, Format::Codex);
    assert_eq!(transcript.missed, Some(Format::Claude));
    assert_eq!(transcript.words, "All done.\n\n<promise>SUCCESS</promise>");
}

#[test]
fn a_stream_without_its_beginning_is_understood_if_it_is_expected() {
    for (name, format, output) in streams() {
        let Some(at) = memchr(b'\n', output) else {
            continue;
        };
        let rest = &output[at + 1..];
        if rest.is_empty() {
            continue;
        }
        assert_eq!(
            whole(format, rest).words,
            whole(format, output).words,
            "{name}"
        );
    }
}

#[test]
fn text_stands_before_between_and_after_the_events() {
    let output = String::from_utf8_lossy(recorded("codex-success-json.jsonl"));
    let mut lines: Vec<&str> = output.lines().collect();
    lines.insert(2, "{\"level\":\"info\"}");
    lines.insert(1, "<promise>FAILURE</promise>");
    lines.insert(0, "[wrapper] starting {x}\n{not json}\n\n");
    lines.push("bye");
    let output = lines.join("\n");
    for size in [1, 7, usize::MAX] {
        for expected in [Format::Auto, Format::Codex] {
            let (transcript, heard) = decoded(expected, output.as_bytes(), size, None);
            assert_eq!(transcript.words, "All done.\n\n<promise>SUCCESS</promise>");
            assert_eq!(
                String::from_utf8_lossy(&heard.text),
                "[wrapper] starting {x}\n{not json}\n\n\n<promise>FAILURE</promise>\n{\"level\":\"info\"}\nbye"
            );
        }
    }
}

#[test]
fn text_that_cannot_be_an_event_is_not_held_back() {
    for text in ["[====>  ", "{x", "[1", "working"] {
        let mut heard = Heard::default();
        let mut decoder = Decoder::new(Format::Auto, LIMIT);
        for byte in text.as_bytes().chunks(1) {
            decoder.feed(Stream::Stdout, byte, &mut |note| heard.note(note));
        }
        assert_eq!(heard.text, text.as_bytes());
    }
}

#[test]
fn standard_error_is_never_an_event() {
    let mut decoder = Decoder::new(Format::Codex, LIMIT);
    let mut heard = Heard::default();
    let output = recorded("codex-success-json.jsonl");
    decoder.feed(Stream::Stderr, output, &mut |note| heard.note(note));
    let transcript = decoder.finish(Some(0), &mut |note| heard.note(note));
    assert_eq!(
        (transcript.words.as_str(), transcript.format),
        ("", Format::Text)
    );
    assert_eq!(heard.text, output);
}

#[test]
fn what_a_plain_agent_shows_late_makes_it_no_other() {
    let mut output = vec![b'x'; WINDOW];
    output.push(b'\n');
    output.extend_from_slice(recorded("codex-success-json.jsonl"));
    for size in [1000, 4096, usize::MAX] {
        let (transcript, heard) = decoded(Format::Auto, &output, size, None);
        assert_eq!(transcript, Transcript::new(Format::Text));
        assert_eq!(heard.text, output);
    }
    // In time, it is one.
    assert_eq!(whole(Format::Auto, &output[2..]).format, Format::Codex);
    // What was expected may come late, another may not.
    assert_eq!(whole(Format::Codex, &output).format, Format::Codex);
    assert_eq!(whole(Format::Claude, &output).format, Format::Text);
}

#[test]
fn a_list_of_events_on_one_line_is_a_stream() {
    let output = String::from_utf8_lossy(recorded("claude-edit-stream.jsonl"));
    let list = format!("[{}]", output.trim_end().replace('\n', ","));
    let stream = whole(Format::Claude, output.as_bytes());
    assert_eq!(whole(Format::Claude, list.as_bytes()), stream);
    assert_eq!(whole(Format::Auto, list.as_bytes()), stream);
    let cut = whole(Format::Auto, &list.as_bytes()[..list.len() - 9]);
    assert_eq!((cut.has_ended, cut.words), (false, stream.words));
}

#[test]
fn a_result_that_is_longer_than_the_window_is_read() {
    let long = "x".repeat(3 * WINDOW);
    let output = String::from_utf8_lossy(recorded("claude-success-json.json"));
    let output = output.replace("All done.", &long);
    for size in [1000, usize::MAX] {
        let (transcript, _) = decoded(Format::Auto, output.as_bytes(), size, None);
        assert_eq!(transcript.format, Format::Claude);
        assert!(transcript.words.starts_with(&long) && transcript.words.contains(TAG));
        assert!(transcript.final_message.len() <= 64 << 10);
    }
}

#[test]
fn a_line_without_end_is_dropped_from_events_and_passed_on_as_text() {
    let endless = [b"{\"".as_slice(), &[b'x'; LONGEST_LINE]].concat();
    let (transcript, heard) = decoded(Format::Auto, &endless, 1 << 16, None);
    assert_eq!(transcript.format, Format::Text);
    assert!(heard.text == endless);

    let mut output = recorded("claude-sigint-slow-stream.jsonl").to_vec();
    output.extend_from_slice(&endless);
    output.push(b'\n');
    output.extend_from_slice(recorded("claude-success-stream.jsonl"));
    for size in [1 << 16, usize::MAX] {
        let (transcript, heard) = decoded(Format::Auto, &output, size, None);
        assert_eq!(transcript.words, "All done.\n\n<promise>SUCCESS</promise>");
        assert_eq!(heard.text, b"(a line was too long to be read)\n");
    }
}

#[test]
fn only_the_end_of_too_many_words_is_kept() {
    let mut decoder = Decoder::new(Format::Codex, 1000);
    let mut output = recorded("codex-edit-json.jsonl").to_vec();
    for count in 0..500 {
        let text = format!("{count} {}", "ü".repeat(count));
        let line = format!(
            "{{\"type\":\"item.completed\",\"item\":{{\"type\":\"agent_message\",\"text\":\"{text}\"}}}}\n"
        );
        output.extend_from_slice(line.as_bytes());
    }
    decoder.feed(Stream::Stdout, &output, &mut |_| {});
    assert!(decoder.record.transcript.words.len() < 10_000);
    let transcript = decoder.finish(None, &mut |_| {});
    assert!(transcript.words_are_cut && transcript.words.len() <= 1000);
    assert!(transcript.words.ends_with(&"ü".repeat(499)));
}
