//! The helper, as the real program under the agent's user, against what an agent can leave behind in a workspace.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rooda::host::{Helper, Program, read_text_file};
use tempfile::TempDir;

use crate::programs::write_script;

const RUNNER: u32 = 1001;

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn confine(command: &mut Command) {
    if is_root() {
        command.uid(RUNNER).gid(RUNNER);
    }
}

pub(crate) fn helper() -> Helper<'static> {
    if !is_root() {
        // Past the capture of the test harness.
        let note =
            b"NOTE: not root: the helper of this test has the same user as the test itself\n";
        std::io::stderr().write_all(note).unwrap();
    }
    Helper::of(Path::new(env!("CARGO_BIN_EXE_rooda")), &confine)
}

/// A workspace that belongs to the runner's user.
pub(crate) struct Workspace(TempDir);

impl Workspace {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if is_root() {
            chown(folder.path(), Some(RUNNER), Some(RUNNER)).unwrap();
        }
        Workspace(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Runs a script as the agent's user.
    pub(crate) fn run(&self, script: &str) -> String {
        let mut command = Command::new("sh");
        command
            .args(["-euc", script])
            .current_dir(self.path())
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        confine(&mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn a_text_is_read_as_if_it_were_read_directly() {
    let workspace = Workspace::new();
    workspace.run(
        "printf 'loop: {}\\n' > rooda-config.yml; mkdir folder; mkfifo pipe; ln -s /dev/zero device; \
         printf 'a\\377' > bytes; head -c 16777217 /dev/zero > large; echo there > target; ln -s target link; ln -s link/x loop",
    );
    let names = [
        "rooda-config.yml",
        "folder",
        "pipe",
        "device",
        "bytes",
        "large",
        "link",
        "loop",
        "missing",
        "folder/missing",
        "target/x",
    ];
    let all: Vec<PathBuf> = names.iter().map(|name| workspace.file(name)).collect();
    let read = helper().read(workspace.path(), &all).unwrap();
    assert_eq!(read.len(), all.len());
    for (path, read) in all.iter().zip(read) {
        let words =
            |read: anyhow::Result<Option<String>>| read.map_err(|error| format!("{error:#}"));
        assert_eq!(words(read), words(read_text_file(path)), "{path:?}");
    }
    let relative = [PathBuf::from("target"), PathBuf::from("nothing.md")];
    let read = helper().read(workspace.path(), &relative).unwrap();
    assert_eq!(read[0].as_ref().unwrap().as_deref(), Some("there\n"));
    assert_eq!(read[1].as_ref().unwrap().as_deref(), None);
}

#[test]
fn what_only_root_may_read_is_not_read_through_a_link() {
    let workspace = Workspace::new();
    workspace.run("ln -s /etc/shadow prompt.md; ln -s /root folder");
    if !is_root() {
        return;
    }
    let prompts = [PathBuf::from("prompt.md")];
    let read = helper().read(workspace.path(), &prompts).unwrap();
    assert_eq!(
        format!("{:#}", read[0].as_ref().unwrap_err()),
        "cannot read prompt.md: Permission denied (os error 13)"
    );
    let error = helper().read(&workspace.file("folder"), &[]).unwrap_err();
    let told = format!(
        "cannot use the directory {}",
        workspace.file("folder").display()
    );
    assert_eq!(format!("{error:#}"), format!("{told}: Permission denied"));
}

#[test]
fn an_answer_that_was_not_asked_for_is_refused() {
    let workspace = Workspace::new();
    let program = workspace.file("liar");
    let prompts = [PathBuf::from("x")];
    let trying = "cannot work in the workspace as the agent's user";
    for (answer, told) in [
        (
            r#"printf '{"read": []}'"#,
            format!("{trying}: it answered something else"),
        ),
        (
            r#"printf '{"read": [{"text": "a"}, {"text": "b"}]}'"#,
            format!("{trying}: it answered something else"),
        ),
        (
            r#"printf '{"replace": ["done"]}'"#,
            format!("{trying}: it answered something else"),
        ),
        ("exec sleep 600", format!("{trying}: it took too long")),
        (
            "exit 9",
            format!("{trying}: the helper ended with exit status: 9"),
        ),
        (
            "kill -9 $$",
            format!("{trying}: the helper ended with signal: 9 (SIGKILL)"),
        ),
    ] {
        write_script(&program, &format!("#!/bin/sh\n{answer}\n"));
        let begun = Instant::now();
        let helper = Helper::of(&program, &confine).within(Duration::from_secs(2));
        let error = helper.read(workspace.path(), &prompts).unwrap_err();
        assert_eq!(format!("{error:#}"), told, "{answer}");
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn the_helper_has_nothing_of_our_environment() {
    let workspace = Workspace::new();
    let program = workspace.file("teller");
    write_script(&program, "#!/bin/sh\nenv >&2; exit 1\n");
    let with_keys = |command: &mut Command| {
        command.env("ANTHROPIC_API_KEY", "secret");
        confine(command);
    };
    let error = Helper::of(&program, &with_keys)
        .read(workspace.path(), &[])
        .unwrap_err();
    let told = error.to_string();
    let mut names: Vec<_> = told
        .lines()
        .map(|line| line.split('=').next().unwrap())
        .collect();
    names.sort_unstable();
    // The shell adds one by itself.
    names.retain(|name| !matches!(*name, "PWD" | "OLDPWD" | "SHLVL" | "_"));
    assert_eq!(names, ["LANG", "PATH"]);
}

#[test]
fn a_program_is_found_as_the_agent_would_find_it() {
    let workspace = Workspace::new();
    workspace.run("mkdir bin hidden; for f in bin/tool hidden/tool; do echo '#!/no/such/thing' > $f; chmod 755 $f; done");
    let find =
        |name: &str, path: &str| helper().find_program(workspace.path(), name, path).unwrap();
    let (bin, hidden) = (workspace.file("bin"), workspace.file("hidden"));
    let path = format!("{}:{}", hidden.display(), bin.display());
    let found = |folder: &Path| {
        Ok(Program {
            path: folder.join("tool"),
            missing_interpreter: Some("/no/such/thing".to_owned()),
        })
    };
    assert_eq!(find("tool", &path), found(&hidden));
    assert_eq!(
        find("bin/tool", "").map(|program| program.path),
        Ok("bin/tool".into())
    );
    assert_eq!(
        find("no-such-tool", &path),
        Err("it is in no folder of PATH".to_owned())
    );
    assert_eq!(
        find("bin", ""),
        Err("it is in no folder of PATH".to_owned())
    );
    assert_eq!(find("./bin", ""), Err("it is a folder".to_owned()));
    if is_root() {
        // What root alone can run or enter is no program for the agent.
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o700)).unwrap();
        chown(&hidden, Some(0), Some(0)).unwrap();
        assert_eq!(find("tool", &path), found(&bin));
        chown(bin.join("tool"), Some(0), Some(0)).unwrap();
        fs::set_permissions(bin.join("tool"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(
            find("tool", &path),
            Err("it is in no folder of PATH".to_owned())
        );
        assert_eq!(find("bin/tool", ""), Err("it is not executable".to_owned()));
    }
}
