//! What stands around the configurations of git and has a say in what is done with a token: hooks, the files that lead
//! git elsewhere, and the files that are included.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Result, bail};
use memchr::memchr;

use super::super::helper::{Bytes, ConfigFile, Content, FileKind, Helper, Surveyed};
use super::git_config::{Item, Variable, read};
use super::{Now, TakenCredentials};
use crate::redact::Secrets;

/// How far files include each other in git.
const MOST_LEVELS: usize = 10;

/// What in a repository runs something or leads elsewhere. The repositories of submodules count as such: who works in
/// the one around them runs what they say.
const IN_A_REPOSITORY: [&str; 6] = [
    "hooks",
    "commondir",
    "gitdir",
    "modules",
    "remotes",
    "branches",
];

#[derive(Default)]
pub(super) struct Surroundings {
    pub(super) watched: Vec<PathBuf>,
    /// They are missed if they are gone; a hook is not.
    included: BTreeSet<PathBuf>,
    then: BTreeMap<PathBuf, Surveyed>,
}

impl Surroundings {
    /// In words, what is not as it was.
    pub(super) fn changes(
        &self,
        now: Vec<Surveyed>,
        shown: impl Fn(&Path) -> String,
    ) -> Vec<String> {
        let now: BTreeMap<&Path, &Surveyed> =
            now.iter().map(|now| (now.path.as_path(), now)).collect();
        let mut changes = Vec::new();
        for (path, now) in &now {
            let place = shown(path);
            match self.then.get(*path) {
                _ if now.content == Content::Unknown => {
                    changes.push(format!("{place} cannot be looked at"));
                }
                None if now.link.is_some() => {
                    changes.push(format!("the agent put a link at {place}"));
                }
                None => changes.push(format!("the agent added {place}")),
                Some(then) if then == *now => {}
                Some(_) => changes.push(format!("the agent changed {place}")),
            }
        }
        let gone =
            |path: &&PathBuf| self.then.contains_key(*path) && !now.contains_key(path.as_path());
        let gone = self.included.iter().filter(gone);
        changes.extend(gone.map(|path| format!("the agent removed {}", shown(path))));
        changes
    }
}

impl TakenCredentials {
    /// Reads the files that the configurations include, and takes the tokens out of them too.
    pub(super) fn follow_includes(&mut self, helper: &Helper, known: &Secrets) -> Result<()> {
        for _ in 0..MOST_LEVELS {
            let mut new = self.includes();
            new.retain(|path| self.surroundings.included.insert(path.clone()));
            if new.is_empty() {
                return Ok(());
            }
            let new: Vec<PathBuf> = new.into_iter().collect();
            for file in helper.survey(&new)? {
                if !new.contains(&file.path) || self.found.contains_key(&file.path) {
                    continue;
                }
                match file.content {
                    Content::Text(Bytes(content)) => self.read(
                        ConfigFile {
                            path: file.path,
                            content: Bytes(content),
                            kind: FileKind::Config,
                        },
                        known,
                    )?,
                    Content::None => {}
                    Content::Unknown => bail!(
                        "{}, which is included, cannot be read",
                        self.shown(&file.path)
                    ),
                }
            }
        }
        bail!("files include each other more than {MOST_LEVELS} levels deep")
    }

    /// Remembers how things stand, for the time when the tokens are to be put back.
    pub(super) fn survey(&mut self, helper: &Helper) -> Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let repositories = self.repositories();
        let mut watched = self.surroundings.included.clone();
        for folder in &repositories {
            watched.extend(IN_A_REPOSITORY.map(|name| folder.join(name)));
            // The name of a submodule may have slashes in it.
            let above = folder.ancestors().skip(1).take_while(|above| {
                let mut repositories = repositories.iter();
                repositories.any(|folder| above.starts_with(folder.join("modules")))
            });
            watched.extend(above.map(Path::to_owned));
            watched.extend(self.hooks_elsewhere(folder));
        }
        self.surroundings.watched = watched.into_iter().collect();
        let surveyed = helper.survey(&self.surroundings.watched)?;
        let surveyed = surveyed.into_iter().map(|one| (one.path.clone(), one));
        self.surroundings.then = surveyed.collect();
        let now = self.look(helper)?.into_iter();
        let unusable = now.filter(|(_, now)| matches!(now, Now::Unusable(_)));
        self.unusable = unusable.map(|(path, _)| path).collect();
        Ok(())
    }

    fn includes(&self) -> BTreeSet<PathBuf> {
        let is_path = |variable: &Variable| {
            matches!(variable.section(), b"include" | b"includeif") && variable.last() == b"path"
        };
        let mut paths = BTreeSet::new();
        for path in &self.configs {
            let variables = self.variables(path).into_iter().filter(is_path);
            let folder = path.parent().unwrap_or(Path::new("/"));
            paths.extend(variables.filter_map(|variable| place(folder, variable.text())));
        }
        paths
    }

    /// `core.hooksPath`, from where git would follow it.
    fn hooks_elsewhere(&self, folder: &Path) -> Vec<PathBuf> {
        let files = super::NAMES.map(|name| folder.join(name));
        let files = files.iter().chain(&self.surroundings.included);
        let variables: Vec<Variable> = files.flat_map(|file| self.variables(file)).collect();
        let of = |name: &'static [u8]| {
            variables
                .iter()
                .filter(move |variable| variable.name == name)
        };
        let tree = of(b"core.worktree").find_map(|variable| place(folder, variable.text()));
        let tree = tree.or_else(|| match folder.ends_with(".git") {
            true => folder.parent().map(Path::to_owned),
            false => None,
        });
        let tree = tree.unwrap_or_else(|| folder.to_owned());
        of(b"core.hookspath")
            .filter_map(|variable| place(&tree, variable.text()))
            .collect()
    }

    /// What a configuration says without its tokens.
    fn variables(&self, path: &Path) -> Vec<Variable> {
        let items = self.then(path).and_then(read).unwrap_or_default();
        let variable = |item| match item {
            Item::Variable(variable) => Some(variable),
            Item::Header(_) => None,
        };
        items.into_iter().filter_map(variable).collect()
    }
}

/// A path as git takes it, without `.` and `..`. What is in somebody's home is not in the workspace.
fn place(folder: &Path, text: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let is_elsewhere = text.starts_with(b"~") || text.starts_with(b"%(");
    if text.is_empty() || is_elsewhere || memchr(0, text).is_some() {
        return None;
    }
    let mut path = PathBuf::new();
    for component in folder.join(std::ffi::OsStr::from_bytes(text)).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            component => path.push(component),
        }
    }
    Some(path)
}
