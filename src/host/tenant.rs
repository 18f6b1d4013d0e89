//! A place in the container for the agent's user: a home, and a name in the lists of users and groups.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Makes the home of the agent and gives its user a name. Programs such as git and ssh ask for both. Only the files of
/// the container itself are touched.
pub fn settle(home: &Path, name: &str, uid: u32, gid: u32) -> Result<()> {
    let trying = || format!("cannot make the agent's home {}", home.display());
    match fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(home)
    {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(trying);
        }
        _ => {}
    }
    // An image may come with it, but not with something else in its place.
    if !fs::symlink_metadata(home).with_context(trying)?.is_dir() {
        bail!("{}: it is not a folder", trying());
    }
    chown(home, Some(uid), Some(gid)).with_context(trying)?;
    let shell = "/bin/bash";
    let home = home.display();
    enter(
        USERS,
        uid,
        &format!("{name}:x:{uid}:{gid}:rooda's agent:{home}:{shell}"),
    )?;
    enter(GROUPS, gid, &format!("{name}:x:{gid}:"))
}

/// Adds a line to a list of users or groups, unless the number has one.
fn enter(list: &str, number: u32, line: &str) -> Result<()> {
    let trying = || format!("cannot add the agent to {list}");
    let known = fs::read(list).unwrap_or_default();
    let known = String::from_utf8_lossy(&known);
    let has_number = |line: &str| line.split(':').nth(2) == Some(&number.to_string());
    if known.lines().any(has_number) {
        return Ok(());
    }
    let newline = if known.is_empty() || known.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(list)
        .with_context(trying)?;
    writeln!(file, "{newline}{line}").with_context(trying)
}

/// The group of whatever a path leads to, if it is there.
pub fn group_of(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|file| file.gid())
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where a path really leads, if it leads anywhere.
pub fn resolve(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

pub fn is_folder(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_dir())
}

/// A word that nobody can guess: 128 random bits.
pub fn random_word() -> String {
    let mut bytes = [0_u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        // It can be interrupted, but not fail, once the machine runs.
        let rest = &mut bytes[filled..];
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()).unwrap_or(0);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
