//! What rooda adds to the time and memory of its agents. Every figure stands beside a floor that was measured in the same
//! run; ratios are medians of five. `cargo bench` runs it, `cargo bench -- capture` a part.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program, outside of the house"
)]

use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rooda::agent::{Decoder, Transcript};
use rooda::config::Format;
use rooda::iteration::Stream;
use serde::de::IgnoredAny;
use tempfile::TempDir;

const ROODA: &str = env!("CARGO_BIN_EXE_rooda");
const FAKE_AGENT: &str = env!("CARGO_BIN_EXE_fake_agent");
const RUNS: usize = 5;

/// A name, and what measures it and answers whether its bound was kept.
type Part = (&'static str, fn() -> bool);

fn main() -> ExitCode {
    let filter = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let parts: [Part; 8] = [
        ("startup", startup),
        ("iterations", iterations),
        ("jailed", jailed),
        ("shown", shown),
        ("capture", capture),
        ("interrupt", interrupt),
        ("memory", memory),
        ("decoded", decoded),
    ];
    let mut well = true;
    for (name, measure) in parts {
        if filter.as_ref().is_none_or(|filter| name.contains(filter)) {
            well &= measure();
        }
    }
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Tells a figure and whether it keeps its bound.
fn told(what: &str, figure: String, bound: &str, kept: bool) -> bool {
    let verdict = if kept { "kept" } else { "NOT KEPT" };
    println!("{what:<34} {figure:<56} bound {bound}: {verdict}");
    kept
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn timed<T>(action: impl FnOnce() -> T) -> f64 {
    let started = Instant::now();
    action();
    started.elapsed().as_secs_f64()
}

/// `rooda loop` in an empty folder, without anybody's configuration.
fn rooda(folder: &TempDir, agent: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(ROODA);
    command
        .args(["loop", "task", "--ai-cmd", agent])
        .args(arguments)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn scripted(folder: &TempDir, script: &str) -> String {
    let path = folder.path().join("script");
    fs::write(&path, script).unwrap();
    format!("{FAKE_AGENT} {}", path.display())
}

fn startup() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let time = |program: &str, arguments: &[&str]| {
        let run = || {
            let mut command = Command::new(program);
            command.args(arguments).env("HOME", folder.path());
            timed(|| command.stdout(Stdio::null()).status().unwrap()) * 1e3
        };
        median((0..21).map(|_| run()).collect())
    };
    let floor = time("true", &[]);
    let version = time(ROODA, &["--version"]);
    let list = time(ROODA, &["list"]);
    let figure = format!("--version {version:.1} ms, list {list:.1} ms, `true` {floor:.1} ms");
    told("startup", figure, "10 ms", version < 10.0 && list < 10.0)
}

fn iterations() -> bool {
    const COUNT: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let bare = || {
        for _ in 0..COUNT {
            let mut child = Command::new("true")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut output = Vec::new();
            child
                .stdout
                .take()
                .unwrap()
                .read_to_end(&mut output)
                .unwrap();
            child.wait().unwrap();
        }
    };
    let (mut floors, mut overheads) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let floor = timed(bare);
        let mut command = rooda(&folder, "true", &["-n", &COUNT.to_string()]);
        let ours = timed(|| command.status().unwrap());
        floors.push(floor / COUNT as f64 * 1e3);
        overheads.push((ours - floor) / COUNT as f64 * 1e3);
    }
    let (floor, overhead) = (median(floors), median(overheads));
    let ratio = (floor + overhead) / floor;
    let figure =
        format!("{overhead:.2} ms over {floor:.2} ms per iteration of `true` ({ratio:.2} x)");
    told("200 iterations", figure, "1 ms", overhead <= 1.0)
}

/// `rooda action` as the first process of a container made of namespaces, in which nothing of this machine is changed.
/// The inputs have underscores in their names, because not every shell passes on a variable with a hyphen.
fn action(agent: &str, inputs: &[(&str, &str)]) -> Command {
    const CONTAINER: &str = "set -e
        mount -t tmpfs none /mnt; mkdir /mnt/workspace /mnt/commands /mnt/temp
        touch /mnt/commands/output /mnt/commands/summary; chown -R 1001:1001 /mnt
        cp /etc/passwd /etc/group /mnt; mount --bind /mnt/passwd /etc/passwd; mount --bind /mnt/group /etc/group
        mount -t tmpfs none /home; mount -t tmpfs none /opt; cp \"$0\" /opt; exec /opt/rooda action";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"])
        .args(["sh", "-c", CONTAINER, ROODA])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_WORKSPACE", "/mnt/workspace")
        .env("GITHUB_OUTPUT", "/mnt/commands/output")
        .env("GITHUB_STEP_SUMMARY", "/mnt/commands/summary")
        .env("RUNNER_TEMP", "/mnt/temp")
        .env("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef")
        .env("INPUT_PROMPT", "x")
        .env("INPUT_AI_CMD", agent)
        .envs(inputs.iter().copied())
        .stdin(Stdio::null());
    command
}

/// Whether a container can be made; says so if not.
fn is_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("{what:<34} SKIPPED: it needs root");
    }
    is_root
}

