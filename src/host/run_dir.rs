//! The folder with everything about one run, `rooda/<run>-<step>` in the runner's folder of temporary files.
//!
//! While the run goes on it is root's alone. The folder around it belongs to the agent's user, who can rename what lies in
//! it; so everything is reached through descriptors, and at the end the name is made to lead here again.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FileType, OFlags};
use rustix::process::{getegid, geteuid};

use super::folder::{Folder, Standing, kind};

const OWN: &str = "rooda";

/// Where an older runner, which has not mounted its folder of temporary files, lets us leave something behind, and what
/// that folder is called within the folder of temporary files.
const HOME: (&str, &str) = ("/github/home", "_github_home");

/// How many runs of the same name there can be.
const MOST: u32 = 1000;

#[derive(Debug)]
pub struct RunDir {
    base: Folder,
    base_path: PathBuf,
    rooda: Folder,
    rooda_name: OsString,
    run: Folder,
    run_name: OsString,
    appended: BTreeMap<String, File>,
}

/// The folder to make it in: the runner's folder of temporary files, else the home that all container steps share.
pub fn run_dir_base(environment: &BTreeMap<String, String>) -> PathBuf {
    let temp = environment.get("RUNNER_TEMP").map(PathBuf::from);
    temp.filter(|temp| temp.is_absolute() && Folder::open(temp).is_ok())
        .unwrap_or_else(|| PathBuf::from(HOME.0))
}

impl RunDir {
    /// Makes the folder. A name that is taken gets a number.
    pub fn create(base: &Path, name: &str) -> Result<Self> {
        let trying = || format!("cannot make a folder for this run in {}", base.display());
        let folder = Folder::open(base).with_context(trying)?;
        let (rooda, rooda_name) = shared_folder(&folder).with_context(trying)?;
        let (run, run_name) = new_folder(&rooda, &file_name(name)).with_context(trying)?;
        Ok(RunDir {
            base: folder,
            base_path: base.to_owned(),
            rooda,
            rooda_name,
            run,
            run_name,
            appended: BTreeMap::new(),
        })
    }

    /// Its path as later steps can use it, from the runner's folder of temporary files on.
    pub fn relative(&self) -> String {
        let mut path = PathBuf::new();
        if self.base_path == Path::new(HOME.0) {
            path.push(HOME.1);
        }
        path.push(&self.rooda_name);
        path.push(&self.run_name);
        path.to_string_lossy().into_owned()
    }

    /// Whether its path leads to it: somebody may have moved or removed it.
    pub fn is_there(&self) -> bool {
        let has = |parent: &Folder, name, folder| parent.has(name, folder).unwrap_or(false);
        has(&self.base, &self.rooda_name, &self.rooda)
            && has(&self.rooda, &self.run_name, &self.run)
    }

    /// Its path in here, to be shown. Nothing is opened by it.
    pub fn path(&self) -> PathBuf {
        self.base_path.join(&self.rooda_name).join(&self.run_name)
    }

    /// Adds a line to a file.
    pub fn append(&mut self, name: &str, line: &[u8]) -> io::Result<()> {
        if !self.appended.contains_key(name) {
            let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
            let file = self.run.file(plain(name)?, flags)?;
            self.appended.insert(name.to_owned(), file);
        }
        let Some(file) = self.appended.get_mut(name) else {
            return Ok(());
        };
        // In one go: who reads meanwhile sees whole lines.
        file.write_all(&[line, b"\n"].concat())
    }

    /// Writes a whole file. Who reads meanwhile sees the old or the new one.
    pub fn write(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let name = plain(name)?;
        let (mut file, new_name) = self.run.new_file()?;
        let written = file
            .write_all(content)
            .and_then(|()| self.run.rename(&new_name, name));
        if written.is_err() {
            self.run.remove(&new_name).ok();
        }
        written
    }

