//! What keeps the agent in: a user and a group of its own, an environment of its own, no privileges and no way to gain
//! any, and rules on files.
//!
//! Everything is prepared by the parent. Between fork and exec there are only system calls.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, OFlags, fchown, fstat, openat};
use rustix::process::{
    Gid, Resource, Rlimit, Signal, Uid, chdir, set_parent_process_death_signal, setrlimit, setsid,
    umask,
};
use rustix::stdio;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::landlock::{Ground, LandlockStatus, rules};

/// When memory runs out, the agent goes first. rooda must live to tell.
const OOM_SCORE: &[u8] = b"500";

/// The first number that is tried for a group which nobody else has.
const FIRST_GID: u32 = 60_000;

/// How the agent shall be kept.
#[derive(Debug, Clone)]
pub struct Confinement {
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
    /// Where it works.
    pub directory: PathBuf,
    /// What it may write to besides its home and the places for temporary files.
    pub writable: Vec<PathBuf>,
    /// What no rule may lead to. The places it may write to must not hold any of it.
    pub forbidden: Vec<PathBuf>,
    /// All of its environment.
    pub environment: BTreeMap<String, String>,
    /// Whether rules on files are wanted.
    pub landlock: bool,
}

/// Everything that keeps the agent in.
#[derive(Debug, Clone)]
pub struct Jail {
    environment: BTreeMap<String, String>,
    bars: Bars,
}

/// What is needed between fork and exec.
#[derive(Debug, Clone)]
struct Bars {
    uid: Uid,
    gid: Gid,
    directory: CString,
    landlock: Option<Arc<OwnedFd>>,
}

impl Jail {
    /// Builds the rules, and tells what of them is in force here. Whether that is enough is for the caller to say.
    pub fn build(plan: &Confinement) -> Result<(Jail, LandlockStatus)> {
        let (landlock, status) = if plan.landlock {
            let mut writable: Vec<&Path> = plan.writable.iter().map(PathBuf::as_path).collect();
            writable.push(&plan.home);
            rules(&Ground {
                writable,
                forbidden: &plan.forbidden,
            })?
        } else {
            (None, LandlockStatus::off())
        };
        let directory = CString::new(plan.directory.as_os_str().as_bytes())
            .context("the name of the agent's folder holds a NUL byte")?;
        let jail = Jail {
            environment: plan.environment.clone(),
            bars: Bars {
                uid: Uid::from_raw(plan.uid),
                gid: Gid::from_raw(plan.gid),
                directory,
                landlock: landlock.map(Arc::new),
            },
        };
        Ok((jail, status))
    }

    pub fn uid(&self) -> u32 {
        self.bars.uid.as_raw()
    }

    /// All that the agent sees of the environment.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// The same jail for somebody who needs other variables.
    #[must_use]
    pub fn with_environment(&self, environment: BTreeMap<String, String>) -> Jail {
        Jail {
            environment,
            bars: self.bars.clone(),
        }
    }

    /// Makes the command run in the jail, in a session of its own, until rooda itself ends. Only rooda as root can start
    /// it. The pipes that it gets as standard streams become the agent's.
    #[expect(
        unsafe_code,
        reason = "what runs between fork and exec must be declared safe for that moment"
    )]
    pub fn confine(&self, command: &mut Command) {
        command.env_clear().envs(&self.environment);
        let bars = self.bars.clone();
        // SAFETY: the closure only makes system calls. It allocates nothing and takes no lock that another thread may hold.
        unsafe {
            command.pre_exec(move || bars.close());
        }
    }
}

impl Bars {
    fn close(&self) -> io::Result<()> {
        setsid()?;
        setrlimit(
            Resource::Core,
            Rlimit {
                current: Some(0),
                maximum: Some(0),
            },
        )?;
        raise_oom_score();
        close_on_exec()?;
        self.own_pipes()?;
        umask(Mode::WGRP | Mode::WOTH);
        self.change_user()?;
        set_no_new_privs(true)?;
        if let Some(rules) = &self.landlock {
            restrict(rules)?;
        }
        // As the agent: what it may not enter is not entered for it.
        chdir(self.directory.as_c_str())?;
        // A change of the user takes it back, so it comes last.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(())
    }

    /// The agent may open its streams again by name (`echo > /dev/stderr`), which only the owner of a pipe can.
    fn own_pipes(&self) -> io::Result<()> {
        for stream in [stdio::stdin(), stdio::stdout(), stdio::stderr()] {
            if FileType::from_raw_mode(fstat(stream)?.st_mode) == FileType::Fifo {
                fchown(stream, Some(self.uid), Some(self.gid))?;
            }
        }
        Ok(())
    }

    fn change_user(&self) -> io::Result<()> {
        set_thread_groups(&[])?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        if self.uid.is_root() {
            // Whoever asks for root has a reason, such as installing packages.
            return Ok(());
        }
        clear_ambient_capability_set()?;
        set_thread_res_uid(self.uid, self.uid, self.uid)?;
        // Those that can be inherited survive a change of the user.
        let none = CapabilitySet::empty();
        set_capabilities(
            None,
            CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            },
        )?;
        Ok(())
    }
}

/// Where it cannot be set, things are as they always are.
fn raise_oom_score() {
    let file = openat(
        CWD,
        c"/proc/self/oom_score_adj",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    if let Ok(file) = file {
        rustix::io::write(&file, OOM_SCORE).ok();
    }
}

/// Everything but the three streams ends with exec. Until then the rules, and the pipe by which errors are told, are needed.
#[expect(unsafe_code, reason = "a system call without a safe wrapper")]
fn close_on_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    let flag = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: no memory is involved, and no descriptor is closed yet.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flag) };
    result(answer)
}

#[expect(unsafe_code, reason = "a system call without a safe wrapper")]
fn restrict(rules: &OwnedFd) -> io::Result<()> {
    const NO_FLAGS: libc::c_uint = 0;
    // SAFETY: no memory is involved.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_restrict_self,
            rules.as_raw_fd(),
            NO_FLAGS,
        )
    };
    result(answer)
}

fn result(answer: libc::c_long) -> io::Result<()> {
    match answer {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A group that is nobody else's: not one of the system, and none of `taken`. With the group of the workspace the agent
/// could reach the socket of docker on some machines.
pub fn private_gid(taken: &[u32]) -> u32 {
    let groups = fs::read("/etc/group").unwrap_or_default();
    free_gid(&String::from_utf8_lossy(&groups), taken)
}

fn free_gid(groups: &str, taken: &[u32]) -> u32 {
    let known: Vec<u32> = groups
        .lines()
        .filter_map(|line| line.split(':').nth(2)?.parse().ok())
        .collect();
    let is_free = |gid: &u32| !known.contains(gid) && !taken.contains(gid);
    // There are more numbers than lists are long.
    (FIRST_GID..).find(is_free).unwrap_or(FIRST_GID)
}

#[cfg(test)]
pub(super) mod cell;
#[cfg(test)]
mod tests;
