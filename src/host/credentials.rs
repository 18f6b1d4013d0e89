//! The tokens that actions/checkout leaves in git's configuration. They are taken out before the first agent runs and put
//! back when the last one is gone, unless an agent has changed what would be done with them.
//!
//! Files are touched by the helper alone. What is in them is judged here, and stays in our memory meanwhile: at no moment
//! does a token exist only in a process that may be killed.

mod git_config;
mod strip;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;

use self::strip::{Removed, compare, is_credentials_file, put_into, secrets, strip};
use self::surroundings::Surroundings;
use super::folder::Folder;
use super::helper::{Bytes, ConfigFile, FileKind, Helper, Replaced, Replacement};
use crate::redact::Secrets;

/// More than a file with one token in it needs.
const LARGEST: u64 = 1 << 16;

/// A shorter word may stand anywhere, and be no secret there.
const SHORTEST_SECRET: usize = 8;

/// How many reasons a warning tells.
const MOST_REASONS: usize = 3;

/// What git reads in a repository, besides what lies elsewhere.
const NAMES: [&str; 2] = ["config", "config.worktree"];

/// What was taken out, and of where.
#[derive(Default)]
pub struct TakenCredentials {
    root: PathBuf,
    files: Vec<TakenFile>,
    /// Every file that was read, as it was when no agent could yet have changed it.
    found: BTreeMap<PathBuf, Vec<u8>>,
    /// The folders to which git itself leads.
    directories: BTreeSet<PathBuf>,
    surroundings: Surroundings,
    /// The configurations that could not be read even then.
    unusable: BTreeSet<PathBuf>,
    /// The configurations to which git itself leads.
    configs: BTreeSet<PathBuf>,
    /// How many configurations of git were read.
    pub looked_at: usize,
    /// What must be masked: the tokens, in each form in which they stood there.
    pub secrets: Vec<String>,
    /// In words, why not everything could be searched.
    pub missed: Option<String>,
}

struct TakenFile {
    path: PathBuf,
    original: Vec<u8>,
    stripped: Vec<u8>,
    removed: Vec<Removed>,
}

impl fmt::Debug for TakenCredentials {
    /// Without the tokens: this may end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let paths: Vec<&PathBuf> = self.files.iter().map(|file| &file.path).collect();
        f.debug_struct("TakenCredentials")
            .field("files", &paths)
            .finish_non_exhaustive()
    }
}

impl TakenCredentials {
    /// How many entries were taken out.
    pub fn count(&self) -> usize {
        // Of a section that was empty but for its name, nothing else is left to count.
        let count = |file: &TakenFile| file.removed.len().max(1);
        self.files.iter().map(count).sum()
    }
}

/// Takes the tokens, and what else is known to be secret, out of every git configuration in a folder. On failure nothing
/// is changed.
pub fn take_credentials(helper: &Helper, root: &Path, known: &Secrets) -> Result<TakenCredentials> {
    let trying = "cannot take the tokens out of git's configuration";
    let configs = helper.git_configs(root).context(trying)?;
    let known: Vec<String> = known
        .masks()
        .filter(|value| value.len() >= SHORTEST_SECRET)
        .map(str::to_owned)
        .collect();
    let mut taken = TakenCredentials {
        root: root.to_owned(),
        directories: configs.directories.into_iter().collect(),
        missed: configs.missed,
        ..TakenCredentials::default()
    };
    let all_known = Secrets::new(known.clone());
    for file in configs.files {
        taken.read(file, &all_known).context(trying)?;
    }
    taken.follow_includes(helper, &all_known).context(trying)?;
    taken.secrets.sort();
    taken.secrets.dedup();
    let all_known = Secrets::new(known.into_iter().chain(taken.secrets.iter().cloned()));
    if let Some(path) = taken.where_a_secret_is_left(&all_known) {
        let place = taken.shown(path);
        bail!(
            "{trying}: a secret of the job stands in {place}, and cannot be taken out there; \
             remove it, or set `persist-credentials: false` for the checkout"
        );
    }
    taken.replace_all(helper, trying)?;
    // The tokens are out, but nothing would bring them back.
    if let Err(error) = taken.survey(helper) {
        let back = |file: &TakenFile| replacement(&file.path, &file.stripped, &file.original);
        helper.replace(taken.files.iter().map(back).collect()).ok();
        return Err(error.context(trying));
    }
    Ok(taken)
}

