//! The runner's files against an agent that has the runner's own uid.

use super::*;
use crate::host::trial::{Agent, folder_for_all};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use tempfile::TempDir;

struct Runner {
    agent: Agent,
    temp: TempDir,
    environment: BTreeMap<String, String>,
}

impl Runner {
    fn new() -> Self {
        let temp = folder_for_all();
        let place = temp.path();
        let folders = ["_github_home", "_github_workflow", "_runner_file_commands"];
        for folder in folders {
            fs::create_dir(place.join(folder)).unwrap();
            set(&place.join(folder), 0o755);
        }
        for (file, mode) in [
            ("_github_home/.npmrc", 0o600),
            ("_github_workflow/event.json", 0o644),
            ("git-credentials-1.config", 0o600),
            ("of-another-step.sh", 0o755),
        ] {
            fs::write(place.join(file), "").unwrap();
            set(&place.join(file), mode);
        }
        let _socket = UnixListener::bind(place.join("socket")).unwrap();
        set(&place.join("socket"), 0o777);
        symlink("/etc/passwd", place.join("link")).unwrap();
        let variable = |name: &str, path: &str| {
            let path = place.join(path).display().to_string();
            (name.to_owned(), path)
        };
        let environment = BTreeMap::from([
            variable("HOME", "_github_home"),
            variable("GITHUB_EVENT_PATH", "_github_workflow/event.json"),
            ("RUNNER_TEMP".to_owned(), place.display().to_string()),
        ]);
        let agent = Agent::new();
        let runner = Runner {
            agent,
            temp,
            environment,
        };
        for path in runner.all() {
            agent.own(&path);
        }
        runner
    }

    fn all(&self) -> Vec<PathBuf> {
        let inside = [
            "_github_home",
            "_github_home/.npmrc",
            "_github_workflow",
            "_github_workflow/event.json",
            "_runner_file_commands",
            "git-credentials-1.config",
            "of-another-step.sh",
            "socket",
        ];
        let inside = inside.map(|name| self.temp.path().join(name));
        [self.temp.path().to_owned()]
            .into_iter()
            .chain(inside)
            .collect()
    }

    fn modes(&self) -> Vec<(PathBuf, u32, u32, u32)> {
        let stat = |path: PathBuf| {
            let stat = fs::symlink_metadata(&path).unwrap();
            (path, stat.uid(), stat.gid(), stat.mode())
        };
        self.all().into_iter().map(stat).collect()
    }

    fn note(&self) -> RunnerFiles {
        RunnerFiles::note(&self.environment, Path::new("/github/workspace"))
    }

    /// Lets an agent do something in the folder of temporary files.
    fn attack(&self, script: &str) {
        let place = self.temp.path().display();
        self.agent.run(&format!("cd '{place}' && {script}"));
    }
}

fn set(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn modes_that_an_agent_has_changed_are_put_back() {
    let close = "chmod 000 _github_home/.npmrc _github_workflow/event.json; chmod 000 _* *.config *.sh socket .";
    let open = "chmod 7777 _github_home/.npmrc _github_workflow/event.json; chmod 7777 _* *.config *.sh socket .";
    for attack in [close, open] {
        let runner = Runner::new();
        let before = runner.modes();
        let files = runner.note();
        runner.attack(attack);
        assert_ne!(mode(runner.temp.path()), 0o755, "{attack}");
        let place = runner.temp.path().display();
        let told = files.restore();
        assert_eq!(runner.modes(), before, "{attack}");
        assert_eq!(
            told[..5],
            [
                format!("{place}/_github_home had another mode or owner"),
                format!("files in {place}/_github_home had another mode: .npmrc"),
                format!("{place}/_github_workflow had another mode or owner"),
                format!("files in {place}/_github_workflow had another mode: event.json"),
                format!("{place} had another mode or owner"),
            ],
            "{attack}"
        );
        assert_eq!(told.len(), 6, "{told:?}");
        for name in ["_runner_file_commands", "of-another-step.sh", "socket"] {
            assert!(told[5].contains(name), "{told:?}");
        }
        assert_eq!(files.restore(), Vec::<String>::new(), "{attack}");
    }
}

#[test]
fn where_nobody_touched_anything_nothing_is_told() {
    let runner = Runner::new();
    let (before, files) = (runner.modes(), runner.note());
    runner.attack("touch new; chmod 000 new");
    assert_eq!(files.restore(), Vec::<String>::new());
    assert_eq!(runner.modes(), before);
    assert_eq!(mode(&runner.temp.path().join("new")), 0);
}

#[test]
fn what_has_taken_the_place_of_a_file_is_left_alone() {
    let other = folder_for_all();
    let target = other.path().join("target");
    fs::write(&target, "").unwrap();
    set(&target, 0o640);
    let runner = Runner::new();
    let files = runner.note();
    runner.attack(&format!(
        "chmod 000 *.config; mv *.config away; ln -s '{}' git-credentials-1.config; mkdir folder; mv *.sh folder",
        target.display()
    ));
    assert_eq!(files.restore(), Vec::<String>::new());
    assert_eq!(mode(&target), 0o640);
    assert_eq!(mode(&runner.temp.path().join("away")), 0);
}

#[test]
fn a_file_of_another_user_is_not_that_file_any_more() {
    let runner = Runner::new();
    let folder = Folder::open(runner.temp.path()).unwrap();
    let name = OsStr::new("of-another-step.sh");
    let mut before = folder.look(name).unwrap().unwrap();
    let path = runner.temp.path().join(name);
    set(&path, 0o600);
    // As if it had been another user's, and its number had come to a file of the agent's.
    before.st_uid = before.st_uid.wrapping_add(1);
    assert!(!put_back(&folder, name, &before).unwrap());
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn no_file_is_made_to_run_as_somebody() {
    let runner = Runner::new();
    let (file, folder) = (
        runner.temp.path().join("of-another-step.sh"),
        runner.temp.path().join("_runner_file_commands"),
    );
    set(&file, 0o6755);
    set(&folder, 0o2775);
    let files = runner.note();
    runner.attack("chmod 000 *.sh; chmod 00000 _runner_file_commands");
    assert_eq!(files.restore().len(), 1);
    assert_eq!((mode(&file), mode(&folder)), (0o755, 0o2775));
}

#[test]
fn what_overlaps_the_workspace_is_the_agents() {
    let runner = Runner::new();
    for workspace in [
        runner.temp.path(),
        &runner.temp.path().join("_github_home/x"),
    ] {
        let files = RunnerFiles::note(&runner.environment, workspace);
        runner.attack("chmod 700 _github_home/.npmrc");
        assert_eq!(files.restore(), Vec::<String>::new());
    }
    assert!(
        RunnerFiles::note(&BTreeMap::new(), Path::new("/w"))
            .0
            .is_empty()
    );
}

#[test]
fn many_are_told_in_one_sentence() {
    let runner = Runner::new();
    for number in 0..20 {
        let path = runner.temp.path().join(format!("many-{number}"));
        fs::write(&path, "").unwrap();
        runner.agent.own(&path);
    }
    let files = runner.note();
    runner.attack("chmod 000 many-*");
    let told = files.restore();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with(" and 15 more"), "{told:?}");
    assert_eq!(told[0].matches("many-").count(), 5, "{told:?}");
}
