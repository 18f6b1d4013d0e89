//! What becomes of what an action prints, writes and answers.

use super::{Job, Kind, Outcome, StepResult, TOKEN};

fn run(script: &str) -> Option<Outcome> {
    Some(Job::new()?.script(script).run())
}

#[test]
fn outputs_variables_paths_state_and_summary_are_taken_over() {
    let Some(outcome) = run("
        echo status=success >>$GITHUB_OUTPUT
        printf 'text<<E\\none\\ntwo\\nE\\n' >>$GITHUB_OUTPUT
        echo 'Status=again' >>$GITHUB_OUTPUT
        echo 'token=x '$INPUT_TOKEN >>$GITHUB_OUTPUT
        echo NAME=value >>$GITHUB_ENV
        echo /opt/tool >>$GITHUB_PATH
        echo key=1 >>$GITHUB_STATE
        echo \"# Done with $INPUT_TOKEN\" >>$GITHUB_STEP_SUMMARY")
    else {
        return;
    };
    assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
    assert_eq!(outcome.exit_code, Some(0));
    assert_eq!(outcome.output("STATUS"), Some("again"));
    assert_eq!(outcome.output("text"), Some("one\ntwo"));
    assert_eq!(outcome.output("token"), Some(format!("x {TOKEN}").as_str()));
    assert_eq!(outcome.env["NAME"], "value");
    assert_eq!(outcome.path, ["/opt/tool"]);
    assert_eq!(outcome.state["key"], "1");
    assert_eq!(outcome.summary.as_deref(), Some("# Done with ***\n"));
    let of_job: Vec<&str> = outcome.job_outputs().into_keys().collect();
    assert_eq!(of_job, ["status", "text"]);
    assert_eq!(outcome.output_bytes(), 2 * (11 + 11 + 5 + 2 + TOKEN.len()));
}

#[test]
fn a_malformed_output_file_fails_the_step_and_keeps_what_stands_before() {
    let Some(outcome) =
        run("printf 'a=1\\nnonsense\\nb=2\\n' >>$GITHUB_OUTPUT; echo X=1 >>$GITHUB_ENV")
    else {
        return;
    };
    assert_eq!(outcome.result, StepResult::Failed, "{outcome}");
    assert_eq!(outcome.exit_code, Some(0));
    assert_eq!(outcome.output("a"), Some("1"));
    assert_eq!(outcome.output("b"), None);
    assert_eq!(outcome.env["X"], "1");
    let expected = [
        "Unable to process file command 'output' successfully.",
        "Invalid format 'nonsense'",
    ];
    assert_eq!(outcome.errors, expected);
    assert_eq!(outcome.kept(Kind::Error), expected);
}

#[test]
fn a_command_file_that_the_runners_user_cannot_read_fails_the_step() {
    let Some(outcome) = run(
        "
        umask 077; echo a=1 >/github/file_commands/new; mv /github/file_commands/new $GITHUB_OUTPUT
        rm $GITHUB_ENV; mkdir $GITHUB_ENV; rm $GITHUB_STATE; mkfifo $GITHUB_STATE; rm $GITHUB_PATH",
    ) else {
        return;
    };
    assert_eq!(outcome.result, StepResult::Failed);
    assert_eq!(outcome.output("a"), None);
    let told: Vec<&str> = outcome
        .errors
        .iter()
        .step_by(2)
        .map(String::as_str)
        .collect();
    let expected = [
        "Unable to process file command 'state' successfully.",
        "Unable to process file command 'output' successfully.",
    ];
    assert_eq!(told, expected, "{outcome}");
}

#[test]
fn the_exit_code_decides_unless_something_went_wrong_with_commands() {
    let Some(job) = Job::new() else { return };
    let cases = [
        ("exit 0", StepResult::Succeeded, Some(0)),
        ("exit 78", StepResult::Failed, Some(78)),
        (
            "kill -9 $$; echo survived as the first process",
            StepResult::Succeeded,
            Some(0),
        ),
        ("echo ::error::x", StepResult::Succeeded, Some(0)),
        ("echo ::set-env name=a::x", StepResult::Failed, Some(0)),
    ];
    let mut job = job.continue_on_error(true);
    for (script, result, code) in cases {
        job = job.script(script);
        let outcome = job.run();
        assert_eq!(
            (outcome.result, outcome.exit_code),
            (result, code),
            "{script}: {outcome}"
        );
        assert_eq!(outcome.conclusion(), "success");
        let told = if result == StepResult::Failed {
            "failure"
        } else {
            "success"
        };
        assert_eq!(outcome.outcome(), told);
    }
}

