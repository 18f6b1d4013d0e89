//! `rooda agents`: which AI commands there are, and what of them is on this machine.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Ran, Sandbox, processes_with, unique_sleep};

const SECRET: &str = "sk-never-to-be-shown";

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
}

/// The entry of an alias.
fn entry(ran: &Ran, name: &str) -> Value {
    let list = json(ran);
    let entry = list
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["name"] == name);
    entry.unwrap_or_else(|| panic!("{name}: {ran}")).clone()
}

#[test]
fn nothing_is_installed_and_no_key_is_set() {
    let sandbox = Sandbox::new();
    let ran = sandbox.rooda(["agents"]).env("PATH", "/nowhere").run();
    insta::assert_snapshot!(ran);
    for line in ran.stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

/// One of each kind.
fn with_programs() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.program("claude", "echo '2.1.325 (Claude Code)'");
    sandbox.program("gemini", r"printf '\033[1m0.61.0\033[0m\n'; echo noise >&2");
    sandbox.program("opencode", "echo 'Error: no home' >&2; exit 3");
    sandbox.program("cursor-agent", "echo no number in here");
    sandbox.program("my-agent", "touch asked; echo 1.0");
    sandbox.script("bin/copilot", "#!/nowhere/node", "");
    sandbox.script("claude", "#!/bin/sh", "touch asked; echo 6.6.6");
    let path = sandbox.program(
        "kiro-cli",
        "echo 'env: node: No such file or directory' >&2; exit 127",
    );
    sandbox.config(&format!(
        "ai_cmd_aliases:
  daily: env ANTHROPIC_MODEL=sonnet ANTHROPIC_AUTH_TOKEN={SECRET} claude -p
  house: {{command: my-agent --yes, format: text, npm: '@house/agent', env: [HOUSE_KEY, OTHER_KEY]}}
  planted: ./claude -p
  plain: my-agent
"
    ));
    (sandbox, path)
}

#[test]
fn every_state_has_its_words() {
    let (sandbox, path) = with_programs();
    let run = |arguments: [&str; 2]| {
        let rooda = sandbox.rooda(arguments.into_iter().filter(|word| !word.is_empty()));
        rooda
            .env("PATH", &path)
            .env("ANTHROPIC_API_KEY", SECRET)
            .env("CLAUDE_CODE_OAUTH_TOKEN", SECRET)
            .env("CODEX_API_KEY", "")
            .env("HOUSE_KEY", SECRET)
            .run()
    };
    let ran = run(["agents", ""]);
    insta::assert_snapshot!(ran);
    let machine = run(["agents", "--json"]);
    insta::assert_snapshot!("every_state_as_json", machine);
    for ran in [&ran, &machine] {
        assert!(!ran.to_string().contains(SECRET), "{ran}");
    }
    // What a program that rooda does not know does with a flag, nobody knows; nor what a path leads to.
    assert!(!sandbox.path("asked").exists());
}

#[test]
fn an_empty_variable_is_no_key() {
    let ran = Sandbox::new()
        .rooda(["agents", "--json"])
        .env("CODEX_API_KEY", "")
        .env("OPENAI_API_KEY", SECRET)
        .run();
    let keys = entry(&ran, "codex")["keys"].to_string();
    assert_eq!(keys, r#"{"CODEX_API_KEY":false,"OPENAI_API_KEY":true}"#);
}

#[test]
fn who_does_not_answer_is_ended_and_all_are_asked_at_once() {
    let sandbox = Sandbox::new();
    let sleep = unique_sleep();
    sandbox.program("claude", &format!("{sleep} & wait"));
    sandbox.program("gemini", &format!("trap '' TERM; {sleep}; {sleep}"));
    sandbox.program("opencode", "cat; echo 1.18.33");
    let path = sandbox.program("codex", "sleep 1; echo codex-cli 0.166.0");
    let ran = sandbox.rooda(["agents"]).env("PATH", &path).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    // Ten seconds for all of them together.
    assert!(ran.elapsed >= Duration::from_secs(10), "{ran}");
    assert!(
        ran.elapsed < Duration::from_secs(18),
        "{:?}: {ran}",
        ran.elapsed
    );
    let untold = "its version is not known: no answer within 10s";
    assert_eq!(ran.stdout.matches(untold).count(), 2, "{ran}");
    for version in ["codex-cli 0.166.0", "1.18.33"] {
        assert!(ran.stdout.contains(version), "{ran}");
    }
    assert_eq!(processes_with(&sleep), [""; 0]);
}

#[test]
fn a_flood_of_hostile_words_does_no_harm() {
    let sandbox = Sandbox::new();
    let path = sandbox.program(
        "claude",
        r"printf '\033]0;title\007::error::9\r\nx'; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2",
    );
    let ran = sandbox.rooda(["agents"]).env("PATH", &path).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stdout.len() < 3000, "{ran}");
    assert!(ran.stdout.starts_with("claude        ::error::9"), "{ran}");
    assert!(!ran.stdout.contains(['\x1b', '\x07', '\r', '\0']), "{ran}");
}

#[test]
fn the_configuration_of_another_place_counts() {
    let sandbox = Sandbox::new();
    sandbox.file("sub/rooda-config.yml", "ai_cmd_aliases: {there: x}");
    sandbox.file("other.yml", "ai_cmd_aliases: {named: y}");
    let ran = sandbox.rooda(["agents", "--json", "-C", "sub"]).run();
    assert_eq!(
        entry(&ran, "there")["source"],
        "workspace: ./rooda-config.yml"
    );
    let ran = sandbox
        .rooda(["agents", "--json", "--config", "other.yml"])
        .run();
    assert_eq!(entry(&ran, "named")["source"], "config: other.yml");
    // A built-in one that is replaced is told as it is now.
    sandbox.config("ai_cmd_aliases: {claude: claude --mine}");
    let ran = sandbox.rooda(["agents", "--json"]).run();
    let claude = entry(&ran, "claude");
    assert_eq!(claude["command"], "claude --mine");
    assert_eq!(
        (&claude["format"], &claude["npm"]),
        (&"auto".into(), &"@anthropic-ai/claude-code".into())
    );
}

#[test]
fn a_wrong_configuration_is_an_error_as_ever() {
    let sandbox = Sandbox::new();
    sandbox.config("loop: {log_levle: info}");
    let ran = sandbox.rooda(["agents"]).run();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(78), ""), "{ran}");
}

#[test]
fn whoever_loses_patience_leaves_nothing_running() {
    let sandbox = Sandbox::new();
    let sleep = unique_sleep();
    let path = sandbox.program("claude", &format!("{sleep} & touch asked; wait"));
    let running = sandbox.rooda(["agents"]).env("PATH", &path).start();
    sandbox.wait_for("asked");
    running.signal(Signal::INT);
    let ran = running.finish();
    assert_eq!(ran.code, Some(130), "{ran}");
    assert!(ran.stderr.contains("Interrupted by SIGINT"), "{ran}");
    assert!(ran.elapsed < Duration::from_secs(8), "{ran}");
    assert_eq!(processes_with(&sleep), Vec::<String>::new());
}
