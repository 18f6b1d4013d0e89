//! Nothing of an agent survives its iteration, and nothing it does with its streams disturbs the loop.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Sandbox, is_alive, processes_with, send, state, unique_sleep, wait_until};
use crate::programs::copy_program;

/// How long something left behind may hold up the loop after the leader has ended.
const HELD_UP: Duration = Duration::from_secs(2);

/// Runs an agent that leaves something behind, and looks for it while the next agent runs.
fn assert_cleaned_up(leave: &str, orphan: &str) {
    let held_up = clean_up(&Sandbox::new(), leave, orphan);
    assert!(held_up < HELD_UP, "held up for {held_up:?}");
}

/// The same. Answers how long the next agent had to wait.
fn clean_up(sandbox: &Sandbox, leave: &str, orphan: &str) -> Duration {
    // What is measured is the ending of processes, not how fast a debug build scans ten megabytes.
    sandbox.config("loop:\n  max_output_buffer: 64KB\n");
    let script =
        format!("{leave}\ntouch left\n---\ntouch next\nawait go\nprint <promise>SUCCESS</promise>");
    let running = sandbox.build(&script, []).start();
    sandbox.wait_for("next");
    let survivors = processes_with(orphan);
    sandbox.file("go", "");
    let ran = running.finish();
    assert_eq!(survivors, Vec::<String>::new(), "{ran}");
    assert_eq!(ran.code, Some(0), "{ran}");
    let notice = "Iteration 1/5: ended 1 process that the agent left behind\n";
    assert!(
        ran.log().contains(notice),
        "there was nothing to end:\n{ran}"
    );
    let changed = |name: &str| {
        fs::metadata(sandbox.path(name))
            .unwrap()
            .modified()
            .unwrap()
    };
    changed("next").duration_since(changed("left")).unwrap()
}

#[test]
fn an_orphan_in_the_group_is_ended() {
    let sleep = unique_sleep();
    assert_cleaned_up(&format!("spawn {sleep}"), &sleep);
}

#[test]
fn an_orphan_in_a_session_of_its_own_is_ended() {
    let sleep = unique_sleep();
    assert_cleaned_up(&format!("setsid {sleep}"), &sleep);
}

#[test]
fn a_daemon_is_ended() {
    let sleep = unique_sleep();
    assert_cleaned_up(&format!("daemon {sleep}"), &sleep);
}

#[test]
fn an_orphan_that_ignores_sigterm_is_ended() {
    let sleep = unique_sleep();
    let leave =
        format!("setsid sh -c 'trap \"\" TERM; touch trapped; exec {sleep}'\nawait trapped");
    assert_cleaned_up(&leave, &sleep);
}

#[test]
fn an_orphan_that_prints_for_good_is_ended() {
    let sandbox = Sandbox::new();
    let name = unique_sleep().replace(' ', "-");
    sandbox.file(&name, "every 10 still here");
    let printer = format!("{} {name}", env!("CARGO_BIN_EXE_fake_agent"));
    let held_up = clean_up(&sandbox, &format!("spawn {printer}"), &printer);
    assert!(held_up < HELD_UP, "held up for {held_up:?}");
}

#[test]
fn an_orphan_that_floods_is_ended() {
    let text = unique_sleep();
    // It competes for the processor with all that is measured, so this has no bound of time.
    clean_up(
        &Sandbox::new(),
        &format!("spawn yes {text}"),
        &format!("yes {text}"),
    );
}

#[test]
fn a_stopped_orphan_is_ended() {
    let sleep = unique_sleep();
    let leave = format!("setsid sh -c 'touch started; kill -STOP $$; exec {sleep}'\nawait started");
    assert_cleaned_up(&leave, &sleep);
}

#[test]
fn a_child_that_was_there_before_is_left_alone() {
    let sandbox = Sandbox::new();
    let (own, left) = (unique_sleep(), unique_sleep());
    let ran = sandbox
        .build(&format!("spawn {left}"), ["-n", "2"])
        .by_shell(&format!("{own} >/dev/null 2>&1 & exec \"$@\""))
        .run();
    let still_there = processes_with(&own);
    for pid in &still_there {
        send(pid, Signal::KILL);
    }
    assert_eq!(still_there.len(), 1, "{ran}");
    assert_eq!(processes_with(&left), Vec::<String>::new());
    assert_eq!(ran.code, Some(2), "{ran}");
    let notices = ran
        .log()
        .matches("ended 1 process that the agent left behind")
        .count();
    assert_eq!(notices, 2, "{ran}");
}

#[test]
fn orphans_that_end_while_the_agent_runs_leave_no_zombies() {
    let sandbox = Sandbox::new();
    let script = format!("{}touch ready\nawait go", "daemon true\n".repeat(50));
    let running = sandbox.build(&script, ["-n", "1"]).start();
    let agent = sandbox.wait_for("ready");
    wait_until("the reaping of all orphans", || {
        let children = children_of(&running.pid);
        (children == [agent.as_str()]).then_some(())
    });
    sandbox.file("go", "");
    assert_eq!(running.finish().code, Some(2));
}

/// The children of a process, zombies included.
fn children_of(parent: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|pid| state(pid).is_some_and(|(_, its_parent)| its_parent == parent))
        .collect()
}

#[test]
fn the_agent_dies_with_rooda() {
    let sandbox = Sandbox::new();
    let script = "ignore TERM\nignore HUP\ntouch ready\nhang";
    let running = sandbox.build(script, []).start();
    let agent = sandbox.wait_for("ready");
    running.signal(Signal::KILL);
    assert_eq!(running.finish().code, None);
    wait_until("the agent's end", || (!is_alive(&agent)).then_some(()));
}

