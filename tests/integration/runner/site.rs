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

    /// Writes a file of the runner's user to the workspace.
    pub(super) fn plant(&self, name: &str, text: &str, (uid, gid): (u32, u32)) {
        let path = self.workspace().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        for path in path
            .ancestors()
            .take_while(|path| *path != self.workspace())
        {
            chown(path, Some(uid), Some(gid)).unwrap();
        }
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

        git(&work, &["init", "-q", "-b", "main"]);
        let from = format!("file://{}", origin.display());
        let refs = "+refs/heads/main:refs/remotes/origin/main";
        let fetch = ["fetch", "-q", "--no-tags", "--prune", "--depth=1"];
        git(&work, &[&fetch[..], &[&from, refs]].concat());
        let target = "refs/remotes/origin/main";
        match ground.branch {
            Some(name) => git(&work, &["checkout", "-q", "-B", name, target]),
            None => git(&work, &["checkout", "-q", "--detach", target]),
        };
        self.configure(ground);
    }

    /// What actions/checkout writes to the configuration, the token among it.
    fn configure(&self, ground: &Ground) {
        let host = self.workspace().join(".git");
        let secret = base64(format!("x-access-token:{}", ground.token).as_bytes());
        let header = format!(
            "[http \"https://github.com/\"]\n\textraheader = AUTHORIZATION: basic {secret}\n"
        );
        let mut config = format!(
            "[remote \"origin\"]\n\turl = https://github.com/{REPOSITORY}\n\
             \tfetch = +refs/heads/*:refs/remotes/origin/*\n[gc]\n\tauto = 0\n"
        );
        match ground.checkout {
            Checkout::None => {}
            Checkout::V5 => config.push_str(&header),
            Checkout::V6 => {
                let name = "git-credentials-0b0e4f5a-6c1d-4d6e-9a55-2f1c7f0a9d11.config";
                fs::write(self.temp().join(name), &header).unwrap();
                let inside = Path::new("/github/workspace/.git");
                let inside_temp = Path::new("/github/runner_temp");
                for (git, temp) in [(&*host, &*self.temp()), (inside, inside_temp)] {
                    for suffix in ["", "/worktrees/*"] {
                        let (git, temp) = (git.display(), temp.display());
                        config.push_str(&format!(
                            "[includeIf \"gitdir:{git}{suffix}\"]\n\tpath = {temp}/{name}\n"
                        ));
                    }
                }
            }
        }
        let path = host.join("config");
        let before = fs::read_to_string(&path).unwrap();
        fs::write(path, before + &config).unwrap();
        // The fake agent's script and counter.
        fs::write(host.join("info/exclude"), ".agent*\n").unwrap();
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
