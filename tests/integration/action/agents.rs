//! What GitHub shows of agents that rooda understands: usage, the agent's own words, classes of failures, and the raw
//! output in the run directory.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::json;

use crate::runner::{Job, Kind, Outcome, RUNNER_UID, StepResult};

/// A job whose agent is an alias of the repository: a script that prints in a format. It finds the number of its
/// attempt in `$n`.
pub(super) fn job(format: &str, script: &str) -> Option<Job> {
    let config = format!(
        "ai_cmd_aliases:\n  mine:\n    command: sh agent.sh\n    format: {format}\n    env: [MINE_KEY]\n"
    );
    let count = "n=$(cat $HOME/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >$HOME/n";
    let job = Job::new()?
        .file("rooda-config.yml", &config)
        .file("agent.sh", &format!("cat >/dev/null\n{count}\n{script}\n"))
        .env("MINE_KEY", KEY)
        .input("prompt", "Do it")
        .input("agent", "mine");
    Some(job)
}

/// With characters that JSON and Markdown write in other ways.
const KEY: &str = "mine-\"key\"|of\\the-agent";

/// What a real CLI printed once.
pub(super) fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agents");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

/// A stream of Codex that ends with an error in these words.
fn failing(message: &str) -> String {
    let events = [
        json!({"type": "thread.started", "thread_id": "1"}),
        json!({"type": "turn.started"}),
        json!({"type": "turn.failed", "error": {"message": message}}),
    ];
    events.map(|event| format!("{event}\n")).concat()
}

/// A stream of Codex that ends well with these words.
fn saying(message: &str) -> String {
    let item = json!({"id": "item_0", "type": "agent_message", "text": message});
    let events = [
        json!({"type": "thread.started", "thread_id": "1"}),
        json!({"type": "item.completed", "item": item}),
        json!({"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 2}}),
    ];
    events.map(|event| format!("{event}\n")).concat()
}

fn run_dir(job: &Job, outcome: &Outcome) -> PathBuf {
    job.temp().join(outcome.output("run-dir").unwrap())
}

/// All that is written, for the log and for later steps.
fn written(job: &Job, outcome: &Outcome) -> String {
    let mut written = outcome.log_text() + outcome.summary.as_deref().unwrap_or_default();
    for (name, value) in &outcome.outputs {
        written += &format!("{name}={value}\n");
    }
    for annotation in &outcome.annotations {
        written += &format!("{}\n", annotation.message);
    }
    for file in std::fs::read_dir(run_dir(job, outcome)).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        written += &String::from_utf8_lossy(&bytes);
    }
    written
}

/// What in a page is not code, and may do something.
fn outside_of_code(markdown: &str) -> String {
    let mut in_block = false;
    let mut outside = String::new();
    for event in Parser::new_ext(markdown, Options::all()) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_block = true,
            Event::End(TagEnd::CodeBlock) => in_block = false,
            Event::Text(text) if in_block => drop(text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => outside += &text,
            _ => {}
        }
    }
    outside
}

#[test]
fn a_recorded_stream_is_understood_and_shown_to_people() {
    let Some(job) = job("claude", "cat stream.jsonl") else {
        return;
    };
    let stream = fixture("claude-edit-stream.jsonl");
    let job = job.file("stream.jsonl", &stream).input("verbose", "true");
    let outcome = job.run();
    assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
    for (name, value) in [
        ("status", "success"),
        ("failure-class", ""),
        ("cost-usd", "0.042960"),
        ("input-tokens", "51360"),
        ("output-tokens", "126"),
    ] {
        assert_eq!(outcome.output(name), Some(value), "{name}: {outcome}");
    }
    let shown = outcome.group("Iteration 1/5");
    for line in [
        "I'll create the file.",
        "→ Write: /github/workspace/hello.txt",
        "→ Bash: echo appended >> hello.txt && cat hello.txt",
        "Created hello.txt and appended a line.",
    ] {
        assert!(shown.contains(&line), "{line}: {outcome}");
    }
    let log = outcome.log_text();
    assert!(
        log.contains("[51,486 tokens, $0.0430, context 1 %]"),
        "{log}"
    );
    let summary = outcome.summary.as_deref().unwrap_or_default();
    for told in [
        "Used **51,486 tokens, $0.0430**.",
        "| iteration | outcome | duration | tokens | cost | context |",
        "| 51,486 | $0.0430 | 1 % |",
        "- **Iteration 1**: Created `hello.txt` and appended a line.",
    ] {
        assert!(summary.contains(told), "{told}: {summary}");
    }
    for raw in ["session_id", "tool_use"] {
        assert!(!log.contains(raw) && !summary.contains(raw), "{outcome}");
    }
}

