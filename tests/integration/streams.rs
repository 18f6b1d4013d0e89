//! Agents that print events: what a run makes of what the real CLIs were recorded to print.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Ran, Rooda, Sandbox};

/// What a CLI was recorded to print.
fn recorded(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agents");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// `rooda build` with an alias `mine` that performs a script and prints in this format. `show NAME` in the script shows
/// a recorded stream.
fn build<'s>(sandbox: &'s Sandbox, format: &str, script: &str) -> Rooda<'s> {
    for name in script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("show "))
    {
        if !sandbox.path(name).exists() {
            sandbox.file(name, &recorded(name));
        }
    }
    let agent = sandbox.agent(script);
    let agent = agent.replace('\'', "''");
    sandbox.config(&format!(
        "ai_cmd_aliases: {{mine: {{command: '{agent}', format: {format}}}}}"
    ));
    sandbox.rooda(["build", "--ai-cmd-alias", "mine"])
}

/// The events of a run that logged JSON.
fn events(ran: &Ran, name: &str) -> Vec<Value> {
    let lines = ran
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|event: &Value| event["event"] == name)
        .collect()
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_secs()
}

#[test]
fn every_recorded_end_has_its_class_and_its_consequence() {
    let continued = "(success)";
    let done = "(success, promised \"SUCCESS\")";
    for (stream, format, exit, code, told) in [
        ("claude-success-stream.jsonl", "claude", 0, 0, done),
        ("claude-success-json.json", "claude", 0, 0, done),
        ("claude-edit-stream.jsonl", "claude", 0, 0, done),
        (
            "claude-failure-stream.jsonl",
            "claude",
            0,
            1,
            ": reported: the agent promised FAILURE",
        ),
        (
            "claude-promise-in-tool-stream.jsonl",
            "claude",
            0,
            2,
            continued,
        ),
        (
            "claude-edit-noperm-stream.jsonl",
            "claude",
            0,
            1,
            ": denied: the agent was allowed nothing that it wanted to do: Write: ",
        ),
        (
            "claude-toolong-stream.jsonl",
            "claude",
            1,
            1,
            ": context-full: the model's context was full: Prompt is too long",
        ),
        (
            "claude-err400-stream.jsonl",
            "claude",
            1,
            1,
            ": process: the agent reported an error: API Error: 400 messages: bad request",
        ),
        (
            "claude-err401-stream.jsonl",
            "claude",
            1,
            1,
            ": permanent: the provider does not accept the key: Invalid API key · Fix external API key",
        ),
        (
            "claude-credit-stream.jsonl",
            "claude",
            1,
            1,
            ": permanent: the account has no credit left: Credit balance is too low",
        ),
        (
            "claude-err404-stream.jsonl",
            "claude",
            1,
            1,
            ": permanent: the provider does not know the model: There's an issue with the selected model",
        ),
        (
            "claude-err429-stream.jsonl",
            "claude",
            1,
            4,
            ": rate-limited: mine: the provider limits the rate (API Error: Request rejected (429)",
        ),
        (
            "claude-err529-stream.jsonl",
            "claude",
            1,
            4,
            ": overloaded: mine: the provider is overloaded or out of reach (API Error: 529 Overloaded.",
        ),
        (
            "claude-sigint-slow-stream.jsonl",
            "claude",
            0,
            1,
            ": process: the agent's output breaks off before its end",
        ),
        ("codex-success-json.jsonl", "codex", 0, 0, done),
        ("codex-promise-in-tool-json.jsonl", "codex", 0, 2, continued),
        (
            "codex-err401-json.jsonl",
            "codex",
            1,
            1,
            ": permanent: the provider does not accept the key: unexpected status 401 Unauthorized",
        ),
        (
            "codex-err429-json.jsonl",
            "codex",
            1,
            4,
            ": rate-limited: mine: the provider limits the rate (exceeded retry limit, last status: 429",
        ),
        (
            "codex-err429quota-json.jsonl",
            "codex",
            1,
            1,
            ": permanent: the account has no credit left: Quota exceeded.",
        ),
        (
            "codex-cut-json.jsonl",
            "codex",
            1,
            1,
            ": process: the agent reported an error: stream disconnected before completion",
        ),
        (
            "codex-ctx-json.jsonl",
            "codex",
            1,
            1,
            ": context-full: the model's context was full: Codex ran out of room",
        ),
        ("gemini-success-stream.jsonl", "gemini", 0, 0, done),
        (
            "gemini-promise-in-tool-stream.jsonl",
            "gemini",
            0,
            2,
            continued,
        ),
        (
            "gemini-cut-stream.jsonl",
            "gemini",
            0,
            1,
            ": process: the agent reported an error: Model stream ended without a finish reason.",
        ),
        (
            "gemini-edit-noyolo-stream.jsonl",
            "gemini",
            0,
            1,
            ": denied: the agent was allowed nothing that it wanted to do: run_shell_command: ",
        ),
        // Its exit codes look like signals, and are HTTP statuses.
        (
            "gemini-err401-stream.jsonl",
            "gemini",
            145,
            1,
            ": permanent: the provider does not accept the key: [API Error",
        ),
        (
            "gemini-err429-long-stream.jsonl",
            "gemini",
            173,
            4,
            ": rate-limited: mine: the provider limits the rate ([API Error: You exceeded your current quota",
        ),
        (
            "gemini-err503-stream.jsonl",
            "gemini",
            247,
            4,
            ": overloaded: mine: the provider is overloaded or out of reach ([API Error: The model is overloaded.",
        ),
        ("opencode-success-json.jsonl", "opencode", 0, 0, done),
        (
            "opencode-promise-in-tool-json.jsonl",
            "opencode",
            0,
            2,
            continued,
        ),
        (
            "opencode-err401-json.jsonl",
            "opencode",
            1,
            1,
            ": permanent: the provider does not accept the key: Incorrect API key",
        ),
        (
            "opencode-err429-json.jsonl",
            "opencode",
            1,
            4,
            ": rate-limited: mine: the provider limits the rate (Rate limit reached",
        ),
        ("copilot-success-json.jsonl", "copilot", 0, 0, done),
        (
            "copilot-promise-in-tool-json.jsonl",
            "copilot",
            0,
            2,
            continued,
        ),
        (
            "copilot-err401-json.jsonl",
            "copilot",
            1,
            1,
            ": permanent: the provider does not accept the key: ",
        ),
        (
            "copilot-err429-json.jsonl",
            "copilot",
            1,
            4,
            ": rate-limited: mine: the provider limits the rate (",
        ),
        (
            "copilot-cut-json.jsonl",
            "copilot",
            1,
            1,
            ": process: the agent reported an error: Failed to get response",
        ),
    ] {
        // By name, and recognised.
        for format in [format, "auto"] {
            let sandbox = Sandbox::new();
            let script = format!("read\nshow {stream}\nexit {exit}");
            let ran = build(&sandbox, format, &script)
                .args(["-n", "1", "--failure-threshold", "1"])
                .args(["--rate-limit-patience", "500ms"])
                .run();
            assert_eq!(ran.code, Some(code), "{stream} {format}\n{ran}");
            assert!(ran.log().contains(told), "{stream} {format}\n{ran}");
            assert!(
                !ran.log().contains("not what the format"),
                "{stream}\n{ran}"
            );
        }
    }
}

