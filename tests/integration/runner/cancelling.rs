//! What reaches the first process when a job is cancelled, and what happens to those who do not listen.

use std::fs;
use std::time::Duration;

use super::{Job, StepResult};
use crate::harness::wait_until;

/// Says what it hears, and goes on.
const DEAF: &str = "
    trap 'echo heard=INT >>$GITHUB_OUTPUT; echo INT' INT
    trap 'echo also=TERM >>$GITHUB_OUTPUT; echo TERM' TERM
    echo ready
    while :; do sleep 0.02; [ -e enough ] && echo went on && touch went-on && exit 0; done";

#[test]
fn an_action_hears_sigint_then_sigterm_and_outlives_its_client() {
    let Some(job) = Job::new() else { return };
    let job = job.delays_scaled(0.2).script(DEAF);
    let step = job.start();
    step.wait_for_log("ready");
    let outcome = step.cancel();
    assert_eq!(outcome.result, StepResult::Canceled);
    assert_eq!(outcome.exit_code, None);
    assert_eq!(
        outcome.log,
        [
            "ready",
            "INT",
            "TERM",
            "##[error]The operation was canceled."
        ]
    );
    assert_eq!(outcome.output("heard"), Some("INT"));
    assert_eq!(outcome.output("also"), Some("TERM"));
    assert!(
        outcome.elapsed >= Duration::from_secs(2),
        "{:?}",
        outcome.elapsed
    );
    // Its output is read by nobody, but it can still write it, and goes on.
    assert!(job.is_running());
    job.write("enough", "");
    wait_until("the end of the container", || {
        (!job.is_running()).then_some(())
    });
    assert_eq!(job.read("went-on"), "");
}

#[test]
fn what_was_written_at_the_first_signal_can_be_seen_before_the_second() {
    let Some(job) = Job::new() else { return };
    let job = job.delays_scaled(0.05).script(DEAF);
    let mut step = job.start();
    step.wait_for_log("ready");
    step.sigint();
    step.wait_for_log("INT");
    let written = fs::read_to_string(job.command_file("output")).unwrap();
    assert_eq!(written, "heard=INT\n");
    let outcome = step.cancel();
    // It is not sent again.
    let heard = outcome.log.iter().filter(|line| *line == "INT");
    assert_eq!(heard.count(), 1, "{outcome}");
}

#[test]
fn the_delays_are_7_500_and_2_500_milliseconds() {
    let Some(job) = Job::new() else { return };
    let job = job.script(
        "stamp() { echo $1 $(cut -d' ' -f1 /proc/uptime) >>times; }
        trap 'stamp INT' INT; trap 'stamp TERM; exit 5' TERM; echo ready; while :; do sleep 0.02; done",
    );
    let step = job.start();
    step.wait_for_log("ready");
    let outcome = step.cancel();
    assert_eq!(outcome.result, StepResult::Canceled);
    assert_eq!(outcome.exit_code, Some(5));
    let times = job.read("times");
    let at: Vec<f64> = times
        .lines()
        .map(|line| line.split_once(' ').unwrap().1.parse().unwrap())
        .collect();
    let between = at[1] - at[0];
    assert!((7.0..9.0).contains(&between), "{times}");
}

#[test]
fn an_action_that_ends_at_once_is_cancelled_all_the_same() {
    let Some(job) = Job::new() else { return };
    let job = job
        .script("trap 'exit 0' INT; echo ready; while :; do sleep 0.02; done")
        .continue_on_error(true);
    let step = job.start();
    step.wait_for_log("ready");
    let outcome = step.cancel();
    assert_eq!(
        (outcome.result, outcome.exit_code),
        (StepResult::Canceled, Some(0))
    );
    assert_eq!(
        (outcome.outcome(), outcome.conclusion()),
        ("cancelled", "cancelled")
    );
    assert!(outcome.elapsed < Duration::from_secs(7));
    assert!(!job.is_running());
}

#[test]
fn the_first_process_does_not_notice_signals_that_it_does_not_handle() {
    let Some(job) = Job::new() else { return };
    let job = job.delays_scaled(0.02).entrypoint(&["/bin/sleep", "30"]);
    let step = job.start();
    wait_until("the container", || step.is_running().then_some(()));
    assert_eq!(step.cancel().exit_code, None);
    assert!(job.is_running());
}

#[test]
fn a_step_that_runs_always_is_not_interrupted() {
    let Some(job) = Job::new() else { return };
    let job = job
        .always(true)
        .script("trap 'echo INT' INT; echo ready; sleep 0.3; exit 0");
    let step = job.start();
    step.wait_for_log("ready");
    let outcome = step.cancel();
    assert_eq!(
        (outcome.result, outcome.exit_code),
        (StepResult::Succeeded, Some(0))
    );
    assert_eq!(outcome.log, ["ready"]);
}

#[test]
fn a_step_that_takes_too_long_fails_and_its_files_are_read() {
    let Some(job) = Job::new() else { return };
    let job = job.delays_scaled(0.2).continue_on_error(true).script(DEAF);
    let step = job.start();
    step.wait_for_log("ready");
    let outcome = step.time_out(5);
    assert_eq!(outcome.result, StepResult::Failed);
    assert_eq!(outcome.conclusion(), "success");
    assert_eq!(outcome.output("also"), Some("TERM"));
    assert!(
        outcome.errors[0].ends_with("has timed out after 5 minutes."),
        "{:?}",
        outcome.errors
    );
}

#[test]
fn a_runner_that_shuts_down_reads_no_files() {
    let Some(job) = Job::new() else { return };
    let job = job.delays_scaled(0.05).script(DEAF);
    let step = job.start();
    step.wait_for_log("ready");
    let outcome = step.shut_down();
    assert_eq!(outcome.result, StepResult::Failed);
    assert_eq!(outcome.outputs.len(), 0);
}

#[test]
#[should_panic(expected = "it does not end")]
fn a_step_that_does_not_end_fails_its_test() {
    let Some(job) = Job::new() else {
        panic!("it does not end, or would not");
    };
    drop(
        job.patience(Duration::from_millis(300))
            .script("echo before; sleep 30")
            .run(),
    );
}
