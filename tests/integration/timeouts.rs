//! Every bound of time holds, and says so.

use std::time::Duration;

use crate::harness::{Sandbox, is_alive};

#[test]
fn an_agent_that_takes_too_long_is_told_to_end() {
    let sandbox = Sandbox::new();
    // It exits with 0, and has promised success: neither counts.
    let script = "print <promise>SUCCESS</promise>\non TERM bye\nhang";
    let arguments = ["--iteration-timeout", "1s", "--failure-threshold", "1"];
    let ran = sandbox.build(script, arguments).run();
    assert_eq!(ran.code, Some(1), "{ran}");
    assert_eq!(sandbox.read("bye"), "bye");
    insta::assert_snapshot!(ran);
}

#[test]
fn an_agent_that_does_not_want_to_end_is_killed_after_the_grace() {
    let sandbox = Sandbox::new();
    sandbox.config("loop:\n  kill_grace: 500ms\n");
    let script = "ignore TERM\ntouch ready\nhang";
    let ran = sandbox
        .build(script, ["--iteration-timeout", "1s", "-n", "1"])
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(!is_alive(&sandbox.read("ready")));
    assert!(
        ran.elapsed >= Duration::from_millis(1500),
        "{:?}",
        ran.elapsed
    );
    assert!(ran.elapsed < Duration::from_secs(5), "{:?}", ran.elapsed);
    assert!(
        ran.log()
            .contains("(failure, consecutive: 1/3): timeout: timed out after 1s\n"),
        "{ran}"
    );
}

#[test]
fn timeouts_count_as_failures() {
    let sandbox = Sandbox::new();
    let arguments = ["--iteration-timeout", "200ms", "--failure-threshold", "2"];
    let ran = sandbox.build("hang", arguments).run();
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(
        ran.log()
            .contains("(failure, consecutive: 2/2): timeout: timed out after 200ms\n"),
        "{ran}"
    );
    assert!(
        ran.log().contains("Aborting after 2 consecutive failures"),
        "{ran}"
    );
}

#[test]
fn a_silent_agent_is_ended() {
    let sandbox = Sandbox::new();
    let script = "print thinking\nhang";
    let ran = sandbox
        .build(script, ["--idle-timeout", "500ms", "-n", "1"])
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(
        ran.log()
            .contains("(failure, consecutive: 1/3): idle: no output for 500ms\n"),
        "{ran}"
    );
}

#[test]
fn an_agent_that_goes_on_talking_is_not_idle() {
    let sandbox = Sandbox::new();
    let talk = "print x\nsleep 400\neprint y\nsleep 400\n".repeat(2);
    let script = format!("{talk}print <promise>SUCCESS</promise>");
    let ran = sandbox
        .build(&script, ["--idle-timeout", "1s", "-n", "1"])
        .run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn the_run_timeout_cuts_an_iteration() {
    let sandbox = Sandbox::new();
    let ran = sandbox.build("hang", ["--run-timeout", "600ms"]).run();
    assert_eq!(ran.code, Some(4), "{ran}");
    let end = "Iteration 1/5 completed in [ELAPSED] (failure, consecutive: 1/3): timeout: cut off by the run timeout of 600ms\n\
               [TIME] Reached run timeout: 600ms (1 iteration completed, total: [ELAPSED])\n";
    assert!(ran.log().contains(end), "{ran}");
}

#[test]
fn the_shorter_of_two_timeouts_counts() {
    let sandbox = Sandbox::new();
    let arguments = [
        "--run-timeout",
        "1h",
        "--iteration-timeout",
        "200ms",
        "-n",
        "1",
    ];
    let ran = sandbox.build("hang", arguments).run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(ran.log().contains("timed out after 200ms"), "{ran}");
}

#[test]
fn no_iteration_starts_that_would_only_be_cut() {
    let sandbox = Sandbox::new();
    let running = sandbox.build("await go", ["--run-timeout", "5s"]).start();
    running.wait_for_log("Starting procedure");
    // Into the last tenth. A busy machine may come too late and see the iteration cut; no other one starts either way.
    std::thread::sleep(Duration::from_millis(4530));
    sandbox.file("go", "");
    let ran = running.finish();
    assert_eq!(ran.code, Some(4), "{ran}");
    assert_eq!(sandbox.invocations(), 1);
    assert!(
        ran.log()
            .contains("[TIME] Reached run timeout: 5s (1 iteration completed"),
        "{ran}"
    );
}