#[test]
fn a_stream_that_breaks_off_is_a_failure_whatever_it_promised() {
    let whole = recorded("claude-success-stream.jsonl");
    let cut: String = whole
        .lines()
        .take(2)
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(cut.contains("<promise>SUCCESS</promise>"));
    for (exit, told) in [
        (0, "process: the agent's output breaks off before its end"),
        (3, "process: the agent exited with code 3"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("cut.jsonl", &cut);
        let script = format!("read\nshow cut.jsonl\nexit {exit}");
        let ran = build(&sandbox, "claude", &script).args(["-n", "1"]).run();
        assert_eq!(ran.code, Some(2), "{ran}");
        assert!(ran.log().contains(told), "{ran}");
    }
}

#[test]
fn what_is_not_in_its_format_is_plain_text_and_no_promise_is_lost() {
    let sandbox = Sandbox::new();
    let script = "read\nprint All done.\nprint <promise>SUCCESS</promise>";
    let ran = build(&sandbox, "claude", script).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    let warning = "Iteration 1/5: the agent's output is not what the format `claude` says; it was read as text";
    assert!(ran.log().contains(warning), "{ran}");
    let sandbox = Sandbox::new();
    let ran = build(
        &sandbox,
        "claude",
        "read\nshow codex-promise-in-tool-json.jsonl",
    )
    .args(["-n", "1"])
    .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.log().contains("it was read as codex"), "{ran}");
}

