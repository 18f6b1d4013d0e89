//! The command files against an agent that has the runner's own uid and is kept from nothing.

use super::*;
use crate::host::trial::{Agent, folder_for_all};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use tempfile::TempDir;

const COMPOSITE: &str = "set_env_11111111-2222-3333-4444-555555555555";

/// The folder of temporary files of a runner, as one step finds it.
struct Runner {
    agent: Agent,
    temp: TempDir,
    environment: BTreeMap<String, String>,
}

impl Runner {
    fn new() -> Self {
        let agent = Agent::new();
        let temp = folder_for_all();
        agent.own(temp.path());
        let folder = temp.path().join("_runner_file_commands");
        fs::create_dir(&folder).unwrap();
        agent.own(&folder);
        let mut environment = BTreeMap::new();
        for which in CommandFile::ALL {
            let name = format!("{}0f7d2b1e-aaaa-bbbb-cccc-0123456789ab", which.prefix());
            let path = folder.join(name);
            environment.insert(which.variable().to_owned(), path.display().to_string());
        }
        let temp_path = temp.path().display().to_string();
        environment.insert("RUNNER_TEMP".to_owned(), temp_path);
        let runner = Runner {
            agent,
            temp,
            environment,
        };
        for path in CommandFile::ALL.map(|which| runner.path(which)) {
            runner.put(&path, "");
        }
        runner.put(&folder.join(COMPOSITE), "OF_THE=composite\n");
        runner
    }

    fn put(&self, path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        self.agent.own(path);
    }

    fn folder(&self) -> PathBuf {
        self.temp.path().join("_runner_file_commands")
    }

    fn path(&self, which: CommandFile) -> PathBuf {
        PathBuf::from(&self.environment[which.variable()])
    }

    /// Lets an agent do something in the folder of temporary files. `$OUT`, `$ENV_FILE` and `$DIR` lead to the files.
    fn attack(&self, script: &str) {
        let script = format!(
            "cd '{}' && OUT='{}' ENV_FILE='{}' DIR=_runner_file_commands && {script}",
            self.temp.path().display(),
            self.path(CommandFile::Output).display(),
            self.path(CommandFile::Env).display(),
        );
        self.agent.run(&script);
    }

    /// The names of which only rooda makes some.
    fn of_rooda(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.folder())
            .unwrap()
            .chain(fs::read_dir(self.temp.path()).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with(".rooda"))
            .collect();
        names.sort();
        names
    }

    fn must_hold(&self, output: &str, after: &str) {
        let folder = fs::symlink_metadata(self.folder()).unwrap();
        assert!(folder.is_dir(), "{after}");
        assert_eq!(folder.mode() & 0o7777, 0o755, "{after}");
        assert_eq!(folder.uid(), self.agent.uid(), "{after}");
        let above = fs::symlink_metadata(self.temp.path()).unwrap();
        assert_eq!(above.mode() & 0o7777, 0o755, "{after}");
        let composite = (self.folder().join(COMPOSITE), "OF_THE=composite\n");
        let ours = CommandFile::ALL.map(|which| {
            let told = which == CommandFile::Output;
            (self.path(which), if told { output } else { "" })
        });
        for (path, content) in ours.into_iter().chain([composite]) {
            let what = format!("{} after: {after}", path.display());
            let metadata = fs::symlink_metadata(&path).expect(&what);
            assert!(metadata.is_file(), "{what}");
            assert_eq!(metadata.mode() & 0o7777, 0o644, "{what}");
            assert_eq!(metadata.uid(), self.agent.uid(), "{what}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content, "{what}");
        }
    }
}

