//! Containers without docker: a process in namespaces of its own, the first one of its world, on a copy of this machine's
//! files that takes every change to itself.
//!
//! As in docker: no init, no terminal, an empty standard input, docker's default capabilities, a fresh `/proc`, `/dev` and
//! `/tmp`. Not as in docker: no seccomp filter, no cgroup, the network of the machine.

use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, symlink};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{
    Pid, Signal, chdir, getpid, kill_process, pivot_root, set_parent_process_death_signal, umask,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::arguments;
use super::engine::{Client, Container, Launch, Mount, Started};
use crate::harness::wait_until;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The action's entry point, as the Dockerfile has it.
const ENTRYPOINT: [&str; 2] = ["/usr/local/bin/rooda", "action"];
/// CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD,
/// AUDIT_WRITE, SETFCAP.
const CAPABILITIES: [libc::c_int; 14] = [0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31];

#[derive(Debug)]
pub(super) struct Namespace {
    init: Pid,
    has_ended: AtomicBool,
}

impl Namespace {
    pub(super) fn init(&self) -> Option<Pid> {
        (!self.has_ended.load(Ordering::SeqCst)).then_some(self.init)
    }

    /// With the first process all others end. Their folders are free when it has ended.
    pub(super) fn kill(&self) {
        if let Some(init) = self.init() {
            kill_process(init, Signal::KILL).ok();
            wait_until("the end of a container", || {
                self.init().is_none().then_some(())
            });
        }
    }
}

/// Whether it works here at all.
pub(super) fn try_out() -> Result<(), String> {
    let scratch = tempfile::tempdir().unwrap();
    let launch = Launch {
        entrypoint: Some("/bin/true".to_owned()),
        args: String::new(),
        environment: [].into(),
        mounts: Vec::new(),
        workspace: "/".into(),
        scratch: scratch.path().to_owned(),
        name: "try-out".to_owned(),
    };
    let started = start(&launch).map_err(|error| format!("no namespaces: {error}"))?;
    let status = started.ended.recv().unwrap();
    let succeeded = status.success().then_some(());
    succeeded.ok_or_else(|| format!("no namespaces: {status}"))
}

pub(super) fn start(launch: &Launch) -> io::Result<Started> {
    let (mut command, told) = command(launch);
    let (send_started, started) = mpsc::channel();
    let (send_ended, ended) = mpsc::channel();
    // The first child of a thread with a namespace of its own for children is the first process in there. The thread
    // stays: when it goes, the container does.
    thread::spawn(move || {
        let child = enter_and_spawn(&mut command);
        drop(command);
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return send_started.send(Err(error)).unwrap(),
        };
        let namespace = Arc::new(Namespace {
            init: Pid::from_child(&child),
            has_ended: AtomicBool::new(false),
        });
        let streams = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        send_started.send(Ok((namespace.clone(), streams))).unwrap();
        let status = child.wait().unwrap();
        namespace.has_ended.store(true, Ordering::SeqCst);
        send_ended.send(status).ok();
    });
    let (namespace, (stdout, stderr)) = match started.recv().unwrap() {
        Ok(started) => started,
        Err(error) => return not_started(error, told),
    };
    Ok(Started {
        client: Client {
            pid: namespace.init,
            is_container: true,
        },
        container: Container::Namespace(namespace),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        ended,
    })
}

/// A program that is not there, or cannot be run, is the action's fault: docker ends with 127 or 126 then.
fn not_started(error: io::Error, mut told: io::PipeReader) -> io::Result<Started> {
    let mut act = String::new();
    told.read_to_string(&mut act)?;
    let code = match error.kind() {
        _ if !act.is_empty() => return Err(io::Error::other(format!("{act}: {error}"))),
        io::ErrorKind::NotFound => 127,
        io::ErrorKind::PermissionDenied => 126,
        _ => return Err(error),
    };
    let (sender, ended) = mpsc::channel();
    sender.send(ExitStatus::from_raw(code << 8)).unwrap();
    let init = getpid();
    let namespace = Namespace {
        init,
        has_ended: AtomicBool::new(true),
    };
    let line = format!("docker: Error response from daemon: {error}\n");
    Ok(Started {
        client: Client {
            pid: init,
            is_container: true,
        },
        container: Container::Namespace(Arc::new(namespace)),
        stdout: Box::new(io::empty()),
        stderr: Box::new(io::Cursor::new(line)),
        ended,
    })
}

fn enter_and_spawn(command: &mut Command) -> io::Result<Child> {
    #[expect(unsafe_code, reason = "there is no safe way to say it")]
    // SAFETY: it concerns the children of this thread alone; no descriptor is unshared.
    unsafe {
        unshare_unsafe(UnshareFlags::NEWPID)?;
    }
    command.spawn()
}

/// The command, and a pipe that tells which act failed, if one did.
fn command(launch: &Launch) -> (Command, io::PipeReader) {
    let args = arguments::split(&launch.args);
    let mut words: Vec<String> = match &launch.entrypoint {
        Some(program) => vec![program.clone()],
        None => ENTRYPOINT.map(str::to_owned).to_vec(),
    };
    // Arguments take the place of the image's command, of which there is none.
    words.extend(args);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env_clear()
        .env("PATH", PATH)
        .env("HOSTNAME", &launch.name)
        .envs(&launch.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (told, tell) = io::pipe().unwrap();
    let acts = acts(launch);
    #[expect(
        unsafe_code,
        reason = "the new process builds its own world before it becomes the program"
    )]
    // SAFETY: all texts are made beforehand; each act is one system call or a few, and none takes memory or a lock.
    unsafe {
        command.pre_exec(move || {
            for act in &acts {
                if let Err(error) = act.perform() {
                    rustix::io::write(&tell, act.name().to_bytes()).ok();
                    return Err(error);
                }
            }
            Ok(())
        });
    }
    (command, told)
}

/// One step on the way from a fresh process to a container.
enum Act {
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
    /// Descriptors and ignored signals of this process would be there too.
    InheritNothing,
}

fn text(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_bytes()).unwrap()
}

fn acts(launch: &Launch) -> Vec<Act> {
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
        Act::Bind(text("/proc/sys"), text("/proc/sys")),
        Act::ReadOnly(text("/proc/sys")),
        Act::Mount(c"sysfs", text("/sys"), text("")),
        Act::ReadOnly(text("/sys")),
        // An image has nothing of this machine's in these.
        tmpfs("/tmp", "mode=1777"),
        tmpfs("/var/tmp", "mode=1777"),
        tmpfs("/run", "mode=755"),
        tmpfs("/root", "mode=700"),
        tmpfs("/home", "mode=755"),
    ];
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
    fn name(&self) -> &CStr {
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

    fn perform(&self) -> io::Result<()> {
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
    umask(Mode::from_raw_mode(0o022));
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