#[test]
fn an_entry_point_that_is_not_there_is_a_failure_with_dockers_own_code() {
    for (program, code) in [("/nowhere", 127), ("/etc/passwd", 126)] {
        let Some(job) = Job::new() else { return };
        let outcome = job.entrypoint(&[program]).run();
        assert_eq!(outcome.result, StepResult::Failed);
        assert_eq!(outcome.exit_code, Some(code), "{outcome}");
    }
}

#[test]
fn the_log_is_masked_from_the_moment_a_secret_is_known() {
    let Some(job) = Job::new() else { return };
    let job = job.secret("of the repository").script(
        "echo of the repository; echo $INPUT_TOKEN $ACTIONS_RUNTIME_TOKEN; echo hunter2; echo ::add-mask::hunter2; echo hunter2
        printf %s:hunter2 user | base64; echo \"::warning title=hunter2::say hunter2\"; echo hunter2 >>$GITHUB_STEP_SUMMARY",
    );
    let outcome = job.run();
    let expected = [
        "***",
        "*** ***",
        "hunter2",
        "***",
        "dXNlcjpo***",
        "##[warning]say ***",
    ];
    assert_eq!(outcome.log, expected, "{outcome}");
    assert_eq!(outcome.annotations[0].title.as_deref(), Some("***"));
    assert_eq!(outcome.summary.as_deref(), Some("***\n"));
    assert!(outcome.masks.contains(&"hunter2".to_owned()));
    // Masks last for the job. In one step the order of the two streams is not kept.
    let job = job.script("echo hunter2 >&2");
    assert_eq!(job.run().log, ["***"]);
}