#[test]
fn what_each_attempt_printed_is_kept_as_it_was_but_for_secrets() {
    let script = "cat $n.jsonl; printf '\\377 no text\\n'; [ $n != 1 ]";
    let Some(job) = job("codex", script) else {
        return;
    };
    let limited = failing("Rate limit reached. Please try again in 1s.");
    let told = saying(&format!("the key is {KEY}!\n<promise>SUCCESS</promise>"));
    let job = job.file("1.jsonl", &limited).file("2.jsonl", &told);
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert_eq!(outcome.output("iterations"), Some("1"), "{outcome}");
    let run_dir = run_dir(&job, &outcome);
    let escaped = json!(KEY).to_string();
    let hidden = told.replace(escaped.trim_matches('"'), "***");
    assert_ne!(hidden, told);
    for (name, text) in [("iteration-1.log", limited), ("iteration-1-2.log", hidden)] {
        let kept = std::fs::read(run_dir.join(name)).unwrap();
        let expected = [text.as_bytes(), b"\xff no text\n"].concat();
        assert_eq!(
            String::from_utf8_lossy(&kept),
            String::from_utf8_lossy(&expected)
        );
        assert_eq!(kept, expected, "{name}");
        let metadata = run_dir.join(name).metadata().unwrap();
        assert_eq!(metadata.uid(), RUNNER_UID, "{name}");
    }
    assert!(!run_dir.join("iteration-2.log").exists());
    // It is told in the open that there was a pause, and for how long.
    let group = outcome.group("Iteration 1/5");
    let waiting =
        |line: &&str| line.contains("rate-limited: mine: ") && line.contains("waiting 2s");
    assert!(!group.iter().any(waiting), "{outcome}");
    assert!(
        outcome.log.iter().any(|line| waiting(&line.as_str())),
        "{outcome}"
    );
    let summary = outcome.summary.unwrap_or_default();
    let told = "The provider limited the rate or was overloaded once; waited 2.0s in all.";
    assert!(summary.contains(told), "{summary}");
}

