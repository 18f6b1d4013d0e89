//! The files by which a step tells the runner something: outputs, summary, environment, paths, state.
//!
//! They belong to the runner's user, which is the agent's user too. Landlock keeps the agent from writing them, where it is
//! in force, but nothing keeps it from `chmod`. So every file is opened before any agent runs, is written through that
//! descriptor alone, and is put right at the end out of our own memory.
//!
//! Not only our own: while one step of a composite action runs, the files of the action as a whole lie in the same folder,
//! and the runner reads them afterwards. Other names in the folder are left alone: the runner reads no name that it has not
//! made up itself, and the files of the next step may already be among them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::fs::{FileType, OFlags, fstat};

use super::folder::{Folder, Standing, kind, same};
use crate::error::without_number;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommandFile {
    Output,
    Summary,
    Env,
    Path,
    State,
    Artifacts,
    ArtifactsList,
}

impl CommandFile {
    const ALL: [CommandFile; 7] = [
        CommandFile::Output,
        CommandFile::Summary,
        CommandFile::Env,
        CommandFile::Path,
        CommandFile::State,
        CommandFile::Artifacts,
        CommandFile::ArtifactsList,
    ];

    pub fn variable(self) -> &'static str {
        match self {
            CommandFile::Output => "GITHUB_OUTPUT",
            CommandFile::Summary => "GITHUB_STEP_SUMMARY",
            CommandFile::Env => "GITHUB_ENV",
            CommandFile::Path => "GITHUB_PATH",
            CommandFile::State => "GITHUB_STATE",
            CommandFile::Artifacts => "GITHUB_ARTIFACTS",
            CommandFile::ArtifactsList => "GITHUB_ARTIFACTS_LIST",
        }
    }

    /// How the runner begins the file's name; a random number follows.
    fn prefix(self) -> &'static str {
        match self {
            CommandFile::Output => "set_output_",
            CommandFile::Summary => "step_summary_",
            CommandFile::Env => "set_env_",
            CommandFile::Path => "add_path_",
            CommandFile::State => "save_state_",
            CommandFile::Artifacts => "artifacts_",
            CommandFile::ArtifactsList => "artifacts_list_",
        }
    }
}

/// More than the runner takes of any of them.
const LARGEST: u64 = 4 << 20;

/// How many files of other steps are remembered. Composite actions nest ten deep.
const MOST_OTHERS: usize = 100;

#[derive(Debug)]
pub struct CommandFiles {
    folders: Vec<HeldFolder>,
    /// In which folder, and under which name.
    places: BTreeMap<CommandFile, (usize, OsString)>,
}

/// A folder of command files, and the folder above it through which the runner gets there.
#[derive(Debug)]
struct HeldFolder {
    folder: Folder,
    standing: Standing,
    name: OsString,
    parent: Folder,
    parent_standing: Standing,
    files: BTreeMap<OsString, HeldFile>,
}

#[derive(Debug)]
struct HeldFile {
    file: File,
    standing: Standing,
    /// What was in it before us. It stays in front of what we write.
    found: Vec<u8>,
    /// What must be in it.
    content: Vec<u8>,
    /// What to call it in a message.
    told_as: String,
}

impl CommandFiles {
    /// Takes hold of every command file that the environment names. To be called before any agent runs.
    pub fn hold(environment: &BTreeMap<String, String>) -> Result<Self> {
        let mut files = CommandFiles {
            folders: Vec::new(),
            places: BTreeMap::new(),
        };
        let runner_temp = environment.get("RUNNER_TEMP").map(Path::new);
        for which in CommandFile::ALL {
            let variable = which.variable();
            if let Some(path) = environment.get(variable).filter(|path| !path.is_empty()) {
                let place = files
                    .hold_file(which, Path::new(path), runner_temp)
                    .with_context(|| format!("cannot hold the file of {variable}, {path}"))?;
                files.places.insert(which, place);
            }
        }
        for folder in &mut files.folders {
            folder.hold_others()?;
        }
        Ok(files)
    }

