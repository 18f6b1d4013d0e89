//! One agent from its start to the end of its last process.

use std::collections::{BTreeMap, HashSet};
use std::future::pending;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal as Kill, Uid, WaitOptions, set_child_subreaper, waitpid};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::jail::Jail;
use super::pipes::Pipes;
use super::spawn::spawn;
use super::tree::{Reach, Tree, own_children};
use super::user::is_init;
use crate::host::{Console, Signals};
use crate::iteration::{self, Cut, End, Tail};
use crate::signal::Signal;

/// How long output may still come after the leader has ended, in all and between two pieces.
const DRAIN: Duration = Duration::from_millis(500);
const DRAIN_PAUSE: Duration = Duration::from_millis(100);

/// What the agent left behind gets no more time than this to end, whatever the grace is.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);

/// A job that was cancelled has ten seconds to save what there is.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// How long SIGKILL may take. Only a process that hangs in the kernel is still there after that.
const GIVE_UP: Duration = Duration::from_secs(5);

const LOOK_AGAIN: Duration = Duration::from_millis(10);
const HURRY: Duration = Duration::from_millis(500);

/// Some programs (`timeout`, wrappers) send a signal twice. That is not somebody pressing Ctrl+C again.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// What a second signal to rooda means while it ends the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecondSignal {
    /// Somebody at a terminal has lost patience.
    Terminal,
    /// Nothing: whoever runs rooda in a script may send as many as they like.
    Script,
    /// The runner has lost patience, and has hardly had any to begin with.
    Action,
}

#[derive(Debug)]
pub struct Command<'a> {
    pub words: &'a [String],
    /// What it gets on standard input.
    pub input: &'a [u8],
    pub place: Place<'a>,
}

/// Where a command runs, and as whom.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// Where rooda runs, with all that rooda has.
    Here,
    Jail(&'a Jail),
    /// In a folder, as rooda's user, with these variables and no others. What it leaves running are services for the
    /// agents to come, and go on.
    Root {
        environment: &'a BTreeMap<String, String>,
        directory: &'a Path,
    },
}

impl Place<'_> {
    fn keeps_services(self) -> bool {
        matches!(self, Place::Root { .. })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// When it must have ended, and what to say if it has not.
    pub deadline: Option<(Duration, Cut)>,
    pub idle: Option<Duration>,
    pub grace: Duration,
    pub buffer: usize,
}

/// What is heard of a running agent.
#[derive(Debug)]
pub enum Heard<'a> {
    Output(iteration::Stream, &'a [u8]),
    /// About every second.
    Tick {
        elapsed: Duration,
        since_output: Duration,
    },
    Interrupted(Signal),
}

/// What became of it.
#[derive(Debug)]
pub struct Ran {
    pub end: End,
    pub output: Tail,
    /// Processes that were still there when the leader had ended by itself.
    pub left_behind: usize,
    /// Processes that could not be ended.
    pub survivors: usize,
    /// Whether its processes could not be seen, so that nobody knows what is left of it.
    pub unseen: bool,
    /// A signal to rooda that came meanwhile.
    pub interrupted: Option<Signal>,
}

#[derive(Debug)]
pub struct Supervisor {
    foreign: HashSet<Pid>,
    children: Stream,
    second_signal: SecondSignal,
}

impl Supervisor {
    /// From here on, orphans of the agent come to rooda.
    pub fn new(second_signal: SecondSignal) -> io::Result<Self> {
        set_child_subreaper(Pid::from_raw(1))?;
        Ok(Supervisor {
            foreign: own_children().unwrap_or_default().into_iter().collect(),
            children: signal(SignalKind::child())?,
            second_signal,
        })
    }

