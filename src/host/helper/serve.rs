//! The helper's side: what it does in the agent's jail, as the agent's user.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, CWD, Mode, OFlags, access, openat};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use super::LARGEST;
use super::protocol::{
    Answer, Bytes, ProgramFound, Replaced, Replacement, Request, Task, TextRead,
};
use super::search::git_configs;
use super::survey::survey;
use crate::error::without_number;
use crate::host::files::{enter, find_program, missing_interpreter, read_text_file};
use crate::prompt::Template;

/// No configuration of git is larger.
const LARGEST_CONFIG: u64 = 1 << 20;

/// Reads one request from standard input, and writes the answer to standard output.
pub fn serve_helper() -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).ok();
    let mut text = Vec::new();
    let limit = LARGEST as u64 + 1;
    io::stdin()
        .take(limit)
        .read_to_end(&mut text)
        .context("cannot read the request")?;
    if text.len() as u64 == limit {
        bail!("the request is too large");
    }
    let request: Request = serde_json::from_slice(&text).context("cannot read the request")?;
    enter(&request.directory)?;
    let answer = serde_json::to_vec(&answer(request.task)).context("cannot write the answer")?;
    let mut stdout = io::stdout();
    stdout
        .write_all(&answer)
        .and_then(|()| stdout.flush())
        .context("cannot write the answer")
}

fn answer(task: Task) -> Answer {
    match task {
        Task::Read(wanted) => Answer::Read(wanted.iter().map(|path| read(path)).collect()),
        Task::Render(template) => Answer::Render(render(&template)),
        Task::FindProgram { name, path } => Answer::FindProgram(find(&name, &path)),
        Task::GitConfigs => Answer::GitConfigs(git_configs(Path::new("."))),
        Task::Replace(files) => Answer::Replace(files.iter().map(replace).collect()),
        Task::Survey(paths) => Answer::Survey(survey(&paths)),
    }
}

/// A template that wants more memory than this ends the helper, and nobody else.
const LARGEST_MEMORY: u64 = 1 << 30;

fn render(template: &Template) -> Result<String, String> {
    let limit = Rlimit {
        current: Some(LARGEST_MEMORY),
        maximum: Some(LARGEST_MEMORY),
    };
    setrlimit(Resource::As, limit).map_err(|error| error.to_string())?;
    template.render()
}

fn read(path: &Path) -> TextRead {
    match read_text_file(path) {
        Ok(Some(text)) => TextRead::Text(text),
        Ok(None) => TextRead::Missing,
        Err(error) => TextRead::Failed(format!("{error:#}")),
    }
}

fn find(name: &str, path: &str) -> ProgramFound {
    let program = match find_program(name, path) {
        Ok(program) => program,
        Err(wrong) => return ProgramFound::NotFound(wrong.to_owned()),
    };
    // The rules of the jail show only when something is opened.
    let may_read = access(&program, Access::READ_OK).is_ok();
    if may_read && File::open(&program).is_err() {
        return ProgramFound::NotFound("the agent is kept from it".to_owned());
    }
    ProgramFound::Found {
        missing_interpreter: missing_interpreter(&program),
        path: program,
    }
}

/// Reads a file of git's own, if it is an ordinary one.
pub(super) fn read_config(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    read_whole(&file)
}

fn read_whole(file: &File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    file.take(LARGEST_CONFIG + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST_CONFIG {
        return Err(io::Error::other("it is too large"));
    }
    Ok(content)
}

fn replace(replacement: &Replacement) -> Replaced {
    match try_to_replace(replacement) {
        Ok(replaced) => replaced,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Replaced::Missing,
        Err(error) => Replaced::Failed(without_number(&error.to_string()).to_owned()),
    }
}

fn try_to_replace(replacement: &Replacement) -> io::Result<Replaced> {
    let access = match replacement.to {
        Some(_) => OFlags::RDWR,
        None => OFlags::RDONLY,
    };
    let file = open_without_links(&replacement.path, access)?;
    let content = read_whole(&file)?;
    if content != replacement.from.0 {
        return Ok(Replaced::Differs(Bytes(content)));
    }
    if let Some(to) = &replacement.to {
        // A secret must not appear under another name as well, which may be one that is published.
        if file.metadata()?.nlink() > 1 {
            return Err(io::Error::other("it has a second name"));
        }
        if let Err(error) = write_whole(&file, &to.0) {
            // The disk is full, say. What was there has its place still, and half a configuration would be none.
            write_whole(&file, &content)?;
            return Err(error);
        }
    }
    Ok(Replaced::Done)
}

/// In place, because nobody but its owner could give a new file to the owner and the group of the old one.
fn write_whole(file: &File, content: &[u8]) -> io::Result<()> {
    file.write_all_at(content, 0)?;
    file.set_len(content.len() as u64)
}

/// Opens a file by a path in which nothing is a link, lest a secret goes where somebody has led it.
fn open_without_links(path: &Path, access: OFlags) -> io::Result<File> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => names.push(name),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    let Some(file) = names.pop() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let led_astray = |error| match error {
        Errno::LOOP | Errno::NOTDIR => io::Error::other("a link or a file stands in its path"),
        error => io::Error::from(error),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = openat(CWD, "/", flags, Mode::empty())?;
    for name in names {
        folder = openat(&folder, name, flags, Mode::empty()).map_err(led_astray)?;
    }
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&folder, file, flags, Mode::empty()).map_err(led_astray)?;
    Ok(File::from(file))
}
