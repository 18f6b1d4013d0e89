//! What one sees: the log on standard error, the agent's output on standard output, the status line on a terminal.

use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Sandbox, is_alive, wait_until};

#[test]
fn reaching_the_limit() {
    let ran = Sandbox::new().build("print working", ["-n", "3"]).run();
    insta::assert_snapshot!(ran);
}

#[test]
fn three_failures_in_a_row() {
    let script = "print fine\n---\neprint compiling\neprint error: no such file\nexit 2";
    let ran = Sandbox::new().build(script, ["-n", "10"]).run();
    insta::assert_snapshot!(ran);
}

#[test]
fn success() {
    let script = "print working\n---\nprint <promise>SUCCESS</promise>";
    let ran = Sandbox::new().build(script, ["--task-id", "PROJ-7"]).run();
    insta::assert_snapshot!(ran);
}

#[test]
fn unlimited_with_recovery() {
    let script = "print a\n---\nkill TERM\nhang\n---\nprint <promise>FAILURE</promise>\n---\n\
                  print b\n---\nprint <promise>SUCCESS</promise>";
    let ran = Sandbox::new().build(script, ["--unlimited"]).run();
    insta::assert_snapshot!(ran);
}

/// Both streams in one pipe, in the order of what was written.
const TOGETHER: &str = "exec \"$@\" 2>&1";

#[test]
fn verbose_shows_the_output_between_the_markers() {
    let script =
        "print   ... created loop.rs\nraw no line end\n---\nprint   ✓ All tests passing\nexit 3";
    let ran = Sandbox::new()
        .build(script, ["-n", "2", "--verbose"])
        .by_shell(TOGETHER)
        .run();
    insta::assert_snapshot!(ran);
}

#[test]
fn verbose_shows_both_streams() {
    let ran = Sandbox::new()
        .build("print said\neprint warned", ["-n", "1", "-v"])
        .run();
    assert!(
        ran.stdout.contains("said\n") && ran.stdout.contains("warned\n"),
        "{ran}"
    );
}

#[test]
fn verbose_shows_it_at_once() {
    let sandbox = Sandbox::new();
    let script = "raw half a li\nawait go\nprint ne";
    let running = sandbox.build(script, ["-n", "1", "-v"]).start();
    running.wait_for_output("half a li");
    sandbox.file("go", "");
    assert_eq!(running.finish().stdout, "half a line\n");
}

#[test]
fn a_notice_begins_on_a_line_of_its_own() {
    let sleep = crate::harness::unique_sleep();
    let ran = Sandbox::new()
        .build(
            &format!("spawn {sleep}\nraw no line end"),
            ["-n", "1", "-v"],
        )
        .by_shell(TOGETHER)
        .run();
    insta::assert_snapshot!(ran);
}

#[test]
fn without_verbose_no_output_is_shown() {
    let ran = Sandbox::new()
        .build("print secret\neprint hidden", ["-n", "1"])
        .run();
    assert_eq!(ran.stdout, "", "{ran}");
    assert!(
        !ran.stderr.contains("secret") && !ran.stderr.contains("hidden"),
        "{ran}"
    );
}

const MIXED: &str = "exit 1\n---\nprint fine\n---\nexit 1";

#[test]
fn quiet_tells_failures_only() {
    let ran = Sandbox::new()
        .build(MIXED, ["--quiet", "--failure-threshold", "2"])
        .run();
    insta::assert_snapshot!(ran);
    let ran = Sandbox::new().build("print fine", ["-q"]).run();
    let end = "[TIME] Reached max iterations: 5 (total: [ELAPSED])\n";
    assert_eq!((ran.code, ran.log().as_str()), (Some(2), end), "{ran}");
    let script = "print <promise>SUCCESS</promise>";
    let ran = Sandbox::new().build(script, ["-q"]).run();
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran}");
}

#[test]
fn the_level_error_tells_the_end_only() {
    let arguments = ["--log-level", "error", "--failure-threshold", "2"];
    let ran = Sandbox::new().build(MIXED, arguments).run();
    insta::assert_snapshot!(ran);
}

#[test]
fn the_level_debug_tells_more() {
    let script = "read\nprint Phase: OBSERVE";
    let ran = Sandbox::new()
        .build(script, ["-n", "1", "--log-level", "debug"])
        .run();
    insta::with_settings!({filters => vec![(r"assembled, [\d,]+ bytes", "assembled, [SIZE]")]}, {
        insta::assert_snapshot!(ran);
    });
}

#[test]
fn an_explicit_level_wins_over_quiet() {
    let ran = Sandbox::new()
        .build("print fine", ["-n", "1", "--quiet", "--log-level", "info"])
        .run();
    assert!(ran.log().contains("Iteration 1/1 starting..."), "{ran}");
}

