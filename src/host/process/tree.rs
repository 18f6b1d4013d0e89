//! The processes that belong to an agent: its leader and everything that descends from it or from rooda.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::sync::LazyLock;

use rustix::process::{
    Pid, Signal, Uid, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
    waitpid,
};

use super::user::{belongs_to, processes_of, signal_all, signal_user};

/// Which processes are the agent's, and how signals get to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Those that descend from it, one by one.
    Descendants,
    /// All of its user, at once.
    User(Uid),
    /// All but rooda, at once.
    Everybody,
}

#[derive(Debug)]
pub(super) struct Tree<'a> {
    leader: Pid,
    reach: Reach,
    /// Children that rooda had before its first agent. They are not the agent's, and are left alone.
    foreign: &'a HashSet<Pid>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(leader: Pid, reach: Reach, foreign: &'a HashSet<Pid>) -> Self {
        Tree {
            leader,
            reach,
            foreign,
        }
    }

    /// Whether the leader has ended. Its status stays with the kernel until the tree is gone.
    pub(super) fn leader_ended(&self) -> bool {
        leader_ended(self.leader)
    }

    /// Takes the status of orphans that came to rooda and have ended. The leader's is not taken here.
    pub(super) fn reap_orphans(&self) {
        for pid in own_children().unwrap_or_default() {
            if pid != self.leader && (!self.foreign.contains(&pid) || self.includes(pid)) {
                waitpid(Some(pid), WaitOptions::NOHANG).ok();
            }
        }
    }

    /// Whether nothing is left of the tree. Only an empty list of children proves it: a process that forks and ends is
    /// seen dead while its child is seen nowhere, but then it is still on the list itself, waiting to be reaped.
    pub(super) fn is_gone(&self) -> bool {
        self.leader_ended()
            && self.others().is_ok_and(|others| others.is_empty())
            // Somebody else's child may be of the agent's user too.
            && (!matches!(self.reach, Reach::User(_)) || self.living().is_empty())
    }

    /// Whether the children of rooda can be seen at all. Where they cannot, nothing proves that a tree is gone.
    pub(super) fn can_be_seen(&self) -> bool {
        own_children().is_ok()
    }

    /// How many are left: those that live, and those that look dead but are still on the list.
    pub(super) fn left(&self) -> usize {
        let others = self.others().map_or(0, |others| others.len());
        self.living().len().max(others)
    }

    /// The children of rooda that are the agent's, without the leader.
    fn others(&self) -> io::Result<Vec<Pid>> {
        let mut others = own_children()?;
        others.retain(|pid| *pid != self.leader && self.includes(*pid));
        Ok(others)
    }

    /// Whether a child of rooda is the agent's. What a service of `setup` leaves to rooda is not, whenever that comes.
    fn includes(&self, pid: Pid) -> bool {
        match self.reach {
            Reach::User(user) => belongs_to(pid, user),
            Reach::Descendants | Reach::Everybody => !self.foreign.contains(&pid),
        }
    }

    /// Every process of the tree that is alive.
    pub(super) fn living(&self) -> Vec<Pid> {
        match self.reach {
            Reach::User(user) => {
                let mut living = processes_of(user).unwrap_or_default();
                living.retain(|pid| is_alive(*pid));
                living
            }
            Reach::Descendants | Reach::Everybody => self.descendants(),
        }
    }

    fn descendants(&self) -> Vec<Pid> {
        let mut living = Vec::new();
        let mut unseen = own_children().unwrap_or_default();
        unseen.retain(|pid| !self.foreign.contains(pid));
        while let Some(pid) = unseen.pop() {
            if pid == self.leader && self.leader_ended() {
                continue;
            }
            if is_alive(pid) && !living.contains(&pid) {
                living.push(pid);
                let children = children_of(&pid.as_raw_nonzero().to_string());
                unseen.extend(children.unwrap_or_default());
            }
        }
        living
    }

    /// Signals all of the tree: at once, if possible.
    pub(super) fn signal(&self, signal: Signal) {
        let sent = match self.reach {
            Reach::User(user) => signal_user(user, signal),
            Reach::Everybody => signal_all(signal),
            Reach::Descendants => return self.sweep(signal),
        };
        if sent.is_err() {
            self.sweep(signal);
        }
    }

    /// Signals the group, which cannot be outrun by forking, and then all the rest.
    fn sweep(&self, signal: Signal) {
        kill_process_group(self.leader, signal).ok();
        for pid in self.living() {
            kill_process(pid, signal).ok();
        }
    }
}

/// Whether a child of rooda has ended. Its status is not taken.
pub(super) fn leader_ended(leader: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(leader), options), Ok(None))
}

/// The children of rooda, whichever of its threads they belong to.
pub(super) fn own_children() -> io::Result<Vec<Pid>> {
    children_of("self")
}

/// Whether the kernel was built with lists of children.
static HAS_LISTS: LazyLock<bool> =
    LazyLock::new(|| fs::exists("/proc/thread-self/children").unwrap_or(false));

fn children_of(process: &str) -> io::Result<Vec<Pid>> {
    if !*HAS_LISTS {
        return children_by_parent(process);
    }
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        match fs::read_to_string(task?.path().join("children")) {
            Ok(list) => children.extend(list.split_whitespace().filter_map(parse_pid)),
            // The thread has ended meanwhile.
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

fn has_ended(error: &io::Error) -> bool {
    let gone = Some(rustix::io::Errno::SRCH.raw_os_error());
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == gone
}

/// The slow way: look at every process for its parent.
fn children_by_parent(process: &str) -> io::Result<Vec<Pid>> {
    let parent = match process {
        "self" => std::process::id().to_string(),
        pid => pid.to_owned(),
    };
    // Where /proc is not mounted there is not even ourselves.
    fs::metadata("/proc/self/stat")?;
    let processes = fs::read_dir("/proc")?.flatten();
    let children = processes
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| fields(name).is_some_and(|(_, its_parent)| its_parent == parent))
        .filter_map(|name| parse_pid(&name))
        .collect();
    Ok(children)
}

/// Whether a process runs. One whose first thread has ended looks dead while its other threads go on.
fn is_alive(pid: Pid) -> bool {
    let name = pid.as_raw_nonzero().to_string();
    let runs_on =
        || fs::read_dir(format!("/proc/{name}/task")).is_ok_and(|tasks| tasks.count() > 1);
    fields(&name).is_some_and(|(state, _)| !matches!(state.as_str(), "Z" | "X") || runs_on())
}

/// The state and the parent of a process.
fn fields(pid: &str) -> Option<(String, String)> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name in the second field may hold anything, spaces, brackets and half a character; what follows the last bracket is safe.
    let mut rest = stat.rsplit(')').next()?.split_whitespace();
    Some((rest.next()?.to_owned(), rest.next()?.to_owned()))
}

fn parse_pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}
