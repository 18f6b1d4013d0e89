//! How a step ends, and what it leaves behind.

use std::time::Duration;

use super::{PROMISE, job};
use crate::harness::wait_until;
use crate::runner::{Kind, StepResult};

#[test]
fn success_at_the_second_iteration() {
    let script = format!("cat >/dev/null; echo hello; [ $n -lt 2 ] || {PROMISE}");
    let Some(job) = job(&script) else { return };
    let job = job.input("max-iterations", "5");
    let outcome = job.run();
    assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
    for (name, value) in [
        ("status", "success"),
        ("exit-code", "0"),
        ("reason", "Success: the agent promised \"SUCCESS\""),
        ("iterations", "2"),
        ("succeeded", "2"),
        ("failed", "0"),
    ] {
        assert_eq!(outcome.output(name), Some(value), "{name}: {outcome}");
    }
    for name in ["duration-seconds", "mean-seconds", "stddev-seconds"] {
        let value = outcome.output(name).unwrap_or_default();
        assert!(value.parse::<f64>().is_ok(), "{name}: {value}");
    }
    // The files are where a later step of the workflow looks for them, and that step's user can read them.
    for name in ["run-dir", "summary-file", "events-file"] {
        let path = job.temp().join(outcome.output(name).unwrap_or_default());
        let owner = std::os::unix::fs::MetadataExt::uid(&path.metadata().unwrap());
        assert_eq!(owner, crate::runner::RUNNER_UID, "{name}");
    }
    let events = job.temp().join(outcome.output("events-file").unwrap());
    let events = std::fs::read_to_string(events).unwrap();
    let kinds: Vec<String> = events
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|event| event["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds.first().map(String::as_str), Some("run_started"));
    assert_eq!(kinds.last().map(String::as_str), Some("run_ended"));
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| *kind == "iteration_completed")
            .count(),
        2
    );
    assert_eq!(job.root_owned(), [""; 0].map(std::path::PathBuf::from));
    assert!(outcome.errors.is_empty(), "{outcome}");
}

#[test]
fn the_limit_fails_the_step_unless_told_otherwise() {
    for (fail_on, result) in [
        ("", StepResult::Failed),
        ("max-iters", StepResult::Failed),
        ("aborted, exhausted", StepResult::Succeeded),
        ("none", StepResult::Succeeded),
    ] {
        let Some(job) = job("cat >/dev/null") else {
            return;
        };
        let outcome = job
            .input("max-iterations", "2")
            .input("fail-on", fail_on)
            .run();
        assert_eq!(outcome.result, result, "{fail_on}: {outcome}");
        assert_eq!(outcome.output("status"), Some("max-iters"));
        assert_eq!(outcome.output("exit-code"), Some("2"));
        let summary = outcome.summary.as_deref().unwrap_or_default();
        let first = summary.lines().next().unwrap_or_default();
        assert!(first.contains("max-iters"), "{summary}");
        let kind = match result {
            StepResult::Failed => Kind::Error,
            _ => Kind::Warning,
        };
        assert_eq!(outcome.kept(kind).len(), 1, "{outcome}");
    }
}

#[test]
fn an_aborted_run_tells_what_the_agent_said() {
    let script = "cat >/dev/null; echo 'API Error: credit balance is too low' >&2; exit 1";
    let Some(job) = job(script) else { return };
    let outcome = job.input("failure-threshold", "2").run();
    assert_eq!(outcome.result, StepResult::Failed, "{outcome}");
    assert_eq!(outcome.exit_code, Some(1));
    assert_eq!(outcome.output("status"), Some("aborted"));
    assert_eq!(outcome.output("failed"), Some("2"));
    let errors = outcome.kept(Kind::Error);
    assert_eq!(errors.len(), 1, "{outcome}");
    assert!(
        errors[0].contains("credit balance is too low"),
        "{errors:?}"
    );
    assert_eq!(outcome.kept(Kind::Warning).len(), 2, "{outcome}");
    let summary = outcome.summary.unwrap_or_default();
    assert!(summary.contains("credit balance is too low"), "{summary}");
}

