//! Questions to other programs, such as for their version: asked all at once, so that the slowest decides how long it
//! takes, and none gets more time or room than an answer needs.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal as Kill, kill_process_group};

use tokio::runtime::Builder;

use super::spawn::spawn;
use super::supervise::{Place, status};
use super::tree::leader_ended;
use crate::host::Signals;
use crate::iteration::{Cut, End};
use crate::signal::Signal;

/// Longer than any answer, of each stream.
const KEPT: usize = 8 << 10;

/// How often a pipe is read when its program has ended. Each time gives all that is kept, if it is there.
const LAST_WORDS: usize = 4;

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long SIGKILL may take. Only a process that hangs in the kernel is still there after that.
const GIVE_UP: Duration = Duration::from_secs(1);

/// What a program said, from the beginning.
#[derive(Debug)]
pub struct Answer {
    pub end: End,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Asks all at once, with nothing on standard input. Whoever has not answered in time is ended, with all of its process
/// group. An error means that the program could not be started. A signal to rooda ends all of them.
pub fn ask(
    questions: &[Vec<String>],
    patience: Duration,
) -> Result<Vec<io::Result<Answer>>, Signal> {
    let listening = Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| {
            let signals = {
                let _inside = runtime.enter();
                Signals::listen()
            };
            Ok((runtime, signals?))
        });
    // Who cannot listen for signals dies of them.
    let mut listening = listening.ok();
    let deadline = Instant::now() + patience;
    let mut asked: Vec<io::Result<Asked>> =
        questions.iter().map(|words| Asked::start(words)).collect();
    loop {
        let mut has_moved = false;
        let mut is_over = true;
        for one in asked.iter_mut().flatten() {
            has_moved |= one.listen();
            is_over &= leader_ended(one.leader);
        }
        if is_over || Instant::now() >= deadline {
            break;
        }
        let pause = match has_moved {
            true => Duration::ZERO,
            false => LOOK_AGAIN,
        };
        let signal = match &mut listening {
            Some((runtime, signals)) => runtime.block_on(signals.within(pause)),
            None => {
                thread::sleep(pause);
                None
            }
        };
        if let Some(signal) = signal {
            for one in asked.into_iter().flatten() {
                one.answer(patience).ok();
            }
            return Err(signal);
        }
    }
    let answer = |one: io::Result<Asked>| one?.answer(patience);
    Ok(asked.into_iter().map(answer).collect())
}

#[derive(Debug)]
struct Asked {
    child: Child,
    leader: Pid,
    stdout: Heard,
    stderr: Heard,
}

impl Asked {
    fn start(words: &[String]) -> io::Result<Self> {
        let mut child = spawn(words, Place::Here)?;
        drop(child.stdin.take());
        Ok(Asked {
            leader: Pid::from_child(&child),
            stdout: Heard::new(child.stdout.take().map(OwnedFd::from)),
            stderr: Heard::new(child.stderr.take().map(OwnedFd::from)),
            child,
        })
    }

    fn listen(&mut self) -> bool {
        let heard = self.stdout.listen();
        self.stderr.listen() || heard
    }

    /// What it said until now. Nothing of it is left after that.
    fn answer(mut self, patience: Duration) -> io::Result<Answer> {
        let is_late = !leader_ended(self.leader);
        // The leader's number is its group's, and nobody else's until its status is taken.
        kill_process_group(self.leader, Kill::KILL).ok();
        let killed = Instant::now();
        while !leader_ended(self.leader) && killed.elapsed() < GIVE_UP {
            thread::sleep(LOOK_AGAIN);
        }
        // The last words may still be in the pipes. Whoever left the group and goes on talking is not heard out.
        for _ in 0..LAST_WORDS {
            self.listen();
        }
        let end = status(&mut self.child)?;
        Ok(Answer {
            end: match is_late {
                true => End::Cut(Cut::RunTimeout(patience)),
                false => end,
            },
            stdout: self.stdout.kept,
            stderr: self.stderr.kept,
        })
    }
}