/// Puts the tokens back if nothing stands against it, and tells what does, for a warning. To be called when no process of
/// an agent is left.
pub fn put_back_credentials(helper: &Helper, taken: &TakenCredentials) -> Result<Vec<String>> {
    let trying = "cannot put the tokens back into git's configuration";
    if taken.files.is_empty() {
        return Ok(Vec::new());
    }
    let now = taken.look(helper).context(trying)?;
    let mut against = taken.changes(&now);
    let surveyed = helper.survey(&taken.surroundings.watched).context(trying)?;
    against.extend(
        taken
            .surroundings
            .changes(surveyed, |path| taken.shown(path)),
    );
    // Whatever runs for one repository can read what stands in the others.
    if let Some(reasons) = together(&against) {
        return Ok(vec![reasons]);
    }
    let mut files = Vec::new();
    let mut replacements = Vec::new();
    let mut warnings = Vec::new();
    for file in &taken.files {
        match now.get(&file.path) {
            Some(Now::Text(text)) => match file.put_into(text) {
                Ok(back) => {
                    replacements.push(replacement(&file.path, text, &back));
                    files.push(file);
                }
                Err(what) => warnings.push(taken.changed(&file.path, &what)),
            },
            Some(Now::Unusable(words)) => warnings.push(words.clone()),
            Some(Now::Missing) | None => {
                warnings.push(format!("{} is gone", taken.shown(&file.path)));
            }
        }
    }
    let replaced = helper.replace(replacements).context(trying)?;
    for (replaced, file) in replaced.into_iter().zip(files) {
        match replaced {
            Replaced::Done => {}
            Replaced::Failed(words) => warnings.push(taken.unusable(&file.path, &words)),
            Replaced::Differs(_) | Replaced::Missing => {
                warnings.push(taken.unusable(&file.path, "it changes all the time"));
            }
        }
    }
    Ok(warnings)
}

/// What is at a path now.
enum Now {
    Text(Vec<u8>),
    Missing,
    /// In words, why that cannot be told.
    Unusable(String),
}

impl TakenFile {
    fn put_into(&self, now: &[u8]) -> Result<Vec<u8>, String> {
        match now == self.stripped {
            true => Ok(self.original.clone()),
            false => put_into(now, &self.original, &self.stripped, &self.removed),
        }
    }
}

impl TakenCredentials {
    /// Takes a file in, and the tokens out of it.
    fn read(&mut self, file: ConfigFile, known: &Secrets) -> Result<()> {
        let ConfigFile {
            path,
            content: Bytes(original),
            kind,
        } = file;
        let stripped = match kind {
            FileKind::Beside => None,
            FileKind::Config | FileKind::LookAlike => strip(&original, &|text| holds(text, known)),
        };
        match (stripped, kind) {
            (Some(stripped), _) => {
                self.looked_at += 1;
                self.secrets.extend(stripped.secrets);
                if stripped.text != original {
                    self.files.push(TakenFile {
                        path: path.clone(),
                        original: original.clone(),
                        stripped: stripped.text,
                        removed: stripped.removed,
                    });
                }
            }
            (None, FileKind::Config) => bail!(
                "{} is not a configuration that git could read; mend or remove it",
                self.shown(&path)
            ),
            (None, FileKind::LookAlike | FileKind::Beside) => {}
        }
        if kind == FileKind::Config {
            self.configs.insert(path.clone());
        }
        self.found.insert(path, original);
        Ok(())
    }

    fn where_a_secret_is_left(&self, known: &Secrets) -> Option<&Path> {
        let mut paths = self.found.keys();
        let path = paths.find(|path| holds(self.then(path).unwrap_or_default(), known));
        path.map(PathBuf::as_path)
    }

    fn replace_all(&self, helper: &Helper, trying: &'static str) -> Result<()> {
        let out = |file: &TakenFile| replacement(&file.path, &file.original, &file.stripped);
        let back = |file: &TakenFile| replacement(&file.path, &file.stripped, &file.original);
        let replaced = helper
            .replace(self.files.iter().map(out).collect())
            .context(trying)?;
        let failed = replaced
            .iter()
            .zip(&self.files)
            .find_map(|(replaced, file)| {
                let what = match replaced {
                    Replaced::Done => return None,
                    Replaced::Differs(_) => "somebody else is writing it",
                    Replaced::Missing => "it is gone",
                    Replaced::Failed(words) => words,
                };
                Some(format!("{}: {what}", self.shown(&file.path)))
            });
        if let Some(failed) = failed {
            helper.replace(self.files.iter().map(back).collect()).ok();
            bail!("{trying}: {failed}");
        }
        Ok(())
    }