/// More than any pipe holds.
fn large_context(sandbox: &Sandbox) -> [&'static str; 4] {
    sandbox.file("large.txt", &"all work and no play\n".repeat(200_000));
    ["-n", "1", "-c", "@large.txt"]
}

#[test]
fn an_agent_may_close_its_input_unread() {
    let sandbox = Sandbox::new();
    let script = "close stdin\nsleep 50\nprint <promise>SUCCESS</promise>";
    let ran = sandbox.build(script, large_context(&sandbox)).run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn an_agent_may_never_read_its_input() {
    let sandbox = Sandbox::new();
    let script = "sleep 50\nprint <promise>SUCCESS</promise>";
    let ran = sandbox.build(script, large_context(&sandbox)).run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn a_large_prompt_arrives_whole_while_output_is_read() {
    let sandbox = Sandbox::new();
    // An agent that talks before it listens blocks for good unless both directions move.
    let script = "flood 5000000\nsave prompt\nflood 5000000\nprint \\n<promise>SUCCESS</promise>";
    let ran = sandbox.build(script, large_context(&sandbox)).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    let prompt = sandbox.read("prompt");
    assert!(prompt.contains(sandbox.read("large.txt").trim_end()));
    let last = sandbox
        .rooda(["build", "-c", "@large.txt", "--ai-cmd", "true", "-d"])
        .run();
    assert!(
        last.stdout.contains(prompt.trim_end()),
        "the prompt is not whole"
    );
}

#[test]
fn an_agent_that_closes_its_output_may_go_on_working() {
    let sandbox = Sandbox::new();
    let script =
        "print <promise>SUCCESS</promise>\nclose stdout\nclose stderr\nsleep 700\nwrite worked yes";
    let ran = sandbox.build(script, ["-n", "1"]).run();
    assert_eq!(sandbox.read("worked"), "yes");
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn nul_bytes_are_bytes() {
    let sandbox = Sandbox::new();
    let script = r"raw a\x00b\x00\n
                   exit 1
                   ---
                   raw \x00\x00<promise>SUCCESS</promise>\x00";
    let ran = sandbox.build(script, []).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stderr.contains("\n  | ab\n"), "{ran}");
}

#[test]
fn of_a_flood_only_the_end_is_kept() {
    let sandbox = Sandbox::new();
    sandbox.config("loop:\n  max_output_buffer: 64KB\n");
    let script =
        "print <promise>FAILURE</promise>\nflood 209715200\nprint \\n<promise>SUCCESS</promise>";
    let ran = sandbox.build(script, ["-n", "1"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    let warning = "[TIME] Iteration 1/1: output truncated: kept the last 64KB of 209,715,255 bytes; \
                   what came before is not scanned\n";
    assert!(ran.log().contains(warning), "{ran}");
}

#[test]
fn a_promise_before_the_cut_is_lost() {
    let sandbox = Sandbox::new();
    sandbox.config("loop:\n  max_output_buffer: 1KB\n");
    let script = "print <promise>SUCCESS</promise>\nflood 2000";
    let ran = sandbox.build(script, ["-n", "1"]).run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(
        ran.log().contains("kept the last 1KB of 2,027 bytes"),
        "{ran}"
    );
}

#[test]
fn a_failure_shows_the_last_lines_of_both_streams() {
    let sandbox = Sandbox::new();
    let script = "print a line\neprint what went wrong\nraw the end\nexit 1";
    let ran = sandbox.build(script, ["-n", "1"]).run();
    let mut shown = last_lines(&ran.stderr);
    // The order between the streams is that of arrival, and two pipes have none of their own.
    shown.sort_unstable();
    assert_eq!(shown, ["a line", "the end", "what went wrong"], "{ran}");
}

#[test]
fn the_last_lines_are_not_many() {
    let sandbox = Sandbox::new();
    let lines: String = (1..=30)
        .map(|number| format!("print line {number}\n"))
        .collect();
    let ran = sandbox.build(&format!("{lines}exit 1"), ["-n", "1"]).run();
    let expected: Vec<String> = (16..=30).map(|number| format!("line {number}")).collect();
    assert_eq!(last_lines(&ran.stderr), expected, "{ran}");
}

fn last_lines(log: &str) -> Vec<&str> {
    let (_, shown) = log.split_once("  The agent's last lines:\n").unwrap();
    shown
        .lines()
        .map_while(|line| line.strip_prefix("  | "))
        .collect()
}

#[test]
fn children_of_an_escaped_process_are_asked_to_end_too() {
    let sandbox = Sandbox::new();
    // The child takes no notice; the grandchild notes that it was asked, which only SIGTERM gives it time for.
    sandbox.file(
        "child.sh",
        "trap : TERM\nsh grandchild.sh &\nwhile :; do wait; sleep 0.02; done\n",
    );
    sandbox.file(
        "grandchild.sh",
        "trap 'echo asked >asked; exit' TERM\necho >ready\nwhile :; do sleep 0.02; done\n",
    );
    let ran = sandbox
        .build("setsid sh child.sh\nawait ready", ["-n", "1"])
        .run();
    assert_eq!(sandbox.read("asked"), "asked\n", "{ran}");
}

#[test]
fn a_process_whose_name_is_cut_within_a_character_is_ended() {
    let sandbox = Sandbox::new();
    // The kernel keeps 15 bytes of a name.
    let name = "0123456789abcdü";
    copy_program("/bin/sleep", &sandbox.path(name));
    let ran = sandbox
        .build(&format!("setsid ./{name} 4711"), ["-n", "1"])
        .run();
    assert!(
        ran.log()
            .contains("ended 1 process that the agent left behind"),
        "{ran}"
    );
    assert_eq!(processes_with(&format!("{name} 4711")), [""; 0]);
}