#[test]
fn every_class_of_failure_has_its_status_and_the_words_of_the_cli() {
    for (format, script, input, class, status, reason) in [
        (
            "codex",
            "echo oh no >&2; exit 3",
            ("failure-threshold", "1"),
            "process",
            "aborted",
            "Aborting after 1 consecutive failure",
        ),
        (
            "codex",
            "cat codex-err401-json.jsonl; exit 1",
            ("failure-threshold", "3"),
            "permanent",
            "aborted",
            "Incorrect API key provided: fake-key.",
        ),
        (
            "claude",
            "cat claude-credit-stream.jsonl; exit 1",
            ("failure-threshold", "3"),
            "permanent",
            "aborted",
            "Credit balance is too low",
        ),
        (
            "codex",
            "cat codex-err429-json.jsonl; exit 1",
            ("rate-limit-patience", "1s"),
            "rate-limited",
            "exhausted",
            "last status: 429 Too Many Requests",
        ),
        (
            "claude",
            "cat claude-err529-stream.jsonl; exit 1",
            ("rate-limit-patience", "1s"),
            "overloaded",
            "exhausted",
            "529 Overloaded",
        ),
        (
            "claude",
            "echo '{\"type\":\"system\"}'; sleep 60",
            ("idle-timeout", "1s"),
            "idle",
            "aborted",
            "Aborting after 1 consecutive failure",
        ),
    ] {
        let Some(mut job) = job(format, script) else {
            return;
        };
        for name in [
            "codex-err401-json.jsonl",
            "codex-err429-json.jsonl",
            "claude-credit-stream.jsonl",
            "claude-err529-stream.jsonl",
        ] {
            job = job.file(name, &fixture(name));
        }
        if class == "idle" {
            job = job.input("failure-threshold", "1");
        }
        let outcome = job.input(input.0, input.1).run();
        assert_eq!(outcome.result, StepResult::Failed, "{outcome}");
        assert_eq!(outcome.output("failure-class"), Some(class), "{outcome}");
        assert_eq!(outcome.output("status"), Some(status), "{outcome}");
        let told = outcome.output("reason").unwrap_or_default();
        assert!(told.contains(reason), "{reason}: {outcome}");
        let errors = outcome.kept(Kind::Error);
        assert!(errors[0].contains(reason), "{errors:?}");
        // Whose class it is can be seen at its line.
        let line = format!(" {class}: ");
        assert!(outcome.log_text().contains(&line), "{line}: {outcome}");
        // A provider that does not answer uses up no iteration.
        let iterations = if status == "exhausted" { "0" } else { "1" };
        assert_eq!(outcome.output("iterations"), Some(iterations), "{outcome}");
    }
}

#[test]
fn hostile_words_of_a_cli_are_words_and_nothing_else() {
    let hostile = format!(
        "status 401 ::add-mask::true\n::error::pwned\r##[error]pwned @octocat fixes #1 [x](https://evil.example) \
         </details><img src=x> `` | {KEY} \u{202e} status=success<<EOF"
    );
    let limited = hostile.replace("401", "429");
    for (message, status) in [(hostile, "aborted"), (limited, "exhausted")] {
        let Some(job) = job("codex", "cat stream.jsonl; exit 1") else {
            return;
        };
        let job = job
            .file("stream.jsonl", &failing(&message))
            .input("rate-limit-patience", "1s")
            .input("verbose", "true");
        let outcome = job.run();
        assert_eq!(outcome.output("status"), Some(status), "{outcome}");
        assert!(outcome.errors.is_empty(), "{outcome}");
        assert!(!outcome.masks.contains(&"true".to_owned()), "{outcome}");
        for annotation in &outcome.annotations {
            assert_ne!(annotation.message, "pwned", "{outcome}");
        }
        let reason = outcome.output("reason").unwrap_or_default();
        assert!(
            reason.contains("@octocat") && reason.contains("***"),
            "{reason}"
        );
        assert!(!reason.contains(['\n', '\r', '\u{202e}']), "{reason:?}");
        let summary = outcome.summary.as_deref().unwrap_or_default();
        let outside = outside_of_code(summary);
        for sign in ["@octocat", "#1", "evil.example", "<img"] {
            assert!(summary.contains(sign), "{sign}: {summary}");
            assert!(!outside.contains(sign), "{sign}: {summary}");
        }
        // Not in any form: neither as it is nor with the marks of JSON and Markdown in it.
        let written = written(&job, &outcome);
        for part in [KEY, "the-agent", "mine-"] {
            assert!(!written.contains(part), "{part}: {written}");
        }
    }
}

