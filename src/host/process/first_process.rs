//! What holds where rooda is the first process, as in a container. Each test runs itself again as one.
#![expect(clippy::print_stdout, reason = "tests tell what they measured")]

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{
    DumpableBehavior, Pid, Signal as Kill, Uid, dumpable_behavior, kill_process,
};
use rustix::thread::gettid;

use super::jail::cell::{Cell, UID};
use super::protect::protect;
use super::supervise::{Command, Limits, Place, Ran, SecondSignal, Supervisor};
use super::tree::own_children;
use super::user::{is_init, processes_of, signal_user};
use crate::host::{Console, Signals};
use crate::iteration::{Cut, End};
use crate::signal::Signal;

/// Whether this is the run as first process. If it is not, starts it and sees that it goes well.
fn as_first_process(test: &str) -> bool {
    if is_init() {
        return true;
    }
    if !rustix::process::geteuid().is_root() {
        rustix::io::write(
            rustix::stdio::stderr(),
            b"NOT TESTED: the first process needs root\n",
        )
        .unwrap();
        return false;
    }
    // One after the other: some of them take all the machine has, and others look at the time.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("host::process::first_process::{test}");
    let output = std::process::Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{problem}");
    assert!(told.contains("1 passed"), "{told}");
    print!("{told}");
    false
}

fn limits() -> Limits {
    Limits {
        deadline: None,
        idle: None,
        grace: Duration::from_secs(20),
        buffer: 1 << 20,
    }
}

/// Runs a script, and sends signals to rooda meanwhile, each after a pause.
fn run(
    cell: &Cell,
    script: &str,
    limits: Limits,
    signals: &[(Duration, Kill)],
) -> (Ran, Supervisor) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let console = Console::start(false).unwrap();
        let mut heard = Signals::listen().unwrap();
        let mut supervisor = Supervisor::new(SecondSignal::Action).unwrap();
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        let command = Command {
            words: &words,
            input: b"",
            place: Place::Jail(&cell.jail),
        };
        let signals = signals.to_vec();
        std::thread::spawn(move || {
            for (pause, signal) in signals {
                std::thread::sleep(pause);
                kill_process(Pid::INIT, signal).unwrap();
            }
        });
        let ran = supervisor
            .run(command, limits, &mut heard, &console, |_| {
                ControlFlow::Continue(())
            })
            .await
            .unwrap();
        (ran, supervisor)
    })
}

/// A process of `setup`: root's, or another user's.
fn service(user: u32) -> Child {
    let mut command = std::process::Command::new("/bin/sleep");
    command.arg("1000").uid(user).stdin(Stdio::null());
    command.spawn().unwrap()
}

fn is_running(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

fn zombies() -> usize {
    let dead = |pid: &Pid| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        stat.rsplit(')').next().unwrap().trim().starts_with('Z')
    };
    own_children()
        .unwrap()
        .iter()
        .filter(|pid| dead(pid))
        .count()
}

#[test]
fn hundreds_that_fork_without_end_are_ended_at_once() {
    if !as_first_process("hundreds_that_fork_without_end_are_ended_at_once") {
        return;
    }
    let Some(cell) = Cell::new() else { return };
    let (mut root, mut other) = (service(0), service(1234));
    // Many that fork again and again, some that end as soon as their child runs. None of them listens to SIGTERM.
    let script = "trap '' TERM
        i=0; while [ $i -lt 40 ]; do setsid sh -c 'chain() { (sleep 0.01; chain) & }; chain' & i=$((i+1)); done
        i=0; while [ $i -lt 560 ]; do (while :; do sleep 1; done) & i=$((i+1)); done
        sleep 1000";
    let grace = Duration::from_millis(300);
    let limits = Limits { grace, ..limits() };
    let mut fastest = Duration::MAX;
    // A machine that is busy with other things only ever adds to it.
    for _ in 0..3 {
        let watch = std::thread::spawn(|| {
            let started = Instant::now();
            let mut count = 0;
            while count < 600 && started.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(50));
                count = processes_of(Uid::from_raw(UID)).unwrap().len();
            }
            kill_process(Pid::INIT, Kill::INT).unwrap();
            (count, Instant::now())
        });
        let (ran, _) = run(&cell, script, limits, &[]);
        let ended = Instant::now();
        let (count, signalled) = watch.join().unwrap();
        let took = (ended - signalled).saturating_sub(grace);
        println!("{count} processes were gone {took:?} after the grace");
        assert!(count >= 600, "{count}");
        assert_eq!(ran.end, End::Cut(Cut::Interrupted(Signal::INT)));
        assert_eq!((ran.survivors, ran.unseen), (0, false));
        assert_eq!(processes_of(Uid::from_raw(UID)).unwrap(), []);
        assert!(is_running(&mut root) && is_running(&mut other));
        assert_eq!(zombies(), 0);
        fastest = fastest.min(took);
        if fastest < Duration::from_millis(500) {
            return;
        }
    }
    panic!("{fastest:?}");
}

/// What the kernel says of the calling thread's users and capabilities.
fn credentials() -> Vec<String> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let told = |line: &&str| line.starts_with("Uid") || line.starts_with("Cap");
    status.lines().filter(told).map(str::to_owned).collect()
}