#[test]
fn whatever_an_agent_makes_of_the_command_files_they_are_put_right() {
    for (attack, told) in [
        ("echo PATH=/evil >> $ENV_FILE", "GITHUB_ENV was written to"),
        ("echo status=success > $OUT", "GITHUB_OUTPUT was written to"),
        (
            "head -c 5000000 /dev/zero >> $OUT",
            "GITHUB_OUTPUT was written to",
        ),
        (": > $OUT", "GITHUB_OUTPUT was written to"),
        ("chmod 0000 $OUT", "GITHUB_OUTPUT had another mode or owner"),
        ("chmod 4777 $OUT", "GITHUB_OUTPUT had another mode or owner"),
        ("rm $OUT", "GITHUB_OUTPUT was removed"),
        (
            "rm $OUT; echo status=success > $OUT",
            "GITHUB_OUTPUT was replaced by another file",
        ),
        (
            "rm $OUT; ln -s /etc/passwd $OUT",
            "GITHUB_OUTPUT was replaced by a symbolic link",
        ),
        (
            "rm $OUT; ln -s nowhere $OUT",
            "GITHUB_OUTPUT was replaced by a symbolic link",
        ),
        (
            "echo x > other; ln -f other $OUT",
            "GITHUB_OUTPUT was replaced by another file",
        ),
        (
            "rm $OUT; mkfifo $OUT",
            "GITHUB_OUTPUT was replaced by a pipe, socket or device",
        ),
        (
            "rm $OUT; mkdir -p $OUT/a/b; touch $OUT/a/c; ln -s / $OUT/root; chmod 0 $OUT/a $OUT",
            "GITHUB_OUTPUT was replaced by a folder",
        ),
        (
            "rm $OUT; mkdir $OUT",
            "GITHUB_OUTPUT was replaced by a folder",
        ),
        ("mv $ENV_FILE $OUT", "GITHUB_ENV was removed"),
        (
            "touch $DIR/.rooda-new-0 .rooda-aside-0; mkdir $DIR/.rooda-aside-0; rm $OUT; mkdir -p $OUT/x/y",
            "GITHUB_OUTPUT was replaced by a folder",
        ),
        (
            "chmod 0000 $DIR",
            "the folder of the command files had another mode or owner",
        ),
        (
            "chmod 0000 .",
            "the folder above the command files had another mode or owner",
        ),
        (
            "mv $DIR away; mkdir $DIR; echo status=success > $OUT",
            "the folder of the command files was moved or removed",
        ),
        (
            "mv $DIR away; ln -s away $DIR",
            "the folder of the command files was moved or removed",
        ),
        (
            "mv $DIR away; echo file > $DIR; chmod 0 away",
            "the folder of the command files was moved or removed",
        ),
        (
            "mkdir deep; mv $DIR deep/er",
            "the folder of the command files was moved or removed",
        ),
        (
            "rm -r $DIR; ln -s /etc $DIR",
            "the folder of the command files was moved or removed",
        ),
        (
            "for f in $DIR/set_env_11111111*; do echo EVIL=1 >> $f; done",
            "the command file set_env_11111111-2222-3333-4444-555555555555 was written to",
        ),
    ] {
        let runner = Runner::new();
        let mut files = CommandFiles::hold(&runner.environment).unwrap();
        files
            .write(CommandFile::Output, b"status=running\n")
            .unwrap();
        runner.attack(attack);
        let planted = (attack.matches(".rooda").count(), attack);
        let repairs = files.restore();
        assert!(
            repairs.iter().any(|repair| repair == told),
            "{attack}: {repairs:?}"
        );
        runner.must_hold("status=running\n", attack);
        files
            .write(CommandFile::Output, b"status=aborted\n")
            .unwrap();
        runner.must_hold("status=aborted\n", attack);
        // Only root can remove a folder that was closed to everybody. It no longer bears the name, in any case.
        if rustix::process::geteuid().is_root() {
            assert_eq!((runner.of_rooda().len(), attack), planted);
        }
        assert_eq!(files.restore(), Vec::<String>::new(), "{attack}");
        runner.must_hold("status=aborted\n", attack);
    }
}

#[test]
fn where_nobody_touched_anything_nothing_is_told() {
    let runner = Runner::new();
    let mut files = CommandFiles::hold(&runner.environment).unwrap();
    assert_eq!(files.restore(), Vec::<String>::new());
    runner.must_hold("", "nothing");
}

#[test]
fn a_file_is_written_in_place_and_never_becomes_shorter() {
    let runner = Runner::new();
    let mut files = CommandFiles::hold(&runner.environment).unwrap();
    let path = runner.path(CommandFile::Output);
    let inode = fs::metadata(&path).unwrap().ino();
    files
        .write(CommandFile::Output, b"reason=a long one\n")
        .unwrap();
    files.write(CommandFile::Output, b"reason=x\n").unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "reason=x\n\n\n\n\n\n\n\n\n\n"
    );
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
}

