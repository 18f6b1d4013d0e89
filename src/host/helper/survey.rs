//! How things stand around a git configuration: the files that git runs or follows, as far as an agent could change them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::protocol::{Bytes, Content, Surveyed};
use super::serve::read_config;

/// How many entries a folder may have.
const MOST_ENTRIES: usize = 1000;

/// How much text there can be in all.
const MOST_TEXT: usize = 8 << 20;

/// What is at each of the paths, and in those that are folders. What is not there has no entry.
pub(super) fn survey(paths: &[PathBuf]) -> Vec<Surveyed> {
    let mut survey = Survey::default();
    for path in paths {
        // A link that leads nowhere here may lead somewhere on the runner's own machine.
        for folder in path.ancestors() {
            if fs::read_link(folder).is_ok() {
                survey.add(folder);
            }
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(_) => {
                survey.add(path);
                continue;
            }
        };
        for (count, entry) in entries.filter_map(Result::ok).enumerate() {
            let name = entry.file_name();
            if count == MOST_ENTRIES {
                survey.is_full = true;
                survey.add(path);
                break;
            }
            // Git comes with these, and does not run them.
            if !name.as_encoded_bytes().ends_with(b".sample") {
                survey.add(&entry.path());
            }
        }
    }
    survey.found.into_values().collect()
}

#[derive(Default)]
struct Survey {
    found: BTreeMap<PathBuf, Surveyed>,
    text: usize,
    is_full: bool,
}

impl Survey {
    fn add(&mut self, path: &Path) {
        if fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return;
        }
        let metadata = fs::metadata(path);
        let content = match &metadata {
            _ if self.is_full => Content::Unknown,
            Ok(metadata) if metadata.is_file() => match read_config(path) {
                Ok(content) if self.text + content.len() <= MOST_TEXT => {
                    self.text += content.len();
                    Content::Text(Bytes(content))
                }
                Ok(_) | Err(_) => Content::Unknown,
            },
            Ok(_) => Content::None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Content::None,
            Err(_) => Content::Unknown,
        };
        let is_executable = metadata
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
        let surveyed = Surveyed {
            path: path.to_owned(),
            link: fs::read_link(path).ok(),
            is_executable,
            content,
        };
        self.found.insert(path.to_owned(), surveyed);
    }
}
