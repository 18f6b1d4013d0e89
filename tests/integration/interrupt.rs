//! SIGINT, SIGTERM and SIGHUP end the agent, then the run.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;

use crate::harness::{
    Ran, Running, Sandbox, is_alive, processes_with, send, state, unique_sleep, wait_until,
};

const POLITE: &str = "on TERM bye\ntouch ready\nhang";

/// How long rooda was still there after a file was made.
fn after(ran: &Ran, sandbox: &Sandbox, file: &str) -> Duration {
    let ended = SystemTime::now() - ran.at.elapsed();
    let made = fs::metadata(sandbox.path(file))
        .unwrap()
        .modified()
        .unwrap();
    ended.duration_since(made).unwrap_or_default()
}

#[test]
fn every_signal_ends_agent_and_run() {
    let mut fastest = Duration::MAX;
    for (signal, name) in [
        (Signal::INT, "SIGINT"),
        (Signal::TERM, "SIGTERM"),
        (Signal::HUP, "SIGHUP"),
    ] {
        let sandbox = Sandbox::new();
        let running = sandbox
            .build(&format!("print working\n---\n{POLITE}"), [])
            .start();
        let agent = sandbox.wait_for("ready");
        running.signal(signal);
        let ran = running.finish();
        assert_eq!(ran.code, Some(130), "{ran}");
        assert_eq!(sandbox.read("bye"), "bye");
        assert!(!is_alive(&agent));
        let end = format!(
            "[TIME] Interrupted by {name}: ending the agent\n\
             [TIME] Iteration 2/5 completed in [ELAPSED] (interrupted)\n\
             [TIME] Interrupted by {name} (1 iteration completed, total: [ELAPSED])\n  \
             Iteration timing: min=[ELAPSED], max=[ELAPSED], mean=[ELAPSED], stddev=[ELAPSED]\n"
        );
        assert!(ran.log().ends_with(&end), "{ran}");
        let took = after(&ran, &sandbox, "bye");
        println!("{name}: ended {took:?} after the agent's last act");
        fastest = fastest.min(took);
    }
    // A machine that is busy with other things only ever adds to it.
    assert!(fastest < Duration::from_millis(150), "{fastest:?}");
}

#[test]
fn an_agent_that_ignores_the_signal_is_killed_after_the_grace() {
    let sandbox = Sandbox::new();
    sandbox.config("loop:\n  kill_grace: 600ms\n");
    let (child, escaped) = (unique_sleep(), unique_sleep());
    let stubborn = |sleep: &str| format!("sh -c 'trap \"\" TERM INT HUP; exec {sleep}'");
    let script = format!(
        "ignore TERM\nignore INT\nignore HUP\nspawn {}\nsetsid {}\nsleep 200\ntouch ready\nhang",
        stubborn(&child),
        stubborn(&escaped)
    );
    let running = sandbox.build(&script, []).start();
    let agent = sandbox.wait_for("ready");
    let signalled = Instant::now();
    running.signal(Signal::INT);
    let ran = running.finish();
    let took = ran.at - signalled;
    assert_eq!(ran.code, Some(130), "{ran}");
    println!("ended after {took:?} with a grace of 600ms");
    assert!(took >= Duration::from_millis(600), "no grace: {took:?}");
    assert!(took < Duration::from_millis(1600), "{took:?}");
    assert!(!is_alive(&agent));
    assert_eq!(processes_with(&child), Vec::<String>::new());
    assert_eq!(processes_with(&escaped), Vec::<String>::new());
}

#[test]
fn a_promise_of_an_interrupted_agent_does_not_count() {
    let sandbox = Sandbox::new();
    let script = format!("print <promise>SUCCESS</promise>\n{POLITE}");
    let running = sandbox.build(&script, []).start();
    sandbox.wait_for("ready");
    running.signal(Signal::TERM);
    let ran = running.finish();
    assert_eq!(ran.code, Some(130), "{ran}");
    let notice = "the agent had promised success before it was ended; that does not count\n";
    assert!(ran.log().contains(notice), "{ran}");
}

/// Lets the signal come after the agent has ended by itself, and before rooda has noticed.
fn signal_between_iterations(sandbox: &Sandbox, promise: &str) -> Ran {
    let script = format!("touch ready\nawait go\nprint {promise}");
    let running = sandbox.build(&script, []).start();
    let agent = sandbox.wait_for("ready");
    running.signal(Signal::STOP);
    wait_for_state(&running.pid, "T");
    sandbox.file("go", "");
    wait_for_state(&agent, "Z");
    running.signal(Signal::INT);
    running.signal(Signal::CONT);
    running.finish()
}

