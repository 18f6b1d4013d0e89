use std::fmt::Write;

use include_dir::{Dir, include_dir};

use super::*;
use crate::agent::Usage;

/// What real CLIs printed. tests/fixtures/agents is never edited: it is what they are.
static RECORDED: Dir = include_dir!("$CARGO_MANIFEST_DIR/tests/fixtures/agents");

const LIMIT: usize = 10_000_000;

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