    fn hold_file(
        &mut self,
        which: CommandFile,
        path: &Path,
        runner_temp: Option<&Path>,
    ) -> Result<(usize, OsString)> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            bail!("it has no folder");
        };
        let folder = Folder::open(above)?;
        let stat = folder.stat()?;
        let known = |known: &HeldFolder| known.folder.stat().is_ok_and(|known| same(&known, &stat));
        let index = match self.folders.iter().position(known) {
            Some(index) => index,
            None => {
                let held = HeldFolder::hold(folder, above, runner_temp)?;
                self.folders.push(held);
                self.folders.len() - 1
            }
        };
        self.folders[index].hold_file(name, which.variable())?;
        Ok((index, name.to_owned()))
    }

    /// Writes the whole of a file anew, behind what was in it at the start: in place, in one go, and never shorter than
    /// before, because the runner may read at any moment. A file that the runner has not named is nobody's: nothing is
    /// written then.
    pub fn write(&mut self, which: CommandFile, content: &[u8]) -> io::Result<()> {
        let Some((folder, name)) = self.places.get(&which) else {
            return Ok(());
        };
        match self.folders[*folder].files.get_mut(name) {
            Some(held) => held.write(content),
            None => Ok(()),
        }
    }

    /// Puts everything back as it must be, whatever an agent has made of it, and tells what that was. To be called when no
    /// process of an agent is left.
    pub fn restore(&mut self) -> Vec<String> {
        let mut repairs = Vec::new();
        for folder in &mut self.folders {
            folder.restore(&mut repairs);
        }
        repairs
    }
}

impl HeldFolder {
    fn hold(folder: Folder, path: &Path, runner_temp: Option<&Path>) -> Result<Self> {
        // On GitHub's runners the folder is mounted twice: by itself, and within the folder of temporary files, where
        // the agent's user can rename it. The runner reads the latter.
        let within_temp = runner_temp.and_then(|path| {
            let temp = Folder::open(path).ok()?;
            let name = temp.name_of(&folder).ok()??;
            Some((temp, name))
        });
        let (parent, name) = match (within_temp, path.parent(), path.file_name()) {
            (Some(found), _, _) => found,
            (None, Some(above), Some(name)) => (Folder::open(above)?, name.to_owned()),
            (None, _, _) => bail!("its folder has no name"),
        };
        Ok(HeldFolder {
            standing: Standing::of(&folder)?,
            parent_standing: Standing::of(&parent)?,
            folder,
            name,
            parent,
            files: BTreeMap::new(),
        })
    }