#[test]
fn a_run_that_waits_for_a_provider_can_be_cancelled() {
    let Some(job) = job("codex", "cat stream.jsonl; exit 1") else {
        return;
    };
    let limited = failing("Rate limit reached. Please try again in 20 minutes.");
    let job = job.file("stream.jsonl", &limited);
    let step = job.start();
    step.wait_for_log("then trying again");
    let begun = std::time::Instant::now();
    let outcome = step.cancel();
    assert!(begun.elapsed() < Duration::from_secs(2), "{outcome}");
    assert_eq!(outcome.exit_code, Some(130), "{outcome}");
    assert_eq!(outcome.output("status"), Some("interrupted"), "{outcome}");
    assert_eq!(outcome.output("iterations"), Some("0"), "{outcome}");
    let summary = outcome.summary.unwrap_or_default();
    assert!(summary.starts_with("## 🛑 rooda: interrupted"), "{summary}");
}

/// A key as long as real ones are.
fn long_key() -> String {
    format!("sk-ant-{}", "0123456789abcdefghij".repeat(5))
}

/// All that is written, when an agent prints this and fails.
fn written_of(stream: &str) -> Option<String> {
    let job = job("claude", "cat stream.jsonl; exit 1")?
        .file("stream.jsonl", stream)
        .env("MINE_KEY", &long_key())
        .input("max-iterations", "1")
        .input("verbose", "true");
    let outcome = job.run();
    Some(written(&job, &outcome))
}

fn lines(events: &[serde_json::Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

fn init() -> serde_json::Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m"})
}

#[test]
fn half_of_a_key_in_one_long_word_is_not_told() {
    let key = long_key();
    let word = |length| format!("{}{key}", "a".repeat(length));
    let stream = lines(&[
        init(),
        json!({"type": "assistant", "session_id": "s", "message": {"id": "1", "model": "m", "content": [{"type": "tool_use", "id": "t", "name": "WebFetch", "input": {"url": word(160)}}]}}),
        json!({"type": "result", "session_id": "s", "is_error": true, "result": word(460), "usage": {"input_tokens": 1, "output_tokens": 1}}),
    ]);
    let Some(written) = written_of(&stream) else {
        return;
    };
    assert!(!written.contains(&key[..20]), "{written}");
}

#[test]
fn half_of_a_key_at_the_beginning_of_the_last_words_is_not_told() {
    let key = long_key();
    let text = format!("{key}{}", "z".repeat(4096 - 60));
    let stream = lines(&[
        init(),
        json!({"type": "assistant", "session_id": "s", "message": {"id": "1", "model": "m", "content": [{"type": "text", "text": text}]}}),
        json!({"type": "result", "session_id": "s", "is_error": true, "result": "no", "usage": {"input_tokens": 1, "output_tokens": 1}}),
    ]);
    let Some(written) = written_of(&stream) else {
        return;
    };
    assert!(!written.contains(&key[key.len() - 40..]), "{written}");
}

#[test]
fn half_of_a_key_at_the_beginning_of_the_kept_output_is_not_told() {
    let key = long_key();
    let stream = format!("first line\n{key}{}", "z".repeat((10 << 20) - 60));
    let Some(written) = written_of(&stream) else {
        return;
    };
    assert!(
        !written.contains(&key[key.len() - 40..]),
        "half of the key is told"
    );
}

#[test]
fn events_of_tools_do_not_fill_the_disk() {
    let use_tool = r#"{"type":"assistant","session_id":"s","message":{"id":"1","model":"m","content":[{"type":"tool_use","id":"T%d","name":"Bash","input":{"command":"ls"}}]}}"#;
    let script = format!(
        "cat stream.jsonl; awk 'BEGIN{{for(i=0;i<200000;i++) printf \"{}\\n\",i}}'",
        use_tool.replace('"', "\\\"")
    );
    let Some(job) = job("claude", &script) else {
        return;
    };
    let job = job
        .file("stream.jsonl", &lines(&[init()]))
        .input("max-iterations", "1");
    let outcome = job.run();
    let events = run_dir(&job, &outcome).join("events.jsonl");
    let length = std::fs::metadata(events).unwrap().size();
    assert!(length < 10 << 20, "{length} bytes");
}
