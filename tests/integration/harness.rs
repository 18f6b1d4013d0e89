//! One sandbox for all tests: folders of its own, an environment of its own, the real program.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longer than anything here takes, on any machine. Reaching it is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A home folder and a workspace, gone when dropped.
pub(crate) struct Sandbox {
    root: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("home")).unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        Sandbox { root }
    }

    /// The workspace, where rooda is started.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// A path below the home folder.
    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.root.path().join("home").join(name)
    }

    /// Writes a file below the workspace.
    pub(crate) fn file(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Writes `rooda-config.yml`.
    pub(crate) fn config(&self, text: &str) -> &Self {
        self.file("rooda-config.yml", text)
    }

    /// Writes the global configuration.
    pub(crate) fn global_config(&self, text: &str) -> &Self {
        let folder = self.root.path().join("home/.config/rooda");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("rooda-config.yml"), text).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes a script for the fake agent (see `tests/bin/fake_agent.rs`) and gives the command line that performs it.
    /// Paths in the script are relative to the workspace.
    pub(crate) fn agent(&self, script: &str) -> String {
        let script: String = script
            .lines()
            .map(|line| format!("{}\n", line.trim()))
            .collect();
        self.file(".agent", script.trim_start_matches('\n'));
        let agent = env!("CARGO_BIN_EXE_fake_agent");
        shell_words::join([agent, self.path(".agent").to_str().unwrap()])
    }

    /// How often the agent was started.
    pub(crate) fn invocations(&self) -> usize {
        fs::read_to_string(self.path(".agent.count"))
            .ok()
            .map_or(0, |count| count.trim().parse().unwrap())
    }

    /// The program with these arguments, to be started in the workspace.
    pub(crate) fn rooda<I: IntoIterator>(&self, arguments: I) -> Rooda<'_>
    where
        I::Item: Into<String>,
    {
        let home = self.root.path().join("home");
        let path = std::env::var("PATH").unwrap();
        Rooda {
            sandbox: self,
            arguments: arguments.into_iter().map(Into::into).collect(),
            // Nothing of the machine's own environment: a run in CI equals one on a laptop.
            environment: BTreeMap::from([
                ("PATH".to_owned(), path),
                ("HOME".to_owned(), home.to_str().unwrap().to_owned()),
                ("TZ".to_owned(), "UTC".to_owned()),
            ]),
            stdin: Vec::new(),
        }
    }

    /// The loop with the built-in procedure `build`, the scripted agent and more arguments.
    pub(crate) fn build<const N: usize>(&self, script: &str, arguments: [&str; N]) -> Rooda<'_> {
        let agent = self.agent(script);
        self.rooda(["build", "--ai-cmd", &agent]).args(arguments)
    }

    /// Waits until a file exists, and gives its content.
    pub(crate) fn wait_for(&self, name: &str) -> String {
        let path = self.path(name);
        wait_until(name, || fs::read_to_string(&path).ok())
    }
}

/// Waits until something is there.
pub(crate) fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited too long for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process exists and is no zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z")
}

/// The pids of all living processes whose command line holds this text.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line)
                .replace('\0', " ")
                .contains(text)
                && is_alive(pid)
        })
        .collect()
}

#[must_use = "nothing happens until it is run or started"]
pub(crate) struct Rooda<'a> {
    sandbox: &'a Sandbox,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    stdin: Vec<u8>,
}

impl Rooda<'_> {
    pub(crate) fn args<I: IntoIterator>(mut self, arguments: I) -> Self
    where
        I::Item: Into<String>,
    {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn stdin(mut self, text: &str) -> Self {
        self.stdin = text.as_bytes().to_vec();
        self
    }

    /// The command, for tests that need more than [`Rooda::run`].
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rooda"));
        command
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(self.sandbox.work());
        command
    }

    /// Runs it to its end and shows it as on a screen: the command line and what came of it.
    pub(crate) fn transcript(self) -> String {
        let line = shell_words::join(&self.arguments);
        let line = steady(&line, self.sandbox.root.path());
        format!("$ rooda {line}\n{}\n", self.run())
    }

    /// Runs it to its end.
    pub(crate) fn run(self) -> Ran {
        self.start().finish()
    }

    /// Starts it, to be signalled or watched.
    pub(crate) fn start(self) -> Running {
        let started = Instant::now();
        let mut child = self
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&self.stdin).ok();
        drop(stdin);
        Running {
            child,
            started,
            root: self.sandbox.root.path().to_owned(),
        }
    }
}

pub(crate) struct Running {
    child: Child,
    started: Instant,
    root: PathBuf,
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end. One that never comes is a failure, not a test that hangs.
    pub(crate) fn finish(self) -> Ran {
        let pid = Pid::from_child(&self.child);
        let (ended, end) = mpsc::channel::<()>();
        let watchdog = thread::spawn(move || {
            if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                kill_process(pid, Signal::KILL).ok();
            }
        });
        let output = self.child.wait_with_output().unwrap();
        drop(ended);
        watchdog.join().unwrap();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            code: code(output.status),
            elapsed: self.started.elapsed(),
            root: self.root,
        }
    }
}

fn code(status: ExitStatus) -> Option<i32> {
    status.code()
}

/// What a run left: compare it as a snapshot, or its parts.
#[must_use = "compare it"]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// `None`: ended by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) elapsed: Duration,
    root: PathBuf,
}

impl Ran {
    /// The log without times.
    pub(crate) fn log(&self) -> String {
        steady(&self.stderr, &self.root)
    }
}

/// Everything at once, with what differs between runs made equal.
impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.code {
            Some(code) => writeln!(f, "exit code: {code}")?,
            None => writeln!(f, "ended by a signal")?,
        }
        write!(
            f,
            "----- stdout -----\n{}",
            steady(&self.stdout, &self.root)
        )?;
        write!(
            f,
            "----- stderr -----\n{}",
            steady(&self.stderr, &self.root)
        )
    }
}

/// Replaces folders, times of day and durations.
fn steady(text: &str, root: &Path) -> String {
    let text = text
        .replace(env!("CARGO_BIN_EXE_fake_agent"), "[FAKE_AGENT]")
        .replace(root.to_str().unwrap(), "[ROOT]");
    text.split_inclusive('\n').map(steady_line).collect()
}

fn steady_line(line: &str) -> String {
    let is_time = |text: &str| {
        text.len() == 8
            && text.char_indices().all(|(at, c)| {
                if at == 2 || at == 5 {
                    c == ':'
                } else {
                    c.is_ascii_digit()
                }
            })
    };
    let mut line = line.to_owned();
    if line.starts_with('[') && line.get(1..9).is_some_and(is_time) {
        line.replace_range(1..9, "TIME");
    }
    for before in [
        "completed in ",
        "total: ",
        "min=",
        "max=",
        "mean=",
        "stddev=",
    ] {
        if let Some(at) = line.find(before) {
            let start = at + before.len();
            let length = line[start..].find([' ', ',', ')', '\n']).unwrap_or(0);
            if line[start..].starts_with(|c: char| c.is_ascii_digit()) {
                line.replace_range(start..start + length, "[ELAPSED]");
            }
        }
    }
    line
}
