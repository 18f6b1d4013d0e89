//! One sandbox for all tests: folders of its own, an environment of its own, the real program.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, ioctl_tiocsctty, kill_process, setsid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

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

    /// Puts a shell script of this name into the folder `bin`, and gives the folder, to be a PATH of its own.
    pub(crate) fn program(&self, name: &str, script: &str) -> String {
        self.script(&format!("bin/{name}"), "#!/bin/sh", script);
        self.path("bin").to_str().unwrap().to_owned()
    }

    /// Writes a script. Another process does it: no child of this one can then hold it open for writing, which would keep
    /// it from being run.
    pub(crate) fn script(&self, name: &str, first_line: &str, script: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = format!("{first_line}\nPATH=/usr/bin:/bin\n{script}\n");
        let write = "printf %s \"$2\" >\"$1\" && chmod +x \"$1\"";
        let status = Command::new("sh")
            .args(["-c", write, "sh", path.to_str().unwrap(), &text])
            .status();
        assert!(status.unwrap().success(), "{name}");
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
            wrapper: Vec::new(),
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

/// A `sleep` that no other test has: it can be found by its command line.
pub(crate) fn unique_sleep() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1000);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("sleep 9{}.{number}", std::process::id())
}

/// Whether a process exists and is no zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    state(pid).is_some_and(|(state, _)| state != "Z")
}

/// The state of a process and its parent.
pub(crate) fn state(pid: &str) -> Option<(String, String)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
    let mut rest = stat.rsplit(')').next()?.split_whitespace();
    Some((rest.next()?.to_owned(), rest.next()?.to_owned()))
}

/// Signals a process by the pid that it wrote down.
pub(crate) fn send(pid: &str, signal: Signal) {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
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
    wrapper: Vec<String>,
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

    /// Lets a shell start it: `"$@"` in the script is the program with its arguments.
    pub(crate) fn by_shell(mut self, script: &str) -> Self {
        self.wrapper = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
        self
    }

    /// The command, for tests that need more than [`Rooda::run`].
    pub(crate) fn command(&self) -> Command {
        let rooda = env!("CARGO_BIN_EXE_rooda").to_owned();
        let words: Vec<&String> = self.wrapper.iter().chain([&rooda]).collect();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
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
        let mut command = self.command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.watch(command, None)
    }

    /// Starts it with an output that nobody reads: its pipe is full after a while. Keep the other end.
    pub(crate) fn start_unread(self) -> (Running, io::PipeReader) {
        let (unread, stdout) = io::pipe().unwrap();
        let mut command = self.command();
        command
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::piped());
        (self.watch(command, None), unread)
    }

    /// Starts it on a terminal of its own: all three streams, and the keys.
    pub(crate) fn start_on_terminal(self) -> Running {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 200,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = ioctl_tiocgptpeer(&master, flags).unwrap();
        let mut command = self.command();
        command
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal);
        #[expect(unsafe_code, reason = "the terminal must become the child's own")]
        // SAFETY: the closure makes two system calls and touches no memory that another thread could hold locked.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                ioctl_tiocsctty(io::stdin().as_fd())?;
                Ok(())
            });
        }
        self.watch(command, Some(master))
    }

    fn watch(&self, mut command: Command, terminal: Option<OwnedFd>) -> Running {
        heed_signals();
        let started = Instant::now();
        let mut child = command.spawn().unwrap();
        // The command holds our copies of what the child was given. A terminal ends with its last copy.
        drop(command);
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(&self.stdin).ok();
        }
        let terminal = terminal.map(File::from);
        let stdout = match (&terminal, child.stdout.take()) {
            (Some(terminal), _) => Listener::start(terminal.try_clone().unwrap()),
            (None, Some(stdout)) => Listener::start(stdout),
            (None, None) => Listener::start(io::empty()),
        };
        let stderr = match child.stderr.take() {
            Some(stderr) => Listener::start(stderr),
            None => Listener::start(io::empty()),
        };
        let pid = child.id().to_string();
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            let status = child.wait().unwrap();
            sender.send((status, Instant::now())).ok();
        });
        Running {
            pid,
            ended,
            has_ended: false,
            stdout,
            stderr,
            terminal,
            started,
            root: self.sandbox.root.path().to_owned(),
        }
    }
}

/// A signal that this test run ignores, because it is a background job of a script, would be ignored by rooda too. One
/// that has a handler is not ignored by what is started.
fn heed_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _context = runtime.enter();
        for name in [Signal::INT, Signal::TERM, Signal::HUP] {
            let number = name.as_raw();
            if ignored & (1 << (number - 1)) != 0 {
                drop(signal(SignalKind::from_raw(number)).unwrap());
            }
        }
    });
}

/// Reads a stream to its end, in the background.
struct Listener {
    heard: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl Listener {
    fn start(mut stream: impl Read + Send + 'static) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let all = heard.clone();
        let thread = thread::spawn(move || {
            let mut chunk = [0; 1 << 16];
            // A terminal that nobody holds any more is an error here, not an end.
            while let Ok(count @ 1..) = stream.read(&mut chunk) {
                all.lock().unwrap().extend_from_slice(&chunk[..count]);
            }
        });
        Listener { heard, thread }
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }

    fn all(&mut self) -> Vec<u8> {
        wait_until("the end of the output", || {
            self.thread.is_finished().then_some(())
        });
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

pub(crate) struct Running {
    pub(crate) pid: String,
    ended: mpsc::Receiver<(ExitStatus, Instant)>,
    has_ended: bool,
    stdout: Listener,
    stderr: Listener,
    terminal: Option<File>,
    started: Instant,
    root: PathBuf,
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.pid, signal);
    }

    /// Presses keys on its terminal.
    pub(crate) fn press(&mut self, keys: &[u8]) {
        let terminal = self.terminal.as_mut().expect("it is not on a terminal");
        terminal.write_all(keys).unwrap();
    }

    /// Waits until standard output, or the terminal, shows a text.
    pub(crate) fn wait_for_output(&self, text: &str) -> String {
        wait_until(text, || {
            Some(self.stdout.so_far()).filter(|heard| heard.contains(text))
        })
    }

    /// Waits until the log shows a text.
    pub(crate) fn wait_for_log(&self, text: &str) -> String {
        wait_until(text, || {
            Some(self.stderr.so_far()).filter(|heard| heard.contains(text))
        })
    }

    pub(crate) fn finish(mut self) -> Ran {
        let Ok((status, at)) = self.ended.recv_timeout(PATIENCE) else {
            panic!(
                "it does not end:\n{}{}",
                self.stdout.so_far(),
                self.stderr.so_far()
            );
        };
        self.has_ended = true;
        let (stdout, stderr) = (self.stdout.all(), self.stderr.all());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            stdout: text(&stdout),
            stderr: text(&stderr),
            stdout_bytes: stdout,
            code: status.code(),
            at,
            elapsed: at - self.started,
            root: self.root.clone(),
        }
    }
}

/// A test that fails leaves nothing running.
impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended && self.ended.try_recv().is_err() {
            self.signal(Signal::KILL);
        }
    }
}

/// What a run left: compare it as a snapshot, or its parts.
#[must_use = "compare it"]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stdout_bytes: Vec<u8>,
    pub(crate) stderr: String,
    /// `None`: ended by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) elapsed: Duration,
    /// When it ended.
    pub(crate) at: Instant,
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