    /// Removes a file.
    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        self.run.remove(plain(name)?)
    }

    /// Removes the oldest runs beside this one, of those whose names begin like this and tell their time, until so many are
    /// left.
    pub fn keep_runs(&mut self, prefix: &str, most: usize) -> io::Result<()> {
        let is_run = |name: &OsString| name.to_string_lossy().starts_with(prefix);
        let mut names: Vec<OsString> = self.rooda.names(MOST as usize)?;
        names.retain(is_run);
        names.sort();
        for name in &names[..names.len().saturating_sub(most)] {
            if *name != self.run_name {
                // One that cannot be removed must not keep all others.
                self.rooda.remove(name).ok();
            }
        }
        Ok(())
    }

    /// Gives everything to a user and lets all read it: later steps work with it. To be called at every exit, when no
    /// process of an agent is left.
    pub fn hand_over(&mut self, uid: u32, gid: u32) -> Result<()> {
        let trying = "cannot hand over the folder of this run";
        if !self
            .base
            .has(&self.rooda_name, &self.rooda)
            .context(trying)?
            && !self
                .base
                .bring_back(&self.rooda_name, &self.rooda)
                .context(trying)?
        {
            bail!("{trying}: it was moved out of {}", self.base_path.display());
        }
        give(&self.run, uid, gid).context(trying)?;
        let folder = Standing::new(uid, gid, 0o755);
        folder.put_on(&self.run).context(trying)?;
        folder.put_on(&self.rooda).context(trying)?;
        Ok(())
    }
}