#[test]
fn a_rate_limit_is_waited_for_and_uses_up_no_iteration() {
    let sandbox = Sandbox::new();
    // It says itself that a second is enough.
    let script = "read\nshow opencode-err429-json.jsonl\nexit 1\n---\nread\nshow opencode-success-json.jsonl";
    let ran = build(&sandbox, "opencode", script)
        .args([
            "-n",
            "1",
            "--failure-threshold",
            "1",
            "--log-format",
            "json",
        ])
        .run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(sandbox.invocations(), 2);
    let limited = events(&ran, "iteration_limited");
    assert_eq!(limited.len(), 1, "{ran}");
    assert_eq!(limited[0]["failure_class"], "rate-limited");
    assert_eq!(limited[0]["wait_ms"], 2_000);
    let completed = events(&ran, "iteration_completed");
    assert_eq!(completed.len(), 1, "{ran}");
    assert_eq!(completed[0]["iteration"], 1);
    assert_eq!(completed[0]["outcome"], "job_done");
    assert!(ran.elapsed >= Duration::from_secs(2), "{ran}");
}

#[test]
fn a_wait_is_bounded_by_patience_and_by_the_deadline() {
    let run = |resets_in: u64, arguments: &[&str]| {
        let sandbox = Sandbox::new();
        let stream = recorded("claude-limit-oauth-stream.jsonl");
        let reset = (now() + resets_in).to_string();
        sandbox.file("limit.jsonl", &stream.replace("1794792142", &reset));
        let ran = build(&sandbox, "claude", "read\nshow limit.jsonl\nexit 1")
            .args(arguments.iter().copied())
            .run();
        assert_eq!(ran.code, Some(4), "{ran}");
        assert_eq!(sandbox.invocations(), 1);
        ran
    };
    let ran = run(7_200, &[]);
    assert!(
        ran.log().contains("] Gave up on mine: the provider limits the rate (You've hit your limit · resets 1:22am (UTC)), and waiting "),
        "{ran}"
    );
    assert!(
        ran.log()
            .contains("would pass the rate_limit_patience of 1h (raise it, or name a second agent) (0 iterations completed"),
        "{ran}"
    );
    let ran = run(1_800, &["--run-timeout", "20m"]);
    assert!(
        ran.log()
            .contains("would pass the run timeout of 20m (0 iterations completed"),
        "{ran}"
    );
}

#[test]
fn a_wait_can_be_interrupted() {
    let sandbox = Sandbox::new();
    let script = "read\nshow claude-err529-stream.jsonl\nexit 1";
    let running = build(&sandbox, "claude", script).start();
    let log = running.wait_for_log("overloaded: mine: the provider is overloaded or out of reach");
    assert!(log.contains("; waiting 5s until "), "{log}");
    running.signal(Signal::INT);
    let ran = running.finish();
    assert_eq!(ran.code, Some(130), "{ran}");
    assert!(ran.elapsed < Duration::from_secs(5), "{ran}");
    assert!(
        ran.log()
            .contains("Interrupted by SIGINT: not waiting any longer\n[TIME] Interrupted by SIGINT (0 iterations completed"),
        "{ran}"
    );
}

#[test]
fn what_is_permanent_ends_the_run_at_once_with_the_clis_words() {
    let sandbox = Sandbox::new();
    let script = "read\nshow claude-credit-stream.jsonl\nexit 1";
    let ran = build(&sandbox, "claude", script).args(["-n", "9"]).run();
    assert_eq!(ran.code, Some(1), "{ran}");
    assert_eq!(sandbox.invocations(), 1);
    let reason = "ERROR: Aborting, mine cannot go on: Credit balance is too low (add credit to the account, or name another agent) (1 iteration completed";
    assert!(ran.log().contains(reason), "{ran}");
}

