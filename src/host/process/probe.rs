//! The probe: a child in exactly the agent's jail tries every forbidden thing, before the first agent does.
//!
//! Nothing of it does harm where it succeeds. What destroys is tried on a bait: a file in the same folder that belongs to
//! the agent, so that it is as well guarded as its neighbours, and not better.

mod parent;

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid, Signal, Uid, getppid, kill_process};
use rustix::thread::{capabilities, no_new_privs, set_thread_res_uid};
use serde::{Deserialize, Serialize};

pub use parent::{run_probe, run_probe_of};

use crate::error::without_number;

/// Where docker listens. Whoever can talk to it owns the machine.
const SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/docker.sock"];

/// What must be out of the agent's reach.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProbeTargets {
    /// Sockets besides those of docker.
    pub sockets: Vec<PathBuf>,
    pub command_files: Vec<PathBuf>,
    /// Folders that it must neither read nor write in, such as the job's folder for temporary files.
    pub folders: Vec<PathBuf>,
}

/// What the parent tells the child.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    targets: ProbeTargets,
    /// A file of the agent's own in each folder.
    baits: Vec<PathBuf>,
}

/// One forbidden thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// What was tried, to be read after "the agent can".
    pub name: String,
    /// Whether it succeeded.
    pub allowed: bool,
    /// What the kernel said.
    pub answer: String,
}

/// The child's part, from the text of its orders to the text of its report.
pub fn probe(orders: &str) -> Result<String> {
    let orders: Orders = serde_json::from_str(orders).context("cannot read the orders")?;
    serde_json::to_string(&attempts(&orders)).context("cannot write the report")
}

fn attempts(orders: &Orders) -> Vec<Attempt> {
    let mut tried = Tried(Vec::new());
    let known = SOCKETS.map(PathBuf::from);
    for socket in known.iter().chain(&orders.targets.sockets) {
        tried.on("connect to", socket, reach(socket));
    }
    for file in &orders.targets.command_files {
        try_file(&mut tried, file);
    }
    for bait in &orders.baits {
        try_file(&mut tried, bait);
        try_folder(&mut tried, bait);
    }
    try_process(&mut tried, Pid::INIT);
    match getppid() {
        Some(parent) if parent != Pid::INIT => try_process(&mut tried, parent),
        _ => {}
    }
    try_privileges(&mut tried);
    tried.0
}

struct Tried(Vec<Attempt>);

impl Tried {
    fn on(&mut self, verb: &str, path: &Path, result: io::Result<()>) {
        self.add(format!("{verb} {}", path.display()), result);
    }

    fn add(&mut self, name: String, result: io::Result<()>) {
        self.0.push(Attempt {
            name,
            allowed: result.is_ok(),
            answer: match result {
                Ok(()) => "it was allowed".to_owned(),
                Err(error) => without_number(&error.to_string()).to_owned(),
            },
        });
    }
}

/// Connects without waiting. Nobody is told anything.
fn reach(path: &Path) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        // Somebody listens, and is only busy.
        Err(rustix::io::Errno::AGAIN) => Ok(()),
        answer => Ok(answer?),
    }
}

/// What leaves a file as it is.
fn try_file(tried: &mut Tried, path: &Path) {
    let open = |options: &mut OpenOptions| {
        // A pipe in the place of the file must not make us wait.
        options.custom_flags(libc::O_NONBLOCK).open(path)
    };
    let read = open(OpenOptions::new().read(true));
    tried.on("read", path, read.map(drop));
    let written = open(OpenOptions::new().write(true));
    tried.on("write to", path, written.map(drop));
    // To the length that it has.
    let length = fs::metadata(path).map(|metadata| metadata.len());
    let truncated = length.and_then(|length| {
        let path = rustix::path::Arg::into_c_str(path)?;
        truncate(&path, length)
    });
    tried.on("truncate", path, truncated);
}

/// By name. The right to do so is another one than that to open a file.
#[expect(unsafe_code, reason = "a system call without a safe wrapper")]
fn truncate(path: &std::ffi::CStr, length: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(length).map_err(io::Error::other)?;
    // SAFETY: the path is a string that ends with NUL.
    result(unsafe { libc::truncate(path.as_ptr(), length) }.into())
}

fn result(answer: libc::c_long) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What changes a folder.
fn try_folder(tried: &mut Tried, bait: &Path) {
    let sibling = sibling(bait);
    let (Some(folder), Some(name)) = (bait.parent(), bait.file_name()) else {
        return;
    };
    let mut options = OpenOptions::new();
    let created = options.write(true).create_new(true).open(&sibling);
    tried.on("create a file in", folder, created.map(drop));
    fs::remove_file(&sibling).ok();
    let outside = std::env::temp_dir().join(name);
    tried.on("link out of", folder, fs::hard_link(bait, &outside));
    fs::remove_file(&outside).ok();
    tried.on("rename a file in", folder, fs::rename(bait, &sibling));
    fs::rename(&sibling, bait).ok();
    tried.on("delete a file in", folder, fs::remove_file(bait));
}

/// What the child may create beside a bait.
fn sibling(bait: &Path) -> PathBuf {
    let mut name = bait.as_os_str().to_owned();
    name.push("-2");
    PathBuf::from(name)
}

fn try_process(tried: &mut Tried, pid: Pid) {
    let number = pid.as_raw_nonzero();
    for file in ["environ", "mem"] {
        let path = PathBuf::from(format!("/proc/{number}/{file}"));
        tried.on("read", &path, fs::File::open(&path).map(drop));
    }
    let open = PathBuf::from(format!("/proc/{number}/fd"));
    tried.on("list", &open, fs::read_dir(&open).map(drop));
    tried.add(format!("trace process {number}"), trace(pid));
    // To one that runs it means nothing.
    let signalled = kill_process(pid, Signal::CONT).map_err(io::Error::from);
    tried.add(format!("signal process {number}"), signalled);
}

/// Without stopping it. It is let go when we end.
#[expect(unsafe_code, reason = "a system call without a safe wrapper")]
fn trace(pid: Pid) -> io::Result<()> {
    let pid = pid.as_raw_nonzero().get();
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: this request reads and writes no memory.
    result(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, nothing, nothing) })
}

fn try_privileges(tried: &mut Tried) {
    let held = |is_held: bool| match is_held {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    };
    let capable = capabilities(None).map_or(true, |sets| !sets.permitted.is_empty());
    tried.add("use capabilities".to_owned(), held(capable));
    let open = !no_new_privs().unwrap_or(false);
    tried.add("gain rights from a program".to_owned(), held(open));
    let risen = set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT);
    tried.add("become root".to_owned(), risen.map_err(io::Error::from));
}
