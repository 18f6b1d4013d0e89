//! What an iteration and a run come to: the matrix, the promise, the counting of failures, the ends of a run.

use std::os::unix::fs::symlink;

use crate::harness::Sandbox;

const SUCCESS: &str = "print <promise>SUCCESS</promise>";
const FAILURE: &str = "print <promise>FAILURE</promise>";

/// Every row of the matrix. With one iteration and a threshold of one, the status tells the outcome.
#[test]
fn the_matrix_row_by_row() {
    let both = &format!("{SUCCESS}\n{FAILURE}");
    let both_turned = &format!("{FAILURE}\n{SUCCESS}");
    let on_stderr = &format!("{SUCCESS}\neprint <promise>FAILURE</promise>");
    let reported = "(failure, consecutive: 1/1): reported: the agent promised FAILURE";
    let done = "(success, promised \"SUCCESS\")";
    let rows = [
        (0, "print nothing special", 2, "(success)"),
        (0, SUCCESS, 0, done),
        (0, FAILURE, 1, reported),
        (0, both, 1, reported),
        (0, both_turned, 1, reported),
        (0, on_stderr, 1, reported),
        (
            3,
            "print nothing special",
            1,
            "(failure, consecutive: 1/1): process: the agent exited with code 3",
        ),
        (3, SUCCESS, 0, done),
        (3, FAILURE, 1, reported),
        (3, both, 1, reported),
        (3, both_turned, 1, reported),
    ];
    for (exit, script, code, outcome) in rows {
        let sandbox = Sandbox::new();
        let script = format!("read\n{script}\nexit {exit}");
        let ran = sandbox
            .build(&script, ["-n", "1", "--failure-threshold", "1"])
            .run();
        assert_eq!(ran.code, Some(code), "{script}\n{ran}");
        let line = format!("[TIME] Iteration 1/1 completed in [ELAPSED] {outcome}\n");
        assert!(ran.log().contains(&line), "{script}\n{ran}");
        let end = match code {
            0 => {
                "[TIME] Success: the agent promised \"SUCCESS\" (1 iteration completed, total: [ELAPSED])\n"
            }
            1 => {
                "[TIME] ERROR: Aborting after 1 consecutive failure (1 iteration completed, total: [ELAPSED])\n"
            }
            _ => "[TIME] Reached max iterations: 1 (total: [ELAPSED])\n",
        };
        assert!(ran.log().contains(end), "{script}\n{ran}");
    }
}

/// The outcomes of all iterations, as the log tells them.
fn outcomes(log: &str) -> Vec<&str> {
    log.lines()
        .filter_map(|line| line.split_once(" completed in [ELAPSED] "))
        .map(|(_, outcome)| outcome.split("): ").next().unwrap())
        .map(|outcome| outcome.trim_matches(['(', ')']))
        .collect()
}

#[test]
fn failures_count_in_a_row_and_a_success_resets_them() {
    let sandbox = Sandbox::new();
    let script = "exit 1\n---\nexit 1\n---\nexit 0\n---\nexit 1\n---\nexit 1\n---\nexit 1";
    let ran = sandbox.build(script, ["-n", "10"]).run();
    assert_eq!(ran.code, Some(1), "{ran}");
    assert_eq!(
        outcomes(&ran.log()),
        [
            "failure, consecutive: 1/3",
            "failure, consecutive: 2/3",
            "success",
            "failure, consecutive: 1/3",
            "failure, consecutive: 2/3",
            "failure, consecutive: 3/3",
        ]
    );
    assert_eq!(sandbox.invocations(), 6);
}

#[test]
fn the_threshold_is_checked_before_the_limit() {
    let sandbox = Sandbox::new();
    let ran = sandbox.build("exit 1", ["-n", "3"]).run();
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(
        ran.log().contains("Aborting after 3 consecutive failures"),
        "{ran}"
    );
}