    /// Every file that a token was taken out of, and all that git reads in a repository.
    fn look(&self, helper: &Helper) -> Result<BTreeMap<PathBuf, Now>> {
        let own = self.files.iter().map(|file| file.path.clone());
        let all = self.repositories();
        let all = all
            .iter()
            .flat_map(|folder| NAMES.map(|name| folder.join(name)));
        let paths: BTreeSet<PathBuf> = own.chain(all).collect();
        let look = |path: &PathBuf| Replacement {
            path: path.clone(),
            from: Bytes(self.then(path).unwrap_or_default().to_vec()),
            to: None,
        };
        let looks = helper.replace(paths.iter().map(look).collect())?;
        let now = paths.into_iter().zip(looks).map(|(path, look)| {
            let now = match look {
                Replaced::Done => Now::Text(self.then(&path).unwrap_or_default().to_vec()),
                Replaced::Differs(Bytes(now)) => Now::Text(now),
                Replaced::Missing => Now::Missing,
                Replaced::Failed(words) => Now::Unusable(self.unusable(&path, &words)),
            };
            (path, now)
        });
        Ok(now.collect())
    }

    /// The repositories that are watched: those to which git leads, and those that had a token.
    fn repositories(&self) -> BTreeSet<PathBuf> {
        let is_config = |path: &&Path| {
            path.file_name()
                .is_some_and(|name| name == "config" || name == "config.worktree")
        };
        let own = self.files.iter().map(|file| file.path.as_path());
        let own = own.filter(is_config).filter_map(Path::parent);
        own.map(Path::to_owned)
            .chain(self.directories.iter().cloned())
            .collect()
    }

    /// What a file held when no agent had run yet, and we had done our work.
    fn then(&self, path: &Path) -> Option<&[u8]> {
        let taken = self.files.iter().find(|file| file.path == path);
        let found = || self.found.get(path).map(Vec::as_slice);
        taken.map(|file| &file.stripped[..]).or_else(found)
    }

    /// What is different in the configurations, as far as it could do harm.
    fn changes(&self, now: &BTreeMap<PathBuf, Now>) -> Vec<String> {
        let change = |(path, now): (&PathBuf, &Now)| match now {
            Now::Text(now) => {
                let same = compare(self.then(path).unwrap_or_default(), now);
                same.err().map(|what| self.changed(path, &what))
            }
            Now::Unusable(words) if !self.unusable.contains(path) => Some(words.clone()),
            Now::Missing | Now::Unusable(_) => None,
        };
        now.iter().filter_map(change).collect()
    }

    fn changed(&self, path: &Path, what: &str) -> String {
        format!("the agent changed {} ({what})", self.shown(path))
    }

    fn unusable(&self, path: &Path, words: &str) -> String {
        format!("{} cannot be used: {words}", self.shown(path))
    }

    fn shown(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        path.display().to_string()
    }
}

fn holds(text: &[u8], known: &Secrets) -> bool {
    let text = String::from_utf8_lossy(text);
    known.redact(&text) != text
}

/// The first few reasons in one sentence.
fn together(reasons: &[String]) -> Option<String> {
    let more = reasons.len().saturating_sub(MOST_REASONS);
    let first = reasons.iter().take(MOST_REASONS);
    let text = first.map(String::as_str).collect::<Vec<_>>().join("; ");
    match (text.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(text),
        (false, more) => Some(format!("{text}; and {more} more")),
    }
}

fn replacement(path: &Path, from: &[u8], to: &[u8]) -> Replacement {
    Replacement {
        path: path.to_owned(),
        from: Bytes(from.to_vec()),
        to: Some(Bytes(to.to_vec())),
    }
}

/// The tokens that newer versions of checkout keep in the runner's folder of temporary files, which the agent cannot read.
/// They are only to be masked.
pub fn checkout_tokens(runner_temp: &Path) -> Vec<String> {
    let Ok(folder) = Folder::open(runner_temp) else {
        return Vec::new();
    };
    let names = folder.names(usize::MAX).unwrap_or_default();
    let mut tokens: Vec<String> = names
        .iter()
        .filter(|name| is_credentials_file(name.as_bytes()))
        .filter_map(|name| {
            let file = folder.file(name, OFlags::RDONLY).ok()?;
            let mut text = Vec::new();
            file.take(LARGEST).read_to_end(&mut text).ok()?;
            Some(secrets(&text))
        })
        .flatten()
        .collect();
    tokens.sort();
    tokens.dedup();
    tokens
}