fn wait_for_state(pid: &str, wanted: &str) {
    wait_until(wanted, || state(pid).filter(|(state, _)| state == wanted));
}

#[test]
fn between_iterations_a_signal_ends_the_run() {
    for _ in 0..4 {
        let sandbox = Sandbox::new();
        let ran = signal_between_iterations(&sandbox, "working");
        assert_eq!(ran.code, Some(130), "{ran}");
        assert_eq!(sandbox.invocations(), 1);
        let end = "Iteration 1/5 completed in [ELAPSED] (success)\n\
                   [TIME] Interrupted by SIGINT (1 iteration completed, total: [ELAPSED])\n";
        assert!(ran.log().contains(end), "{ran}");
    }
}

#[test]
fn success_that_came_before_the_signal_is_success() {
    for _ in 0..4 {
        let sandbox = Sandbox::new();
        let ran = signal_between_iterations(&sandbox, "<promise>SUCCESS</promise>");
        assert_eq!(ran.code, Some(0), "{ran}");
    }
}

/// Signals rooda, and lets the agent succeed afterwards.
fn succeeds_despite(sandbox: &Sandbox, running: Running, signal: Signal) {
    let agent = sandbox.wait_for("ready");
    let (_, rooda) = state(&agent).unwrap();
    send(&rooda, signal);
    sandbox.file("go", "");
    let ran = running.finish();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(!ran.log().contains("Interrupted"), "{ran}");
}

const SUCCEEDS: &str = "touch ready\nawait go\nprint <promise>SUCCESS</promise>";

#[test]
fn nohup_keeps_a_run_alive() {
    let sandbox = Sandbox::new();
    let rooda = sandbox.build(SUCCEEDS, []);
    let running = rooda.by_shell("exec nohup \"$@\"").start();
    succeeds_despite(&sandbox, running, Signal::HUP);
}

#[test]
fn a_background_job_of_a_script_ignores_the_interrupt_key() {
    let sandbox = Sandbox::new();
    let rooda = sandbox.build(SUCCEEDS, []);
    let running = rooda.by_shell("\"$@\" & wait $!").start();
    succeeds_despite(&sandbox, running, Signal::INT);
}

#[test]
fn a_signal_that_is_not_ignored_still_ends_a_background_job() {
    let sandbox = Sandbox::new();
    let rooda = sandbox.build(POLITE, []);
    let running = rooda.by_shell("\"$@\" & wait $!").start();
    let (_, rooda) = state(&sandbox.wait_for("ready")).unwrap();
    send(&rooda, Signal::TERM);
    assert_eq!(running.finish().code, Some(130));
}

#[test]
fn off_a_terminal_more_signals_do_not_shorten_the_grace() {
    let sandbox = Sandbox::new();
    sandbox.config("loop:\n  kill_grace: 20s\n");
    let script = "ignore TERM\ntouch ready\nawait finish\nsleep 300\nwrite saved yes";
    let running = sandbox.build(script, []).start();
    sandbox.wait_for("ready");
    running.signal(Signal::INT);
    running.signal(Signal::INT);
    running.wait_for_log("ending the agent");
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    sandbox.file("finish", "");
    let ran = running.finish();
    assert_eq!(ran.code, Some(130), "{ran}");
    assert_eq!(sandbox.read("saved"), "yes");
}

#[test]
fn on_a_terminal_the_second_interrupt_key_ends_it_at_once() {
    let sandbox = Sandbox::new();
    sandbox.config("loop:\n  kill_grace: 20s\n");
    let mut running = sandbox
        .build("ignore TERM\ntouch ready\nhang", [])
        .start_on_terminal();
    let agent = sandbox.wait_for("ready");
    running.press(b"\x03");
    running.wait_for_output("Interrupted by SIGINT: ending the agent");
    // A person is slower than a wrapper that sends a signal twice.
    std::thread::sleep(Duration::from_millis(200));
    let again = Instant::now();
    running.press(b"\x03");
    let ran = running.finish();
    assert_eq!(ran.code, Some(130), "{ran}");
    let took = ran.at - again;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!is_alive(&agent));
    assert!(
        ran.stdout
            .contains("Interrupted by SIGINT (0 iterations completed"),
        "{ran}"
    );
}