/// The log as JSON: every line must be an object.
fn lines(log: &str) -> Vec<Value> {
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn json_lines_tell_every_event() {
    let sandbox = Sandbox::new();
    sandbox.config("loop:\n  max_output_buffer: 100\n");
    let sleep = crate::harness::unique_sleep();
    let script = format!(
        "print Phase: DECIDE\nflood 200\nprint \\nspoke \"last\"\nspawn {sleep}\nexit 3\n---\n\
         kill KILL\n---\nprint <promise>FAILURE</promise>\n---\nprint <promise>SUCCESS</promise>"
    );
    let arguments = [
        "--log-format",
        "json",
        "--log-level",
        "debug",
        "--failure-threshold",
        "9",
    ];
    let ran = sandbox.build(&script, arguments).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    let lines = lines(&ran.stderr);
    for line in &lines {
        let text = |key: &str| {
            line[key]
                .as_str()
                .unwrap_or_else(|| panic!("{key} in {line}"))
        };
        assert!(
            text("time").ends_with('Z') && text("time").len() == 24,
            "{line}"
        );
        assert!(
            ["debug", "info", "warn", "error"].contains(&text("level")),
            "{line}"
        );
        assert!(!text("message").is_empty(), "{line}");
    }
    // What differs between runs is only looked at.
    let events: Vec<String> = lines
        .into_iter()
        .filter(|line| !line["event"].is_null())
        .map(|mut line| {
            let object = line.as_object_mut().unwrap();
            object
                .retain(|key, _| !["time", "level", "message", "command"].contains(&key.as_str()));
            for (key, value) in object.iter_mut() {
                if key.ends_with("_ms") || key == "bytes" {
                    assert!(value.is_u64(), "{key}: {value}");
                    *value = "a number".into();
                }
            }
            line.to_string()
        })
        .collect();
    insta::assert_snapshot!(events.join("\n"));
}

#[test]
fn json_lines_of_an_interrupted_run() {
    let sandbox = Sandbox::new();
    let script = "print <promise>SUCCESS</promise>\non TERM bye\ntouch ready\nhang";
    let running = sandbox.build(script, ["--log-format", "json"]).start();
    sandbox.wait_for("ready");
    running.signal(Signal::TERM);
    let ran = running.finish();
    let lines = lines(&ran.stderr);
    let of = |event: &str| {
        let found = lines.iter().find(|line| line["event"] == event);
        found.unwrap_or_else(|| panic!("no {event}: {ran}"))
    };
    assert_eq!(of("interrupting")["reason"], "Interrupted by SIGTERM");
    assert_eq!(of("promise_ignored")["promised"], "success");
    assert_eq!(of("iteration_completed")["outcome"], "interrupted");
    assert_eq!(of("run_ended")["status"], "interrupted");
    assert_eq!(of("run_ended")["exit_code"], 130);
    assert_eq!(of("run_ended")["iterations"], 0);
}

#[test]
fn a_warning_is_a_json_line_too() {
    let sandbox = Sandbox::new();
    let ran = sandbox
        .build(
            "print fine",
            [
                "-n",
                "1",
                "--ai-cmd-alias",
                "claude",
                "--log-format",
                "json",
            ],
        )
        .run();
    let lines = lines(&ran.stderr);
    assert_eq!(lines[0]["level"], "warn", "{ran}");
    assert!(
        lines[0]["message"]
            .as_str()
            .unwrap()
            .contains("--ai-cmd-alias"),
        "{ran}"
    );
}

#[test]
fn variables_set_level_and_output() {
    let sandbox = Sandbox::new();
    let ran = sandbox
        .build("print said", ["-n", "1"])
        .env("ROODA_LOG_LEVEL", "warn")
        .env("ROODA_SHOW_AI_OUTPUT", "true")
        .run();
    assert_eq!(
        (ran.stdout.as_str(), ran.log().as_str()),
        (
            "said\n",
            "[TIME] Reached max iterations: 1 (total: [ELAPSED])\n"
        ),
        "{ran}"
    );
    let ran = sandbox
        .build("print said", ["-n", "1"])
        .env("ROODA_LOG_LEVEL", "loud")
        .run();
    assert_eq!(ran.code, Some(78), "{ran}");
    assert!(ran.stderr.contains("ROODA_LOG_LEVEL"), "{ran}");
}

#[test]
fn the_workspace_can_switch_the_output_off_again() {
    let sandbox = Sandbox::new();
    sandbox.global_config("loop:\n  show_ai_output: true\n");
    let shown = sandbox.build("print said", ["-n", "1"]).run();
    assert_eq!(shown.stdout, "said\n", "{shown}");
    sandbox.config("loop:\n  show_ai_output: false\n");
    let hidden = sandbox.build("print said", ["-n", "1"]).run();
    assert_eq!(hidden.stdout, "", "{hidden}");
}

#[test]
fn every_form_of_time() {
    for (format, shape) in [
        ("time", "[00:00:00] "),
        ("time-ms", "[00:00:00.000] "),
        ("relative", "[+0:00.0] "),
        ("iso", "[0000-00-00T00:00:00Z] "),
        ("none", ""),
    ] {
        let sandbox = Sandbox::new();
        sandbox.config(&format!("loop:\n  log_timestamp_format: {format}\n"));
        let ran = sandbox.build("print fine", ["-n", "1"]).run();
        let line = ran.stderr.lines().next().unwrap();
        let (time, _) = line.split_once("Starting procedure").unwrap();
        let time = time.replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(time, shape, "{format}");
    }
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_run() {
    let sandbox = Sandbox::new();
    let script = "print first\nflood 2000000\nprint \\nlater\n---\nflood 2000000\nprint \\n<promise>SUCCESS</promise>";
    let ran = sandbox
        .build(script, ["-v"])
        .by_shell("{ \"$@\"; echo \"ended with $?\" >&2; } | head -n 1")
        .run();
    assert_eq!(ran.stdout, "first\n");
    assert!(ran.stderr.ends_with("ended with 0\n"), "{ran}");
    assert_eq!(sandbox.invocations(), 2);
}

const HOSTILE: &str =
    r"raw \e[31mred\e[0m\e]0;title\x07\e]52;c;aGk=\e\\\e[2J\e[1;1H\e[?1049hdone\n";

#[test]
fn in_a_pipe_escape_sequences_are_left_alone() {
    let ran = Sandbox::new().build(HOSTILE, ["-n", "1", "-v"]).run();
    let expected =
        b"\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b]52;c;aGk=\x1b\\\x1b[2J\x1b[1;1H\x1b[?1049hdone\n";
    assert_eq!(ran.stdout_bytes, expected);
}

#[test]
fn a_terminal_does_not_obey_the_agent() {
    let script = format!("{HOSTILE}\nexit 1");
    let ran = Sandbox::new()
        .build(&script, ["-n", "1", "-v"])
        .start_on_terminal()
        .finish();
    assert!(
        ran.stdout.contains("\x1b[31mred\x1b[0mdone\r\n"),
        "{:?}",
        ran.stdout
    );
    for sequence in ["\x1b]", "title", "\x1b[2J", "\x1b[1;1H", "1049"] {
        assert!(!ran.stdout.contains(sequence), "{:?}", ran.stdout);
    }
}

#[test]
fn a_terminal_shows_a_status_line() {
    let sandbox = Sandbox::new();
    let script = "await announce\nprint Phase: ORIENT\nawait go";
    let running = sandbox.build(script, ["-n", "1"]).start_on_terminal();
    running.wait_for_output("\x1b[2mIteration 1/1 running for 0s, last output 0s ago\x1b[0m");
    sandbox.file("announce", "");
    let shown = running.wait_for_output(", phase ORIENT, last output ");
    // It is drawn anew where it was.
    let again = shown.rsplit("\r\x1b[2K").next().unwrap();
    assert!(
        again.starts_with("\x1b[2mIteration 1/1 running for "),
        "{shown:?}"
    );
    assert!(
        !again.starts_with("\x1b[2mIteration 1/1 running for 0s"),
        "{shown:?}"
    );
    sandbox.file("go", "");
    let ran = running.finish();
    // It is gone before anything else is written.
    let end = ran.stdout.rsplit("\x1b[2K").next().unwrap();
    assert!(!end.contains("running for"), "{end:?}");
    assert!(end.contains("Reached max iterations: 1"), "{end:?}");
}

#[test]
fn a_pipe_shows_no_status_line() {
    let ran = Sandbox::new().build("sleep 1300", ["-n", "1"]).run();
    assert!(!ran.stderr.contains("running for"), "{ran}");
    assert!(!ran.stderr.contains('\x1b'), "{ran}");
}

#[test]
fn a_reader_that_does_not_read_disables_no_timeout() {
    let sandbox = Sandbox::new();
    let script = "touch ready\nflood 80000000\nhang";
    let (running, unread) = sandbox
        .build(script, ["-v", "-n", "1", "--iteration-timeout", "1s"])
        .start_unread();
    let agent = sandbox.wait_for("ready");
    wait_until("the end of the agent", || (!is_alive(&agent)).then_some(()));
    let held = ioctl_fionread(&unread).unwrap();
    assert!(held > 0, "the output was not shown");
    drop(unread);
    let ran = running.finish();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.log().contains("timed out after 1s"), "{ran}");
}

#[test]
fn a_reader_that_does_not_read_disables_no_signal() {
    let sandbox = Sandbox::new();
    let script = "touch ready\nflood 80000000\nhang";
    let (running, unread) = sandbox.build(script, ["-v"]).start_unread();
    let agent = sandbox.wait_for("ready");
    wait_until("a full pipe", || {
        (ioctl_fionread(&unread).unwrap() >= 65536).then_some(())
    });
    running.signal(Signal::INT);
    let ran = running.finish();
    assert_eq!(ran.code, Some(130));
    assert!(!is_alive(&agent));
    assert!(ran.elapsed < Duration::from_secs(10), "{:?}", ran.elapsed);
}
