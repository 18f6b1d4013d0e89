//! The runner's folders on this machine, and what a checkout leaves in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::masks::base64;

pub(super) const REPOSITORY: &str = "octo-org/demo";
const NAME: &str = "demo";

/// What becomes of the workspace before the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkout {
    /// The token in `.git/config`.
    V5,
    /// The token in a file of `RUNNER_TEMP`, included from `.git/config`.
    V6,
    /// No checkout: the workspace is empty.
    None,
}

pub(super) struct Site {
    root: TempDir,
    socket: UnixListener,
    /// The checked-out commit.
    pub(super) commit: String,
    before: BTreeSet<PathBuf>,
}

/// What the site is made from.
pub(super) struct Ground<'a> {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) docker_gid: u32,
    pub(super) checkout: Checkout,
    /// `None`: a detached commit.
    pub(super) branch: Option<&'a str>,
    pub(super) files: &'a BTreeMap<String, Vec<u8>>,
    pub(super) token: &'a str,
}

impl Site {
    pub(super) fn new(ground: &Ground) -> Self {
        let root = tempfile::Builder::new().prefix("job-").tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let socket_path = root.path().join("docker.sock");
        let socket = UnixListener::bind(&socket_path).unwrap();
        socket.set_nonblocking(true).unwrap();
        chown(&socket_path, Some(0), Some(ground.docker_gid)).unwrap();
        fs::set_permissions(&socket_path, fs::Permissions::from_mode(0o660)).unwrap();
        let mut site = Site {
            root,
            socket,
            commit: "0".repeat(40),
            before: BTreeSet::new(),
        };
        fs::create_dir_all(site.workspace()).unwrap();
        for folder in ["_github_home", "_github_workflow", "_runner_file_commands"] {
            fs::create_dir_all(site.temp().join(folder)).unwrap();
        }
        if ground.checkout != Checkout::None {
            site.check_out(ground);
        }
        give(&site.path("work"), ground.uid, ground.gid);
        site.before = below(&site.temp()).into_iter().collect();
        site
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.path("work").join(NAME).join(NAME)
    }

    pub(super) fn temp(&self) -> PathBuf {
        self.path("work/_temp")
    }

    pub(super) fn socket_path(&self) -> PathBuf {
        self.path("docker.sock")
    }

    /// How often somebody connected to the socket since the last question.
    pub(super) fn connections(&self) -> usize {
        std::iter::from_fn(|| self.socket.accept().ok()).count()
    }

    /// What there is in the temporary folder, the home included, that was not there before the first step.
    pub(super) fn leftovers(&self) -> Vec<PathBuf> {
        let now = below(&self.temp()).into_iter();
        let new = now.filter(|path| !self.before.contains(path));
        new.map(|path| path.strip_prefix(self.temp()).unwrap().to_owned())
            .collect()
    }

    /// As actions/checkout does it: one commit deep, of a history that is longer.
    fn check_out(&mut self, ground: &Ground) {
        let (origin, work) = (self.path("origin"), self.workspace());
        fs::create_dir(&origin).unwrap();
        git(&origin, &["init", "-q", "-b", "main"]);
        git(&origin, &["commit", "-q", "--allow-empty", "-m", "Begin"]);
        for (name, content) in ground.files {
            let path = origin.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            // A file that starts as a script does is one.
            let mode = if content.starts_with(b"#!") {
                0o755
            } else {
                0o644
            };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        git(&origin, &["add", "-A"]);
        git(
            &origin,
            &["commit", "-q", "--allow-empty", "-m", "Add the demo"],
        );
        self.commit = git(&origin, &["rev-parse", "HEAD"]);

        let url = format!("https://github.com/{REPOSITORY}");
        let from = format!("file://{}", origin.display());
        git(&work, &["init", "-q", "-b", "main"]);
        git(&work, &["remote", "add", "origin", &url]);
        git(&work, &["config", "--local", "gc.auto", "0"]);
        let refs = "+refs/heads/main:refs/remotes/origin/main";
        git(
            &work,
            &[
                "fetch",
                "-q",
                "--no-tags",
                "--prune",
                "--depth=1",
                &from,
                refs,
            ],
        );
        match ground.branch {
            Some(name) => git(
                &work,
                &["checkout", "-q", "-B", name, "refs/remotes/origin/main"],
            ),
            None => git(
                &work,
                &["checkout", "-q", "--detach", "refs/remotes/origin/main"],
            ),
        };
        self.keep_credentials(ground);
    }

    fn keep_credentials(&self, ground: &Ground) {
        let work = self.workspace();
        let secret = base64(format!("x-access-token:{}", ground.token).as_bytes());
        let key = "http.https://github.com/.extraheader";
        let header = format!("AUTHORIZATION: basic {secret}");
        match ground.checkout {
            Checkout::None => {}
            Checkout::V5 => drop(git(&work, &["config", "--local", key, &header])),
            Checkout::V6 => {
                let name = "git-credentials-0b0e4f5a-6c1d-4d6e-9a55-2f1c7f0a9d11.config";
                let file = self.temp().join(name);
                let file = file.to_str().unwrap();
                git(&work, &["config", "--file", file, key, &header]);
                let host = work.join(".git");
                let host = host.to_str().unwrap();
                let inside = "/github/workspace/.git";
                let inside_file = format!("/github/runner_temp/{name}");
                for (folder, file) in [(host, file), (inside, &inside_file)] {
                    for suffix in ["", "/worktrees/*"] {
                        let key = format!("includeIf.gitdir:{folder}{suffix}.path");
                        git(&work, &["config", "--local", &key, file]);
                    }
                }
            }
        }
    }
}

/// Runs git with nothing of this machine's own configuration, and gives its answer.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs(["AUTHOR", "COMMITTER"].into_iter().flat_map(|who| {
            [
                (format!("GIT_{who}_NAME"), "Mona"),
                (format!("GIT_{who}_EMAIL"), "mona@example.com"),
                (format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z"),
            ]
        }))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Everything below a folder, without following links.
pub(super) fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return found;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// Gives a folder and everything in it to a user.
pub(super) fn give(folder: &Path, uid: u32, gid: u32) {
    for path in below(folder).iter().map(PathBuf::as_path).chain([folder]) {
        lchown(path, Some(uid), Some(gid)).unwrap();
    }
}

/// What does not belong to a user, and to whom it belongs.
pub(super) fn foreign(folder: &Path, uid: u32) -> Vec<(PathBuf, u32)> {
    let owned = |path: PathBuf| {
        let owner = fs::symlink_metadata(&path).ok()?.uid();
        let name = path.strip_prefix(folder).unwrap().to_owned();
        (owner != uid).then_some((name, owner))
    };
    below(folder).into_iter().filter_map(owned).collect()
}
