//! Every process of a user, found and signalled at once.
//!
//! Only for the first process of a container: there, all processes are rooda's or came with it. Anywhere else the same
//! user may well run a desktop.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal, Uid, kill_process_group};
use rustix::thread::set_thread_res_uid;

use super::protect::protect_again;

/// Whether rooda is the first process of a PID namespace, which is where all orphans end up.
pub fn is_init() -> bool {
    std::process::id() == 1
}

/// Sends a signal to every process of the user, in one step that no fork can outrun, and to nobody else.
///
/// The thread takes on the user for that moment, as the effective one: it has no right to signal others then. Its real
/// user is a stranger's and its saved one root's, and by those the kernel judges who may signal us: not the agent. There
/// is no child for this, so it works when the agent has used up every process there can be.
pub(super) fn signal_user(user: Uid, signal: Signal) -> io::Result<()> {
    if !is_init() || user.is_root() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    set_thread_res_uid(stranger_to(user), user, Uid::ROOT)?;
    // The first process means all of them here, but the first one itself.
    let sent = kill_process_group(Pid::INIT, signal);
    // Root is still the saved user, so the way back is open; only memory could be short for a moment.
    while set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_err() {
        std::thread::yield_now();
    }
    protect_again();
    Ok(sent?)
}

/// A user that nobody is. Processes of it would be signalled too.
fn stranger_to(user: Uid) -> Uid {
    const STRANGERS: [u32; 2] = [65_533, 65_532];
    let other = |stranger: &u32| *stranger != user.as_raw();
    Uid::from_raw(STRANGERS.into_iter().find(other).unwrap_or(STRANGERS[0]))
}

/// Sends a signal to every process but ourselves.
pub(super) fn signal_all(signal: Signal) -> io::Result<()> {
    if !is_init() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(kill_process_group(Pid::INIT, signal)?)
}

/// Every process of the user, dead ones included that nobody has reaped.
pub(super) fn processes_of(user: Uid) -> io::Result<Vec<Pid>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid.and_then(Pid::from_raw)
            && belongs_to(pid, user)
        {
            processes.push(pid);
        }
    }
    Ok(processes)
}

/// Whether the process can be signalled as the user's: by its real or its saved one.
pub(super) fn belongs_to(pid: Pid, user: Uid) -> bool {
    let status = fs::read(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    // The name is in the first line, and line ends in it are escaped.
    let Some(users) = status.lines().find_map(|line| line.strip_prefix("Uid:")) else {
        return false;
    };
    let mut users = users.split_whitespace().map(str::parse::<u32>);
    let (real, saved) = (users.next(), users.nth(1));
    [real, saved].contains(&Some(Ok(user.as_raw())))
}