    fn hold_file(&mut self, name: &OsStr, told_as: &str) -> Result<()> {
        let (file, standing) = match self.folder.file(name, OFlags::RDWR) {
            Ok(file) => {
                let standing = Standing::of(&file)?;
                (file, standing)
            }
            // To the runner a missing file is an empty one. To us it is one that an agent could make.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
                let file = self.folder.file(name, flags)?;
                let standing = Standing::new(self.standing.uid, self.standing.gid, 0o644);
                standing.put_on(&file)?;
                (file, standing)
            }
            Err(error) => return Err(error.into()),
        };
        let size = file.metadata()?.len();
        if size > LARGEST {
            bail!("it is larger than {LARGEST} bytes");
        }
        let mut found = vec![0; usize::try_from(size)?];
        file.read_exact_at(&mut found, 0)?;
        let held = HeldFile {
            file,
            standing,
            content: found.clone(),
            found,
            told_as: told_as.to_owned(),
        };
        self.files.insert(name.to_owned(), held);
        Ok(())
    }

    /// Takes hold of the files of other steps, as far as they are what the runner makes.
    fn hold_others(&mut self) -> io::Result<()> {
        let is_the_runners = |name: &OsString| {
            let prefixes = CommandFile::ALL.map(CommandFile::prefix);
            prefixes
                .iter()
                .any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
        };
        let names = self.folder.names(usize::MAX)?;
        let others = names.into_iter().filter(is_the_runners);
        for name in others.take(MOST_OTHERS) {
            if !self.files.contains_key(&name) {
                let told_as = format!("the command file {}", name.to_string_lossy());
                // What is no ordinary file is none of the runner's.
                self.hold_file(&name, &told_as).ok();
            }
        }
        Ok(())
    }

    fn restore(&mut self, repairs: &mut Vec<String>) {
        let above = self.parent_standing.put_on(&self.parent);
        let standing = self.standing.put_on(&self.folder);
        let moved = self.return_to_its_name();
        for (what, repaired) in [
            (
                "the folder above the command files had another mode or owner",
                above,
            ),
            (
                "the folder of the command files had another mode or owner",
                standing,
            ),
            (
                "the folder of the command files was moved or removed",
                moved,
            ),
        ] {
            match repaired {
                Ok(false) => {}
                Ok(true) => repairs.push(what.to_owned()),
                Err(error) => {
                    repairs.push(format!("{what}, which cannot be mended: {}", words(&error)))
                }
            }
        }
        for (name, held) in &mut self.files {
            let mut wrong = Vec::new();
            let done = held.restore(&self.folder, name, &mut wrong);
            let told_as = &held.told_as;
            repairs.extend(wrong.into_iter().map(|wrong| format!("{told_as} {wrong}")));
            if let Err(error) = done {
                repairs.push(format!("{told_as} cannot be restored: {}", words(&error)));
            }
        }
    }

    /// Where the name no longer leads to the folder, the folder comes back; one that is gone is made anew, and its files
    /// with it.
    fn return_to_its_name(&mut self) -> io::Result<bool> {
        if self.parent.has(&self.name, &self.folder)? {
            return Ok(false);
        }
        if !self.parent.bring_back(&self.name, &self.folder)? {
            self.parent.remove(&self.name)?;
            self.folder = self.parent.make(&self.name)?;
            self.standing.put_on(&self.folder)?;
        }
        Ok(true)
    }
}

impl HeldFile {
    fn write(&mut self, content: &[u8]) -> io::Result<()> {
        let before = self.content.len();
        let mut whole = self.found.clone();
        if !whole.is_empty() && !whole.ends_with(b"\n") {
            whole.push(b'\n');
        }
        whole.extend_from_slice(content);
        whole.resize(whole.len().max(before), b'\n');
        self.content = whole;
        self.file.write_all_at(&self.content, 0)
    }

    /// Makes it right again, and tells what was wrong.
    fn restore(
        &mut self,
        folder: &Folder,
        name: &OsStr,
        wrong: &mut Vec<&'static str>,
    ) -> io::Result<()> {
        let ours = fstat(&self.file)?;
        let there = folder.look(name)?;
        match there {
            Some(there) if same(&there, &ours) => {}
            there => {
                wrong.push(match there.map(|stat| kind(&stat)) {
                    None => "was removed",
                    Some(FileType::Symlink) => "was replaced by a symbolic link",
                    Some(FileType::Directory) => "was replaced by a folder",
                    Some(FileType::RegularFile) => "was replaced by another file",
                    Some(_) => "was replaced by a pipe, socket or device",
                });
                return self.make_anew(folder, name);
            }
        }
        if self.standing.put_on(&self.file)? {
            wrong.push("had another mode or owner");
        }
        if !self.is_as_written()? {
            wrong.push("was written to");
            self.file.write_all_at(&self.content, 0)?;
            self.file.set_len(self.content.len() as u64)?;
        }
        Ok(())
    }

    fn is_as_written(&self) -> io::Result<bool> {
        if self.file.metadata()?.len() != self.content.len() as u64 {
            return Ok(false);
        }
        let mut content = vec![0; self.content.len()];
        self.file.read_exact_at(&mut content, 0)?;
        Ok(content == self.content)
    }

    /// A whole new file takes the place of whatever stands there, at once.
    fn make_anew(&mut self, folder: &Folder, name: &OsStr) -> io::Result<()> {
        let (file, new_name) = folder.new_file()?;
        file.write_all_at(&self.content, 0)?;
        self.standing.put_on(&file)?;
        folder.rename(&new_name, name)?;
        self.file = file;
        Ok(())
    }
}

fn words(error: &io::Error) -> String {
    without_number(&error.to_string()).to_owned()
}

#[cfg(test)]
mod tests;
