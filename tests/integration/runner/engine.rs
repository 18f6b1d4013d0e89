//! Where containers come from, and what can be asked about one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::thread;

use rustix::process::{Pid, Signal, geteuid, pidfd_send_signal};

use super::docker::{self, Docker};
use super::namespaces::{self, Namespace};

#[derive(Clone, Debug)]
pub(super) enum Engine {
    Docker(Docker),
    Namespaces,
}

/// What is to be run, and around what.
#[derive(Debug)]
pub(super) struct Launch {
    /// `None`: the action's own.
    pub(super) entrypoint: Option<String>,
    /// As the runner appends them to its command line, to be split.
    pub(super) args: String,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) mounts: Vec<Mount>,
    /// A folder on the host in which the command is started.
    pub(super) workspace: PathBuf,
    /// An empty folder for the engine's own use.
    pub(super) scratch: PathBuf,
    pub(super) name: String,
}

#[derive(Clone, Debug)]
pub(super) struct Mount {
    pub(super) host: PathBuf,
    pub(super) inside: String,
    pub(super) read_only: bool,
}

/// A started container, seen from its client.
pub(super) struct Started {
    pub(super) client: Client,
    pub(super) container: Container,
    pub(super) stdout: Box<dyn Read + Send>,
    pub(super) stderr: Box<dyn Read + Send>,
    pub(super) ended: Receiver<ExitStatus>,
}

/// What the runner signals: the command line tool of docker. In namespaces there is no such process; the first process of
/// the container gets what the tool would hand on, and nobody dies in its place.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) process: Arc<OwnedFd>,
    pub(super) is_container: bool,
}

impl Client {
    pub(super) fn signal(&self, signal: Signal) {
        // It may just have ended.
        pidfd_send_signal(&self.process, signal).ok();
    }

    /// The end of the client is not the end of the container.
    pub(super) fn kill(&self) {
        if !self.is_container {
            self.signal(Signal::KILL);
        }
    }
}

#[derive(Debug)]
pub(super) enum Container {
    Docker(docker::Handle),
    Namespace(Arc<Namespace>),
}

/// A process in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) uid: u32,
    pub(crate) command: String,
}

impl Container {
    /// The number on the host of the first process, while it lives.
    fn init(&self) -> Option<Pid> {
        match self {
            Container::Docker(handle) => handle.init(),
            Container::Namespace(namespace) => namespace.init(),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.init().is_some()
    }

    /// Everything that lives in the container, found by its namespace.
    pub(super) fn processes(&self) -> Vec<Process> {
        let Some(init) = self.init() else {
            return Vec::new();
        };
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let ours = namespace(&init.as_raw_nonzero().to_string());
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .filter(|pid| ours.is_some() && namespace(pid) == ours)
            .filter_map(|pid| process(&pid))
            .collect()
    }

    pub(super) fn kill(&self) {
        match self {
            Container::Docker(handle) => handle.remove(),
            Container::Namespace(namespace) => namespace.kill(),
        }
    }
}

fn process(pid: &str) -> Option<Process> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    // One that has ended has no command line any more.
    (!command.is_empty()).then(|| Process {
        uid: uid.split_whitespace().next().unwrap().parse().unwrap(),
        command: command.trim_end().to_owned(),
    })
}

impl Engine {
    /// The engine of this test run. `None`: there is none, and it was said aloud.
    pub(super) fn find() -> Option<Engine> {
        static FOUND: OnceLock<Result<Engine, String>> = OnceLock::new();
        match FOUND.get_or_init(|| choose(std::env::var("ROODA_TEST_ENGINE").ok().as_deref())) {
            Ok(engine) => Some(engine.clone()),
            Err(why) => {
                assert!(std::env::var_os("ROODA_TEST_ENGINE").is_none(), "{why}");
                let test = thread::current().name().unwrap_or_default().to_owned();
                say(&format!("SKIPPED: {test}: {why}"));
                None
            }
        }
    }

    pub(super) fn start(&self, launch: &Launch) -> io::Result<Started> {
        match self {
            Engine::Docker(docker) => docker.start(launch),
            Engine::Namespaces => namespaces::start(launch),
        }
    }
}

/// Past the capture of the test harness, which shows nothing of tests that pass.
fn say(line: &str) {
    io::stderr()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
}

fn choose(demanded: Option<&str>) -> Result<Engine, String> {
    if !geteuid().is_root() {
        return Err(
            "the runner's folders belong to several users, so that only root can make them"
                .to_owned(),
        );
    }
    let docker = || Docker::find().map(Engine::Docker);
    let namespaces = || namespaces::try_out().map(|()| Engine::Namespaces);
    match demanded {
        Some("docker") => docker(),
        Some("namespaces") => namespaces(),
        None => docker().or_else(|no_docker| {
            if std::env::var_os("ROODA_TEST_IMAGE").is_some() {
                say(&format!("{no_docker}: namespaces are used in its place"));
            }
            namespaces().map_err(|no_namespaces| format!("{no_docker}; {no_namespaces}"))
        }),
        Some(other) => Err(format!(
            "ROODA_TEST_ENGINE is {other}: docker or namespaces"
        )),
    }
}
