//! Whose the workspace is, and giving it back: what root has made in there would be in the way of every later step, which
//! is not root.
//!
//! Everything is reached by descriptors, one folder at a time, and what is given away is the very thing that was looked at.
//! An agent may have arranged the folders as it liked.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, chownat, fstat, openat};

use super::folder::{Folder, kind, same};

/// What became of the files of root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenBack {
    pub given: u64,
    /// How many could not be given away, or must not be, and the name of one of them.
    pub left: u64,
    pub example: Option<PathBuf>,
}

/// The user and the group of a folder.
pub fn owner(folder: &Path) -> Result<(u32, u32)> {
    let stat = Folder::open(folder).and_then(|folder| folder.stat());
    let stat = stat.with_context(|| format!("cannot tell the owner of {}", folder.display()))?;
    Ok((stat.st_uid, stat.st_gid))
}

/// Gives everything in a folder that belongs to the user `from` to another one. No link is followed and no other file
/// system entered.
///
/// A file with several names is given away only if all of them are in here. An agent could have made one of them for a
/// file of root that lies elsewhere, where the system allows that; and a file that many share is not the workspace's alone.
/// Devices stay root's.
pub fn give_back(folder: &Path, from: u32, to: (u32, u32)) -> Result<GivenBack> {
    let trying = || format!("cannot give back the files in {}", folder.display());
    let mut given = GivenBack::default();
    if from == to.0 {
        return Ok(given);
    }
    let root = Folder::open(folder).with_context(trying)?;
    let mut shared: BTreeMap<(u64, u64), Names> = BTreeMap::new();
    walk(&root, &mut |here, name, stat| {
        if stat.st_uid != from {
            return;
        }
        if kind(stat) != FileType::Directory && stat.st_nlink > 1 {
            let names = shared.entry((stat.st_dev, stat.st_ino)).or_default();
            names.all = stat.st_nlink;
            names.seen += 1;
            return;
        }
        given.note(name, &give(here, name, from, to));
    })
    .with_context(trying)?;
    if shared.is_empty() {
        return Ok(given);
    }
    walk(&root, &mut |here, name, stat| {
        let names = shared.get_mut(&(stat.st_dev, stat.st_ino));
        let Some(names) = names.filter(|names| !names.done) else {
            return;
        };
        names.done = true;
        let done = match names.all == names.seen {
            true => give(here, name, from, to),
            false => Err(io::Error::other("it has a name elsewhere")),
        };
        given.note(name, &done);
    })
    .with_context(trying)?;
    Ok(given)
}

/// The names of a file that has several.
#[derive(Debug, Default)]
struct Names {
    all: u64,
    seen: u64,
    done: bool,
}

impl GivenBack {
    fn note(&mut self, name: &OsStr, done: &io::Result<()>) {
        if done.is_ok() {
            self.given += 1;
        } else {
            self.left += 1;
            self.example.get_or_insert_with(|| PathBuf::from(name));
        }
    }
}

fn give(folder: &Folder, name: &OsStr, from: u32, to: (u32, u32)) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = openat(folder, name, flags, Mode::empty())?;
    let stat = fstat(&held)?;
    match kind(&stat) {
        _ if stat.st_uid != from => return Err(io::Error::other("it is another one now")),
        FileType::CharacterDevice | FileType::BlockDevice => {
            return Err(io::Error::other("it is a device"));
        }
        _ => {}
    }
    let (uid, gid) = (Uid::from_raw(to.0), Gid::from_raw(to.1));
    Ok(chownat(
        &held,
        "",
        Some(uid),
        Some(gid),
        AtFlags::EMPTY_PATH,
    )?)
}

type Visit<'a> = &'a mut dyn FnMut(&Folder, &OsStr, &Stat);

/// Shows every entry below a folder. Only one folder is open at a time, so that none is too deep.
fn walk(root: &Folder, visit: Visit) -> Result<()> {
    let mut here = root.sub(OsStr::new("."))?;
    let mut levels = vec![(here.stat()?, entries(&here, visit)?)];
    while let Some((_, folders)) = levels.last_mut() {
        if let Some(name) = folders.pop() {
            // What was a folder a moment ago and cannot be entered now is left.
            if let Ok(below) = here.sub_of_same_system(&name) {
                levels.push((below.stat()?, entries(&below, visit)?));
                here = below;
            }
            continue;
        }
        levels.pop();
        if let Some((above, _)) = levels.last() {
            here = here.sub(OsStr::new(".."))?;
            if !same(&here.stat()?, above) {
                bail!("folders are being moved");
            }
        }
    }
    Ok(())
}

/// Shows the entries of one folder, and answers with the folders among them.
fn entries(here: &Folder, visit: Visit) -> io::Result<Vec<OsString>> {
    let system = here.stat()?.st_dev;
    let mut folders = Vec::new();
    for name in here.names(usize::MAX)? {
        let stat = here.look(&name)?;
        let Some(stat) = stat.filter(|stat| stat.st_dev == system) else {
            continue;
        };
        visit(here, &name, &stat);
        if kind(&stat) == FileType::Directory {
            folders.push(name);
        }
    }
    Ok(folders)
}

#[cfg(test)]
mod tests;