#[test]
fn a_cancelled_job_leaves_the_truth_and_nothing_else() {
    let script = "cat >/dev/null
        setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & echo working >marker
        trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let Some(job) = job(script) else { return };
    let job = job.input("verbose", "true");
    let step = job.start();
    step.wait_for_log("ready");
    let outcome = step.cancel();
    assert_eq!(outcome.result, StepResult::Canceled, "{outcome}");
    // The agent ignores SIGTERM: it has two seconds. The client was never killed.
    assert_eq!(outcome.exit_code, Some(130), "{outcome}");
    assert!(
        outcome.elapsed < Duration::from_secs(4),
        "{:?}",
        outcome.elapsed
    );
    assert_eq!(outcome.output("status"), Some("interrupted"));
    assert_eq!(outcome.output("exit-code"), Some("130"));
    assert_eq!(outcome.output("reason"), Some("Interrupted by SIGINT"));
    let summary = outcome.summary.unwrap_or_default();
    assert!(
        summary
            .lines()
            .next()
            .unwrap_or_default()
            .contains("interrupted"),
        "{summary}"
    );
    // What it said last is told, for whoever asks what it was doing.
    assert!(summary.contains("iteration 1 (interrupted)"), "{summary}");
    wait_until("the end of the container", || {
        (!job.is_running()).then_some(())
    });
    assert!(job.processes().is_empty());
    assert_eq!(job.read("marker"), "working\n");
    assert!(job.root_owned().is_empty());
    assert_eq!(outcome.errors, ["The operation was canceled."]);
}

#[test]
fn before_anything_is_ended_a_cancelled_job_has_said_so() {
    let script = "cat >/dev/null; trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let Some(job) = job(script) else { return };
    // The runner's patience is over in half a second: only the client is killed, and the files are read at once.
    let job = job.input("verbose", "true").delays_scaled(0.05);
    let step = job.start();
    step.wait_for_log("ready");
    let outcome = step.cancel();
    assert_eq!(outcome.result, StepResult::Canceled);
    assert_eq!(outcome.output("status"), Some("interrupted"), "{outcome}");
    assert_eq!(outcome.errors, ["The operation was canceled."], "{outcome}");
    wait_until("the end of the container", || {
        (!job.is_running()).then_some(())
    });
}

#[test]
fn every_iteration_leaves_the_truth_so_far() {
    let script = "cat >/dev/null; [ $n -lt 3 ] || { echo ready; sleep 60; }";
    let Some(job) = job(script) else { return };
    let job = job.input("verbose", "true");
    let step = job.start();
    step.wait_for_log("ready");
    // As the runner would find them if it looked now.
    let read = |kind: &str| {
        let folder = std::fs::read_dir(job.temp().join("_runner_file_commands")).unwrap();
        let mut files = folder.map(|entry| entry.unwrap().path());
        let named = |path: &std::path::PathBuf| path.to_str().unwrap().contains(kind);
        std::fs::read_to_string(files.find(named).unwrap()).unwrap()
    };
    let (outputs, summary) = (read("set_output_"), read("step_summary_"));
    assert!(outputs.contains("\nrunning\n"), "{outputs}");
    assert!(outputs.starts_with("status<<"), "{outputs}");
    let iterations = outputs.split("iterations<<").nth(1).unwrap_or_default();
    assert_eq!(iterations.lines().nth(1), Some("2"), "{outputs}");
    let first = summary.lines().next().unwrap_or_default();
    assert!(first.contains("running"), "{summary}");
    let outcome = step.cancel();
    assert_eq!(outcome.output("status"), Some("interrupted"), "{outcome}");
}

#[test]
fn a_run_deadline_ends_the_run_as_exhausted() {
    let Some(job) = job("cat >/dev/null; sleep 60") else {
        return;
    };
    let outcome = job.input("run-timeout", "1s").run();
    assert_eq!(outcome.output("status"), Some("exhausted"), "{outcome}");
    assert_eq!(outcome.exit_code, Some(4));
}

#[test]
fn the_deadline_that_nobody_set_is_told() {
    for (hosted, told) in [
        (
            true,
            "5h45m at the latest (action default on a GitHub-hosted runner)",
        ),
        (
            false,
            "23h at the latest (action default on a self-hosted runner)",
        ),
    ] {
        let Some(job) = job(PROMISE) else { return };
        let outcome = job.hosted(hosted).run();
        assert!(outcome.log_text().contains(told), "{outcome}");
    }
}
