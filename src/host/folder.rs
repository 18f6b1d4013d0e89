//! Folders held by a descriptor. What lies in one is reached by its name there, and no link is followed: neither one that
//! an agent has planted, nor one that it plants between two of our steps.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags, fchmod,
    fchown, fgetxattr, fremovexattr, fsetxattr, fstat, mkdirat, openat, renameat, renameat_with,
    statat, unlinkat,
};
use rustix::io::Errno;

/// How much of what an agent has planted is removed before we give up: a cancelled step has ten seconds for everything.
const MOST_REMOVED: usize = 5000;

/// How many names are read at a time.
const NAMES_AT_ONCE: usize = 4096;

/// What the system gives to every new file in a folder, whatever the maker's own wishes.
const DEFAULT_ACL: &str = "system.posix_acl_default";

#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Folder {
    /// Opens a folder by its path. Only its last part must not be a link.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        open_folder(CWD, path.as_os_str())
    }

    pub(super) fn sub(&self, name: &OsStr) -> io::Result<Self> {
        open_folder(&self.0, name)
    }

    /// Makes a folder that nobody else can enter yet.
    pub(super) fn make(&self, name: &OsStr) -> io::Result<Self> {
        mkdirat(&self.0, name, Mode::RWXU)?;
        self.sub(name)
    }

    /// Opens what must be a regular file. Nothing in here waits, whatever is found.
    pub(super) fn file(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?;
        if kind(&fstat(&file)?) != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(File::from(file))
    }

    pub(super) fn stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.0)?)
    }

    /// What stands under a name, without following it.
    pub(super) fn look(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Some of the names in it, at most as many as are asked for.
    pub(super) fn names(&self, most: usize) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
            if names.len() == most {
                break;
            }
        }
        Ok(names)
    }

    /// The name under which a folder lies in this one.
    pub(super) fn name_of(&self, folder: &Folder) -> io::Result<Option<OsString>> {
        let wanted = folder.stat()?;
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            if self.look(name)?.is_some_and(|stat| same(&stat, &wanted)) {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }

    /// Whether a folder lies in this one under that name.
    pub(super) fn has(&self, name: &OsStr, folder: &Folder) -> io::Result<bool> {
        let wanted = folder.stat()?;
        Ok(self.look(name)?.is_some_and(|stat| same(&stat, &wanted)))
    }

    /// Puts something under a name, in the place of whatever stands there. Nobody who looks finds the name without
    /// anything, unless there was a folder, which the system does not replace.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match renameat(&self.0, from, &self.0, to) {
            Ok(()) => Ok(()),
            Err(Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST) => {
                let aside = self.move_aside(to)?;
                renameat(&self.0, from, &self.0, to)?;
                // It no longer stands under the name, which is what counts.
                self.remove(&aside).ok();
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lets a name lead again to a folder that somebody has renamed in here. `false`: the folder is not in here any more.
    pub(super) fn bring_back(&self, name: &OsStr, folder: &Folder) -> io::Result<bool> {
        match self.name_of(folder)? {
            Some(now) => self.rename(&now, name).map(|()| true),
            None => Ok(false),
        }
    }

    fn move_aside(&self, name: &OsStr) -> io::Result<OsString> {
        for number in 0..NAMES_AT_ONCE {
            let aside = OsString::from(format!(".rooda-aside-{number}"));
            match renameat_with(&self.0, name, &self.0, &aside, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(aside),
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Makes a new file under a name that is not taken, and answers with both.
    pub(super) fn new_file(&self) -> io::Result<(File, OsString)> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        for number in 0..NAMES_AT_ONCE {
            let name = OsString::from(format!(".rooda-new-{number}"));
            match self.file(&name, flags) {
                Ok(file) => return Ok((file, name)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Removes whatever stands under a name, a folder with all that is in it. No link is followed, no other file system
    /// entered.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        match self.look(name)? {
            None => return Ok(()),
            Some(stat) if kind(&stat) != FileType::Directory => return self.unlink(name),
            Some(_) => {}
        }
        let doomed = self.sub_of_same_system(name)?;
        let mut left = MOST_REMOVED;
        loop {
            let names = doomed.names(NAMES_AT_ONCE)?;
            if names.is_empty() {
                break;
            }
            for inner in names {
                doomed.remove_level(&inner, &mut left)?;
            }
        }
        drop(doomed);
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes an entry. The folders in a folder are lifted up to this one, so that no depth is too deep for us.
    fn remove_level(&self, name: &OsStr, left: &mut usize) -> io::Result<()> {
        count_down(left)?;
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {}
            done => return Ok(done?),
        }
        let folder = self.sub_of_same_system(name)?;
        loop {
            let names = folder.names(NAMES_AT_ONCE)?;
            if names.is_empty() {
                break;
            }
            for inner in names {
                count_down(left)?;
                match unlinkat(&folder.0, &inner, AtFlags::empty()) {
                    Err(Errno::ISDIR) => self.lift(&folder, &inner, *left)?,
                    done => done?,
                }
            }
        }
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    fn lift(&self, from: &Folder, name: &OsStr, number: usize) -> io::Result<()> {
        // The number falls with every entry, so only what an agent has named like this can be in the way.
        for attempt in 0..NAMES_AT_ONCE {
            let lifted = format!(".rooda-lifted-{number}-{attempt}");
            match renameat_with(&from.0, name, &self.0, lifted, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                done => return Ok(done?),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Opens a folder in this one, unless another file system begins there.
    pub(super) fn sub_of_same_system(&self, name: &OsStr) -> io::Result<Self> {
        let folder = self.sub(name)?;
        if folder.stat()?.st_dev != self.stat()?.st_dev {
            return Err(Errno::XDEV.into());
        }
        Ok(folder)
    }

    fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

fn count_down(left: &mut usize) -> io::Result<()> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| io::Error::other("there is too much in it"))?;
    Ok(())
}

fn open_folder(at: impl AsFd, name: &OsStr) -> io::Result<Folder> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(at, name, flags, Mode::empty()) {
        Ok(folder) => Ok(Folder(folder)),
        Err(error @ (Errno::LOOP | Errno::NOTDIR)) => Err(io::Error::new(
            error.kind(),
            "it is not a folder, or only a link to one",
        )),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(super) fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Whose something is, and who may do what with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u32,
    /// Of a folder: what its new files get.
    default_acl: Option<Vec<u8>>,
}

impl Standing {
    pub(super) fn new(uid: u32, gid: u32, mode: u32) -> Self {
        Standing {
            uid,
            gid,
            mode,
            default_acl: None,
        }
    }

    pub(super) fn of(held: impl AsFd) -> io::Result<Self> {
        let stat = fstat(&held)?;
        let mut acl = vec![0; 4096];
        let default_acl = fgetxattr(&held, DEFAULT_ACL, acl.as_mut_slice())
            .ok()
            .map(|length| acl[..length].to_vec());
        Ok(Standing {
            default_acl,
            ..Standing::new(stat.st_uid, stat.st_gid, stat.st_mode & 0o7777)
        })
    }

    /// Makes it so, and answers with whether anything had to be changed.
    pub(super) fn put_on(&self, held: impl AsFd) -> io::Result<bool> {
        let now = Standing::of(&held)?;
        if now == *self {
            return Ok(false);
        }
        if (now.uid, now.gid) != (self.uid, self.gid) {
            let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
            fchown(&held, Some(uid), Some(gid))?;
        }
        match &self.default_acl {
            acl if *acl == now.default_acl => {}
            Some(acl) => fsetxattr(&held, DEFAULT_ACL, acl, XattrFlags::empty())?,
            None => fremovexattr(&held, DEFAULT_ACL)?,
        }
        // Last, because a change of the owner takes away some of these.
        fchmod(&held, Mode::from_raw_mode(self.mode))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_is_removed_however_deep_it_is() {
        let place = tempfile::tempdir().unwrap();
        let place = Folder::open(place.path()).unwrap();
        let mut folder = place.make(OsStr::new("deep")).unwrap();
        for _ in 0..1200 {
            folder.new_file().unwrap();
            folder = folder.make(OsStr::new("deeper and deeper")).unwrap();
        }
        place.remove(OsStr::new("deep")).unwrap();
        assert_eq!(place.names(9).unwrap(), Vec::<OsString>::new());
    }

    #[test]
    fn what_a_link_leads_to_is_not_removed_with_it() {
        let kept = tempfile::tempdir().unwrap();
        let file = kept.path().join("file");
        fs::write(&file, "kept").unwrap();
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("doomed")).unwrap();
        symlink(kept.path(), place.path().join("doomed/link")).unwrap();
        symlink(kept.path(), place.path().join("link")).unwrap();
        let place = Folder::open(place.path()).unwrap();
        assert_eq!(
            place.sub(OsStr::new("link")).unwrap_err().to_string(),
            "it is not a folder, or only a link to one"
        );
        place.remove(OsStr::new("doomed")).unwrap();
        place.remove(OsStr::new("link")).unwrap();
        assert_eq!(place.names(9).unwrap(), Vec::<OsString>::new());
        assert_eq!(fs::read_to_string(file).unwrap(), "kept");
    }

    #[test]
    fn a_pipe_is_no_file_and_does_not_make_us_wait() {
        let place = tempfile::tempdir().unwrap();
        let place = Folder::open(place.path()).unwrap();
        rustix::fs::mkfifoat(&place, "pipe", Mode::RWXU).unwrap();
        let error = place.file(OsStr::new("pipe"), OFlags::RDONLY).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file");
    }
}
