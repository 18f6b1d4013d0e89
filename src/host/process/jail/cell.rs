//! A jail with a workspace and a home, for tests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Output, Stdio};

use rustix::process::geteuid;
use rustix::stdio;
use tempfile::TempDir;

use super::{Confinement, Jail};
use crate::host::LandlockStatus;

pub(in crate::host::process) const UID: u32 = 1001;
pub(in crate::host::process) const GID: u32 = 60_999;

pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A jail with a workspace and a home, and a folder that nobody in it may reach.
pub(in crate::host::process) struct Cell {
    pub(in crate::host::process) root: TempDir,
    pub(super) secret: TempDir,
    pub(in crate::host::process) jail: Jail,
    pub(super) status: LandlockStatus,
}

impl Cell {
    /// None where the tests do not run as root, which is said aloud: whatever passes then has proved nothing.
    pub(in crate::host::process) fn new() -> Option<Cell> {
        Cell::with(|_| {})
    }

    pub(in crate::host::process) fn with(change: impl FnOnce(&mut Confinement)) -> Option<Cell> {
        if !geteuid().is_root() {
            rustix::io::write(stdio::stderr(), b"NOT TESTED: the jail needs root\n").unwrap();
            return None;
        }
        let root = open_folder("/tmp");
        let secret = open_folder("/var");
        let token = secret.path().join("token");
        fs::write(&token, "secret").unwrap();
        // The kernel's own check of owners must not be what says no.
        chown(secret.path(), Some(UID), Some(GID)).unwrap();
        chown(token, Some(UID), Some(GID)).unwrap();
        for name in ["home", "work"] {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            chown(&path, Some(UID), Some(GID)).unwrap();
        }
        let mut plan = Confinement {
            uid: UID,
            gid: GID,
            home: root.path().join("home"),
            directory: root.path().join("work"),
            writable: vec![root.path().join("work")],
            forbidden: vec![secret.path().to_owned()],
            environment: BTreeMap::from([
                ("PATH".to_owned(), PATH.to_owned()),
                (
                    "HOME".to_owned(),
                    root.path().join("home").to_str()?.to_owned(),
                ),
                ("SECRET".to_owned(), secret.path().to_str()?.to_owned()),
            ]),
            landlock: true,
        };
        change(&mut plan);
        let (jail, status) = Jail::build(&plan).unwrap();
        Some(Cell {
            root,
            secret,
            jail,
            status,
        })
    }

    pub(super) fn run(&self, script: &str) -> Output {
        let mut command = Command::new("/bin/sh");
        // A jail with a hole must not harm what is around it.
        command.current_dir(self.root.path());
        command.args(["-c", script]).stdin(Stdio::piped());
        self.jail.confine(&mut command);
        command.output().unwrap()
    }

    /// What a script prints that must go well.
    pub(super) fn says(&self, script: &str) -> String {
        let output = self.run(script);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {told}");
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    /// Expects that a script fails because the kernel says no.
    pub(super) fn refuses(&self, script: &str) {
        let output = self.run(script);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{script}: nobody said no");
        assert!(
            // The last one is the kernel's answer to a link or rename that would add rights.
            ["Permission denied", "not permitted", "cross-device link"]
                .iter()
                .any(|answer| told.contains(answer)),
            "{script}: {told}"
        );
    }
}

/// A folder that everybody can read.
pub(super) fn open_folder(place: &str) -> TempDir {
    let folder = tempfile::tempdir_in(place).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}
