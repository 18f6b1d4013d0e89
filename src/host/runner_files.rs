//! What else of the runner's lies within an agent's reach: the folder of temporary files, the home that container steps
//! share, the folder of the event, and what lies directly in them.
//!
//! They belong to the agent's user. Landlock keeps it from reading, writing, renaming and removing them, but not from
//! `chmod`, and a later step of the job would find them closed. So their modes are noted before an agent runs and put back
//! at the end. Without Landlock an agent can do to them whatever it likes; then too only modes are put back, of what is
//! still there under its name.
//!
//! Only the folders are held open. What lies in them is found again by its name, and may be another file with the number of
//! the one before. So nothing is given to another user there, and no file gets its set-user-ID or set-group-ID bit back.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, chmodat, chownat, fstat, openat,
};
use rustix::io::Errno;

use super::folder::{Folder, Standing, kind, same};
use crate::error::without_number;

/// How much is noted of what lies in a folder.
const MOST: usize = 2000;

/// How many names are told.
const MOST_TOLD: usize = 5;

#[derive(Debug, Default)]
pub struct RunnerFiles(Vec<Noted>);

#[derive(Debug)]
struct Noted {
    path: PathBuf,
    folder: Folder,
    standing: Standing,
    inside: Vec<(OsString, Stat)>,
}

impl RunnerFiles {
    /// Notes how everything stands that the environment names. What is not there, or cannot be opened, is nothing to put
    /// back; neither is what overlaps the workspace, where an agent may do as it likes.
    pub fn note(environment: &BTreeMap<String, String>, workspace: &Path) -> Self {
        let path = |name: &str| environment.get(name).map(PathBuf::from);
        let event = path("GITHUB_EVENT_PATH").and_then(|path| Some(path.parent()?.to_owned()));
        // The first two lie in the third as well, but by these names people know them.
        let folders = [path("HOME"), event, path("RUNNER_TEMP")];
        let is_apart = |path: &PathBuf| {
            path.is_absolute() && !path.starts_with(workspace) && !workspace.starts_with(path)
        };
        let folders = folders.into_iter().flatten().filter(is_apart);
        RunnerFiles(folders.filter_map(|path| Noted::note(path).ok()).collect())
    }

    /// Puts the modes back, and tells which were others. To be called when no process of an agent is left.
    pub fn restore(&self) -> Vec<String> {
        self.0.iter().flat_map(Noted::restore).collect()
    }
}

impl Noted {
    fn note(path: PathBuf) -> io::Result<Self> {
        let folder = Folder::open(&path)?;
        let mut inside = Vec::new();
        for name in folder.names(MOST)? {
            let stat = folder.look(&name)?;
            // A link has no mode of its own.
            if let Some(stat) = stat.filter(|stat| kind(stat) != FileType::Symlink) {
                inside.push((name, stat));
            }
        }
        Ok(Noted {
            standing: Standing::of(&folder)?,
            path,
            folder,
            inside,
        })
    }

    fn restore(&self) -> Vec<String> {
        let path = self.path.display();
        let mut told = Vec::new();
        match self.standing.put_on(&self.folder) {
            Ok(false) => {}
            Ok(true) => told.push(format!("{path} had another mode or owner")),
            Err(error) => told.push(unmended(&path.to_string(), &error)),
        }
        let mut mended = Vec::new();
        let mut failed = None;
        for (name, before) in &self.inside {
            match put_back(&self.folder, name, before) {
                Ok(false) => {}
                Ok(true) => mended.push(name.to_string_lossy()),
                Err(error) => failed = Some((self.path.join(name), error)),
            }
        }
        if !mended.is_empty() {
            let names = mended[..mended.len().min(MOST_TOLD)].join(", ");
            let more = match mended.len() - mended.len().min(MOST_TOLD) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            told.push(format!("files in {path} had another mode: {names}{more}"));
        }
        // One stands for all: what cannot be mended here has the same cause everywhere.
        told.extend(failed.map(|(path, error)| unmended(&path.to_string_lossy(), &error)));
        told
    }
}

/// Gives what lies under a name the mode and group that it had, if it is still the same and the same user's. Answers with
/// whether anything had to be changed.
fn put_back(folder: &Folder, name: &OsStr, before: &Stat) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(false),
        held => held?,
    };
    let now = fstat(&held)?;
    let is_it = same(&now, before) && kind(&now) == kind(before) && now.st_uid == before.st_uid;
    if !is_it || (now.st_mode, now.st_gid) == (before.st_mode, before.st_gid) {
        return Ok(false);
    }
    if now.st_gid != before.st_gid {
        let group = Gid::from_raw(before.st_gid);
        chownat(&held, "", None, Some(group), AtFlags::EMPTY_PATH)?;
    }
    let bits = match kind(before) {
        FileType::Directory => 0o7777,
        _ => 0o1777,
    };
    // Sockets and pipes cannot be opened for this, but have a mode too. The number leads to the very thing looked at.
    let path = format!("/proc/self/fd/{}", held.as_raw_fd());
    let mode = Mode::from_raw_mode(before.st_mode & bits);
    chmodat(CWD, path, mode, AtFlags::empty())?;
    Ok(true)
}

fn unmended(path: &str, error: &io::Error) -> String {
    let error = error.to_string();
    let error = without_number(&error);
    format!("the mode of {path} cannot be put back: {error}")
}

#[cfg(test)]
mod tests;