/// Two agents, one that shows a stream and ends with code 1, and one that succeeds.
fn pair<'s>(sandbox: &'s Sandbox, stream: &str) -> Rooda<'s> {
    sandbox.file("first.jsonl", &recorded(stream));
    sandbox.file("second.jsonl", &recorded("codex-success-json.jsonl"));
    sandbox.config(
        "ai_cmd_aliases:\n  \
           first: {command: \"sh -c 'cat >/dev/null; cat first.jsonl; exit 1'\", format: claude}\n  \
           second: {command: \"sh -c 'cat >/dev/null; cat second.jsonl'\", format: codex}\n\
         loop: {ai_cmd_alias: [first, second], rate_limit_patience: 1s}",
    );
    sandbox.rooda(["build", "-n", "1"])
}

#[test]
fn the_next_agent_takes_over_and_the_record_says_who_did_what() {
    for (stream, why) in [
        ("claude-err401-stream.jsonl", "permanent"),
        ("claude-err529-stream.jsonl", "overloaded"),
    ] {
        let sandbox = Sandbox::new();
        let ran = pair(&sandbox, stream).args(["--log-format", "json"]).run();
        assert_eq!(ran.code, Some(0), "{ran}");
        let changed = events(&ran, "agent_changed");
        assert_eq!(changed.len(), 1, "{ran}");
        assert_eq!(
            [
                &changed[0]["from"],
                &changed[0]["to"],
                &changed[0]["failure_class"]
            ],
            ["first", "second", why]
        );
        let completed = events(&ran, "iteration_completed");
        assert_eq!(completed.len(), 1, "{ran}");
        assert_eq!(completed[0]["agent"], "second");
    }
    let sandbox = Sandbox::new();
    let ran = pair(&sandbox, "claude-err401-stream.jsonl").run();
    let line = "Iteration 1/1: permanent: first: the provider does not accept the key (Invalid API key · Fix external API key); second takes over";
    assert!(ran.log().contains(line), "{ran}");
    // An ordinary failure is no reason to change.
    let sandbox = Sandbox::new();
    let ran = pair(&sandbox, "claude-toolong-stream.jsonl").run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(!ran.log().contains("takes over"), "{ran}");
}

#[test]
fn fallbacks_can_be_named_everywhere_and_all_must_be_there() {
    let sandbox = Sandbox::new();
    sandbox.config("ai_cmd_aliases: {a: cat, b: tac, c: no-such-program}");
    let dry = |rooda: Rooda| rooda.args(["--dry-run"]).run();
    let ran = dry(sandbox.rooda(["build", "--ai-cmd-alias", "a, b"]));
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(
        ran.stdout
            .contains("AI Command: cat (cli: --ai-cmd-alias \"a\""),
        "{ran}"
    );
    assert!(
        ran.stdout
            .contains("Fallback 1: tac (cli: --ai-cmd-alias \"b\""),
        "{ran}"
    );
    let ran = dry(sandbox
        .rooda(["build"])
        .env("ROODA_LOOP_AI_CMD_ALIAS", "b,a"));
    assert!(
        ran.stdout
            .contains("AI Command: tac (env: ROODA_LOOP_AI_CMD_ALIAS \"b\""),
        "{ran}"
    );
    let ran = sandbox.rooda(["build", "--ai-cmd-alias", "a,c"]).run();
    assert_eq!(ran.code, Some(69), "{ran}");
    assert!(
        ran.stderr
            .contains("AI command binary not found: no-such-program"),
        "{ran}"
    );
    let ran = sandbox.rooda(["build", "--ai-cmd-alias", "a,nobody"]).run();
    assert_eq!(ran.code, Some(64), "{ran}");
    let ran = sandbox.rooda(["build", "--ai-cmd-alias", "a,b,a"]).run();
    assert_eq!(ran.code, Some(64), "{ran}");
    assert!(ran.stderr.contains("the alias `a` is named twice"), "{ran}");
    sandbox.config("loop:\n  ai_cmd_alias: [cat, cat]\nai_cmd_aliases: {cat: cat}");
    let ran = sandbox.rooda(["build"]).run();
    assert_eq!(ran.code, Some(78), "{ran}");
    assert!(
        ran.stderr
            .contains("rooda-config.yml:2:3: loop.ai_cmd_alias: the alias `cat` is named twice"),
        "{ran}"
    );
}

