//! Who reads the files of the workspace. On the command line rooda does; in the action they are hostile, and a helper
//! in the agent's jail reads them: whatever they lead to, it is no more than the agent could have read itself.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use super::credentials::{TakenCredentials, put_back_credentials, take_credentials};
use super::files;
use super::helper::{Helper, Program};
use super::process::Jail;
use crate::prompt::Template;
use crate::redact::Secrets;

#[derive(Debug)]
pub enum Reader {
    Direct,
    Jailed(Workspace),
}

/// The workspace as the agent sees it. Whatever is done in it is done by a helper in the agent's jail.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub jail: Jail,
    /// Where the agent works.
    pub directory: PathBuf,
    /// All that is its own: the workspace of the job.
    pub root: PathBuf,
}

impl Reader {
    /// The text of each file, or nothing where there is none.
    pub fn texts(&self, paths: &[&Path]) -> Vec<Result<Option<String>>> {
        match self {
            Reader::Direct => paths
                .iter()
                .map(|path| files::read_text_file(path))
                .collect(),
            Reader::Jailed(workspace) => workspace.texts(paths),
        }
    }

    /// Fills in a template. One that is hostile may take what it likes: it takes it from a helper.
    pub fn render(&self, template: &Template) -> Result<String, String> {
        match self {
            Reader::Direct => template.render(),
            Reader::Jailed(workspace) => workspace
                .helped(|helper| helper.render(template))
                .unwrap_or_else(|error| Err(format!("{error:#}"))),
        }
    }

    /// Finds a program as the shell would. The error says what is wrong.
    pub fn find_program(&self, name: &str, path: &str) -> Result<Program, String> {
        match self {
            Reader::Direct => {
                let path = files::find_program(name, path)?;
                Ok(Program {
                    missing_interpreter: files::missing_interpreter(&path),
                    path,
                })
            }
            Reader::Jailed(workspace) => workspace.find_program(name, path),
        }
    }
}

impl Workspace {
    fn texts(&self, paths: &[&Path]) -> Vec<Result<Option<String>>> {
        if paths.is_empty() {
            return Vec::new();
        }
        let wanted: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
        match self.helped(|helper| helper.read(&self.directory, &wanted)) {
            Ok(texts) => texts,
            Err(error) => {
                let told = format!("{error:#}");
                paths.iter().map(|_| Err(anyhow!(told.clone()))).collect()
            }
        }
    }

    fn find_program(&self, name: &str, path: &str) -> Result<Program, String> {
        self.helped(|helper| helper.find_program(&self.directory, name, path))
            .unwrap_or_else(|error| Err(format!("{error:#}")))
    }

    pub fn take_credentials(&self, known: &Secrets) -> Result<TakenCredentials> {
        self.helped(|helper| take_credentials(helper, &self.root, known))
    }

    pub fn put_back_credentials(&self, taken: &TakenCredentials) -> Result<Vec<String>> {
        self.helped(|helper| put_back_credentials(helper, taken))
    }

    fn helped<T>(&self, ask: impl FnOnce(&Helper) -> T) -> T {
        let confine = |command: &mut std::process::Command| self.jail.confine(command);
        ask(&Helper::new(&confine))
    }
}