/// The folder that all runs of a job share, taken over from the run before. What is no folder stays as it is, and is not
/// followed: it may be a program of that name.
fn shared_folder(base: &Folder) -> io::Result<(Folder, OsString)> {
    for number in 1..MOST {
        let name = numbered(OWN, number);
        let folder = match base.look(&name)? {
            None => base.make(&name)?,
            Some(stat) if kind(&stat) == FileType::Directory => base.sub(&name)?,
            Some(_) => continue,
        };
        let ours = Standing::new(geteuid().as_raw(), getegid().as_raw(), 0o700);
        ours.put_on(&folder)?;
        return Ok((folder, name));
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn new_folder(parent: &Folder, name: &str) -> io::Result<(Folder, OsString)> {
    for number in 1..MOST {
        let name = numbered(name, number);
        match parent.make(&name) {
            Ok(folder) => return Ok((folder, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn numbered(name: &str, number: u32) -> OsString {
    match number {
        1 => OsString::from(name),
        number => OsString::from(format!("{name}-{number}")),
    }
}

/// A name for a folder made of the ids of run and step, of which a workflow chooses one.
fn file_name(name: &str) -> String {
    let harmless = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => c,
        _ => '-',
    };
    let name: String = name.chars().take(100).map(harmless).collect();
    match name.trim_start_matches('.') {
        "" => "run".to_owned(),
        name => name.to_owned(),
    }
}

/// A name that stays in the folder.
fn plain(name: &str) -> io::Result<&OsStr> {
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(OsStr::new(name))
}

/// Gives away what is in a folder, but not the folder itself. Only we have written here: there is no depth to fear.
fn give(folder: &Folder, uid: u32, gid: u32) -> io::Result<()> {
    for name in folder.names(usize::MAX)? {
        match folder.look(&name)?.as_ref().map(kind) {
            Some(FileType::Directory) => {
                let sub = folder.sub(&name)?;
                give(&sub, uid, gid)?;
                Standing::new(uid, gid, 0o755).put_on(&sub)?;
            }
            Some(FileType::RegularFile) => {
                let file = folder.file(&name, OFlags::RDONLY)?;
                Standing::new(uid, gid, 0o644).put_on(&file)?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::trial::{Agent, folder_for_all};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn everything_is_roots_during_the_run_and_the_owners_afterwards() {
        let agent = Agent::new();
        let base = folder_for_all();
        agent.own(base.path());
        let mut run = RunDir::create(base.path(), "123-__self").unwrap();
        assert_eq!(run.relative(), "rooda/123-__self");
        assert_eq!(run.path(), base.path().join("rooda/123-__self"));
        run.append("events.jsonl", b"{\"n\":1}").unwrap();
        run.append("events.jsonl", b"{\"n\":2}").unwrap();
        run.write("summary.md", b"# A longer one\n").unwrap();
        run.write("summary.md", b"# Two\n").unwrap();
        for folder in [base.path().join("rooda"), run.path()] {
            let metadata = fs::metadata(folder).unwrap();
            assert_eq!(metadata.mode() & 0o777, 0o700);
            assert_eq!(metadata.uid(), geteuid().as_raw());
        }
        run.hand_over(agent.uid(), agent.uid()).unwrap();
        run.append("events.jsonl", b"{\"n\":3}").unwrap();
        for (name, mode) in [
            ("rooda", 0o755),
            ("rooda/123-__self", 0o755),
            ("rooda/123-__self/events.jsonl", 0o644),
            ("rooda/123-__self/summary.md", 0o644),
        ] {
            let metadata = fs::symlink_metadata(base.path().join(name)).unwrap();
            let found = (name, metadata.mode() & 0o777, metadata.uid());
            assert_eq!(found, (name, mode, agent.uid()));
        }
        assert_eq!(names(&run.path()), ["events.jsonl", "summary.md"]);
        let read = |name: &str| fs::read_to_string(run.path().join(name)).unwrap();
        assert_eq!(read("events.jsonl"), "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
        assert_eq!(read("summary.md"), "# Two\n");
    }

    #[test]
    fn a_folder_that_an_agent_renamed_comes_back() {
        let agent = Agent::new();
        let base = folder_for_all();
        agent.own(base.path());
        let place = base.path().display();
        for planted in [
            "ln -s /etc rooda",
            "mkdir -p rooda/x",
            "echo > rooda",
            "true",
        ] {
            let mut run = RunDir::create(base.path(), "1").unwrap();
            agent.run(&format!("cd {place}; mv rooda away; {planted}"));
            run.write("summary.md", b"# True\n").unwrap();
            run.hand_over(agent.uid(), agent.uid()).unwrap();
            let summary = run.path().join("summary.md");
            assert_eq!(
                fs::read_to_string(summary).unwrap(),
                "# True\n",
                "{planted}"
            );
            assert_eq!(names(base.path()), ["rooda"], "{planted}");
        }
    }

    #[test]
    fn what_bears_the_name_but_is_no_folder_is_neither_followed_nor_removed() {
        let base = folder_for_all();
        let elsewhere = folder_for_all();
        symlink(elsewhere.path(), base.path().join("rooda")).unwrap();
        fs::write(base.path().join("rooda-2"), "a program").unwrap();
        let mut run = RunDir::create(base.path(), "1").unwrap();
        run.append("events.jsonl", b"{}").unwrap();
        assert_eq!(run.relative(), "rooda-3/1");
        assert_eq!(names(elsewhere.path()), Vec::<String>::new());
        assert_eq!(names(base.path()), ["rooda", "rooda-2", "rooda-3"]);
    }

    #[test]
    fn a_second_run_of_the_same_name_gets_a_number() {
        let agent = Agent::new();
        let base = folder_for_all();
        agent.own(base.path());
        for expected in ["rooda/7-build", "rooda/7-build-2", "rooda/7-build-3"] {
            let mut run = RunDir::create(base.path(), "7-build").unwrap();
            assert_eq!(run.relative(), expected);
            let shared = fs::metadata(base.path().join("rooda")).unwrap();
            assert_eq!(shared.mode() & 0o777, 0o700);
            assert_eq!(shared.uid(), geteuid().as_raw());
            // A link in an older run leads nowhere for us.
            run.hand_over(agent.uid(), agent.uid()).unwrap();
            agent.run(&format!("ln -s /etc/shadow {}/x", run.path().display()));
        }
    }

    #[test]
    fn only_the_newest_runs_are_kept() {
        let base = folder_for_all();
        for name in ["run-1", "run-2", "other", "run-3", "run-4"] {
            let mut run = RunDir::create(base.path(), name).unwrap();
            run.write("iteration-1.log", b"x").unwrap();
            run.keep_runs("run-", 2).unwrap();
        }
        assert_eq!(
            names(&base.path().join("rooda")),
            ["other", "run-3", "run-4"]
        );
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let base = folder_for_all();
        for (name, relative) in [
            ("../../x", "rooda/-..-x"),
            ("..", "rooda/run"),
            ("", "rooda/run-2"),
            ("a/b c\n", "rooda/a-b-c-"),
        ] {
            let run = RunDir::create(base.path(), name).unwrap();
            assert_eq!(run.relative(), relative);
        }
        let mut run = RunDir::create(base.path(), "x").unwrap();
        for name in ["../x", "/etc/x", "..", ""] {
            let kind = io::ErrorKind::InvalidInput;
            assert_eq!(run.append(name, b"").unwrap_err().kind(), kind);
            assert_eq!(run.write(name, b"").unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn a_runner_that_has_not_mounted_its_temporary_files_lends_its_home() {
        let base = folder_for_all();
        let environment =
            |path: &Path| BTreeMap::from([("RUNNER_TEMP".to_owned(), path.display().to_string())]);
        assert_eq!(run_dir_base(&environment(base.path())), base.path());
        let missing = base.path().join("home/runner/work/_temp");
        let home = Path::new("/github/home");
        assert_eq!(run_dir_base(&environment(&missing)), home);
        assert_eq!(run_dir_base(&BTreeMap::new()), home);
        let mut run = RunDir::create(base.path(), "1").unwrap();
        run.base_path = home.to_owned();
        assert_eq!(run.relative(), "_github_home/rooda/1");
    }
}
