//! Files, read and found.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, OFlags, access};
use tempfile::TempDir;

/// More than any model can read. What is larger was not meant to be a prompt.
pub(super) const LARGEST_TEXT: u64 = 16 << 20;

/// Reads a configuration file; `None` if there is none.
pub fn read_text_file(path: &Path) -> Result<Option<String>> {
    match read_regular(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_regular(path: &Path) -> Result<String> {
    let trying = || format!("cannot read {}", path.display());
    // Neither opening nor reading may wait: what is not a regular file, or only looks like one, could make us wait for
    // good.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .with_context(trying)?;
    let metadata = file.metadata().with_context(trying)?;
    if metadata.is_dir() {
        bail!("{}: it is a folder", trying());
    }
    if !metadata.is_file() {
        let kind = metadata.file_type();
        let what = if kind.is_fifo() {
            "a pipe"
        } else {
            "a device or socket"
        };
        bail!("{}: it is {what}, not a regular file", trying());
    }
    bounded(file).with_context(trying)
}

/// Reads whatever a path leads to, once: a file, `/dev/stdin`, the pipe of a shell's `<(…)`.
pub fn read_any(path: &Path) -> Result<String> {
    let trying = || format!("cannot read {}", path.display());
    bounded(File::open(path).with_context(trying)?).with_context(trying)
}

pub fn read_stdin() -> Result<String> {
    bounded(io::stdin().lock()).context("cannot read standard input")
}

fn bounded(reader: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    reader.take(LARGEST_TEXT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_TEXT {
        bail!("it is larger than 16 MB");
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("it is not UTF-8 text (byte {at})")
    })
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Makes a folder the current one, for all that follows.
pub fn enter(directory: &Path) -> Result<()> {
    env::set_current_dir(directory)
        .with_context(|| format!("cannot use the directory {}", directory.display()))
}

/// The current folder, and whether something can be written there.
pub fn working_folder() -> (PathBuf, bool) {
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let is_writable = access(&here, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    (here, is_writable)
}

/// Finds a program as the shell would: a path as it is, a name in the folders of `path`. The error says what is wrong
/// with a path.
pub(super) fn find_program(name: &str, path: &str) -> Result<PathBuf, &'static str> {
    let runnable = |candidate: &Path| {
        fs::metadata(candidate).is_ok_and(|file| file.is_file())
            && access(candidate, Access::EXEC_OK).is_ok()
    };
    if name.contains('/') {
        let candidate = PathBuf::from(name);
        return match fs::metadata(&candidate) {
            _ if runnable(&candidate) => Ok(candidate),
            Ok(file) if file.is_dir() => Err("it is a folder"),
            Ok(_) => Err("it is not executable"),
            Err(_) => Err("there is no such file"),
        };
    }
    env::split_paths(path)
        .map(|folder| folder.join(name))
        .find(|candidate| runnable(candidate))
        .ok_or("it is in no folder of PATH")
}

/// The program in the first line of a script, if it is not there.
pub(super) fn missing_interpreter(program: &Path) -> Option<String> {
    let mut beginning = [0; 256];
    let count = File::open(program).ok()?.read(&mut beginning).ok()?;
    let text = String::from_utf8_lossy(&beginning[..count]);
    let line = text.strip_prefix("#!")?.lines().next()?;
    let interpreter = line.split_whitespace().next()?;
    (!exists(Path::new(interpreter))).then(|| interpreter.to_owned())
}

pub fn exists(path: &Path) -> bool {
    fs::exists(path).unwrap_or(false)
}

/// The path of rooda itself.
pub fn current_program() -> Result<PathBuf> {
    env::current_exe().context("cannot find the program of rooda itself")
}

/// A folder that goes away when it is dropped.
pub fn throw_away_folder() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("rooda-demo-")
        .tempdir()
        .context("cannot create a temporary folder")
}

pub fn write_file(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
