//! Finds the git configurations that an agent could read in a folder: of the repository around it, of every repository in
//! it, of submodules and worktrees.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use super::protocol::{Bytes, ConfigFile, GitConfigs};
use super::serve::read_config;

/// How many folders are looked into. The search goes level by level, and checkouts are not deep down.
const MOST_FOLDERS: usize = 20_000;

/// How many files there can be, and how much text in all.
const MOST_FILES: usize = 500;
const MOST_TEXT: usize = 16 << 20;

#[derive(Debug)]
struct Search {
    folders: VecDeque<(PathBuf, Expected)>,
    seen: BTreeSet<PathBuf>,
    found: GitConfigs,
    text: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Anything,
    /// Somebody says that it is a repository. If it is not, it may be any place, and is not searched.
    Repository,
}

pub(super) fn git_configs(directory: &Path) -> GitConfigs {
    let mut search = Search {
        folders: VecDeque::new(),
        seen: BTreeSet::new(),
        found: GitConfigs {
            files: Vec::new(),
            all: true,
        },
        text: 0,
    };
    if let Ok(directory) = fs::canonicalize(directory) {
        let above = directory.ancestors().skip(1);
        let around = above.map(|folder| folder.join(".git"));
        search.extend_by_link(around.filter(|path| fs::symlink_metadata(path).is_ok()));
        search.folders.push_back((directory, Expected::Anything));
    }
    while let Some((folder, expected)) = search.folders.pop_front() {
        if search.seen.len() == MOST_FOLDERS {
            search.found.all = false;
            break;
        }
        if search.seen.insert(folder.clone()) {
            search.look_into(&folder, expected);
        }
    }
    search.found
}

impl Search {
    fn look_into(&mut self, folder: &Path, expected: Expected) {
        // What the helper may not enter, the agent may not either.
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        let mut folders = Vec::new();
        let mut names = BTreeSet::new();
        for entry in entries.filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
            names.insert(entry.file_name());
        }
        let has = |name: &str| names.contains(std::ffi::OsStr::new(name));
        let is_worktree = has("HEAD") && has("commondir");
        if is_worktree || has("HEAD") && has("config") && has("objects") {
            self.add(&folder.join("config"));
            self.add(&folder.join("config.worktree"));
            folders.retain(|path| path.ends_with("modules") || path.ends_with("worktrees"));
            if is_worktree {
                self.extend_by_text(&folder.join("commondir"), "");
            }
        } else if expected == Expected::Repository {
            return;
        } else if has(".git") {
            self.extend_by_link([folder.join(".git")]);
        }
        let anything = |path| (path, Expected::Anything);
        self.folders.extend(folders.into_iter().map(anything));
    }

    /// `.git` is the repository itself, or a link to it, or a file that tells where it is.
    fn extend_by_link(&mut self, links: impl IntoIterator<Item = PathBuf>) {
        for link in links {
            match fs::canonicalize(&link) {
                Ok(path) if path.is_dir() => {
                    self.folders.push_back((path, Expected::Repository));
                }
                Ok(path) => self.extend_by_text(&path, "gitdir: "),
                Err(_) => {}
            }
        }
    }

    fn extend_by_text(&mut self, file: &Path, prefix: &str) {
        let Ok(text) = read_config(file) else {
            return;
        };
        let text = String::from_utf8_lossy(&text);
        let place = text.strip_prefix(prefix).map(str::trim_end);
        let folder = file.parent().zip(place).map(|(at, place)| at.join(place));
        if let Some(Ok(path)) = folder.map(fs::canonicalize) {
            self.folders.push_back((path, Expected::Repository));
        }
    }

    fn add(&mut self, path: &Path) {
        // As it is without links: that is where it can be found again.
        let Ok(path) = fs::canonicalize(path) else {
            return;
        };
        if self.found.files.iter().any(|file| file.path == path) {
            return;
        }
        match read_config(&path) {
            Ok(content)
                if self.found.files.len() < MOST_FILES
                    && self.text + content.len() <= MOST_TEXT =>
            {
                self.text += content.len();
                let content = Bytes(content);
                self.found.files.push(ConfigFile { path, content });
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            Ok(_) | Err(_) => self.found.all = false,
        }
    }
}
