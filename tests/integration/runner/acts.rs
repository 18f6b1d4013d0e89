//! How a fresh process in namespaces of its own makes itself a container, before it becomes the program.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, symlink};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{Signal, chdir, pivot_root, set_parent_process_death_signal, umask};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::engine::{Launch, Mount};
use super::namespaces::ENTRYPOINT;

/// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD,
/// AUDIT_WRITE, SETFCAP.
const CAPABILITIES: [libc::c_int; 14] = [0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31];

/// One step on the way from a fresh process to a container.
pub(super) enum Act {
    DieWithTheTests,
    Unshare,
    Folder(CString, u32),
    File(CString),
    Link(&'static CStr, &'static CStr),
    Device(&'static CStr, u32, u32),
    Mount(&'static CStr, CString, CString),
    ReadOnly(CString),
    Bind(CString, CString),
    /// Makes a folder the root; the old one stays visible below it.
    Pivot(CString),
    LeaveOldRoot,
    WorkIn(&'static CStr),
    DropCapabilities,
    /// Descriptors, ignored signals and the mask of new files would be those of this process.
    InheritNothing,
}

fn text(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}

pub(super) fn acts(launch: &Launch) -> Vec<Act> {
    let scratch = launch.scratch.as_path();
    let scratch_name = scratch.to_str().unwrap();
    let options = format!("lowerdir=/,upperdir={scratch_name}/upper,workdir={scratch_name}/work");
    let tmpfs = |target: &str, options: &str| Act::Mount(c"tmpfs", text(target), text(options));
    let mut acts = vec![
        Act::DieWithTheTests,
        Act::Unshare,
        tmpfs(scratch_name, "mode=755"),
        Act::Folder(text(scratch.join("upper")), 0o755),
        Act::Folder(text(scratch.join("work")), 0o755),
        Act::Folder(text(scratch.join("root")), 0o755),
        Act::Mount(c"overlay", text(scratch.join("root")), text(options)),
        Act::Folder(text(scratch.join("root/.old")), 0o755),
        Act::Pivot(text(scratch.join("root"))),
        Act::Mount(c"proc", text("/proc"), text("")),
        Act::Mount(c"sysfs", text("/sys"), text("")),
        Act::ReadOnly(text("/sys")),
        // An image has nothing of this machine's in these.
        tmpfs("/tmp", "mode=1777"),
        tmpfs("/var/tmp", "mode=1777"),
        tmpfs("/run", "mode=755"),
        tmpfs("/root", "mode=700"),
        tmpfs("/home", "mode=755"),
    ];
    let parts = ["bus", "fs", "irq", "sys", "sysrq-trigger"];
    let parts = parts.map(|name| Path::new("/proc").join(name));
    for part in parts.iter().filter(|part| part.exists()) {
        acts.push(Act::Bind(text(part), text(part)));
        acts.push(Act::ReadOnly(text(part)));
    }
    acts.extend(devices());
    for mount in &launch.mounts {
        acts.extend(bind(mount));
    }
    acts.extend(bind(&Mount {
        host: env!("CARGO_BIN_EXE_rooda").into(),
        inside: ENTRYPOINT[0].to_owned(),
        read_only: true,
    }));
    acts.extend([
        Act::Folder(text("/github"), 0o755),
        Act::Folder(text("/github/workspace"), 0o755),
        Act::LeaveOldRoot,
        Act::WorkIn(c"/github/workspace"),
        Act::DropCapabilities,
        Act::InheritNothing,
    ]);
    acts
}

fn devices() -> Vec<Act> {
    let mut acts = vec![
        Act::Mount(c"tmpfs", text("/dev"), text("mode=755")),
        Act::Device(c"/dev/null", 1, 3),
        Act::Device(c"/dev/zero", 1, 5),
        Act::Device(c"/dev/full", 1, 7),
        Act::Device(c"/dev/random", 1, 8),
        Act::Device(c"/dev/urandom", 1, 9),
        Act::Device(c"/dev/tty", 5, 0),
    ];
    for (folder, kind, options) in [
        (
            "/dev/pts",
            c"devpts",
            "newinstance,ptmxmode=666,mode=620,gid=5",
        ),
        ("/dev/shm", c"tmpfs", "mode=1777,size=64m"),
        ("/dev/mqueue", c"mqueue", ""),
    ] {
        acts.push(Act::Folder(text(folder), 0o755));
        acts.push(Act::Mount(kind, text(folder), text(options)));
    }
    acts.extend([
        Act::Link(c"pts/ptmx", c"/dev/ptmx"),
        Act::Link(c"/proc/self/fd", c"/dev/fd"),
        Act::Link(c"/proc/self/fd/0", c"/dev/stdin"),
        Act::Link(c"/proc/self/fd/1", c"/dev/stdout"),
        Act::Link(c"/proc/self/fd/2", c"/dev/stderr"),
    ]);
    acts
}

fn bind(mount: &Mount) -> Vec<Act> {
    let target = Path::new(&mount.inside);
    let parents = target
        .ancestors()
        .skip(1)
        .filter(|path| *path != Path::new("/"));
    let mut acts: Vec<Act> = parents.map(|path| Act::Folder(text(path), 0o755)).collect();
    acts.reverse();
    let source = mount.host.canonicalize().unwrap();
    acts.push(if source.is_dir() {
        Act::Folder(text(target), 0o755)
    } else {
        Act::File(text(target))
    });
    let source = Path::new("/.old").join(source.strip_prefix("/").unwrap());
    acts.push(Act::Bind(text(source), text(target)));
    if mount.read_only {
        acts.push(Act::ReadOnly(text(target)));
    }
    acts
}

impl Act {
    pub(super) fn name(&self) -> &CStr {
        match self {
            Act::DieWithTheTests => c"the death signal",
            Act::Unshare => c"unshare",
            Act::Folder(path, _) | Act::File(path) => path,
            Act::Link(_, path) | Act::Device(path, ..) => path,
            Act::Mount(_, path, _) | Act::ReadOnly(path) | Act::Bind(_, path) => path,
            Act::Pivot(path) => path,
            Act::LeaveOldRoot => c"leave the old root",
            Act::WorkIn(path) => path,
            Act::DropCapabilities => c"drop capabilities",
            Act::InheritNothing => c"inherit nothing",
        }
    }

    pub(super) fn perform(&self) -> io::Result<()> {
        match self {
            Act::DieWithTheTests => set_parent_process_death_signal(Some(Signal::KILL))?,
            Act::Unshare => unshare()?,
            Act::Folder(path, mode) => make_folder(path, *mode)?,
            Act::File(path) => make_file(path)?,
            Act::Link(to, path) => symlink(*to, *path)?,
            Act::Device(path, major, minor) => {
                let number = makedev(*major, *minor);
                mknodat(
                    CWD,
                    *path,
                    FileType::CharacterDevice,
                    Mode::from_raw_mode(0o666),
                    number,
                )?;
            }
            Act::Mount(kind, path, options) => {
                mount(
                    *kind,
                    path.as_c_str(),
                    *kind,
                    MountFlags::empty(),
                    options.as_c_str(),
                )?;
            }
            Act::ReadOnly(path) => {
                mount_remount(path.as_c_str(), MountFlags::BIND | MountFlags::RDONLY, c"")?;
            }
            Act::Bind(from, to) => mount_bind_recursive(from.as_c_str(), to.as_c_str())?,
            Act::Pivot(path) => {
                chdir(path.as_c_str())?;
                pivot_root(c".", c".old")?;
                chdir(c"/")?;
            }
            Act::LeaveOldRoot => {
                unmount(c"/.old", UnmountFlags::DETACH)?;
                rustix::fs::rmdir(c"/.old")?;
            }
            Act::WorkIn(path) => chdir(*path)?,
            Act::DropCapabilities => drop_capabilities()?,
            Act::InheritNothing => inherit_nothing(),
        }
        Ok(())
    }
}

fn unshare() -> io::Result<()> {
    // What is made from here on has the mode that was asked for.
    umask(Mode::empty());
    #[expect(unsafe_code, reason = "there is no safe way to say it")]
    // SAFETY: this process has one thread, and no descriptor is unshared.
    unsafe {
        unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWIPC)?;
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(mount_change(c"/", private)?)
}

fn make_folder(path: &CStr, mode: u32) -> io::Result<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(mode)) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        other => Ok(other?),
    }
}

fn make_file(path: &CStr) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    Ok(())
}

fn drop_capabilities() -> io::Result<()> {
    for capability in (0..64).filter(|capability| !CAPABILITIES.contains(capability)) {
        #[expect(unsafe_code, reason = "there is no safe way to say it")]
        // SAFETY: a system call without pointers.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        let error = io::Error::last_os_error();
        // Numbers that this kernel does not have are invalid.
        if result != 0 && error.raw_os_error() != Some(libc::EINVAL) {
            return Err(error);
        }
    }
    Ok(())
}

fn inherit_nothing() {
    umask(Mode::from_raw_mode(0o022));
    #[expect(unsafe_code, reason = "there is no safe way to say it")]
    // SAFETY: the descriptors stay open until the program is started; the default is no function of ours.
    unsafe {
        libc::close_range(
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC.cast_signed(),
        );
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGPIPE,
        ] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}
