//! Streams that want to be misunderstood.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Rooda, Sandbox};

const TAG: &str = "<promise>SUCCESS</promise>";

fn init() -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m"})
}

fn says(text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    json!({"type": "assistant", "session_id": "s", "message": {"id": "1", "model": "m", "content": content, "usage": usage}})
}

fn reads(text: &str) -> [Value; 2] {
    let used =
        json!([{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "cat x"}}]);
    let told = json!([{"type": "tool_result", "tool_use_id": "t", "content": text}]);
    [
        json!({"type": "assistant", "session_id": "s", "message": {"id": "2", "model": "m", "content": used}}),
        json!({"type": "user", "session_id": "s", "message": {"content": told}}),
    ]
}

fn result(text: &str) -> Value {
    json!({"type": "result", "session_id": "s", "is_error": false, "result": text, "total_cost_usd": 0.5, "usage": {"input_tokens": 10, "output_tokens": 5}})
}

fn lines(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

fn rooda<'s>(sandbox: &'s Sandbox, format: &str, script: &str, arguments: &[&'s str]) -> Rooda<'s> {
    sandbox.file("agent.sh", script);
    sandbox.config(&format!(
        "ai_cmd_aliases: {{mine: {{command: 'sh agent.sh', format: {format}}}}}"
    ));
    let first = [
        "loop",
        "Do it",
        "--ai-cmd-alias",
        "mine",
        "--max-iterations",
        "1",
    ];
    sandbox.rooda(first.into_iter().chain(arguments.iter().copied()))
}

/// A session in which the tag is only in what a tool printed.
fn innocent() -> Vec<Value> {
    let mut events = vec![init()];
    events.extend(reads(&format!("a\n{TAG}\nb")));
    events.extend([says("I read it."), result("I read it.")]);
    events
}

#[test]
fn a_list_that_is_too_long_to_be_read_promises_nothing() {
    let mut events = vec![init()];
    events.extend(reads(&"y".repeat(9 << 20)));
    events.extend(innocent());
    let sandbox = Sandbox::new();
    sandbox.file("stream", &Value::from(events).to_string());
    let ran = rooda(&sandbox, "claude", "cat stream", &[]).run();
    assert_ne!(ran.code, Some(0), "{ran}");
}

#[test]
fn events_after_much_text_are_no_words_of_a_plain_text_agent() {
    let sandbox = Sandbox::new();
    let text = "npm notice of no interest\n".repeat(4000);
    sandbox.file("stream", &(text + &lines(&innocent())));
    let ran = rooda(&sandbox, "auto", "cat stream", &[]).run();
    assert_ne!(ran.code, Some(0), "{ran}");
}

#[test]
fn events_that_begin_in_the_middle_of_a_line_promise_nothing() {
    let events = [
        json!({"type": "thread.started", "thread_id": "1"}),
        json!({"type": "item.completed", "item": {"id": "0", "type": "command_execution", "command": "cat x", "aggregated_output": format!("a\n{TAG}\nb"), "status": "completed"}}),
        json!({"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "I read it."}}),
        json!({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}),
    ];
    let sandbox = Sandbox::new();
    sandbox.file("stream", &format!("Loading... {}", lines(&events)));
    let ran = rooda(&sandbox, "auto", "cat stream", &[]).run();
    assert_ne!(ran.code, Some(0), "{ran}");
}

#[test]
fn a_plain_text_agent_that_shows_an_event_can_promise() {
    let sandbox = Sandbox::new();
    let text = format!(
        "A fixture begins with\n{}All done.\n{TAG}\n",
        lines(&[init()])
    );
    sandbox.file("stream", &text);
    let ran = rooda(&sandbox, "auto", "cat stream", &[]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn a_promise_in_the_event_that_uses_up_the_budget_counts() {
    let sandbox = Sandbox::new();
    sandbox.file("stream", &lines(&[init(), says(TAG), result(TAG)]));
    let script = "cat stream; sleep 0.3";
    let ran = rooda(&sandbox, "claude", script, &["--max-cost-usd", "0.4"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn a_signal_while_the_last_processes_end_is_not_slept_through() {
    let mut limited = result("limited");
    limited["is_error"] = true.into();
    limited["api_error_status"] = 429.into();
    let sandbox = Sandbox::new();
    sandbox.file("stream", &lines(&[init(), limited]));
    let script = "cat stream; (trap '' TERM INT; touch ready; sleep 30) & sleep 0.1; exit 1";
    let running = rooda(&sandbox, "claude", script, &[]).start();
    sandbox.wait_for("ready");
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::TERM);
    let signalled = Instant::now();
    let ran = running.finish();
    assert_eq!(ran.code, Some(130), "{ran}");
    assert!(signalled.elapsed() < Duration::from_secs(4), "{ran}");
}

#[test]
fn an_empty_budget_is_not_waited_with() {
    let mut limited = result("limited");
    limited["is_error"] = true.into();
    limited["api_error_status"] = 429.into();
    let sandbox = Sandbox::new();
    let stream = lines(&[init(), limited]);
    // What it used up is on the last line, which has no end.
    sandbox.file("stream", stream.trim_end());
    let started = Instant::now();
    let ran = rooda(&sandbox, "claude", "cat stream", &["--max-tokens", "5"]).run();
    assert_eq!(ran.code, Some(4), "{ran}");
    assert!(started.elapsed() < Duration::from_secs(4), "{ran}");
}

#[test]
fn who_speaks_is_told_at_the_end_of_an_event_with_too_many_values() {
    let mut subagent = says(TAG);
    subagent["message"]["usage"] = json!({"list": vec![0; 70_000]});
    let mut text = subagent.to_string();
    text.truncate(text.len() - 1);
    text.push_str(",\"parent_tool_use_id\":\"t\"}\n");
    let sandbox = Sandbox::new();
    let stream = format!(
        "{}{text}{}",
        lines(&[init()]),
        lines(&[says("No."), result("No.")])
    );
    sandbox.file("stream", &stream);
    let ran = rooda(&sandbox, "claude", "cat stream", &[]).run();
    assert_eq!(ran.code, Some(2), "{ran}");
}

#[test]
fn blanks_before_events_change_nothing() {
    for (before, format) in [("  ", "claude"), ("\u{feff}", "auto"), ("\t", "auto")] {
        let sandbox = Sandbox::new();
        let events = innocent()
            .into_iter()
            .map(|event| format!("{before}{event}\r\n"));
        sandbox.file("stream", &events.collect::<String>());
        let ran = rooda(&sandbox, format, "cat stream", &[]).run();
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.log().contains("(success)"), "{ran}");
    }
}

#[test]
fn an_error_by_another_name_is_an_error() {
    let mut error = result(TAG);
    error["subtype"] = "error_during_execution".into();
    let sandbox = Sandbox::new();
    sandbox.file("stream", &lines(&[init(), says(TAG), error]));
    let ran = rooda(&sandbox, "claude", "cat stream", &[]).run();
    assert_eq!(ran.code, Some(2), "{ran}");
}

#[test]
fn a_budget_that_must_be_held_ends_a_run_that_nobody_measures() {
    let sandbox = Sandbox::new();
    let arguments = [
        "--max-cost-usd",
        "1",
        "--budget-required",
        "--max-iterations",
        "3",
    ];
    sandbox.file("agent.sh", "echo hi");
    sandbox.config("ai_cmd_aliases: {mine: {command: sh agent.sh, format: claude}}");
    let first = ["loop", "Do it", "--ai-cmd-alias", "mine"];
    let ran = sandbox.rooda(first.into_iter().chain(arguments)).run();
    assert_eq!(ran.code, Some(1), "{ran}");
    let reason = "Aborting, the agent did not tell its cost, and the budget must be held (budget_required) (1 iteration completed";
    assert!(ran.log().contains(reason), "{ran}");
}

#[test]
fn a_tag_after_a_long_blank_is_not_alone_on_its_line() {
    let sandbox = Sandbox::new();
    let words = format!("When all is done I will print{}{TAG}", " ".repeat(300));
    sandbox.file("stream", &lines(&[init(), says(&words), result(&words)]));
    sandbox.file("agent.sh", "cat stream");
    sandbox.config(
        "loop: {promise_match: own-line}\nai_cmd_aliases: {mine: {command: sh agent.sh, format: claude}}",
    );
    let ran = sandbox
        .rooda(["loop", "x", "--ai-cmd-alias", "mine", "-n", "1"])
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
}

#[test]
fn an_interrupted_run_is_interrupted_whatever_nobody_measured() {
    let sandbox = Sandbox::new();
    let script = "touch ready\nexec sleep 20";
    let arguments = ["--max-tokens", "1000", "--budget-required"];
    let running = rooda(&sandbox, "claude", script, &arguments).start();
    let ready = sandbox.path("ready");
    while !ready.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    running.signal(Signal::TERM);
    let ran = running.finish();
    assert_eq!(ran.code, Some(130), "{ran}");
}

#[test]
fn the_name_of_a_tool_holds_no_key() {
    let sandbox = Sandbox::new();
    let used = json!([{"type": "tool_use", "id": "t", "name": "Bash tok-87654321", "input": {}}]);
    let event = json!({"type": "assistant", "session_id": "s", "message": {"id": "2", "model": "m", "content": used}});
    sandbox.file("stream", &lines(&[init(), event, result("Done.")]));
    let ran = rooda(&sandbox, "claude", "cat stream", &["--log-level", "debug"])
        .env("MY_SECRET_TOKEN", "tok-87654321")
        .run();
    assert!(!ran.log().contains("tok-87654321"), "{ran}");
}

#[test]
fn half_a_key_is_not_the_beginning_of_a_summary() {
    let sandbox = Sandbox::new();
    let rest = format!("4321 and more\n{}", "x".repeat((64 << 10) - 14));
    let text = format!("I used tok-8765{rest}");
    sandbox.file("stream", &lines(&[init(), says("Hm."), result(&text)]));
    let ran = rooda(&sandbox, "claude", "cat stream", &[])
        .env("MY_SECRET_TOKEN", "tok-87654321")
        .run();
    assert!(!ran.log().contains("4321"), "{ran}");
}

#[test]
fn a_budget_is_used_up_whatever_the_agent_prints_when_it_is_cut() {
    let sandbox = Sandbox::new();
    sandbox.file("stream", &lines(&[init(), says("Hi.")]));
    let script = "{ cat stream; echo Aborted; } > all; cat all; exec sleep 20";
    let ran = rooda(&sandbox, "auto", script, &["--max-tokens", "5"]).run();
    assert_eq!(ran.code, Some(4), "{ran}");
}

#[test]
fn an_agent_that_takes_back_what_it_used_up_has_used_it_up() {
    let told = |tokens: u32| {
        let mut event = says("Working.");
        event["message"]["usage"] = json!({"input_tokens": tokens, "output_tokens": 1});
        event
    };
    let sandbox = Sandbox::new();
    sandbox.file("much", &lines(&[init(), told(5000)]));
    sandbox.file("little", &lines(&[told(1)]));
    let script = "trap 'cat little; exit 0' TERM; cat much; sleep 20 & wait";
    let ran = rooda(&sandbox, "claude", script, &["--max-tokens", "1000"]).run();
    assert_eq!(ran.code, Some(4), "{ran}");
    assert!(ran.log().contains("5,001 of 1,000 tokens"), "{ran}");
}