/// A stream, and the beginning of what came from it.
#[derive(Debug)]
struct Heard {
    pipe: Option<File>,
    kept: Vec<u8>,
}

impl Heard {
    fn new(pipe: Option<OwnedFd>) -> Self {
        // A pipe that could make us wait is not read at all.
        let without_waiting = |pipe: &OwnedFd| {
            let flags = fcntl_getfl(pipe)?;
            fcntl_setfl(pipe, flags | OFlags::NONBLOCK)
        };
        Heard {
            pipe: pipe
                .filter(|pipe| without_waiting(pipe).is_ok())
                .map(File::from),
            kept: Vec::new(),
        }
    }

    /// Reads once, without waiting, and answers whether there was something. What is too much is read and forgotten: a
    /// talkative program shall come to its end.
    fn listen(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        let mut chunk = [0; KEPT];
        match pipe.read(&mut chunk) {
            Ok(count @ 1..) => {
                let room = KEPT - self.kept.len();
                self.kept.extend_from_slice(&chunk[..count.min(room)]);
                true
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                false
            }
            Ok(0) | Err(_) => {
                self.pipe = None;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn asked(scripts: &[&str], patience: Duration) -> Vec<Answer> {
        let words = |script: &&str| ["sh", "-c", script].map(str::to_owned).to_vec();
        let questions: Vec<_> = scripts.iter().map(words).collect();
        let answers = ask(&questions, patience).unwrap();
        answers.into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn each_answer_is_its_own() {
        let answers = asked(
            &["echo 1.0; echo odd >&2", "exit 3", "kill -TERM $$", "cat"],
            LONG,
        );
        let [told, failed, killed, reader] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert_eq!(told.end, End::Exited(0));
        assert_eq!(
            (&told.stdout[..], &told.stderr[..]),
            (&b"1.0\n"[..], &b"odd\n"[..])
        );
        assert_eq!(failed.end, End::Exited(3));
        assert_eq!(killed.end, End::Signaled(Signal(15)));
        // Nothing comes on standard input.
        assert_eq!((reader.end, reader.stdout.len()), (End::Exited(0), 0));
        let missing = ask(&[vec!["/nowhere/at-all".to_owned()]], LONG).unwrap();
        assert!(missing[0].is_err());
    }

    #[test]
    fn no_more_is_kept_than_an_answer_needs() {
        let script = "echo 2.0; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; echo end";
        let answers = asked(&[script], LONG);
        assert_eq!(answers[0].end, End::Exited(0));
        assert_eq!(
            (answers[0].stdout.len(), answers[0].stderr.len()),
            (KEPT, KEPT)
        );
        assert!(answers[0].stdout.starts_with(b"2.0\n"));
    }

    #[test]
    fn who_does_not_answer_is_ended_with_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let hang = format!("sleep 3000 & echo $! > {}; echo 3.0; wait", pid.display());
        let patience = Duration::from_millis(700);
        let started = Instant::now();
        let answers = asked(
            &[&hang, "trap '' TERM; while :; do sleep 1; done"],
            patience,
        );
        // Both at once.
        assert!(
            started.elapsed() < 2 * patience + GIVE_UP,
            "{:?}",
            started.elapsed()
        );
        for answer in &answers {
            assert_eq!(answer.end, End::Cut(Cut::RunTimeout(patience)));
        }
        assert_eq!(answers[0].stdout, b"3.0\n");
        let pid = std::fs::read_to_string(pid).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        while state().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(started.elapsed() < LONG, "the child is still there");
            thread::sleep(LOOK_AGAIN);
        }
    }

    #[test]
    fn who_has_answered_is_not_waited_for_because_of_a_child() {
        let started = Instant::now();
        let answers = asked(&["sleep 3000 & echo 4.0"], LONG);
        assert!(started.elapsed() < LONG / 2);
        assert_eq!(
            (answers[0].end, &answers[0].stdout[..]),
            (End::Exited(0), &b"4.0\n"[..])
        );
    }
}
