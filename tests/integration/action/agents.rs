//! What GitHub shows of agents that rooda understands: usage, the agent's own words, classes of failures, and their raw
//! output in the run directory.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use super::PROMISE;
use crate::runner::{Job, Kind, Outcome, RUNNER_UID, StepResult, TOKEN};

/// A job whose agent is an alias of the repository: a script that prints in a format.
fn job(format: &str, script: &str) -> Option<Job> {
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
const KEY: &str = "mine \"key\" | of\\the agent";

/// What a real CLI printed once.
fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/agents");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

/// A file of the run directory.
fn kept(job: &Job, outcome: &Outcome, name: &str) -> String {
    let run_dir = job.temp().join(outcome.output("run-dir").unwrap());
    let read = std::fs::read_to_string(run_dir.join(name));
    read.unwrap_or_else(|error| panic!("{name}: {error}"))
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
    panic!("{outcome}\n{:?}", kept(&job, &outcome, "iteration-1.log").len());
}
