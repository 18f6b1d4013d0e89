//! The outcome matrix: how a process ended and what it promised decide what the iteration was.

use std::fmt;
use std::time::Duration;

use super::promise::Promised;
use crate::signal::Signal;
use crate::units::Exactly;

/// Why an agent was ended before it ended itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    IterationTimeout(Duration),
    IdleTimeout(Duration),
    RunTimeout(Duration),
    Interrupted(Signal),
}

/// How the agent's process ended. Exit codes over 128 are exit codes: only the wait status tells a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Signaled(Signal),
    Cut(Cut),
}

/// Why an iteration failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    NotStarted,
    Exit(i32),
    Signal(Signal),
    Reported,
    IterationTimeout(Duration),
    IdleTimeout(Duration),
    RunTimeout(Duration),
}

impl Failure {
    /// The class of the failure, for machines.
    pub fn class(self) -> &'static str {
        match self {
            Failure::NotStarted | Failure::Exit(_) | Failure::Signal(_) => "process",
            Failure::Reported => "reported",
            Failure::IterationTimeout(_) | Failure::RunTimeout(_) => "timeout",
            Failure::IdleTimeout(_) => "idle",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::NotStarted => f.write_str("the agent could not be started"),
            Failure::Exit(code) => write!(f, "the agent exited with code {code}"),
            Failure::Signal(signal) => write!(f, "the agent was killed by {signal}"),
            Failure::Reported => f.write_str("the agent promised FAILURE"),
            Failure::IterationTimeout(time) => write!(f, "timed out after {}", Exactly(*time)),
            Failure::IdleTimeout(time) => write!(f, "no output for {}", Exactly(*time)),
            Failure::RunTimeout(time) => {
                write!(f, "cut off by the run timeout of {}", Exactly(*time))
            }
        }
    }
}

/// What an iteration was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It ended well and promised nothing: the loop goes on.
    Continue,
    /// The agent promised that the job is done.
    JobDone,
    Failed(Failure),
    /// Ended by a signal to rooda; it counts neither as a success nor as a failure.
    Interrupted,
}

/// The matrix. A signal in the output beats the exit code, FAILURE beats SUCCESS, and an agent that rooda had to end
/// can have promised what it wants.
pub fn judge(end: End, promised: Promised) -> Outcome {
    match (end, promised) {
        (End::Cut(Cut::Interrupted(_)), _) => Outcome::Interrupted,
        (End::Cut(Cut::IterationTimeout(time)), _) => {
            Outcome::Failed(Failure::IterationTimeout(time))
        }
        (End::Cut(Cut::IdleTimeout(time)), _) => Outcome::Failed(Failure::IdleTimeout(time)),
        (End::Cut(Cut::RunTimeout(time)), _) => Outcome::Failed(Failure::RunTimeout(time)),
        (End::Exited(_) | End::Signaled(_), Promised::Failure) => {
            Outcome::Failed(Failure::Reported)
        }
        (End::Exited(_) | End::Signaled(_), Promised::Success) => Outcome::JobDone,
        (End::Exited(0), Promised::Nothing) => Outcome::Continue,
        (End::Exited(code), Promised::Nothing) => Outcome::Failed(Failure::Exit(code)),
        (End::Signaled(signal), Promised::Nothing) => Outcome::Failed(Failure::Signal(signal)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of the matrix of the specification, and those that timeouts and signals add.
    #[test]
    fn the_matrix_row_by_row() {
        use Promised::{Failure as Blocked, Nothing, Success};
        let reported = Outcome::Failed(Failure::Reported);
        let minute = Duration::from_secs(60);
        let segv = Signal(11);
        let rows = [
            (End::Exited(0), Nothing, Outcome::Continue),
            (End::Exited(0), Success, Outcome::JobDone),
            (End::Exited(0), Blocked, reported),
            (End::Exited(1), Nothing, Outcome::Failed(Failure::Exit(1))),
            (End::Exited(1), Success, Outcome::JobDone),
            (End::Exited(1), Blocked, reported),
            (
                End::Exited(143),
                Nothing,
                Outcome::Failed(Failure::Exit(143)),
            ),
            (
                End::Signaled(segv),
                Nothing,
                Outcome::Failed(Failure::Signal(segv)),
            ),
            (End::Signaled(segv), Success, Outcome::JobDone),
            (End::Signaled(segv), Blocked, reported),
        ];
        for (end, promised, outcome) in rows {
            assert_eq!(judge(end, promised), outcome, "{end:?} {promised:?}");
        }
        for promised in [Nothing, Success, Blocked] {
            for (cut, failure) in [
                (
                    Cut::IterationTimeout(minute),
                    Failure::IterationTimeout(minute),
                ),
                (Cut::IdleTimeout(minute), Failure::IdleTimeout(minute)),
                (Cut::RunTimeout(minute), Failure::RunTimeout(minute)),
            ] {
                assert_eq!(judge(End::Cut(cut), promised), Outcome::Failed(failure));
            }
            let cut = Cut::Interrupted(Signal::INT);
            assert_eq!(judge(End::Cut(cut), promised), Outcome::Interrupted);
        }
    }
}
