//! What the tests of this part share: an agent with a uid of its own, as far as the machine allows it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{getegid, geteuid};
use tempfile::TempDir;

/// The uid of GitHub's own runners.
const RUNNER: u32 = 1001;

/// Past the capture of the test harness, which hides what a passing test says.
pub(super) fn aloud(text: &str) {
    let line = format!("NOTE: {text}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Agent {
    uid: u32,
    gid: u32,
}

impl Agent {
    pub(super) fn new() -> Self {
        if geteuid().is_root() {
            return Agent {
                uid: RUNNER,
                gid: RUNNER,
            };
        }
        aloud("not root: the agent of this test has the same user as the test itself");
        Agent {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        }
    }

    pub(super) fn uid(self) -> u32 {
        self.uid
    }

    pub(super) fn own(self, path: &Path) {
        chown(path, Some(self.uid), Some(self.gid)).unwrap();
    }

    /// Makes a command one of the agent's.
    pub(super) fn confine(self, command: &mut Command) {
        if geteuid().is_root() {
            command.uid(self.uid).gid(self.gid);
        }
    }

    pub(super) fn run(self, script: &str) {
        let mut command = Command::new("sh");
        command.args(["-euc", script]);
        self.confine(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
    }
}

/// A temporary folder that every user can enter.
pub(super) fn folder_for_all() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}
