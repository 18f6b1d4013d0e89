//! Starting processes.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Signal, set_parent_process_death_signal, setsid};

use super::supervise::Place;

/// Large pipes let a talkative agent run on while rooda is busy elsewhere.
const PIPE_SIZE: usize = 1 << 20;

/// Starts a command in a session and process group of its own, with pipes for its three streams.
pub(super) fn spawn(words: &[String], place: Place) -> io::Result<Child> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    match place {
        Place::Jail(jail) => jail.confine(&mut command),
        Place::Here => detach(&mut command),
        Place::Root {
            environment,
            directory,
        } => {
            command.env_clear().envs(environment).current_dir(directory);
            detach(&mut command);
        }
    }
    let child = command.spawn()?;
    // Where the system allows no larger pipes, the ordinary ones do.
    if let Some(stdout) = &child.stdout {
        fcntl_setpipe_size(stdout, PIPE_SIZE).ok();
    }
    if let Some(stderr) = &child.stderr {
        fcntl_setpipe_size(stderr, PIPE_SIZE).ok();
    }
    Ok(child)
}

/// Gives a command a session of its own, and an end with rooda's.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec must be declared safe for that moment"
)]
fn detach(command: &mut Command) {
    // SAFETY: the closure makes two system calls and touches no memory that another thread could hold locked.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            // An agent must not go on unwatched when rooda itself is killed.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        });
    }
}

/// Runs a helper program to its end, and answers with its output if it went well.
pub fn run_quietly(directory: &Path, words: &[&str]) -> Result<String> {
    let words_joined = words.join(" ");
    let Some((program, arguments)) = words.split_first() else {
        bail!("no program to run");
    };
    let mut command = Command::new(program);
    // Started from a git hook, these would lead git to another repository than the one in `directory`.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    let output = command
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run `{words_joined}`"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("`{words_joined}` failed: {}", told.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