#[test]
fn a_budget_ends_the_run_after_an_iteration() {
    let run = |arguments: [&str; 2]| {
        let sandbox = Sandbox::new();
        // 17,162 tokens and $0.01432 each time, and never done.
        let stream =
            recorded("claude-success-stream.jsonl").replace("<promise>SUCCESS</promise>", "");
        sandbox.file("work.jsonl", &stream);
        build(&sandbox, "claude", "read\nshow work.jsonl")
            .args(arguments)
            .run()
    };
    let ran = run(["--max-tokens", "20k"]);
    assert_eq!(ran.code, Some(4), "{ran}");
    assert!(ran.log().contains("Reached the token budget: 34,324 of 20,000 tokens used (2 iterations completed, total: [ELAPSED], 34,324 tokens, $0.0286)"), "{ran}");
    assert!(
        ran.log().contains(
            "Iteration 2/5 completed in [ELAPSED] (success) [17,162 tokens, $0.0143, context 1 %]\n"
        ),
        "{ran}"
    );
    let ran = run(["--max-cost-usd", "0.04"]);
    assert_eq!(ran.code, Some(4), "{ran}");
    assert!(
        ran.log().contains(
            "Reached the cost budget: 0.0430 of 0.0400 USD spent (3 iterations completed"
        ),
        "{ran}"
    );
    let ran = run(["--max-tokens", "none"]);
    assert_eq!(ran.code, Some(2), "{ran}");
}

#[test]
fn an_agent_that_is_done_is_not_ended_for_what_it_used_up() {
    let sandbox = Sandbox::new();
    let script = "read\nshow claude-success-stream.jsonl\nsleep 500\ntouch left";
    let ran = build(&sandbox, "claude", script)
        .args(["--max-tokens", "17150"])
        .run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(sandbox.path("left").exists());
}

#[test]
fn a_budget_ends_an_agent_while_it_works() {
    let sandbox = Sandbox::new();
    let stream = recorded("claude-edit-stream.jsonl");
    let begun: String = stream
        .lines()
        .take(3)
        .map(|line| format!("{line}\n"))
        .collect();
    sandbox.file("begun.jsonl", &begun);
    let script = "read\nshow begun.jsonl\nhang";
    let ran = build(&sandbox, "claude", script)
        .args(["--max-tokens", "10k", "--failure-threshold", "1"])
        .run();
    assert_eq!(ran.code, Some(4), "{ran}");
    assert!(
        ran.log()
            .contains("budget: cut off, the budget of the run is used up"),
        "{ran}"
    );
    assert!(
        ran.log()
            .contains("Reached the token budget: 17,121 of 10,000 tokens used"),
        "{ran}"
    );
    assert!(ran.elapsed < Duration::from_secs(5), "{ran}");
}