#[test]
fn only_ten_annotations_of_a_kind_are_kept() {
    let Some(outcome) = run("
        for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo \"::error file=a.rs,line=$n::e$n\"; done
        echo ::warning::w; echo ::notice::n")
    else {
        return;
    };
    assert_eq!(outcome.kept(Kind::Error).len(), 10);
    assert_eq!(outcome.kept(Kind::Error)[9], "e10");
    assert_eq!(outcome.kept(Kind::Warning), ["w"]);
    assert_eq!(outcome.kept(Kind::Notice), ["n"]);
    assert_eq!(outcome.annotations.len(), 14);
    assert_eq!(outcome.log.len(), 14);
    assert_eq!(outcome.annotations[2].file.as_deref(), Some("a.rs"));
    assert_eq!(outcome.annotations[2].place.line.as_deref(), Some("3"));
}

#[test]
fn commands_hide_in_the_middle_of_lines_and_behind_carriage_returns() {
    let Some(outcome) = run("
        echo 'text ##[error]in the middle'
        printf '10%%\\r20%%\\r::warning::after a return\\r\\n'
        printf '::notice::without an end'; printf '##[group]G\\ninside\\n::endgroup::\\n' >&2")
    else {
        return;
    };
    assert_eq!(outcome.kept(Kind::Error), ["in the middle"]);
    assert_eq!(outcome.kept(Kind::Warning), ["after a return"]);
    assert_eq!(outcome.kept(Kind::Notice), ["without an end"]);
    assert!(outcome.log.contains(&"20%".to_owned()), "{outcome}");
    assert_eq!(outcome.groups(), ["G"]);
    assert!(outcome.group("G").contains(&"inside"), "{outcome}");
}

#[test]
fn stopped_commands_are_text_until_the_token() {
    let Some(outcome) = run("
        echo ::stop-commands::pause-1234; echo ::set-env name=a::b; echo ::error::no
        echo ::pause-1234::; echo ::error::yes")
    else {
        return;
    };
    assert_eq!(outcome.result, StepResult::Succeeded);
    assert_eq!(outcome.kept(Kind::Error), ["yes"]);
    let expected = [
        "::stop-commands::pause-1234",
        "::set-env name=a::b",
        "::error::no",
        "::***::",
        "##[error]yes",
    ];
    assert_eq!(outcome.log, expected);
}

#[test]
fn a_bad_token_fails_the_step_at_once_and_leaves_the_container_running() {
    let Some(job) = Job::new() else { return };
    let job = job.script("echo a=1 >>$GITHUB_OUTPUT; echo ::stop-commands::; sleep 30");
    let outcome = job.run();
    assert_eq!(outcome.result, StepResult::Failed);
    assert_eq!(outcome.exit_code, None);
    assert_eq!(outcome.output("a"), Some("1"));
    assert!(job.is_running());
}

#[test]
fn one_step_hands_to_the_next() {
    let Some(job) = Job::new() else { return };
    let job = job.script(
        "echo A=1 >>$GITHUB_ENV; echo B=2 >>$GITHUB_ENV; echo GITHUB_SHA=x >>$GITHUB_ENV; echo /a >>$GITHUB_PATH; echo kept >/github/home/file
        echo '{}' >m.json; echo ::add-matcher::m.json; [ -z \"$A\" ] && echo not yet",
    );
    assert_eq!(job.run().log, ["not yet"]);
    let job = job.script(
        "echo $A ${#GITHUB_SHA} $PATH; cat /github/home/file; ls /github/file_commands | wc -l",
    );
    let outcome = job.run();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(
        outcome.log,
        [&format!("1 40 {path}"), "kept", "14"],
        "{outcome}"
    );
    assert_eq!(outcome.matchers, ["m.json"]);
    assert_eq!(job.path(), ["/a"]);
}

#[test]
fn the_header_shows_inputs_and_arguments_but_no_secrets() {
    let Some(job) = Job::new() else { return };
    let job = job.input("prompt", "Do it").env("KEY", TOKEN).entrypoint(&[
        "/bin/echo",
        "a b",
        "",
        "$HOME",
    ]);
    let outcome = job.run();
    assert_eq!(outcome.log, ["a b  $HOME"]);
    let header = outcome.header.join("\n");
    for part in [
        "with:\n  prompt: Do it\n",
        "  token: ***\n",
        "env:\n  KEY: ***\n",
        "##[endgroup]\n",
    ] {
        assert!(header.contains(part), "{part}: {header}");
    }
    assert!(header.ends_with("\"a b\" \"\" \"$HOME\""), "{header}");
}

#[test]
fn the_entry_point_is_the_programs_own_unless_the_workflow_names_another() {
    let Some(job) = Job::new() else { return };
    let job = job.input("dry-run", "true");
    let outcome = job.run();
    // Whatever it says without a task: it was found, and could be run.
    assert!(!outcome.log.is_empty());
    assert!(
        outcome.exit_code.is_some_and(|code| code < 125),
        "{outcome}"
    );
    let job = job
        .input("entrypoint", "/usr/local/bin/rooda")
        .input("args", "--version");
    let version = format!("rooda {}", env!("CARGO_PKG_VERSION"));
    assert!(job.run().log[0].starts_with(&version));
}

#[test]
fn another_manifest_has_another_entry_point_arguments_and_variables() {
    let Some(job) = Job::new() else { return };
    let job = job
        .manifest(
            "{inputs: {who: {default: world}}, runs: {using: docker, image: Dockerfile, entrypoint: /bin/sh,
            args: [-c, 'echo $0 $GREETING $MINE', 'hello ${{ inputs.who }}'], env: {GREETING: '${{ inputs.WHO }}!', MINE: x}}}",
        )
        .env("MINE", "y")
        .event("schedule", serde_json::json!({ "schedule": "0 0 * * *" }));
    assert_eq!(job.run().log, ["hello world world! y"]);
    let event = std::fs::read_to_string(job.temp().join("_github_workflow/event.json")).unwrap();
    assert_eq!(event, "{\n  \"schedule\": \"0 0 * * *\"\n}");
}

#[test]
fn debug_lines_are_shown_when_step_debug_logging_is_on() {
    let Some(job) = Job::new() else { return };
    let job = job.debug(true).script("echo ::debug::detail");
    assert_eq!(job.run().log, ["##[debug]detail"]);
    assert_eq!(job.debug(false).run().log, Vec::<String>::new());
}