#[test]
fn what_was_in_a_file_before_stays_in_front() {
    let runner = Runner::new();
    let path = runner.path(CommandFile::Summary);
    runner.put(&path, "# Before");
    let mut files = CommandFiles::hold(&runner.environment).unwrap();
    files.write(CommandFile::Summary, b"# One\n").unwrap();
    files.write(CommandFile::Summary, b"# Two\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "# Before\n# Two\n");
}

#[test]
fn a_file_that_is_missing_is_made_as_the_runner_would() {
    let runner = Runner::new();
    fs::remove_file(runner.path(CommandFile::Env)).unwrap();
    CommandFiles::hold(&runner.environment).unwrap();
    runner.must_hold("", "a missing file");
}

#[test]
fn what_the_runner_has_not_named_is_not_written() {
    let mut files = CommandFiles::hold(&BTreeMap::new()).unwrap();
    files.write(CommandFile::Output, b"x=y\n").unwrap();
    assert_eq!(files.restore(), Vec::<String>::new());
}

#[test]
fn a_link_in_the_place_of_a_command_file_is_refused_at_the_start() {
    let runner = Runner::new();
    let path = runner.path(CommandFile::State);
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    let error = CommandFiles::hold(&runner.environment).unwrap_err();
    assert!(format!("{error:#}").starts_with("cannot hold the file of GITHUB_STATE"));
}

#[test]
fn rights_that_new_files_would_inherit_are_taken_back() {
    let runner = Runner::new();
    let mut files = CommandFiles::hold(&runner.environment).unwrap();
    // What `setfacl -d -m u::---` writes: every file that the runner makes here would be closed to itself.
    let entry = |tag: u16, rights: u16| {
        let mut bytes = Vec::new();
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(u32::MAX.to_le_bytes());
        bytes
    };
    let acl = [
        2_u32.to_le_bytes().to_vec(),
        entry(1, 0),
        entry(4, 0),
        entry(32, 0),
    ]
    .concat();
    let folder = File::open(runner.folder()).unwrap();
    let name = "system.posix_acl_default";
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::fsetxattr(&folder, name, &acl, flags) {
        crate::host::trial::aloud(&format!("no access lists here ({error}): not tried"));
        return;
    }
    assert_eq!(
        files.restore(),
        ["the folder of the command files had another mode or owner"]
    );
    let mut found = [0_u8; 64];
    let gone = rustix::fs::fgetxattr(&folder, name, &mut found[..]);
    assert_eq!(gone, Err(rustix::io::Errno::NODATA));
}

/// The folders of a runner, mounted as in a container. If they are not yet, mounts them, where nobody else sees it, runs
/// the test again in there, and answers with nothing.
fn where_they_are_mounted(test: &str) -> Option<PathBuf> {
    const MOUNTED: &str = "ROODA_TEST_MOUNTED";
    if let Some(place) = std::env::var_os(MOUNTED) {
        return Some(place.into());
    }
    let place = folder_for_all();
    for folder in [
        "_temp/_runner_file_commands",
        "github/runner_temp",
        "github/file_commands",
    ] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
    }
    let script = "mount --bind _temp github/runner_temp && \
        mount --bind _temp/_runner_file_commands github/file_commands && \
        exec \"$0\" --exact --nocapture \"$1\"";
    let output = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(format!("host::command_files::tests::{test}"))
        .current_dir(place.path())
        .env(MOUNTED, place.path())
        .output();
    let told = match &output {
        Ok(output) => {
            String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
        }
        Err(error) => error.to_string(),
    };
    if told.contains("running 1 test") {
        assert!(told.contains("1 passed"), "{told}");
    } else {
        crate::host::trial::aloud(&format!(
            "nothing can be mounted here, so this was not tried: {told}"
        ));
    }
    None
}

#[test]
fn an_agent_cannot_put_another_folder_where_the_runner_looks() {
    let test = "an_agent_cannot_put_another_folder_where_the_runner_looks";
    let Some(place) = where_they_are_mounted(test) else {
        return;
    };
    let host = place.join("_temp/_runner_file_commands");
    fs::write(host.join("set_output_1"), "").unwrap();
    let agent = Agent::new();
    for owned in [host.parent().unwrap(), &host, &host.join("set_output_1")] {
        agent.own(owned);
    }
    let path = place.join("github/file_commands/set_output_1");
    let variable = |name: &str, path: &Path| (name.to_owned(), path.display().to_string());
    let environment = BTreeMap::from([
        variable("GITHUB_OUTPUT", &path),
        variable("RUNNER_TEMP", &place.join("github/runner_temp")),
    ]);
    let mut files = CommandFiles::hold(&environment).unwrap();
    files.write(CommandFile::Output, b"status=true\n").unwrap();
    agent.run(&format!(
        "cd {}/github/runner_temp; mv _runner_file_commands away; mkdir _runner_file_commands; \
         echo status=forged > _runner_file_commands/set_output_1",
        place.display()
    ));
    // The one mount still shows what we wrote, and the runner would read the other one.
    assert_eq!(fs::read_to_string(&path).unwrap(), "status=true\n");
    assert_eq!(
        files.restore(),
        ["the folder of the command files was moved or removed"]
    );
    let read = fs::read_to_string(host.join("set_output_1")).unwrap();
    assert_eq!(read, "status=true\n");
}
