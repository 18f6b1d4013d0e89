//! Budgets of tokens and of money, and the other bounds that the action sets.

use std::time::Duration;

use super::agents::{fixture, job};
use super::{PROMISE, job as job_of_text};
use crate::runner::{Kind, StepResult};

#[test]
fn a_budget_ends_the_run_as_exhausted() {
    for (input, value, reason) in [
        (
            "max-tokens",
            "100000",
            "Reached the token budget: 102,972 of 100,000 tokens used",
        ),
        (
            "max-cost-usd",
            "0.05",
            "Reached the cost budget: 0.0859 of 0.0500 USD spent",
        ),
    ] {
        let Some(job) = job("claude", "cat stream.jsonl") else {
            return;
        };
        let outcome = job
            .file("stream.jsonl", &fixture("claude-edit-stream.jsonl"))
            .input("completion-promise", "NEVER")
            .input("unlimited", "true")
            .input(input, value)
            .run();
        assert_eq!(outcome.result, StepResult::Failed, "{outcome}");
        assert_eq!(outcome.output("status"), Some("exhausted"), "{outcome}");
        assert_eq!(outcome.exit_code, Some(4), "{outcome}");
        assert_eq!(outcome.output("reason"), Some(reason), "{outcome}");
        assert_eq!(outcome.output("iterations"), Some("2"), "{outcome}");
        assert_eq!(outcome.output("input-tokens"), Some("102720"), "{outcome}");
        assert_eq!(outcome.output("cost-usd"), Some("0.085920"), "{outcome}");
        let summary = outcome.summary.unwrap_or_default();
        assert!(summary.starts_with("## ⏰ rooda: exhausted"), "{summary}");
        assert!(
            summary.contains("Used **102,972 tokens, $0.0859**."),
            "{summary}"
        );
    }
}

#[test]
fn a_budget_ends_an_agent_while_it_works() {
    // The stream tells of usage before its result, which never comes.
    let script = "trap '' TERM; head -n 3 stream.jsonl; sleep 60; touch survived";
    let Some(job) = job("claude", script) else {
        return;
    };
    let job = job
        .file("stream.jsonl", &fixture("claude-edit-stream.jsonl"))
        .input("max-tokens", "17000");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("exhausted"), "{outcome}");
    assert_eq!(outcome.output("failure-class"), Some("budget"), "{outcome}");
    let tokens = outcome.output("input-tokens").unwrap_or_default();
    assert_eq!(tokens, "17120", "{outcome}");
    assert!(outcome.elapsed < Duration::from_secs(20), "{outcome}");
    assert!(!job.workspace().join("survived").exists());
    assert!(job.processes().is_empty());
}

#[test]
fn a_budget_that_cannot_be_held_is_told_or_refused() {
    let Some(job) = job_of_text(PROMISE) else {
        return;
    };
    let config = "ai_cmd_aliases: {mine: {command: sh agent.sh, format: text}}\n";
    let script = format!("touch ran; {PROMISE}\n");
    let job = job
        .file("rooda-config.yml", config)
        .file("agent.sh", &script)
        .input("ai-cmd", "")
        .input("agent", "mine")
        .input("max-cost-usd", "5");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    let told = "max_cost_usd cannot be held: mine does not tell its cost (format `text`)";
    assert!(outcome.log_text().contains(told), "{outcome}");
    let summary = outcome.summary.unwrap_or_default();
    let told_there = told.replace("max_cost_usd", "`max_cost_usd`");
    assert!(summary.contains(&told_there), "{summary}");
    // What nobody knows is empty, and no zero.
    for name in ["cost-usd", "input-tokens", "output-tokens"] {
        assert_eq!(outcome.outputs[name], "", "{name}");
    }
    std::fs::remove_file(job.workspace().join("ran")).unwrap();
    let job = job.input("budget-required", "true");
    let outcome = job.run();
    assert_eq!(outcome.exit_code, Some(78), "{outcome}");
    assert_eq!(outcome.output("status"), Some("error"), "{outcome}");
    let errors = outcome.kept(Kind::Error);
    assert!(errors[0].contains(told), "{errors:?}");
    assert!(errors[0].contains("use an agent that tells"), "{errors:?}");
    assert!(!job.workspace().join("ran").exists(), "{outcome}");
    let outcome = job.input("dry-run", "true").run();
    assert_eq!(outcome.exit_code, Some(1), "{outcome}");
    assert!(outcome.log_text().contains(told), "{outcome}");
}

#[test]
fn the_bounds_that_nobody_set_are_told_in_a_dry_run() {
    let Some(job) = job_of_text(PROMISE) else {
        return;
    };
    let outcome = job.input("dry-run", "true").run();
    assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
    for told in [
        "Iteration Timeout: 30m (action default)",
        "Idle Timeout: 10m (action default)",
        "Max Cost USD: none (built-in)",
        "Max Tokens: none (built-in)",
        "Rate Limit Patience: 1h (built-in)",
    ] {
        assert!(outcome.log_text().contains(told), "{told}: {outcome}");
    }
}
