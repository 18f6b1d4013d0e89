//! Which files the agent may reach, as rules for the kernel (Landlock).
//!
//! Landlock only ever adds: whatever a rule grants on a folder holds for all below it and cannot be taken back. So there is
//! no rule on `/` but the one to list it (some programs read every folder above their own; the price is that names can be
//! listed anywhere); every child of it gets its own rule, and those that hold what is forbidden get none.
//! Renames between two places are possible only if the one has all the rights of the other, hence the writable ones have
//! equal rights.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use ::landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};
use anyhow::{Context, Result, bail};

/// Below this a rename across folders is impossible (1), or a file can be emptied without any right (2).
const MINIMUM: u32 = 3;

/// The newest rules that agents were tried with. 8 adds none. 9 would cut the agent off from the sockets of databases that
/// `setup` started, from one kernel to the next.
const NEWEST: ABI = ABI::V7;

/// Children of `/` that the agent has nothing to look for in.
const KEPT_OUT: [&str; 2] = ["/github", "/root"];

/// Places for temporary files that every program expects to be writable.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Devices that programs write to. `pts` is a folder of terminals.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{Execute | ReadFile | ReadDir});
const USE: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | IoctlDev});

/// What of Landlock is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandlockStatus {
    /// The version of the kernel's interface. None: it has none, or it was not asked for.
    pub abi: Option<u32>,
    /// Whether every restriction that we know of holds. It is what the kernel took, not what was tried.
    pub fully: bool,
    /// What is not restricted.
    pub missing: Vec<&'static str>,
    /// Children of `/` that the agent cannot read because they hold something forbidden.
    pub left_out: Vec<PathBuf>,
}

impl LandlockStatus {
    /// Whether there are rules at all.
    pub fn is_in_force(&self) -> bool {
        self.abi.is_some_and(|abi| abi >= MINIMUM)
    }

    fn of(abi: Option<u32>, left_out: Vec<PathBuf>) -> Self {
        let missing = missing(abi.unwrap_or(0));
        LandlockStatus {
            abi,
            fully: missing.is_empty(),
            missing,
            left_out,
        }
    }

    pub(super) fn off() -> Self {
        LandlockStatus::of(None, Vec::new())
    }
}

fn missing(abi: u32) -> Vec<&'static str> {
    let mut missing = Vec::new();
    if abi < MINIMUM {
        missing.push("reading and writing files");
    }
    if abi < 5 {
        missing.push("control of devices");
    }
    if abi < 6 {
        missing.push("signals to other processes");
        missing.push("abstract sockets");
    }
    missing
}

/// What the agent may do where.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    /// Places of its own. They must exist; those for temporary files are added.
    pub(super) writable: Vec<&'a Path>,
    /// What it must not reach by any of the rules.
    pub(super) forbidden: &'a [PathBuf],
}

/// Builds the rules. There are none where the kernel has no Landlock, or one that is too old; the status tells.
pub(super) fn rules(ground: &Ground) -> Result<(Option<OwnedFd>, LandlockStatus)> {
    rules_of(ground, kernel_abi())
}

fn rules_of(ground: &Ground, version: Option<u32>) -> Result<(Option<OwnedFd>, LandlockStatus)> {
    let Some(version) = version.filter(|version| *version >= MINIMUM) else {
        return Ok((None, LandlockStatus::of(version, Vec::new())));
    };
    let abi = ABI::from(i32::try_from(version).unwrap_or(i32::MAX)).min(NEWEST);
    let forbidden = real_paths(ground.forbidden);
    let writable = writable(ground, &forbidden)?;
    let (readable, left_out) = readable(&forbidden)?;
    let full = AccessFs::from_all(abi);
    let context = "cannot build the Landlock rules";
    // Nothing is left away in silence: what is asked for is what this kernel has, and must hold.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(full)
        .context(context)?;
    let scopes = Scope::from_all(abi);
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes).context(context)?;
    }
    let mut rules = ruleset.create().context(context)?;
    rules = allow(rules, Path::new("/"), AccessFs::ReadDir.into())?;
    for path in &readable {
        rules = allow(rules, path, READ)?;
    }
    for path in &writable {
        rules = allow(rules, path, full)?;
    }
    for path in DEVICES.map(Path::new) {
        if fs::exists(path).unwrap_or(false) {
            rules = allow(rules, path, USE & full)?;
        }
    }
    Ok((rules.into(), LandlockStatus::of(Some(version), left_out)))
}

fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated> {
    let context = || format!("cannot make a Landlock rule for {}", path.display());
    let descriptor = PathFd::new(path).with_context(context)?;
    let is_folder = fs::metadata(path).with_context(context)?.is_dir();
    // A file has no entries: the kernel refuses rights to them.
    let access = match is_folder {
        true => access,
        false => access & AccessFs::from_file(NEWEST),
    };
    let rule = PathBeneath::new(descriptor, access);
    rules.add_rule(rule).with_context(context)
}

