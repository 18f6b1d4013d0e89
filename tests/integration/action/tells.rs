//! What GitHub shows: groups, annotations, masks, the summary.

use super::{PROMISE, job};
use crate::runner::{Kind, StepResult, TOKEN};

#[test]
fn every_iteration_has_a_group_with_what_the_agent_printed() {
    let script = format!("cat >/dev/null; echo out $n; echo err $n >&2; [ $n -lt 2 ] || {PROMISE}");
    let Some(job) = job(&script) else { return };
    let outcome = job.input("verbose", "true").run();
    assert_eq!(
        outcome.groups(),
        ["Iteration 1/5", "Iteration 2/5"],
        "{outcome}"
    );
    let first = outcome.group("Iteration 1/5");
    assert!(
        first.contains(&"out 1") && first.contains(&"err 1"),
        "{outcome}"
    );
    // How it went is seen without unfolding anything.
    let completed = "Iteration 1/5 completed in";
    assert!(
        !first.iter().any(|line| line.contains(completed)),
        "{outcome}"
    );
    assert!(
        outcome.log.iter().any(|line| line.contains(completed)),
        "{outcome}"
    );
}

#[test]
fn the_runner_keeps_every_annotation_that_is_made() {
    let Some(job) = job("cat >/dev/null; echo broken $n >&2; exit 1") else {
        return;
    };
    let outcome = job
        .input("max-iterations", "30")
        .input("failure-threshold", "25")
        .run();
    assert_eq!(outcome.output("status"), Some("aborted"), "{outcome}");
    assert!(outcome.annotations.iter().all(|one| one.kept), "{outcome}");
    assert_eq!(outcome.kept(Kind::Error).len(), 1);
    let errors = outcome.kept(Kind::Error);
    assert!(errors[0].contains("broken 25"), "{errors:?}");
}

#[test]
fn secrets_are_masked_first_and_redacted_in_all_that_is_written() {
    let key = "sk-ant-very-secret-key";
    let script = "cat >/dev/null; echo key $ANTHROPIC_API_KEY; printf %s $ANTHROPIC_API_KEY | base64; \
                  echo $ANTHROPIC_API_KEY | sed 's/./&\\n/5' >&2; exit 1";
    let Some(job) = job(script) else { return };
    let job = job
        .env("ANTHROPIC_API_KEY", key)
        .input("agent-env", "ANTHROPIC_API_KEY")
        .input("verbose", "true")
        .input("failure-threshold", "1");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("aborted"), "{outcome}");
    for mask in [key, TOKEN] {
        assert!(
            outcome.masks.iter().any(|masked| masked == mask),
            "{outcome}"
        );
    }
    let run_dir = job.temp().join(outcome.output("run-dir").unwrap());
    let mut written = outcome.log_text() + outcome.summary.as_deref().unwrap_or_default();
    for file in std::fs::read_dir(run_dir).unwrap() {
        written += &std::fs::read_to_string(file.unwrap().path()).unwrap();
    }
    assert!(written.contains("key ***"), "{written}");
    assert!(!written.contains(key), "{written}");
    assert!(
        !written.contains("c2stYW50LXZlcnktc2VjcmV0LWtleQ"),
        "{written}"
    );
}

#[test]
fn a_secret_that_comes_in_pieces_is_redacted_too() {
    // In this form the runner itself would not know it.
    let key = "sk-ant-~~~???>>>-secret";
    let script = "cat >/dev/null; form=$(printf %s \"$ANTHROPIC_API_KEY\" | base64 | tr +/ -_ | tr -d =); \
                  first=$(echo $form | cut -c1-12); printf %s \"got $first\"; sleep 0.3; \
                  echo \"${form#$first}\"; echo '<promise>SUCCESS</promise>'";
    let Some(job) = job(script) else { return };
    let job = job
        .env("ANTHROPIC_API_KEY", key)
        .input("agent-env", "ANTHROPIC_API_KEY")
        .input("verbose", "true");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert!(
        outcome.log.iter().any(|line| line.starts_with("got ***")),
        "{outcome}"
    );
}

#[test]
fn the_summary_tells_all_that_matters() {
    let script =
        format!("cat >/dev/null; case $n in 2) echo oh no >&2; exit 3;; 3) {PROMISE};; esac");
    let Some(job) = job(&script) else { return };
    let outcome = job.run();
    assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
    let summary = outcome.summary.unwrap_or_default();
    for told in [
        "success",
        "```mermaid",
        "| Max Iterations | `5` | built-in |",
        "| Run Timeout | `5h45m` | action default on a GitHub-hosted runner |",
        "oh no",
        "Landlock",
        "uid 1001",
        "<details>",
    ] {
        assert!(summary.contains(told), "{told}: {summary}");
    }
}