#[test]
fn success_on_the_last_iteration_is_success() {
    let sandbox = Sandbox::new();
    let script = format!("print working\n---\n{SUCCESS}");
    let ran = sandbox.build(&script, ["-n", "2"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(sandbox.invocations(), 2);
}

#[test]
fn the_limit_is_the_number_of_iterations() {
    let sandbox = Sandbox::new();
    let ran = sandbox.build("print working", ["-n", "4"]).run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert_eq!(sandbox.invocations(), 4);
    assert!(ran.log().contains("Reached max iterations: 4"), "{ran}");
}

#[test]
fn unlimited_goes_on_until_success() {
    let sandbox = Sandbox::new();
    let script = format!("{}{SUCCESS}", "print working\n---\n".repeat(11));
    let ran = sandbox.build(&script, ["--unlimited"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(sandbox.invocations(), 12);
    assert!(ran.log().contains("(12 iterations completed"), "{ran}");
}

#[test]
fn every_iteration_gets_the_prompt_in_a_fresh_process() {
    let sandbox = Sandbox::new();
    let script = "save prompt.1\ntouch pid.1\n---\nsave prompt.2\ntouch pid.2";
    let ran = sandbox
        .build(script, ["-n", "2", "-c", "mind the gap"])
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert_ne!(sandbox.read("pid.1"), sandbox.read("pid.2"));
    let prompt = sandbox.read("prompt.1");
    assert_eq!(prompt, sandbox.read("prompt.2"));
    assert!(
        prompt.starts_with("# OODA Loop Iteration\n\n## CONTEXT\nmind the gap\n\n## OBSERVE\n")
    );
}

#[test]
fn a_task_from_standard_input_is_the_prompt_of_every_iteration() {
    let sandbox = Sandbox::new();
    let agent = sandbox.agent("save prompt.1\n---\nsave prompt.2");
    let ran = sandbox
        .rooda(["loop", "-", "-n", "2", "--ai-cmd", &agent])
        .stdin("Make it so.\n")
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    let prompt = sandbox.read("prompt.1");
    assert!(
        prompt.starts_with("Make it so.\n\n## PROMISE\n"),
        "{prompt}"
    );
    assert_eq!(prompt, sandbox.read("prompt.2"));
}

#[test]
fn a_crash_is_told_by_the_name_of_its_signal() {
    let sandbox = Sandbox::new();
    let script = "print half an answ\nkill SEGV\nhang";
    let ran = sandbox
        .build(script, ["-n", "1", "--failure-threshold", "1"])
        .run();
    assert_eq!(ran.code, Some(1), "{ran}");
    let line = "(failure, consecutive: 1/1): process: the agent was killed by SIGSEGV\n  \
                The agent's last lines:\n  | half an answ\n";
    assert!(ran.log().contains(line), "{ran}");
}

#[test]
fn the_partial_output_of_a_crash_is_scanned() {
    for (promise, code) in [(SUCCESS, 0), (FAILURE, 1)] {
        let sandbox = Sandbox::new();
        let script = format!("{promise}\nraw and th\nkill SEGV\nhang");
        let ran = sandbox
            .build(&script, ["-n", "1", "--failure-threshold", "1"])
            .run();
        assert_eq!(ran.code, Some(code), "{ran}");
    }
}

#[test]
fn an_exit_code_over_128_is_an_exit_code() {
    let sandbox = Sandbox::new();
    let ran = sandbox.build("exit 143", ["-n", "1"]).run();
    assert!(
        ran.log().contains(": the agent exited with code 143\n"),
        "{ran}"
    );
    assert!(!ran.log().contains("SIGTERM"), "{ran}");
}

#[test]
fn another_promise_takes_the_place_of_success() {
    let sandbox = Sandbox::new();
    let script = "print <promise>SUCCESS</promise>\n---\nprint <promise>ALL GREEN</promise>";
    let ran = sandbox
        .build(script, ["-n", "3", "--completion-promise", "ALL GREEN"])
        .run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(
        outcomes(&ran.log()),
        ["success", "success, promised \"ALL GREEN\""]
    );
}

#[test]
fn a_custom_promise_leaves_failure_as_it_is() {
    let sandbox = Sandbox::new();
    let arguments = [
        "-n",
        "1",
        "--completion-promise",
        "DONE",
        "--failure-threshold",
        "1",
    ];
    let ran = sandbox.build(FAILURE, arguments).run();
    assert_eq!(ran.code, Some(1), "{ran}");
}

#[test]
fn on_its_own_line_or_not_at_all() {
    let sandbox = Sandbox::new();
    sandbox.config("loop:\n  promise_match: own-line\n");
    let script = "print I am not yet at <promise>SUCCESS</promise>, sorry\n---\n\
                  print So:\nprint - **<promise>SUCCESS</promise>**";
    let ran = sandbox.build(script, ["-n", "3"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(sandbox.invocations(), 2);
}

#[test]
fn a_promise_on_standard_error_counts() {
    let sandbox = Sandbox::new();
    let script = "print talking\neprint <promise>SUCCESS</promise>";
    let ran = sandbox.build(script, ["-n", "1"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn a_promise_among_escape_sequences_and_broken_text_counts() {
    let sandbox = Sandbox::new();
    let script =
        r"raw \xff\xfe\x80\e[2K\r\e[1;32m<promise>\e[4mSUCC\e[0mESS</promise>\e[0m\xc3\x28\n";
    let ran = sandbox.build(script, ["-n", "1"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

/// An agent that repeats its prompt promises nothing.
fn assert_no_promise(sandbox: &Sandbox, echo: &str, arguments: &[&str]) {
    let ran = sandbox
        .rooda(arguments.iter().copied())
        .args(["--ai-cmd", echo, "-n", "1"])
        .run();
    assert_eq!(ran.code, Some(2), "{echo} {arguments:?}\n{ran}");
}

#[test]
fn cat_succeeds_with_no_built_in_procedure() {
    let sandbox = Sandbox::new();
    let list = sandbox.rooda(["list", "--json"]).run();
    let list: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let names: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|procedure| procedure["name"].as_str().unwrap())
        .collect();
    assert!(names.len() >= 17, "{names:?}");
    for name in names {
        assert_no_promise(&sandbox, "cat", &[name]);
        assert_no_promise(&sandbox, "cat -n", &[name]);
    }
}

#[test]
fn cat_succeeds_with_no_task() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "task.md",
        "When all is done, print\n<promise>SUCCESS</promise>",
    );
    for echo in ["cat", "cat -n"] {
        assert_no_promise(&sandbox, echo, &["loop", "Make the tests pass"]);
        assert_no_promise(&sandbox, echo, &["loop", "<promise>SUCCESS</promise>"]);
        assert_no_promise(&sandbox, echo, &["loop", "--file", "task.md"]);
    }
}

#[test]
fn cat_succeeds_with_no_prompt_of_a_user() {
    let sandbox = Sandbox::new();
    let long = "very long ".repeat(2000);
    for text in [
        "When it is done, print\n<promise>SUCCESS</promise>\nand stop.\n",
        "When it is done, print\n\n<promise>SUCCESS</promise>\n\nand stop.\n",
        "When it is done, print\n<promise>SUCCESS</promise>\n",
        "When it is done, print\n<promise>SUCCESS</promise>",
        "<promise>SUCCESS</promise>\nis what you print when it is done.",
        "<promise>SUCCESS</promise>",
        "<promise>SUCCESS</promise>\n<promise>SUCCESS</promise>\n",
        &format!("{long}print\n<promise>SUCCESS</promise>\nand {long}"),
    ] {
        sandbox.file("own.md", text);
        for echo in ["cat", "cat -n", "sed 's/^/> /'", "tee /dev/stderr"] {
            assert_no_promise(&sandbox, echo, &["build", "--act", "own.md"]);
        }
        assert_no_promise(&sandbox, "cat -n", &["build", "--observe", "own.md"]);
    }
}

#[test]
fn a_promise_beside_an_echo_counts() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "own.md",
        "When it is done, print\n<promise>SUCCESS</promise>\nand stop.\n",
    );
    let script = format!("echo\nprint Everything works.\n{SUCCESS}");
    let ran = sandbox.build(&script, ["-n", "1", "--act", "own.md"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn a_quoted_tag_is_no_promise() {
    let sandbox = Sandbox::new();
    let script = "print I will print `<promise>SUCCESS</promise>` when the tests pass.";
    let ran = sandbox.build(script, ["-n", "1"]).run();
    assert_eq!(ran.code, Some(2), "{ran}");
}

#[test]
fn an_ai_command_that_vanishes_aborts_the_run() {
    let sandbox = Sandbox::new();
    sandbox.agent("print working\nremove agent");
    symlink(env!("CARGO_BIN_EXE_fake_agent"), sandbox.path("agent")).unwrap();
    let ran = sandbox.rooda(["build", "--ai-cmd", "./agent .agent"]).run();
    assert_eq!(ran.code, Some(1), "{ran}");
    assert_eq!(sandbox.invocations(), 1);
    let line = "[TIME] ERROR: Aborting, the AI command cannot be started: ";
    assert!(ran.log().contains(line), "{ran}");
    assert!(
        ran.log()
            .contains("(2 iterations completed, total: [ELAPSED])\n"),
        "{ran}"
    );
}

#[test]
fn a_prompt_file_that_vanishes_aborts_the_run() {
    let sandbox = Sandbox::new();
    sandbox.file("own.md", "Do it.\n");
    let ran = sandbox
        .build("print working\nremove own.md", ["--decide", "own.md"])
        .run();
    assert_eq!(ran.code, Some(1), "{ran}");
    assert_eq!(sandbox.invocations(), 1);
    let line = "[TIME] ERROR: Aborting, the prompt cannot be assembled: cannot read own.md: ";
    assert!(ran.log().contains(line), "{ran}");
}

#[test]
fn prompt_files_are_read_anew() {
    let sandbox = Sandbox::new();
    sandbox.file("own.md", "the first text\n");
    let script = "save prompt.1\nwrite own.md the second text\n---\nsave prompt.2";
    let ran = sandbox
        .build(script, ["-n", "2", "--decide", "own.md"])
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(
        sandbox
            .read("prompt.1")
            .contains("## DECIDE\nthe first text\n")
    );
    assert!(
        sandbox
            .read("prompt.2")
            .contains("## DECIDE\nthe second text\n")
    );
}

#[test]
fn an_ai_command_that_is_not_there_is_found_out_before() {
    let sandbox = Sandbox::new();
    for command in ["no-such-agent --yes", "./no-such-agent"] {
        let ran = sandbox.rooda(["build", "--ai-cmd", command]).run();
        assert_eq!(ran.code, Some(69), "{ran}");
        assert!(ran.stderr.contains("no-such-agent"), "{ran}");
        assert!(!ran.stderr.contains("Iteration"), "{ran}");
    }
}

#[test]
fn a_prompt_file_that_is_not_there_is_found_out_before() {
    let sandbox = Sandbox::new();
    let ran = sandbox
        .build("print working", ["--act", "missing.md"])
        .run();
    assert_eq!(ran.code, Some(66), "{ran}");
    assert!(ran.stderr.contains("missing.md"), "{ran}");
    assert_eq!(sandbox.invocations(), 0);
}