    /// Takes the status of everything that was left to rooda and has ended. For between two runs, when no child of rooda
    /// is waited for by anybody else.
    pub fn reap_strays(&mut self) {
        for pid in own_children().unwrap_or_default() {
            // The first process of a container is the last resort of all; elsewhere foreign children are not ours.
            if (is_init() || !self.foreign.contains(&pid))
                && matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_)))
            {
                // The number may go to another process now.
                self.foreign.remove(&pid);
            }
        }
    }

    fn reach(&self, place: Place) -> Reach {
        match place {
            Place::Jail(jail) if is_init() => match Uid::from_raw(jail.uid()) {
                // Root's services are no different from root's agent.
                Uid::ROOT if !self.foreign.is_empty() => Reach::Descendants,
                Uid::ROOT => Reach::Everybody,
                user => Reach::User(user),
            },
            Place::Jail(_) | Place::Here | Place::Root { .. } => Reach::Descendants,
        }
    }

    /// Runs a command. An error means that it could not be started. Whoever hears of it can have it ended.
    pub async fn run(
        &mut self,
        command: Command<'_>,
        limits: Limits,
        signals: &mut Signals,
        console: &Console,
        mut heard: impl FnMut(Heard) -> ControlFlow<Cut>,
    ) -> io::Result<Ran> {
        let mut child = spawn(command.words, command.place)?;
        let pipes = Pipes::new(&mut child, command.input, limits.buffer, console);
        let pipes = pipes.inspect_err(|_| {
            // It runs, but nobody could hear it.
            child.kill().ok();
            child.wait().ok();
        })?;
        let leader = Pid::from_child(&child);
        let mut run = Run {
            tree: Tree::new(leader, self.reach(command.place), &self.foreign),
            pipes,
            limits,
            children: &mut self.children,
            signals,
            second_signal: self.second_signal,
            interrupted: None,
            started: Instant::now(),
        };
        let cut = run.watch(&mut heard).await;
        let mut left_behind = 0;
        let grace = match cut {
            Some(Cut::Interrupted(_)) => run.interrupt_grace(),
            Some(_) => limits.grace,
            None if command.place.keeps_services() => {
                run.drain(&mut heard).await;
                let interrupted = run.interrupted.map(|(signal, _)| signal);
                let tail = run.pipes.listen_on();
                let end = status(&mut child)?;
                self.foreign.extend(own_children().unwrap_or_default());
                return Ok(Ran {
                    end,
                    output: tail,
                    left_behind: 0,
                    survivors: 0,
                    unseen: false,
                    interrupted,
                });
            }
            None => {
                run.drain(&mut heard).await;
                left_behind = run.tree.living().len();
                limits.grace.min(LEFTOVER_GRACE)
            }
        };
        let survivors = run.end_tree(grace, &mut heard).await;
        let mut output = |stream, bytes: &[u8]| {
            let _ = heard(Heard::Output(stream, bytes));
        };
        run.pipes.drain(&mut output).await;
        let interrupted = run.interrupted.map(|(signal, _)| signal);
        let unseen = !run.tree.can_be_seen();
        let tail = run.pipes.into_tail();
        let status = status(&mut child)?;
        Ok(Ran {
            end: cut.map_or(status, End::Cut),
            output: tail,
            left_behind,
            survivors,
            unseen,
            interrupted,
        })
    }
}

/// The leader's status, which is also what lets go of its pid. It does not wait: the leader has ended, or never will.
pub(super) fn status(child: &mut Child) -> io::Result<End> {
    let status = child.try_wait()?;
    let code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| status.signal());
    Ok(match (code, signal) {
        (Some(code), _) => End::Exited(code),
        (None, Some(signal)) => End::Signaled(Signal(signal)),
        (None, None) => End::Exited(-1),
    })
}

struct Run<'a> {
    tree: Tree<'a>,
    pipes: Pipes<'a>,
    limits: Limits,
    children: &'a mut Stream,
    signals: &'a mut Signals,
    second_signal: SecondSignal,
    interrupted: Option<(Signal, Instant)>,
    started: Instant,
}