#[test]
fn a_budget_that_cannot_be_held_is_told_before_the_loop() {
    let sandbox = Sandbox::new();
    let run = |format, arguments: &[&str]| {
        build(&sandbox, format, "read\nprint <promise>SUCCESS</promise>")
            .args(arguments.iter().copied())
            .run()
    };
    let ran = run("text", &["--max-cost-usd", "1"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let warning =
        "WARNING: max_cost_usd cannot be held: mine does not tell its cost (format `text`)";
    assert!(ran.log().contains(warning), "{ran}");
    assert!(
        ran.log()
            .contains("the agent did not tell its cost: the budget does not cover it"),
        "{ran}"
    );
    assert!(
        !run("claude", &["--max-cost-usd", "1", "--dry-run"])
            .stderr
            .contains("cannot be held")
    );
    assert!(
        run("codex", &["--max-cost-usd", "1", "--dry-run"])
            .stderr
            .contains("max_cost_usd cannot be held")
    );
    assert!(
        !run("codex", &["--max-tokens", "1", "--dry-run"])
            .stderr
            .contains("cannot be held")
    );
    let required = |rooda: Rooda| rooda.env("ROODA_LOOP_BUDGET_REQUIRED", "true").run();
    let ran = required(sandbox.rooda(["build", "--ai-cmd", "cat", "--max-tokens", "5"]));
    assert_eq!(ran.code, Some(78), "{ran}");
    assert!(
        ran.stderr
            .contains("Error: max_tokens perhaps cannot be held: cat may not tell"),
        "{ran}"
    );
    let ran =
        required(sandbox.rooda(["build", "--ai-cmd", "cat", "--max-tokens", "5", "--dry-run"]));
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(
        ran.stdout.contains("✗ max_tokens perhaps cannot be held"),
        "{ran}"
    );
    let ran = required(sandbox.rooda(["build", "--ai-cmd", "cat", "--dry-run"]));
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn a_context_that_fills_up_is_told() {
    let sandbox = Sandbox::new();
    let stream = recorded("claude-success-stream.jsonl");
    let stream = stream.replace("\"contextWindow\":1000000", "\"contextWindow\":20000");
    sandbox.file("full.jsonl", &stream);
    let ran = build(&sandbox, "claude", "read\nshow full.jsonl").run();
    assert!(
        ran.log()
            .contains("Iteration 1/5: the context was 85 % full; models get worse above 60 %"),
        "{ran}"
    );
    assert!(
        ran.log().contains("[17,162 tokens, $0.0143, context 85 %]"),
        "{ran}"
    );
}

#[test]
fn a_stream_is_shown_as_readable_text() {
    let sandbox = Sandbox::new();
    let script = "read\neprint a warning\nshow claude-edit-stream.jsonl";
    let ran = build(&sandbox, "claude", script).args(["--verbose"]).run();
    assert_eq!(
        ran.stdout.replace("a warning\n", ""),
        "I'll create the file.\n\
         → Write: /github/workspace/hello.txt\n\
         Now I'll append to it.\n\
         → Bash: echo appended >> hello.txt && cat hello.txt\n\
         Created hello.txt and appended a line.\n\n<promise>SUCCESS</promise>\n",
        "{ran}"
    );
    assert!(ran.stdout.contains("a warning\n"), "{ran}");
    // What the agent says it did, without the tag.
    assert!(
        ran.log()
            .contains("  > Created hello.txt and appended a line.\n"),
        "{ran}"
    );
}

#[test]
fn phases_and_tools_are_seen_while_the_agent_works() {
    let sandbox = Sandbox::new();
    let stream = recorded("claude-edit-stream.jsonl")
        .replace("I'll create the file.", "Phase: ACT\\nI'll create it.");
    sandbox.file("phase.jsonl", &stream);
    let ran = build(&sandbox, "claude", "read\nshow phase.jsonl")
        .args(["--log-level", "debug", "--log-format", "json"])
        .run();
    assert_eq!(events(&ran, "phase_announced")[0]["phase"], "act", "{ran}");
    let tools = events(&ran, "tool_used");
    assert_eq!(tools.len(), 2, "{ran}");
    assert_eq!(tools[1]["tool"], "Bash");
    let completed = &events(&ran, "iteration_completed")[0];
    assert_eq!(completed["tools"], 2);
    assert_eq!(completed["turns"], 3);
    assert_eq!(completed["input_tokens"], 51_360);
    assert_eq!(completed["output_tokens"], 126);
    assert_eq!(completed["session"], "77b1e6d8-418a-479a-bf74-8f2fc5b825c1");
    assert_eq!(
        completed["summary"],
        "Created hello.txt and appended a line."
    );
}

#[test]
fn who_talks_about_rate_limits_has_none() {
    let sandbox = Sandbox::new();
    let stream = recorded("claude-success-stream.jsonl").replace(
        "All done.",
        "The provider answered 429: API Error: Request rejected (429), rate_limit_error, Invalid API key, 529 Overloaded.",
    );
    sandbox.file("talk.jsonl", &stream);
    let ran = build(&sandbox, "claude", "read\nshow talk.jsonl").run();
    assert_eq!(ran.code, Some(0), "{ran}");
    let sandbox = Sandbox::new();
    let script = "read\nprint API Error: Request rejected (429)\nprint {\"type\":\"error\",\"message\":\"rate limit\"}\nexit 1";
    let ran = build(&sandbox, "text", script).args(["-n", "1"]).run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(
        ran.log().contains("process: the agent exited with code 1"),
        "{ran}"
    );
}

#[test]
fn what_an_agent_printed_is_kept_in_the_repository_without_secrets() {
    let sandbox = Sandbox::new();
    let git = Command::new("git")
        .args(["init", "-q"])
        .current_dir(sandbox.work())
        .status();
    assert!(git.unwrap().success());
    let stream = recorded("opencode-err429-json.jsonl");
    sandbox.file("limit.jsonl", &stream.replace("fake", "sk-12345678"));
    let script =
        "read\nshow limit.jsonl\nexit 1\n---\nread\nprint key: sk-12345678\neprint oops\nexit 3";
    let ran = build(&sandbox, "opencode", script)
        .args(["-n", "1"])
        .env("OPENAI_API_KEY", "sk-12345678")
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    let runs: Vec<_> = fs::read_dir(sandbox.path(".git/rooda")).unwrap().collect();
    assert_eq!(runs.len(), 1);
    let run = runs[0].as_ref().unwrap().path();
    assert!(
        ran.stderr
            .contains(&format!("What the agent printed is in {}\n", run.display())),
        "{ran}"
    );
    let read = |name: &str| fs::read_to_string(run.join(name)).unwrap();
    assert_eq!(read("iteration-1.log"), stream.replace("fake", "***"));
    let second = read("iteration-1-2.log");
    assert!(
        second.contains("key: ***\n") && second.contains("oops\n"),
        "{second}"
    );
    let mode = fs::metadata(run.join("iteration-1.log"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
}

#[test]
fn a_cli_that_could_print_events_is_told_how() {
    let sandbox = Sandbox::new();
    sandbox.config("ai_cmd_aliases: {mine: {command: claude -p, format: text}}");
    let warning = |command: [&str; 2]| {
        let ran = sandbox.rooda(["build", "--dry-run"]).args(command).run();
        let line = ran
            .stderr
            .lines()
            .find(|line| line.contains("prints plain text"));
        line.map(str::to_owned).unwrap_or_default()
    };
    let told = warning(["--ai-cmd", "/opt/bin/claude -p"]);
    assert!(told.contains("Warning: claude prints plain text"), "{told}");
    assert!(
        told.contains("add `--output-format stream-json --verbose` to its command line"),
        "{told}"
    );
    assert!(warning(["--ai-cmd", "codex exec -"]).contains("add `--json`"));
    assert_eq!(
        warning([
            "--ai-cmd",
            "claude -p --output-format=stream-json --verbose"
        ]),
        ""
    );
    assert_eq!(warning(["--ai-cmd", "my-agent"]), "");
    assert_eq!(warning(["--ai-cmd-alias", "mine"]), "");
    for alias in [
        "claude", "codex", "gemini", "opencode", "copilot", "kiro-cli",
    ] {
        assert_eq!(warning(["--ai-cmd-alias", alias]), "");
    }
}

#[test]
fn the_log_holds_no_key() {
    let sandbox = Sandbox::new();
    let script = "read\nprint key is sk-12345678 and tok-87654321\nexit 1";
    let ran = build(&sandbox, "text", script)
        .args(["-n", "1"])
        .env("ANTHROPIC_API_KEY", "not-in-it")
        .env("MY_SECRET_TOKEN", "tok-87654321")
        .env("OPENAI_API_KEY", "sk-12345678")
        .run();
    assert!(ran.log().contains("| key is *** and ***\n"), "{ran}");
    assert!(!ran.stderr.contains("12345678"), "{ran}");
}

#[test]
fn a_budget_bounds_an_unlimited_run_only_if_it_can_be_held() {
    let sandbox = Sandbox::new();
    let run = |format, budget: [&str; 2]| {
        let ran = build(&sandbox, format, "read\nprint <promise>SUCCESS</promise>")
            .args(["--unlimited"])
            .args(budget)
            .env("GITHUB_ACTIONS", "true")
            .run();
        ran.code
    };
    assert_eq!(run("text", ["--max-cost-usd", "1"]), Some(78));
    assert_eq!(run("codex", ["--max-cost-usd", "1"]), Some(78));
    assert_eq!(run("codex", ["--max-tokens", "1"]), Some(0));
    assert_eq!(run("claude", ["--max-cost-usd", "1"]), Some(0));
}
