//! The tokens that actions/checkout leaves in git's configuration. They are taken out before the first agent runs and put
//! back when the last one is gone, unless an agent has changed what would be done with them.
//!
//! Files are touched by the helper alone. What is in them is judged here, and stays in our memory meanwhile: at no moment
//! does a token exist only in a process that may be killed.

mod git_config;
mod strip;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;

use self::strip::{Removed, Stripped, compare, is_credentials_file, put_into, secrets, strip};
use super::folder::Folder;
use super::helper::{Bytes, ConfigFile, Helper, Replaced, Replacement};

/// More than a file with one token in it needs.
const LARGEST: u64 = 1 << 16;

/// What git reads in a repository, besides what lies elsewhere.
const NAMES: [&str; 2] = ["config", "config.worktree"];

/// What was taken out, and of where.
#[derive(Default)]
pub struct TakenCredentials {
    directory: PathBuf,
    files: Vec<TakenFile>,
    /// Every configuration as it was when no agent could yet have changed it.
    found: BTreeMap<PathBuf, Vec<u8>>,
    /// What must be masked: the tokens, in each form in which they stood there.
    pub secrets: Vec<String>,
    /// Whether every folder could be searched.
    pub complete: bool,
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
        self.files.iter().map(|file| file.removed.len()).sum()
    }
}

/// Takes the tokens out of every git configuration in and around a folder. On failure nothing is changed.
pub fn take_credentials(helper: &Helper, directory: &Path) -> Result<TakenCredentials> {
    let trying = "cannot take the tokens out of git's configuration";
    let configs = helper.git_configs(directory).context(trying)?;
    let mut taken = TakenCredentials {
        directory: directory.to_owned(),
        complete: configs.all,
        ..TakenCredentials::default()
    };
    for ConfigFile { path, content } in configs.files {
        if let Some(Stripped {
            text,
            removed,
            secrets,
        }) = strip(&content.0)
        {
            taken.secrets.extend(secrets);
            taken.files.push(TakenFile {
                path: path.clone(),
                original: content.0.clone(),
                stripped: text,
                removed,
            });
        }
        taken.found.insert(path, content.0);
    }
    taken.secrets.sort();
    taken.secrets.dedup();
    if let Some(path) = taken.where_a_secret_is_left() {
        let place = taken.shown(path);
        bail!(
            "{trying}: the token stands in {place} a second time, in a place that git does not read"
        );
    }
    let out = |file: &TakenFile| replacement(&file.path, &file.original, &file.stripped);
    let back = |file: &TakenFile| replacement(&file.path, &file.stripped, &file.original);
    let replaced = helper
        .replace(taken.files.iter().map(out).collect())
        .context(trying)?;
    let failed = replaced
        .iter()
        .zip(&taken.files)
        .find_map(|(replaced, file)| {
            let what = match replaced {
                Replaced::Done => return None,
                Replaced::Differs(_) => "somebody else is writing it",
                Replaced::Missing => "it is gone",
                Replaced::Failed(words) => words,
            };
            Some(format!("{}: {what}", taken.shown(&file.path)))
        });
    if let Some(failed) = failed {
        helper.replace(taken.files.iter().map(back).collect()).ok();
        bail!("{trying}: {failed}");
    }
    Ok(taken)
}

/// Puts the tokens back where nothing stands against it, and tells what does, for a warning. To be called when no process
/// of an agent is left.
pub fn put_back_credentials(helper: &Helper, taken: &TakenCredentials) -> Result<Vec<String>> {
    let trying = "cannot put the tokens back into git's configuration";
    let now = taken.look(helper).context(trying)?;
    let mut warnings = Vec::new();
    let mut files = Vec::new();
    let mut replacements = Vec::new();
    for file in &taken.files {
        match taken.judge(file, &now) {
            Ok(replacement) => {
                files.push(file);
                replacements.push(replacement);
            }
            Err(warning) => warnings.push(warning),
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

/// What is in a file now, or in words why that cannot be told.
type Now = BTreeMap<PathBuf, Result<Vec<u8>, String>>;

impl TakenCredentials {
    fn where_a_secret_is_left(&self) -> Option<&Path> {
        let left = |text: &[u8]| {
            let mut secrets = self.secrets.iter();
            secrets.any(|secret| memchr::memmem::find(text, secret.as_bytes()).is_some())
        };
        let stripped = |path: &Path| self.files.iter().find(|file| file.path == path);
        self.found.iter().find_map(|(path, found)| {
            let text = stripped(path).map_or(found, |file| &file.stripped);
            left(text).then_some(path.as_path())
        })
    }

    /// Every file that a token was taken out of, and the other one that git reads in the same folder.
    fn look(&self, helper: &Helper) -> Result<Now> {
        let paths: BTreeSet<PathBuf> = self
            .files
            .iter()
            .flat_map(|file| NAMES.map(|name| file.path.with_file_name(name)))
            .collect();
        let look = |path: &PathBuf| Replacement {
            path: path.clone(),
            from: Bytes(self.then(path).unwrap_or_default().to_vec()),
            to: None,
        };
        let looks = helper.replace(paths.iter().map(look).collect())?;
        let now = paths.into_iter().zip(looks).map(|(path, look)| {
            let then = self.then(&path);
            let now = match look {
                Replaced::Done => Ok(then.unwrap_or_default().to_vec()),
                Replaced::Differs(Bytes(now)) => Ok(now),
                Replaced::Missing if then.is_none() => Ok(Vec::new()),
                Replaced::Missing => Err(format!("{} is gone", self.shown(&path))),
                Replaced::Failed(words) => Err(self.unusable(&path, &words)),
            };
            (path, now)
        });
        Ok(now.collect())
    }

    /// What a file held when no agent had run yet, and we had done our work.
    fn then(&self, path: &Path) -> Option<&[u8]> {
        let taken = self.files.iter().find(|file| file.path == path);
        let found = || self.found.get(path).map(Vec::as_slice);
        taken.map(|file| &file.stripped[..]).or_else(found)
    }

    /// How a file gets its tokens back, or in words why it does not.
    fn judge(&self, file: &TakenFile, now: &Now) -> Result<Replacement, String> {
        let changed = |path: &Path, what: String| {
            let place = self.shown(path);
            format!("the agent changed {place} ({what})")
        };
        let at = |path: &Path| now.get(path).cloned().unwrap_or_else(|| Ok(Vec::new()));
        let is = at(&file.path)?;
        let back = if is == file.stripped {
            file.original.clone()
        } else {
            put_into(&is, &file.original, &file.stripped, &file.removed)
                .map_err(|what| changed(&file.path, what))?
        };
        for path in NAMES.map(|name| file.path.with_file_name(name)) {
            let then = self.then(&path).unwrap_or_default();
            compare(then, &at(&path)?).map_err(|what| changed(&path, what))?;
        }
        Ok(replacement(&file.path, &is, &back))
    }

    fn unusable(&self, path: &Path, words: &str) -> String {
        format!("{} cannot be used: {words}", self.shown(path))
    }

    fn shown(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.directory).unwrap_or(path);
        path.display().to_string()
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