#[test]
fn rooda_cannot_be_signalled_while_it_signals() {
    if !as_first_process("rooda_cannot_be_signalled_while_it_signals") {
        return;
    }
    // Without rules, so that only the users count.
    let Some(cell) = Cell::with(|plan| plan.landlock = false) else {
        return;
    };
    let thread = gettid().as_raw_nonzero();
    let script =
        format!("touch ready; while :; do kill -0 {thread} 2> /dev/null && echo hit >> hits; done");
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &script]).stdin(Stdio::null());
    cell.jail.confine(&mut command);
    let mut agent = command.spawn().unwrap();
    while !fs::exists(cell.root.path().join("work/ready")).unwrap() {
        std::thread::sleep(Duration::from_millis(5));
    }
    protect();
    let before = credentials();
    let mut service = service(0);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        signal_user(Uid::from_raw(UID), Kill::CONT).unwrap();
    }
    assert_eq!(credentials(), before);
    assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
    assert!(is_running(&mut agent));
    signal_user(Uid::from_raw(UID), Kill::KILL).unwrap();
    agent.wait().unwrap();
    assert!(is_running(&mut service));
    assert!(!fs::exists(cell.root.path().join("work/hits")).unwrap());
}

#[test]
fn a_cancelled_agent_has_two_seconds_at_most() {
    if !as_first_process("a_cancelled_agent_has_two_seconds_at_most") {
        return;
    }
    let Some(cell) = Cell::new() else { return };
    let wait = Duration::from_millis(300);
    let script = "trap '' TERM INT; while :; do sleep 0.1; done";
    let took = |signals: &[(Duration, Kill)]| {
        let started = Instant::now();
        let (ran, _) = run(&cell, script, limits(), signals);
        assert_eq!(ran.interrupted, Some(Signal::INT));
        started.elapsed() - wait
    };
    let alone = took(&[(wait, Kill::INT)]);
    assert!((1900..4000).contains(&alone.as_millis()), "{alone:?}");
    // Even if it comes so soon that the same one would be taken for the first one's echo.
    let second = took(&[(wait, Kill::INT), (Duration::from_millis(20), Kill::TERM)]);
    assert!(second < Duration::from_millis(1500), "{second:?}");
}

#[test]
fn whatever_is_left_to_the_first_process_is_reaped() {
    if !as_first_process("whatever_is_left_to_the_first_process_is_reaped") {
        return;
    }
    let Some(cell) = Cell::new() else { return };
    let orphans = "for i in 1 2 3 4 5; do sleep 0.5 & done";
    let leave = || {
        let mut command = std::process::Command::new("/bin/sh");
        assert!(command.args(["-c", orphans]).status().unwrap().success());
    };
    leave();
    let (ran, mut supervisor) = run(&cell, "true", limits(), &[]);
    assert_eq!((ran.left_behind, ran.survivors), (0, 0));
    leave();
    let patience = Instant::now();
    while zombies() < 10 {
        assert!(patience.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(10));
    }
    supervisor.reap_strays();
    assert_eq!(own_children().unwrap(), []);
}

#[test]
fn what_a_service_leaves_to_rooda_during_a_run_is_not_the_agents() {
    if !as_first_process("what_a_service_leaves_to_rooda_during_a_run_is_not_the_agents") {
        return;
    }
    let Some(cell) = Cell::new() else { return };
    let mut command = std::process::Command::new("/bin/sh");
    let mut service = command
        .args(["-c", "sleep 0.3; setsid sleep 4711 & exit"])
        .spawn()
        .unwrap();
    let (ran, _) = run(&cell, "sleep 1; setsid sleep 1000 &", limits(), &[]);
    assert_eq!((ran.left_behind, ran.survivors), (1, 0));
    assert!(service.wait().unwrap().success());
    let left = own_children().unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    let command = fs::read(format!("/proc/{}/cmdline", left[0].as_raw_nonzero())).unwrap();
    assert_eq!(command, b"sleep\x004711\0");
}

#[test]
fn nothing_of_the_agents_user_is_left_whoever_started_it() {
    if !as_first_process("nothing_of_the_agents_user_is_left_whoever_started_it") {
        return;
    }
    let Some(cell) = Cell::new() else { return };
    let orphan = "setsid sleep 1000 &";
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", orphan]).uid(UID);
    assert!(command.status().unwrap().success());
    let mut root = service(0);
    let started = Instant::now();
    let (ran, _) = run(&cell, "true", limits(), &[]);
    assert_eq!((ran.left_behind, ran.survivors), (1, 0));
    assert_eq!(processes_of(Uid::from_raw(UID)).unwrap(), []);
    assert!(started.elapsed() < Duration::from_secs(3));
    assert!(is_running(&mut root));
}

#[test]
fn an_agent_that_is_root_leaves_nothing_and_takes_no_service_with_it() {
    if !as_first_process("an_agent_that_is_root_leaves_nothing_and_takes_no_service_with_it") {
        return;
    }
    let Some(cell) = Cell::with(|plan| (plan.uid, plan.gid) = (0, 0)) else {
        return;
    };
    let script = "trap '' TERM; chain() { (chain) & }; setsid sleep 1000 & chain; chain; sleep 0.2";
    let (ran, _) = run(&cell, script, limits(), &[]);
    assert_eq!(ran.survivors, 0);
    assert_eq!(own_children().unwrap(), []);
    let mut service = service(0);
    let (ran, _) = run(&cell, "setsid sleep 1000 &", limits(), &[]);
    assert_eq!((ran.left_behind, ran.survivors), (1, 0));
    assert!(is_running(&mut service));
    assert_eq!(own_children().unwrap(), [Pid::from_child(&service)]);
}
