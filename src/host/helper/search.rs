//! The search for git configurations that an agent could read in a folder: of every repository in it, of submodules and
//! worktrees.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::geteuid;

use super::protocol::{Bytes, ConfigFile, FileKind, GitConfigs};
use super::serve::read_config;
use crate::error::without_number;

/// How many folders are looked into, and for how long: less than the helper has.
const MOST_FOLDERS: usize = 500_000;
const LONGEST: Duration = Duration::from_secs(25);

/// How many files there can be, and how much text in all.
const MOST_FILES: usize = 5000;
const MOST_TEXT: usize = 16 << 20;

/// A copy of a configuration is no larger. Git's own large files, such as the index, are.
const LARGEST_COPY: u64 = 64 << 10;

#[derive(Debug)]
struct Search {
    /// They come first, so that no number of folders can hide them.
    repositories: VecDeque<(PathBuf, Expected)>,
    folders: VecDeque<PathBuf>,
    seen: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    found: GitConfigs,
    text: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// A folder of the tree. Whatever it looks like, anybody may have put it there, and all of it is searched.
    Anything,
    /// `.git` itself, in whatever state.
    GitFolder,
    /// Somebody says that it is a repository. If it is not, it may be any place, and is not searched.
    Repository,
}

pub(super) fn git_configs(directory: &Path) -> GitConfigs {
    let mut search = Search {
        repositories: VecDeque::new(),
        folders: VecDeque::new(),
        seen: BTreeSet::new(),
        files: BTreeSet::new(),
        found: GitConfigs {
            files: Vec::new(),
            directories: Vec::new(),
            missed: None,
        },
        text: 0,
    };
    match fs::canonicalize(directory) {
        Ok(directory) => search.folders.push_back(directory),
        Err(error) => search.miss(directory, &error),
    }
    let begun = Instant::now();
    while let Some((folder, expected)) = search.next() {
        if search.seen.len() == MOST_FOLDERS {
            search.give_up(format!("there are more than {MOST_FOLDERS} folders"));
            break;
        }
        if begun.elapsed() > LONGEST {
            search.give_up(format!(
                "the search took longer than {} s",
                LONGEST.as_secs()
            ));
            break;
        }
        if search.seen.insert(folder.clone()) {
            search.look_into(&folder, expected);
        }
    }
    search.found
}

impl Search {
    fn next(&mut self) -> Option<(PathBuf, Expected)> {
        let folder = |path| (path, Expected::Anything);
        let repository = self.repositories.pop_front();
        repository.or_else(|| self.folders.pop_front().map(folder))
    }

    fn look_into(&mut self, folder: &Path, expected: Expected) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => return self.miss(folder, &error),
        };
        let mut folders = Vec::new();
        let mut names = BTreeSet::new();
        for entry in entries.filter_map(Result::ok) {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
            names.insert(entry.file_name());
        }
        let has = |name: &str| names.contains(OsStr::new(name));
        let is_worktree = has("HEAD") && has("commondir");
        let looks_like_one = is_worktree || has("HEAD") && has("objects");
        if has(".git") {
            self.extend_by_link(&folder.join(".git"));
        }
        match expected {
            Expected::Repository if !looks_like_one => return,
            Expected::Anything if !looks_like_one => {}
            Expected::Anything => self.add_all(folder, &names, FileKind::LookAlike),
            Expected::GitFolder | Expected::Repository => {
                self.found.directories.push(folder.to_owned());
                self.add_all(folder, &names, FileKind::Config);
            }
        }
        if is_worktree {
            self.extend_by_text(&folder.join("commondir"), "");
        }
        match expected {
            Expected::Anything => self.folders.extend(folders),
            Expected::GitFolder | Expected::Repository => {
                for folder in folders {
                    if folder.ends_with("modules") || folder.ends_with("worktrees") {
                        self.extend_below(&folder);
                    }
                }
            }
        }
    }

    /// The repositories in `modules` and `worktrees`. The names of submodules may have slashes in them.
    fn extend_below(&mut self, folder: &Path) {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            if self.seen.len() == MOST_FOLDERS || !self.seen.insert(folder.clone()) {
                continue;
            }
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    self.miss(&folder, &error);
                    continue;
                }
            };
            for entry in entries.filter_map(Result::ok) {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let path = entry.path();
                if path.join("HEAD").exists() {
                    self.repositories.push_back((path, Expected::GitFolder));
                } else {
                    folders.push(path);
                }
            }
        }
    }

    /// `.git` is the repository itself, or a link to it, or a file that tells where it is.
    fn extend_by_link(&mut self, link: &Path) {
        match fs::canonicalize(link) {
            Ok(path) if path.is_dir() => {
                self.repositories.push_back((path, Expected::GitFolder));
            }
            Ok(path) => self.extend_by_text(&path, "gitdir: "),
            Err(_) => {}
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
            self.repositories.push_back((path, Expected::Repository));
        }
    }

    /// The configurations of a repository, and the small files beside them, which may be copies.
    fn add_all(&mut self, folder: &Path, names: &BTreeSet<OsString>, kind: FileKind) {
        for name in names {
            let path = folder.join(name);
            let is_config = name == "config" || name == "config.worktree";
            if is_config && !path.is_dir() {
                self.add(&path, kind);
                continue;
            }
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            let name = name.to_string_lossy();
            let is_copy = name.starts_with("config") || name.contains("credential");
            // What lies in the tree is looked at only where it is plainly of that kind.
            let is_small = metadata.len() <= LARGEST_COPY && kind == FileKind::Config;
            if metadata.is_file() && (is_copy || is_small) {
                self.add(&path, FileKind::Beside);
            }
        }
    }

    fn add(&mut self, path: &Path, kind: FileKind) {
        // As it is without links: that is where it can be found again.
        let path = match fs::canonicalize(path) {
            Ok(path) => path,
            Err(error) => return self.miss(path, &error),
        };
        if self.files.contains(&path) {
            return;
        }
        match read_config(&path) {
            Ok(content) if self.text + content.len() > MOST_TEXT => {
                self.give_up("the git configurations are too large".to_owned());
            }
            Ok(_) if self.files.len() == MOST_FILES => {
                self.give_up(format!("there are more than {MOST_FILES} files of git"));
            }
            Ok(content) => {
                self.text += content.len();
                let content = Bytes(content);
                self.files.insert(path.clone());
                self.found.files.push(ConfigFile {
                    path,
                    content,
                    kind,
                });
            }
            Err(error) => self.miss(&path, &error),
        }
    }

    /// What the helper may not open, the agent may not either, unless it is its own.
    fn miss(&mut self, path: &Path, error: &io::Error) {
        let is_own = || {
            let metadata = fs::metadata(path);
            metadata.is_ok_and(|metadata| metadata.uid() == geteuid().as_raw())
        };
        match error.kind() {
            io::ErrorKind::NotFound => {}
            io::ErrorKind::PermissionDenied if !is_own() => {}
            _ => {
                let what = without_number(&error.to_string()).to_owned();
                self.give_up(format!("{}: {what}", path.display()));
            }
        }
    }

    fn give_up(&mut self, why: String) {
        self.found.missed.get_or_insert(why);
    }
}
