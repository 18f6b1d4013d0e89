//! The parent's part of the probe: it lays the baits, starts the child in the jail, and takes its report.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::NamedTempFile;

use super::super::jail::Jail;
use super::{Attempt, Orders, ProbeTargets, sibling};

const DEADLINE: Duration = Duration::from_secs(10);

/// What a pipe holds, so that writing to it never waits.
const LONGEST_ORDERS: usize = 64 << 10;
const LONGEST_REPORT: usize = 1 << 20;

/// Lets a child in the jail try everything, and answers with what it tried. Any success is a hole.
pub fn run_probe(jail: &Jail, targets: &ProbeTargets) -> Result<Vec<Attempt>> {
    run_probe_of(Path::new("/proc/self/exe"), jail, targets)
}

/// The same with the program of rooda in another place.
pub fn run_probe_of(program: &Path, jail: &Jail, targets: &ProbeTargets) -> Result<Vec<Attempt>> {
    let baits = lay_baits(jail, targets)?;
    let orders = Orders {
        targets: targets.clone(),
        baits: baits.0.iter().map(|bait| bait.path().to_owned()).collect(),
    };
    let orders = serde_json::to_vec(&orders).context("cannot write the orders of the probe")?;
    if orders.len() > LONGEST_ORDERS {
        bail!("the probe has too much to try: {} bytes", orders.len());
    }
    let mut command = Command::new(program);
    command
        .arg("probe")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    jail.confine(&mut command);
    let mut child = command
        .spawn()
        .context("cannot start the probe in the agent's jail")?;
    let deadline = Instant::now() + DEADLINE;
    let report = converse(&mut child, &orders, deadline);
    while report.is_ok() && Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    // If it has ended, this does nothing.
    child.kill().ok();
    let status = child.wait().context("cannot wait for the probe")?;
    let report = report?;
    if !status.success() {
        bail!("the probe failed: {status}");
    }
    serde_json::from_slice(&report).context("cannot read the report of the probe")
}

/// Gone with all that the child may have made of them when dropped.
struct Baits(Vec<NamedTempFile>);

impl Drop for Baits {
    fn drop(&mut self) {
        for bait in &self.0 {
            fs::remove_file(sibling(bait.path())).ok();
        }
    }
}

/// Puts a file that belongs to the agent into every folder that exists.
fn lay_baits(jail: &Jail, targets: &ProbeTargets) -> Result<Baits> {
    let homes = targets
        .command_files
        .iter()
        .filter_map(|file| file.parent());
    let folders: BTreeSet<PathBuf> = homes
        .chain(targets.folders.iter().map(PathBuf::as_path))
        .filter_map(|folder| fs::canonicalize(folder).ok())
        .collect();
    let mut baits = Baits(Vec::new());
    for folder in folders {
        let context = || format!("cannot try out {}", folder.display());
        let bait = tempfile::Builder::new()
            .prefix(".rooda-probe-")
            .tempfile_in(&folder)
            .with_context(context)?;
        fchown(bait.as_file(), Some(jail.uid()), None).with_context(context)?;
        baits.0.push(bait);
    }
    Ok(baits)
}

fn converse(child: &mut Child, orders: &[u8], deadline: Instant) -> Result<Vec<u8>> {
    let mut stdin = child.stdin.take().context("the probe cannot be told")?;
    // One that does not listen has nothing to report, or has failed.
    stdin.write_all(orders).ok();
    drop(stdin);
    let stdout = child.stdout.take().context("the probe cannot be heard")?;
    listen(stdout, deadline)
}

/// Reads to the end, but not for ever.
fn listen(mut stdout: ChildStdout, deadline: Instant) -> Result<Vec<u8>> {
    let mut report = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).context("the time is out of bounds")?;
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&left)) {
            Ok(0) => bail!("the probe has not answered within {} s", DEADLINE.as_secs()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot wait for the probe"),
        }
        match stdout.read(&mut chunk).context("cannot hear the probe")? {
            0 => return Ok(report),
            count => report.extend_from_slice(&chunk[..count]),
        }
        if report.len() > LONGEST_REPORT {
            bail!("the probe talks too much");
        }
    }
}