impl Run<'_> {
    /// Waits for the leader to end, and answers with the reason if it must be ended.
    async fn watch(&mut self, heard: &mut impl FnMut(Heard) -> ControlFlow<Cut>) -> Option<Cut> {
        let mut tick = interval(Duration::from_secs(1));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_output = self.started;
        let deadline = self.limits.deadline;
        loop {
            if self.pipes.are_held_up() {
                // The agent may be talking; nobody could hear it.
                last_output = Instant::now();
            }
            let idle_at = self.limits.idle.map(|idle| (last_output + idle, idle));
            let mut stop = None;
            let mut output = |stream, bytes: &[u8]| {
                if let ControlFlow::Break(cut) = heard(Heard::Output(stream, bytes)) {
                    stop = Some(cut);
                }
            };
            let cut = tokio::select! {
                moved = self.pipes.pump(&mut output) => {
                    if moved {
                        last_output = Instant::now();
                    }
                    None
                }
                _ = self.children.recv() => {
                    self.tree.reap_orphans();
                    if self.tree.leader_ended() {
                        return None;
                    }
                    None
                }
                signal = self.signals.next() => {
                    self.interrupted = Some((signal, Instant::now()));
                    Some(Cut::Interrupted(signal))
                }
                () = until(deadline.map(|(time, _)| self.started + time)) => {
                    deadline.map(|(_, cut)| cut)
                }
                () = until(idle_at.map(|(at, _)| at)) => {
                    idle_at.map(|(_, idle)| Cut::IdleTimeout(idle))
                }
                _ = tick.tick() => {
                    let tick = Heard::Tick {
                        elapsed: self.started.elapsed(),
                        since_output: last_output.elapsed(),
                    };
                    heard(tick).break_value()
                }
            };
            let Some(cut) = cut.or(stop) else {
                continue;
            };
            // Both may have come while rooda was busy or stopped. An agent that ended by itself was not cut off.
            if self.tree.leader_ended() {
                return None;
            }
            if let Cut::Interrupted(signal) = cut {
                // It ends anyway.
                let _ = heard(Heard::Interrupted(signal));
            }
            return Some(cut);
        }
    }

    /// Reads on for a moment after the leader has ended: until both streams end, or nothing more comes.
    async fn drain(&mut self, heard: &mut impl FnMut(Heard) -> ControlFlow<Cut>) {
        let mut output = |stream, bytes: &[u8]| {
            let _ = heard(Heard::Output(stream, bytes));
        };
        let last_call = Instant::now() + DRAIN;
        while !self.pipes.are_closed() {
            let pause = (Instant::now() + DRAIN_PAUSE).min(last_call);
            tokio::select! {
                _ = self.pipes.pump(&mut output) => {}
                () = sleep_until(pause) => break,
            }
            if Instant::now() >= last_call {
                break;
            }
        }
    }

    /// The grace after a signal to rooda.
    fn interrupt_grace(&self) -> Duration {
        match self.second_signal {
            SecondSignal::Action => self.limits.grace.min(CANCEL_GRACE),
            SecondSignal::Terminal | SecondSignal::Script => self.limits.grace,
        }
    }

    /// Whether a signal that is not the first one ends the grace.
    fn is_last_straw(&self, (first, at): (Signal, Instant), signal: Signal) -> bool {
        let is_another = at.elapsed() > SAME_SIGNAL;
        match self.second_signal {
            SecondSignal::Terminal => is_another,
            SecondSignal::Action => is_another || signal != first,
            SecondSignal::Script => false,
        }
    }

    /// Ends every process that is left: SIGTERM, the grace, SIGKILL. Goes on reading and listening meanwhile. Answers
    /// with the number of those that could not be ended.
    async fn end_tree(
        &mut self,
        grace: Duration,
        heard: &mut impl FnMut(Heard) -> ControlFlow<Cut>,
    ) -> usize {
        if self.tree.is_gone() {
            return 0;
        }
        self.tree.signal(Kill::TERM);
        let mut kill_at = Instant::now() + grace;
        let mut killed_at = None;
        loop {
            // Before anything is looked at: that takes long where hundreds of processes want the processor, and nobody is
            // given up on who was not killed.
            if Instant::now() >= kill_at {
                self.tree.signal(Kill::KILL);
                killed_at.get_or_insert_with(Instant::now);
            }
            self.tree.reap_orphans();
            if self.tree.is_gone() {
                return 0;
            }
            if self.tree.leader_ended() && !self.tree.can_be_seen() {
                // The group is all that can be reached, and whether it is gone cannot be known.
                self.tree.signal(Kill::KILL);
                return 0;
            }
            let now = Instant::now();
            if killed_at.is_some_and(|killed| now >= killed + GIVE_UP) {
                return self.tree.left();
            }
            // Those that fork faster than one can look must be looked for without a pause, for a while.
            let pause = match killed_at {
                Some(killed) if now < killed + HURRY => Duration::ZERO,
                Some(_) | None => LOOK_AGAIN,
            };
            let mut output = |stream, bytes: &[u8]| {
                let _ = heard(Heard::Output(stream, bytes));
            };
            let reading = async {
                loop {
                    self.pipes.pump(&mut output).await;
                }
            };
            tokio::select! {
                () = reading => {}
                _ = self.children.recv() => {}
                () = sleep(pause) => {}
                signal = self.signals.next() => match self.interrupted {
                    None => {
                        self.interrupted = Some((signal, now));
                        let _ = heard(Heard::Interrupted(signal));
                        kill_at = kill_at.min(now + self.interrupt_grace());
                    }
                    Some(first) => {
                        if self.is_last_straw(first, signal) {
                            kill_at = kill_at.min(now);
                        }
                    }
                },
            }
        }
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}
