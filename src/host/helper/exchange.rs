//! One question to a child process and its answer, within bounds of size and time.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};

/// What is kept of the complaints of a child.
const COMPLAINTS: usize = 4096;

/// How much is taken out of a pipe at once.
const CHUNK: usize = 64 << 10;

/// What a child has said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

/// Gives a child its input, and hears it out until it ends. One that takes too long or says too much is killed. In any
/// case it is gone afterwards, and waited for.
pub(super) fn exchange(
    mut child: Child,
    input: &[u8],
    largest: usize,
    time: Duration,
) -> Result<Said> {
    let deadline = Instant::now() + time;
    let heard = hear(&mut child, input, largest, deadline)
        .and_then(|(stdout, stderr)| Ok((stdout, stderr, ended(&mut child, deadline)?)));
    match heard {
        Ok((stdout, stderr, status)) => Ok(Said {
            status,
            stdout,
            stderr: String::from_utf8_lossy(&stderr).trim().to_owned(),
        }),
        Err(error) => {
            child.kill().ok();
            child.wait().ok();
            Err(error)
        }
    }
}

fn hear(
    child: &mut Child,
    mut input: &[u8],
    largest: usize,
    deadline: Instant,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut stdin = child.stdin.take();
    let mut stdout = child.stdout.take();
    let mut stderr = child.stderr.take();
    if let Some(pipe) = &stdin {
        // A child that does not read must not hold us up.
        ioctl_fionbio(pipe, true).context("cannot talk to it")?;
    }
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    while stdout.is_some() || stderr.is_some() {
        wait_for_any(stdin.as_ref(), stdout.as_ref(), stderr.as_ref(), deadline)?;
        if let Some(pipe) = &mut stdin {
            match pipe.write(input) {
                Ok(count) => input = &input[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // It has heard enough. What it makes of that shows in its answer.
                Err(_) => input = &[],
            }
        }
        if input.is_empty() {
            stdin = None;
        }
        if !take(&mut stdout, &mut said)? {
            stdout = None;
        }
        if !take(&mut stderr, &mut complained)? {
            stderr = None;
        }
        if said.len() > largest {
            bail!("it said more than {largest} bytes");
        }
        complained.truncate(COMPLAINTS);
    }
    Ok((said, complained))
}

/// Takes what there is without waiting. `false`: nothing more will come.
fn take(pipe: &mut Option<impl Read + AsFd>, into: &mut Vec<u8>) -> Result<bool> {
    let Some(pipe) = pipe else {
        return Ok(false);
    };
    let mut ready = [PollFd::new(pipe, PollFlags::IN)];
    match poll(&mut ready, Some(&Timespec::default())) {
        Ok(0) | Err(Errno::INTR) => return Ok(true),
        Ok(_) => {}
        Err(error) => return Err(io::Error::from(error).into()),
    }
    let mut chunk = vec![0; CHUNK];
    let count = pipe.read(&mut chunk)?;
    into.extend_from_slice(&chunk[..count]);
    Ok(count > 0)
}

fn wait_for_any(
    stdin: Option<&impl AsFd>,
    stdout: Option<&impl AsFd>,
    stderr: Option<&impl AsFd>,
    deadline: Instant,
) -> Result<()> {
    let mut pipes = Vec::new();
    pipes.extend(stdin.map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
    pipes.extend(stdout.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
    pipes.extend(stderr.map(|pipe| PollFd::new(pipe, PollFlags::IN)));
    let left = time_left(deadline)?;
    match poll(&mut pipes, Timespec::try_from(left).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// The end of a process comes a moment after the end of its output, if it is an honest one.
fn ended(child: &mut Child, deadline: Instant) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let left = time_left(deadline)?;
        thread::sleep(left.min(Duration::from_millis(1)));
    }
}

fn time_left(deadline: Instant) -> Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        bail!("it took too long");
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn run(script: &str, input: &[u8], largest: usize, time: Duration) -> Result<Said> {
        let child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pid = child.id();
        let said = exchange(child, input, largest, time);
        let gone = !std::path::Path::new(&format!("/proc/{pid}")).exists();
        assert!(gone, "{script} is still there");
        said
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn more_goes_both_ways_than_fits_into_a_pipe() {
        let input = vec![b'x'; 3 << 20];
        let said = run("cat; echo oh >&2; exit 3", &input, input.len(), LONG).unwrap();
        assert_eq!(said.stdout.len(), input.len());
        assert_eq!(said.stderr, "oh");
        assert_eq!(said.status.code(), Some(3));
    }

    #[test]
    fn who_does_not_listen_can_still_answer() {
        let input = vec![b'x'; 1 << 20];
        let said = run("echo done", &input, 100, LONG).unwrap();
        assert_eq!(said.stdout, b"done\n");
    }

    #[test]
    fn who_hangs_or_says_too_much_is_killed() {
        for (script, told) in [
            ("exec sleep 600", "it took too long"),
            ("exec cat /dev/zero", "it said more than 1000 bytes"),
            ("exec >&- 2>&-; exec sleep 600", "it took too long"),
            ("trap '' TERM; while :; do :; done", "it took too long"),
        ] {
            let input = vec![b'x'; 1 << 20];
            let time = if told.contains("too long") {
                SHORT
            } else {
                LONG
            };
            let error = run(script, &input, 1000, time).unwrap_err();
            assert_eq!(error.to_string(), told, "{script}");
        }
    }

    #[test]
    fn endless_complaints_are_cut() {
        let script = "head -c 1000000 /dev/zero | tr '\\0' e >&2";
        let said = run(script, b"", 10, LONG).unwrap();
        assert_eq!(said.stderr.len(), COMPLAINTS);
    }
}
