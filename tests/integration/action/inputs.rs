//! What the inputs do.

use super::{PROMISE, job, with_agent};
use crate::runner::{Job, Kind, StepResult};

/// The message of a step that was refused.
fn refused(job: &Job, exit_code: i32) -> String {
    let outcome = job.run();
    assert_eq!(outcome.result, StepResult::Failed, "{outcome}");
    assert_eq!(outcome.exit_code, Some(exit_code), "{outcome}");
    assert_eq!(outcome.output("status"), Some("error"), "{outcome}");
    let code = exit_code.to_string();
    assert_eq!(outcome.output("exit-code"), Some(code.as_str()));
    let errors = outcome.kept(Kind::Error);
    assert_eq!(errors.len(), 1, "{outcome}");
    let summary = outcome.summary.as_deref().unwrap_or_default();
    assert!(
        summary.lines().next().unwrap_or_default().contains("error"),
        "{summary}"
    );
    assert!(outcome.errors.is_empty(), "{outcome}");
    errors[0].to_owned()
}

#[test]
fn a_wrong_input_is_told_by_its_name() {
    let Some(job) = job(PROMISE) else { return };
    let told = refused(&job.input("max-iterations", "0").input("sandbox", "on"), 64);
    assert!(
        told.contains("input max-iterations: expected a whole number of at least 1"),
        "{told}"
    );
    assert!(told.contains("input sandbox: expected one of"), "{told}");
}

#[test]
fn an_unknown_input_is_not_ignored() {
    let Some(job) = job(PROMISE) else { return };
    let told = refused(&job.input("max-iteration", "3"), 64);
    assert!(told.contains("did you mean `max-iterations`?"), "{told}");
}

#[test]
fn a_procedure_and_a_prompt_exclude_each_other() {
    let Some(job) = job(PROMISE) else { return };
    let told = refused(&job.input("procedure", "build"), 64);
    assert!(
        told.contains("input prompt: it cannot stand beside `procedure`"),
        "{told}"
    );
    let Some(job) = Job::new() else { return };
    let told = refused(&job, 64);
    assert!(told.contains("input procedure: it is missing"), "{told}");
}

#[test]
fn an_unknown_procedure_and_no_agent_are_refused() {
    let Some(job) = Job::new() else { return };
    let told = refused(&with_agent(job, PROMISE).input("procedure", "biuld"), 64);
    assert!(told.contains("there is no procedure `biuld`"), "{told}");
    let Some(job) = Job::new() else { return };
    let told = refused(&job.input("procedure", "build"), 78);
    assert!(told.contains("no AI command is configured"), "{told}");
    assert!(told.contains("`agent: claude`"), "{told}");
}

#[test]
fn inputs_win_over_procedures_variables_and_files() {
    let Some(job) = job(PROMISE) else { return };
    let config = "loop:\n  failure_threshold: 7\n  kill_grace: 1s\n";
    let job = job
        .file("rooda-config.yml", config)
        .env("ROODA_LOOP_FAILURE_THRESHOLD", "6")
        .input("failure-threshold", "4")
        .input("dry-run", "true");
    let outcome = job.run();
    assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
    assert_eq!(outcome.output("status"), Some("dry-run"));
    let log = outcome.log_text();
    assert!(
        log.contains("Failure Threshold: 4 (input: failure-threshold)"),
        "{log}"
    );
    assert!(
        log.contains("Kill Grace: 1s (workspace: ./rooda-config.yml)"),
        "{log}"
    );
    assert!(
        log.contains("Iteration Timeout: 30m (action default)"),
        "{log}"
    );
}

#[test]
fn flags_win_over_inputs() {
    let Some(job) = job("cat >/dev/null") else {
        return;
    };
    let outcome = job
        .input("max-iterations", "4")
        .input("args", "--max-iterations 1")
        .run();
    assert_eq!(outcome.output("iterations"), Some("1"), "{outcome}");
}

#[test]
fn an_unlimited_run_needs_a_bound_that_somebody_gave() {
    let Some(job) = job(PROMISE) else { return };
    let job = job.input("unlimited", "true");
    let told = refused(&job, 78);
    assert!(told.contains("needs another bound"), "{told}");
    let outcome = job.input("run-timeout", "1h").run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
}

#[test]
fn a_working_directory_is_inside_of_the_workspace() {
    let script = format!("pwd >where; {PROMISE}");
    let Some(job) = job(&script) else { return };
    let job = job.file("app/rooda-config.yml", "loop: {failure_threshold: 1}\n");
    let job = job.input("working-directory", "app");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert_eq!(job.read("app/where"), "/github/workspace/app\n");
    let told = refused(&job.input("working-directory", "../.."), 64);
    assert!(
        told.contains("input working-directory: expected a folder inside the workspace"),
        "{told}"
    );
    let Some(job) = self::job(PROMISE) else {
        return;
    };
    let told = refused(&job.input("working-directory", "missing"), 64);
    assert!(
        told.contains("input working-directory: expected a folder that is there"),
        "{told}"
    );
}

#[test]
fn a_configuration_file_is_named_or_wrong() {
    let Some(job) = job(PROMISE) else { return };
    let job = job.file("ci/rooda.yml", "loop:\n  failure_treshold: 1\n");
    let told = refused(&job.input("config", "ci/rooda.yml"), 78);
    assert!(
        told.contains("ci/rooda.yml:2:3: loop.failure_treshold: unknown key"),
        "{told}"
    );
    let Some(job) = self::job(PROMISE) else {
        return;
    };
    let told = refused(&job.input("config", "nowhere.yml"), 66);
    assert!(told.contains("cannot read nowhere.yml"), "{told}");
    assert!(told.contains("the input `config`"), "{told}");
}

#[test]
fn context_and_prompts_of_the_repository_reach_the_agent() {
    let script = format!("cat >prompt.txt; {PROMISE}");
    let Some(job) = Job::new() else { return };
    let config = "procedures:\n  mine:\n    observe: prompts/look.md\n    orient: prompts/look.md\n    \
                  decide: prompts/look.md\n    act: prompts/look.md\n";
    let job = with_agent(job, &script)
        .file("rooda-config.yml", config)
        .file("prompts/look.md", "Look around.\n")
        .input("procedure", "mine")
        .input("context", "only\nthe @auth module");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    let prompt = job.read("prompt.txt");
    assert!(prompt.contains("Look around."), "{prompt}");
    assert!(prompt.contains("only\nthe @auth module"), "{prompt}");
}

#[test]
fn step_debug_turns_on_debug_level() {
    let Some(job) = job(PROMISE) else { return };
    let outcome = job.input("log-level", "warn").debug(true).run();
    assert!(
        outcome
            .log_text()
            .contains("DEBUG: Log Level: debug (step debug logging)"),
        "{outcome}"
    );
}