fn jailed() -> bool {
    const COUNT: usize = 200;
    if !is_root("200 iterations in the action") {
        return true;
    }
    let run = |count: usize| {
        let limit = count.to_string();
        let mut command = action("true", &[("INPUT_MAX_ITERATIONS", limit.as_str())]);
        timed(|| {
            let status = command.stdout(Stdio::null()).status().unwrap();
            assert_eq!(status.code(), Some(2), "the limit ends the run");
        })
    };
    let spawn = || timed(|| Command::new("true").stdout(Stdio::null()).status().unwrap());
    let (mut floors, mut overheads) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let floor = median((0..COUNT).map(|_| spawn()).collect()) * 1e3;
        // What comes before the first iteration is not an iteration's.
        let each = (run(COUNT + 1) - run(1)) / COUNT as f64 * 1e3;
        floors.push(floor);
        overheads.push(each - floor);
    }
    let (floor, overhead) = (median(floors), median(overheads));
    let figure = format!("{overhead:.2} ms over {floor:.2} ms per iteration of `true`");
    let kept = overhead <= 3.0;
    told("200 iterations in the action", figure, "3 ms", kept)
}

/// Output that is shown goes through the fence and past the guard that takes out secrets.
fn shown() -> bool {
    const BYTES: usize = 200_000_000;
    if !is_root("200 MB shown in the action") {
        return true;
    }
    let script = format!("yes 'a line like those that agents print' | head -c {BYTES}");
    let agent = format!("bash -c \"{script}\"");
    let (mut floors, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let pipe = format!("{script} | cat >/dev/null");
        let floor = timed(|| Command::new("bash").args(["-c", &pipe]).status().unwrap());
        let mut command = action(
            &agent,
            &[("INPUT_VERBOSE", "true"), ("INPUT_MAX_ITERATIONS", "1")],
        );
        command.stdout(Stdio::piped());
        let ours = timed(|| {
            let mut child = command.spawn().unwrap();
            let mut output = child.stdout.take().unwrap();
            let count = std::io::copy(&mut output, &mut std::io::sink()).unwrap();
            child.wait().unwrap();
            assert!(count > BYTES as u64, "{count}");
        });
        floors.push(floor);
        ratios.push(ours / floor);
    }
    let (floor, ratio) = (median(floors), median(ratios));
    let figure = format!("{ratio:.2} x of `agent | cat >/dev/null` ({floor:.2} s)");
    told("200 MB shown in the action", figure, "3 x", ratio <= 3.0)
}

fn capture() -> bool {
    const BYTES: usize = 1_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let agent = scripted(&folder, &format!("flood {BYTES}\n"));
    let (mut floors, mut ratios, mut peak) = (Vec::new(), Vec::new(), 0);
    for _ in 0..RUNS {
        let mut piped = Command::new("sh");
        piped.args(["-c", &format!("{agent} | cat >/dev/null")]);
        let floor = timed(|| piped.status().unwrap());
        let mut command = rooda(&folder, &agent, &["-n", "1"]);
        let ours = timed(|| peak = peak.max(watch(command.spawn().unwrap()).peak));
        floors.push(floor);
        ratios.push(ours / floor);
    }
    let (floor, ratio) = (median(floors), median(ratios));
    let figure = format!("{ratio:.2} x of `agent | cat >/dev/null` ({floor:.2} s)");
    let fast = told("capture of 1 GB", figure, "1.5 x", ratio <= 1.5);
    let figure = format!("{:.1} MB resident at most", peak as f64 / 1024.0);
    told("capture of 1 GB", figure, "40 MB", peak < 40 * 1024) && fast
}

