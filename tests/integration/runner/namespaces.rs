//! Containers without docker: a process in namespaces of its own, the first one of its world, on a copy of this machine's
//! files that takes every change to itself.
//!
//! As in docker: no init, no terminal, an empty standard input, docker's default capabilities, a fresh `/proc`, `/dev` and
//! `/tmp`. Not as in docker: no seccomp filter, no cgroup, the network of the machine.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::acts::acts;
use super::arguments;
use super::engine::{Client, Container, Launch, Started};
use crate::harness::wait_until;

/// What the image sets.
const IMAGE: [(&str, &str); 2] = [("PATH", PATH), ("LANG", "C.UTF-8")];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The action's entry point, as the Dockerfile has it.
pub(super) const ENTRYPOINT: [&str; 2] = ["/usr/local/bin/rooda", "action"];
#[derive(Debug)]
pub(super) struct Namespace {
    init: Pid,
    /// Stands for the first process even when its number has become another's.
    handle: Arc<OwnedFd>,
    has_ended: AtomicBool,
}

impl Namespace {
    pub(super) fn init(&self) -> Option<Pid> {
        (!self.has_ended.load(Ordering::SeqCst)).then_some(self.init)
    }

    /// With the first process all others end. Their folders are free when it has ended.
    pub(super) fn kill(&self) {
        if self.init().is_some() {
            pidfd_send_signal(&self.handle, Signal::KILL).ok();
            wait_until("the end of a container", || {
                self.init().is_none().then_some(())
            });
        }
    }
}

/// Whether it works here at all.
pub(super) fn try_out() -> Result<(), String> {
    let scratch = tempfile::tempdir().unwrap();
    let launch = Launch {
        entrypoint: Some("/bin/true".to_owned()),
        args: String::new(),
        environment: [].into(),
        mounts: Vec::new(),
        workspace: "/".into(),
        scratch: scratch.path().to_owned(),
        name: "try-out".to_owned(),
    };
    let started = start(&launch).map_err(|error| format!("no namespaces: {error}"))?;
    let status = started.ended.recv().unwrap();
    let succeeded = status.success().then_some(());
    succeeded.ok_or_else(|| format!("no namespaces: {status}"))
}

pub(super) fn start(launch: &Launch) -> io::Result<Started> {
    let (mut command, told) = command(launch);
    let (send_started, started) = mpsc::channel();
    let (send_ended, ended) = mpsc::channel();
    // The first child of a thread with a namespace of its own for children is the first process in there. The thread
    // stays: when it goes, the container does.
    thread::spawn(move || {
        let child = enter_and_spawn(&mut command);
        drop(command);
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return send_started.send(Err(error)).unwrap(),
        };
        let init = Pid::from_child(&child);
        let namespace = Arc::new(Namespace {
            init,
            handle: Arc::new(pidfd_open(init, PidfdFlags::empty()).unwrap()),
            has_ended: AtomicBool::new(false),
        });
        let streams = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        send_started.send(Ok((namespace.clone(), streams))).unwrap();
        let status = child.wait().unwrap();
        namespace.has_ended.store(true, Ordering::SeqCst);
        send_ended.send(status).ok();
    });
    let (namespace, (stdout, stderr)) = match started.recv().unwrap() {
        Ok(started) => started,
        Err(error) => return not_started(error, told),
    };
    Ok(Started {
        client: Client {
            process: namespace.handle.clone(),
            is_container: true,
        },
        container: Container::Namespace(namespace),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        ended,
    })
}

/// A program that is not there, or cannot be run, is the action's fault: docker ends with 127 or 126 then.
fn not_started(error: io::Error, mut told: io::PipeReader) -> io::Result<Started> {
    let mut act = String::new();
    told.read_to_string(&mut act)?;
    let code = match error.kind() {
        _ if !act.is_empty() => return Err(io::Error::other(format!("{act}: {error}"))),
        io::ErrorKind::NotFound => 127,
        io::ErrorKind::PermissionDenied => 126,
        _ => return Err(error),
    };
    let (sender, ended) = mpsc::channel();
    sender.send(ExitStatus::from_raw(code << 8)).unwrap();
    // Nobody signals what has ended.
    let init = getpid();
    let handle = Arc::new(pidfd_open(init, PidfdFlags::empty())?);
    let namespace = Namespace {
        init,
        handle: handle.clone(),
        has_ended: AtomicBool::new(true),
    };
    let line = format!("docker: Error response from daemon: {error}\n");
    Ok(Started {
        client: Client {
            process: handle,
            is_container: true,
        },
        container: Container::Namespace(Arc::new(namespace)),
        stdout: Box::new(io::empty()),
        stderr: Box::new(io::Cursor::new(line)),
        ended,
    })
}

fn enter_and_spawn(command: &mut Command) -> io::Result<Child> {
    #[expect(unsafe_code, reason = "there is no safe way to say it")]
    // SAFETY: it concerns the children of this thread alone; no descriptor is unshared.
    unsafe {
        unshare_unsafe(UnshareFlags::NEWPID)?;
    }
    command.spawn()
}

/// The command, and a pipe that tells which act failed, if one did.
fn command(launch: &Launch) -> (Command, io::PipeReader) {
    let args = arguments::split(&launch.args);
    let mut words: Vec<String> = match &launch.entrypoint {
        Some(program) => vec![program.clone()],
        None => ENTRYPOINT.map(str::to_owned).to_vec(),
    };
    // Arguments take the place of the image's command, of which there is none.
    words.extend(args);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env_clear()
        .envs(IMAGE)
        .env("HOSTNAME", &launch.name)
        .envs(&launch.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (told, tell) = io::pipe().unwrap();
    let acts = acts(launch);
    #[expect(
        unsafe_code,
        reason = "the new process builds its own world before it becomes the program"
    )]
    // SAFETY: all texts are made beforehand; each act is one system call or a few, and none takes memory or a lock.
    unsafe {
        command.pre_exec(move || {
            for act in &acts {
                if let Err(error) = act.perform() {
                    rustix::io::write(&tell, act.name().to_bytes()).ok();
                    return Err(error);
                }
            }
            Ok(())
        });
    }
    (command, told)
}
