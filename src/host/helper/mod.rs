//! The helper: rooda itself, started again as the agent's user in the agent's jail, to do what must be done in the
//! workspace. PID 1 opens no path there: an agent could lead it anywhere.
//!
//! It is asked one thing, answers and ends, while no process of an agent is alive. What it answers is a claim: it was
//! made of files that an agent may have written.

mod exchange;
mod protocol;
mod search;
mod serve;
mod survey;

pub use serve::serve_helper;

pub(super) use protocol::{
    Bytes, ConfigFile, Content, FileKind, GitConfigs, Replaced, Replacement, Surveyed,
};

use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use self::exchange::exchange;
use self::protocol::{Answer, ProgramFound, Request, Task, TextRead};
use super::files::LARGEST_TEXT;
use crate::prompt::Template;

/// How much is said at most, either way.
const LARGEST: usize = 64 << 20;

const DEADLINE: Duration = Duration::from_secs(10);

/// Where the programs are that the helper may start: no place that an agent can write to.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub struct Helper<'a> {
    program: PathBuf,
    confine: &'a dyn Fn(&mut Command),
    deadline: Duration,
}

impl fmt::Debug for Helper<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Helper").finish_non_exhaustive()
    }
}

/// A program as the agent's user finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    /// The program in its first line, if that is not there.
    pub missing_interpreter: Option<String>,
}

impl<'a> Helper<'a> {
    /// A helper in the jail that `confine` makes of a command.
    pub fn new(confine: &'a dyn Fn(&mut Command)) -> Self {
        // Whatever the file is called by now, it is the program that runs already.
        Helper::of(Path::new("/proc/self/exe"), confine)
    }

    /// A helper that is another program than the one that runs: in tests that is not rooda.
    pub fn of(program: &Path, confine: &'a dyn Fn(&mut Command)) -> Self {
        Helper {
            program: program.to_owned(),
            confine,
            deadline: DEADLINE,
        }
    }

    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Helper { deadline, ..self }
    }

    /// Reads texts as the agent's user, from `directory`. Each is as if it had been read directly: its text, `None` if it is
    /// not there, or an error in the same words.
    pub fn read(&self, directory: &Path, paths: &[PathBuf]) -> Result<Vec<Result<Option<String>>>> {
        let texts = match self.ask(directory, Task::Read(paths.to_vec()))? {
            Answer::Read(texts) if texts.len() == paths.len() => texts,
            _ => return surprise(),
        };
        let text = |text| match text {
            TextRead::Text(text) if text.len() as u64 <= LARGEST_TEXT => Ok(Ok(Some(text))),
            TextRead::Missing => Ok(Ok(None)),
            TextRead::Failed(words) => Ok(Err(anyhow!(words))),
            TextRead::Text(_) => surprise(),
        };
        texts.into_iter().map(text).collect()
    }

    /// Fills in a template, within bounds of time and memory. The inner error says what is wrong with it.
    pub fn render(&self, template: &Template) -> Result<Result<String, String>> {
        let trying = "it takes too much time or memory";
        match self
            .ask(Path::new("/"), Task::Render(template.clone()))
            .context(trying)?
        {
            Answer::Render(rendered) => Ok(rendered),
            _ => surprise(),
        }
    }

    /// Finds a program as the agent's user would. The inner error says what is wrong.
    pub fn find_program(
        &self,
        directory: &Path,
        name: &str,
        path: &str,
    ) -> Result<Result<Program, String>> {
        let task = Task::FindProgram {
            name: name.to_owned(),
            path: path.to_owned(),
        };
        match self.ask(directory, task)? {
            Answer::FindProgram(ProgramFound::Found {
                path,
                missing_interpreter,
            }) => Ok(Ok(Program {
                path,
                missing_interpreter,
            })),
            Answer::FindProgram(ProgramFound::NotFound(wrong)) => Ok(Err(wrong)),
            _ => surprise(),
        }
    }

    /// The git configurations that the agent could read.
    pub(super) fn git_configs(&self, directory: &Path) -> Result<GitConfigs> {
        match self.ask(directory, Task::GitConfigs)? {
            Answer::GitConfigs(configs) => Ok(configs),
            _ => surprise(),
        }
    }

    /// Replaces what is in some files. There is one answer for each.
    pub(super) fn replace(&self, files: Vec<Replacement>) -> Result<Vec<Replaced>> {
        let count = files.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        match self.ask(Path::new("/"), Task::Replace(files))? {
            Answer::Replace(replaced) if replaced.len() == count => Ok(replaced),
            _ => surprise(),
        }
    }

    /// How things stand at some paths, and in those that are folders.
    pub(super) fn survey(&self, paths: &[PathBuf]) -> Result<Vec<Surveyed>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        match self.ask(Path::new("/"), Task::Survey(paths.to_vec()))? {
            Answer::Survey(surveyed) => Ok(surveyed),
            _ => surprise(),
        }
    }

    fn ask(&self, directory: &Path, task: Task) -> Result<Answer> {
        let trying = "cannot work in the workspace as the agent's user";
        let time = match task {
            // A large tree that nobody has read yet takes its time.
            Task::GitConfigs => self.deadline * 3,
            _ => self.deadline,
        };
        let request = Request {
            directory: directory.to_owned(),
            task,
        };
        let request = serde_json::to_vec(&request).context(trying)?;
        let mut command = Command::new(&self.program);
        command
            .arg0("rooda")
            .arg("helper")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        (self.confine)(&mut command);
        // Whatever the agent gets to know, the helper needs none of it.
        command.env_clear().env("PATH", PATH).env("LANG", "C.UTF-8");
        let child = command.spawn().context(trying)?;
        let said = exchange(child, &request, LARGEST, time).context(trying)?;
        if !said.status.success() {
            let words = said.stderr.trim_start_matches("Error: ");
            match words {
                "" => bail!("{trying}: the helper ended with {}", said.status),
                words => bail!("{words}"),
            }
        }
        serde_json::from_slice(&said.stdout)
            .context("it answered something else")
            .context(trying)
    }
}

fn surprise<T>() -> Result<T> {
    bail!("cannot work in the workspace as the agent's user: it answered something else")
}