fn interrupt() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let bye = folder.path().join("bye");
    let script = format!(
        "on TERM {}\ntouch {}\nhang\n",
        bye.display(),
        ready.display()
    );
    let agent = scripted(&folder, &script);
    let mut times = Vec::new();
    for _ in 0..RUNS {
        for file in [&ready, &bye] {
            fs::remove_file(file).ok();
        }
        let mut child = rooda(&folder, &agent, &[]).spawn().unwrap();
        while !ready.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        while !bye.exists() {
            std::thread::sleep(Duration::from_micros(200));
        }
        times.push(timed(|| child.wait().unwrap()) * 1e3);
    }
    let time = median(times);
    let figure = format!("{time:.0} ms from the agent's own exit to rooda's");
    told("SIGINT, polite agent", figure, "150 ms", time <= 150.0)
}

fn memory() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let mut command = rooda(&folder, "true", &["-n", "10000"]);
    let samples = watch(command.spawn().unwrap()).samples;
    let early = samples[samples.len() / 10];
    let late = samples[samples.len() * 19 / 20];
    let figure = format!("{early} KB resident after a tenth, {late} KB near the end");
    let flat = late <= early + early / 20 + 256;
    told("10,000 iterations", figure, "flat", flat)
}

/// What it costs to understand an agent, beside merely reading its lines as JSON. Plain text is looked at no longer than
/// it takes to see that it is none.
fn decoded() -> bool {
    const BYTES: usize = 10_000_000;
    let recorded = include_str!("../tests/fixtures/agents/claude-edit-stream.jsonl");
    let output = r#"a line of a large file, \"quoted\" and with an \u00fc\n"#.repeat(2000);
    let result = r#"{"tool_use_id":"toolu_1","type":"tool_result","content":"#;
    let result = format!(
        r#"{{"type":"user","session_id":"s","message":{{"role":"user","content":[{result}"{output}"}}]}}}}"#
    );
    // One such file to ten edits.
    let round = format!("{}{result}\n", recorded.repeat(10));
    let stream = round.repeat(BYTES / round.len() + 1).into_bytes();
    let text = b"a line like those that agents print\n".repeat(10 * stream.len() / 36);

    let decode = |format: Format, output: &[u8]| -> Transcript {
        let mut decoder = Decoder::new(format, 10_000_000);
        for chunk in output.chunks(64 << 10) {
            decoder.feed(Stream::Stdout, chunk, &mut |_| {});
        }
        decoder.finish(Some(0), &mut |_| {})
    };
    let (mut times, mut ratios, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let floor = timed(|| {
            for line in stream.split_inclusive(|byte| *byte == b'\n') {
                serde_json::from_slice::<IgnoredAny>(line).unwrap();
            }
        });
        let ours = timed(|| assert!(decode(Format::Claude, &stream).has_ended));
        times.push(ours * 1e3);
        ratios.push(ours / floor);
        plain.push(timed(|| decode(Format::Auto, &text)) * 1e3);
    }
    let (time, ratio, plain) = (median(times), median(ratios), median(plain));
    let size = stream.len() as f64 / 1e6;
    let figure = format!("{time:.0} ms for {size:.1} MB, {ratio:.2} x of skipping the JSON");
    let fast = told("a stream of events", figure, "100 ms", time < 100.0);
    let figure = format!("{plain:.2} ms for {:.0} MB", text.len() as f64 / 1e6);
    told("plain text, not yet known", figure, "10 ms", plain < 10.0) && fast
}

struct Memory {
    /// In KB, while it ran.
    samples: Vec<u64>,
    peak: u64,
}

/// Watches a process until it ends.
fn watch(mut child: Child) -> Memory {
    let status = format!("/proc/{}/status", child.id());
    let mut memory = Memory {
        samples: Vec::new(),
        peak: 0,
    };
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let field = |name: &str| -> Option<u64> {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        memory.samples.extend(field("VmRSS:"));
        memory.peak = memory.peak.max(field("VmHWM:").unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    memory
}