/// The places that the agent may write to, by their real names.
fn writable(ground: &Ground, forbidden: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut places = Vec::new();
    for path in &ground.writable {
        let real = fs::canonicalize(path)
            .with_context(|| format!("the agent cannot work in {}", path.display()))?;
        places.push(real);
    }
    for path in TEMPORARY {
        places.extend(fs::canonicalize(path));
    }
    for place in &places {
        if place.parent().is_none() {
            bail!("the agent cannot get all of / to write to");
        }
        if let Some(inner) = forbidden.iter().find(|inner| inner.starts_with(place)) {
            let (inner, place) = (inner.display(), place.display());
            bail!(
                "{inner} must be out of the agent's reach, but is in {place}, which it writes to"
            );
        }
    }
    Ok(places)
}

/// The children of `/` that the agent may read, and those that it may not because of what they hold.
fn readable(forbidden: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let kept_out = real_paths(&KEPT_OUT.map(PathBuf::from));
    let mut readable = Vec::new();
    let mut left_out = Vec::new();
    for entry in fs::read_dir("/").context("cannot list /")? {
        let path = entry.context("cannot list /")?.path();
        // A link counts as what it leads to; one that leads nowhere grants nothing.
        let Ok(real) = fs::canonicalize(&path) else {
            continue;
        };
        let touches = |other: &PathBuf| real.starts_with(other) || other.starts_with(&real);
        if kept_out.iter().any(touches) {
            continue;
        }
        if forbidden.iter().any(touches) {
            left_out.push(path);
        } else {
            readable.push(real);
        }
    }
    left_out.sort();
    Ok((readable, left_out))
}

/// Each path as it was given and as it is without links.
fn real_paths(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = paths.to_vec();
    all.extend(paths.iter().filter_map(|path| fs::canonicalize(path).ok()));
    all
}

/// The version of the kernel's interface, if it has one.
#[expect(unsafe_code, reason = "there is no safe way to ask for the version")]
pub fn kernel_abi() -> Option<u32> {
    const VERSION: libc::c_uint = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the kernel reads no memory, it answers with a number.
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0usize, VERSION) };
    u32::try_from(answer).ok().filter(|version| *version > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(abi: Option<u32>) -> LandlockStatus {
        let ground = Ground {
            writable: Vec::new(),
            forbidden: &[],
        };
        let (rules, status) = rules_of(&ground, abi).unwrap();
        assert_eq!(rules.is_some(), status.is_in_force());
        status
    }

    #[test]
    fn what_an_older_kernel_lacks_is_told() {
        assert!(!status(None).is_in_force());
        assert_eq!(status(Some(2)).missing.len(), 4);
        assert!(!status(Some(2)).is_in_force());
        let Some(kernel) = kernel_abi().filter(|abi| *abi >= MINIMUM) else {
            return;
        };
        assert!(status(Some(3)).is_in_force());
        assert!(!status(Some(3)).fully);
        let expected = match kernel {
            ..5 => 3,
            5 => 2,
            _ => 0,
        };
        assert_eq!(status(Some(kernel)).missing.len(), expected);
        assert_eq!(status(Some(kernel)).fully, expected == 0);
    }

    #[test]
    fn a_forbidden_folder_within_a_writable_one_is_refused() {
        let forbidden = [PathBuf::from("/tmp/runner")];
        let ground = Ground {
            writable: Vec::new(),
            forbidden: &forbidden,
        };
        let error = rules_of(&ground, Some(MINIMUM)).unwrap_err().to_string();
        assert_eq!(
            error,
            "/tmp/runner must be out of the agent's reach, but is in /tmp, which it writes to"
        );
        let ground = Ground {
            writable: vec![Path::new("/")],
            forbidden: &[],
        };
        let error = rules_of(&ground, Some(MINIMUM)).unwrap_err().to_string();
        assert_eq!(error, "the agent cannot get all of / to write to");
    }

    #[test]
    fn children_that_hold_something_forbidden_are_left_out() {
        let (all, none) = readable(&[]).unwrap();
        assert!(all.contains(&PathBuf::from("/usr")));
        assert!(!all.contains(&PathBuf::from("/root")));
        assert_eq!(none, [""; 0].map(PathBuf::from));
        let (rest, left_out) = readable(&[PathBuf::from("/usr/share/none")]).unwrap();
        assert!(!rest.iter().any(|path| path == Path::new("/usr")));
        assert!(left_out.contains(&PathBuf::from("/usr")));
    }
}
