//! The probe: what it finds in a jail that holds, and in jails with holes. It needs root.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rooda::host::{Attempt, Confinement, Jail, ProbeTargets, private_gid, run_probe_of};
use tempfile::TempDir;

use crate::programs::copy_program;

const UID: u32 = 1001;

/// A workspace, and a place like that of the runner.
struct Place {
    own: TempDir,
    runner: TempDir,
    targets: ProbeTargets,
}

impl Place {
    /// None where the tests do not run as root, which is said aloud: whatever passes then has proved nothing.
    fn new() -> Option<Place> {
        if !rustix::process::geteuid().is_root() {
            let mut stderr = std::io::stderr().lock();
            writeln!(stderr, "NOT TESTED: the probe needs root").unwrap();
            return None;
        }
        let own = open_folder("/tmp");
        // Not below /tmp, which is the agent's.
        let runner = open_folder("/var");
        for folder in ["home", "work"] {
            make_folder(&own.path().join(folder));
        }
        for folder in ["temp", "commands"] {
            make_folder(&runner.path().join(folder));
        }
        copy_program(env!("CARGO_BIN_EXE_rooda"), &own.path().join("rooda"));
        let output = runner.path().join("commands/output");
        fs::write(&output, "status=success\n").unwrap();
        chown(&output, Some(UID), None).unwrap();
        let targets = ProbeTargets {
            sockets: vec![runner.path().join("socket")],
            command_files: vec![output],
            folders: vec![runner.path().join("temp"), runner.path().join("missing")],
        };
        Some(Place {
            own,
            runner,
            targets,
        })
    }

    fn plan(&self) -> Confinement {
        Confinement {
            uid: UID,
            gid: private_gid(&[]),
            home: self.own.path().join("home"),
            directory: self.own.path().join("work"),
            writable: vec![self.own.path().join("work")],
            forbidden: vec![self.runner.path().to_owned()],
            environment: BTreeMap::new(),
            landlock: true,
        }
    }

    /// Runs the probe, sees that it left everything as it was, and answers with what it could do.
    fn holes(&self, plan: &Confinement) -> Vec<String> {
        let (jail, _) = Jail::build(plan).unwrap();
        let program = self.own.path().join("rooda");
        let before = self.listing();
        let attempts = run_probe_of(&program, &jail, &self.targets).unwrap();
        assert_eq!(self.listing(), before);
        let tried: Vec<&str> = attempts.iter().map(|tried| tried.name.as_str()).collect();
        for name in [
            "connect to /run/docker.sock",
            "read /proc/1/environ",
            "trace process 1",
            "become root",
        ] {
            assert!(tried.contains(&name), "{name} is not among {tried:?}");
        }
        let runner = self.runner.path().to_str().unwrap();
        let short = |tried: &Attempt| tried.name.replace(runner, "…");
        let allowed = attempts.iter().filter(|tried| tried.allowed);
        allowed.map(short).collect()
    }

    /// Everything in the runner's place: path, owner, mode, content.
    fn listing(&self) -> Vec<(PathBuf, u32, u32, String)> {
        let mut entries = Vec::new();
        for folder in ["", "temp", "commands"] {
            for entry in fs::read_dir(self.runner.path().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let metadata = fs::metadata(&path).unwrap();
                let content = fs::read_to_string(&path).unwrap_or_default();
                entries.push((path, metadata.uid(), metadata.mode(), content));
            }
        }
        entries.sort();
        entries
    }
}

fn open_folder(place: &str) -> TempDir {
    let folder = tempfile::tempdir_in(place).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn make_folder(path: &Path) {
    fs::create_dir(path).unwrap();
    chown(path, Some(UID), None).unwrap();
}

#[test]
fn a_jail_that_holds_lets_nothing_through() {
    let Some(place) = Place::new() else { return };
    let socket = place.runner.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o660)).unwrap();
    assert_eq!(place.holes(&place.plan()), [""; 0]);
}

#[test]
fn a_socket_for_everybody_is_found() {
    let Some(place) = Place::new() else { return };
    let socket = place.runner.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(place.holes(&place.plan()), ["connect to …/socket"]);
}

#[test]
fn the_group_of_a_socket_is_found() {
    let Some(place) = Place::new() else { return };
    let socket = place.runner.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o660)).unwrap();
    chown(&socket, None, Some(60_123)).unwrap();
    let mut plan = place.plan();
    plan.gid = 60_123;
    assert_eq!(place.holes(&plan), ["connect to …/socket"]);
}

#[test]
fn without_rules_on_files_everything_of_the_agents_user_is_found() {
    let Some(place) = Place::new() else { return };
    let mut plan = place.plan();
    plan.landlock = false;
    let holes = place.holes(&plan);
    let (baits, others): (Vec<_>, Vec<_>) = holes
        .iter()
        .partition(|hole| hole.contains(".rooda-probe-"));
    // Read, write to and truncate it, in both folders.
    assert_eq!(baits.len(), 6, "{baits:?}");
    let mut expected: Vec<String> = ["read", "write to", "truncate"]
        .map(|verb| format!("{verb} …/commands/output"))
        .to_vec();
    // A link cannot lead from one disk to another.
    let disk = |path: &str| fs::metadata(path).unwrap().dev();
    let link = (disk("/tmp") == disk("/var")).then_some("link out of");
    let verbs = [
        Some("create a file in"),
        link,
        Some("rename a file in"),
        Some("delete a file in"),
    ];
    for folder in ["commands", "temp"] {
        let verbs = verbs.iter().flatten();
        expected.extend(verbs.map(|verb| format!("{verb} …/{folder}")));
    }
    assert_eq!(others, expected.iter().collect::<Vec<_>>());
}

#[test]
fn an_agent_that_is_root_is_found_out() {
    let Some(place) = Place::new() else { return };
    let mut plan = place.plan();
    (plan.uid, plan.gid) = (0, 0);
    let holes = place.holes(&plan);
    for hole in ["use capabilities", "become root"] {
        assert!(holes.iter().any(|found| found == hole), "{holes:?}");
    }
    // The rules hold for root, too.
    assert!(!holes.iter().any(|hole| hole.contains("…/")), "{holes:?}");
}

#[test]
fn a_probe_that_does_not_answer_is_an_error() {
    let Some(place) = Place::new() else { return };
    let (jail, _) = Jail::build(&place.plan()).unwrap();
    let run = |program: &str| {
        let error = run_probe_of(Path::new(program), &jail, &place.targets).unwrap_err();
        format!("{error:#}")
    };
    assert_eq!(run("/bin/false"), "the probe failed: exit status: 1");
    let told = run("/bin/echo");
    assert!(told.starts_with("cannot read the report"), "{told}");
    assert_eq!(run("/usr/bin/yes"), "the probe talks too much");
    let told = run("/nonexistent");
    assert!(
        told.starts_with("cannot start the probe in the agent's jail: "),
        "{told}"
    );
}
