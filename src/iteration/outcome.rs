//! The outcome matrix: how a process ended, what its own events say, and what it promised decide what the iteration was.

use std::fmt;
use std::time::Duration;

use super::promise::Promised;
use crate::agent::{Cause, Transcript, TroubleKind};
use crate::config::Format;
use crate::signal::Signal;
use crate::units::Exactly;

/// Why an agent was ended before it ended itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    IterationTimeout(Duration),
    IdleTimeout(Duration),
    RunTimeout(Duration),
    /// The run's budget was used up while the agent worked.
    Budget,
    Interrupted(Signal),
}

/// How the agent's process ended. Exit codes over 128 are exit codes: only the wait status tells a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Signaled(Signal),
    Cut(Cut),
}

impl End {
    /// The exit code of a process that ended by itself.
    pub fn exit_code(self) -> Option<i32> {
        match self {
            End::Exited(code) => Some(code),
            End::Signaled(_) | End::Cut(_) => None,
        }
    }
}

/// Why an iteration failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    NotStarted,
    Exit(i32),
    Signal(Signal),
    /// The agent's own events report an error.
    Error,
    /// The stream of events ended before its end.
    CutStream,
    /// The agent neither said nor did anything.
    Nothing,
    Reported,
    IterationTimeout(Duration),
    IdleTimeout(Duration),
    RunTimeout(Duration),
    Budget,
    RateLimited,
    Overloaded,
    Permanent(Cause),
    ContextFull,
    /// All that the agent wanted to do was refused by its own CLI.
    Denied,
}

impl Failure {
    /// The class of the failure, for machines.
    pub fn class(self) -> &'static str {
        match self {
            Failure::NotStarted
            | Failure::Exit(_)
            | Failure::Signal(_)
            | Failure::Error
            | Failure::CutStream
            | Failure::Nothing => "process",
            Failure::Reported => "reported",
            Failure::IterationTimeout(_) | Failure::RunTimeout(_) => "timeout",
            Failure::IdleTimeout(_) => "idle",
            Failure::Budget => "budget",
            Failure::RateLimited => "rate-limited",
            Failure::Overloaded => "overloaded",
            Failure::Permanent(_) => "permanent",
            Failure::ContextFull => "context-full",
            Failure::Denied => "denied",
        }
    }

    fn of(kind: TroubleKind) -> Failure {
        match kind {
            TroubleKind::RateLimited => Failure::RateLimited,
            TroubleKind::Overloaded => Failure::Overloaded,
            TroubleKind::Permanent(cause) => Failure::Permanent(cause),
            TroubleKind::ContextFull => Failure::ContextFull,
            TroubleKind::Other => Failure::Error,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Failure::NotStarted => f.write_str("the agent could not be started"),
            Failure::Exit(code) => write!(f, "the agent exited with code {code}"),
            Failure::Signal(signal) => write!(f, "the agent was killed by {signal}"),
            Failure::Error => f.write_str("the agent reported an error"),
            Failure::CutStream => f.write_str("the agent's output breaks off before its end"),
            Failure::Nothing => f.write_str("the agent said and did nothing"),
            Failure::Reported => f.write_str("the agent promised FAILURE"),
            Failure::IterationTimeout(time) => write!(f, "timed out after {}", Exactly(*time)),
            Failure::IdleTimeout(time) => write!(f, "no output for {}", Exactly(*time)),
            Failure::RunTimeout(time) => {
                write!(f, "cut off by the run timeout of {}", Exactly(*time))
            }
            Failure::Budget => f.write_str("cut off, the budget of the run is used up"),
            Failure::RateLimited => f.write_str("the provider limits the rate"),
            Failure::Overloaded => f.write_str("the provider is overloaded or out of reach"),
            Failure::Permanent(Cause::Key) => f.write_str("the provider does not accept the key"),
            Failure::Permanent(Cause::Credit) => f.write_str("the account has no credit left"),
            Failure::Permanent(Cause::Model) => f.write_str("the provider does not know the model"),
            Failure::ContextFull => f.write_str("the model's context was full"),
            Failure::Denied => f.write_str("the agent was allowed nothing that it wanted to do"),
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

/// Judges an iteration. An agent that rooda had to end can have promised what it wants. Where the agent tells in events
/// how it went, those count before the matrix does.
pub fn judge(end: End, promised: Promised, transcript: &Transcript) -> Outcome {
    match end {
        End::Cut(cut) => cut_off(cut),
        End::Exited(_) | End::Signaled(_) => match transcript.format {
            Format::Text => matrix(end, promised),
            _ => match told(end, transcript) {
                Some(failure) => Outcome::Failed(failure),
                None => matrix(end, promised),
            },
        },
    }
}

fn cut_off(cut: Cut) -> Outcome {
    Outcome::Failed(match cut {
        Cut::Interrupted(_) => return Outcome::Interrupted,
        Cut::IterationTimeout(time) => Failure::IterationTimeout(time),
        Cut::IdleTimeout(time) => Failure::IdleTimeout(time),
        Cut::RunTimeout(time) => Failure::RunTimeout(time),
        Cut::Budget => Failure::Budget,
    })
}

/// What a stream of events says went wrong, whatever was promised in it.
fn told(end: End, transcript: &Transcript) -> Option<Failure> {
    if let Some(trouble) = &transcript.trouble {
        return Some(Failure::of(trouble.kind));
    }
    if !transcript.has_ended {
        return Some(match end {
            End::Exited(0) | End::Cut(_) => Failure::CutStream,
            End::Exited(code) => Failure::Exit(code),
            End::Signaled(signal) => Failure::Signal(signal),
        });
    }
    let tools = &transcript.tools;
    if tools.denied > 0 && tools.done == 0 {
        return Some(Failure::Denied);
    }
    let is_silent = transcript.words.trim().is_empty() && tools.used == 0;
    (is_silent && end == End::Exited(0)).then_some(Failure::Nothing)
}

/// The matrix: a signal in the output beats the exit code, FAILURE beats SUCCESS.
fn matrix(end: End, promised: Promised) -> Outcome {
    match (end, promised) {
        (End::Cut(cut), _) => cut_off(cut),
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
    use crate::agent::Trouble;

    /// A stream of events in which all is well.
    fn well() -> Transcript {
        Transcript {
            words: "Done.".to_owned(),
            has_ended: true,
            ..Transcript::new(Format::Claude)
        }
    }

    #[test]
    fn events_count_before_promises() {
        use Promised::{Nothing, Success};
        let judged = |change: fn(&mut Transcript), end, promised| {
            let mut transcript = well();
            change(&mut transcript);
            judge(end, promised, &transcript)
        };
        let failed = |failure| Outcome::Failed(failure);
        let (zero, one) = (End::Exited(0), End::Exited(1));
        assert_eq!(judged(|_| {}, zero, Nothing), Outcome::Continue);
        assert_eq!(judged(|_| {}, zero, Success), Outcome::JobDone);
        // The stream came to its end and says nothing of an error.
        assert_eq!(judged(|_| {}, one, Success), Outcome::JobDone);
        assert_eq!(judged(|_| {}, one, Nothing), failed(Failure::Exit(1)));
        let cut = |t: &mut Transcript| t.has_ended = false;
        assert_eq!(judged(cut, zero, Success), failed(Failure::CutStream));
        assert_eq!(judged(cut, one, Success), failed(Failure::Exit(1)));
        let killed = End::Signaled(Signal(9));
        assert_eq!(
            judged(cut, killed, Success),
            failed(Failure::Signal(Signal(9)))
        );
        let silent = |t: &mut Transcript| t.words.clear();
        assert_eq!(judged(silent, zero, Nothing), failed(Failure::Nothing));
        let silent_work = |t: &mut Transcript| {
            t.words.clear();
            t.tools.used = 1;
        };
        assert_eq!(judged(silent_work, zero, Nothing), Outcome::Continue);
        let denied = |t: &mut Transcript| t.tools.denied = 2;
        assert_eq!(judged(denied, zero, Success), failed(Failure::Denied));
        let partly = |t: &mut Transcript| {
            t.tools.denied = 2;
            t.tools.done = 1;
        };
        assert_eq!(judged(partly, zero, Success), Outcome::JobDone);
    }

    #[test]
    fn every_trouble_has_its_class() {
        use TroubleKind::{ContextFull, Other, Overloaded, Permanent, RateLimited};
        for (kind, class) in [
            (RateLimited, "rate-limited"),
            (Overloaded, "overloaded"),
            (Permanent(Cause::Key), "permanent"),
            (Permanent(Cause::Credit), "permanent"),
            (Permanent(Cause::Model), "permanent"),
            (ContextFull, "context-full"),
            (Other, "process"),
        ] {
            let mut transcript = well();
            transcript.trouble = Some(Trouble {
                kind,
                message: String::new(),
                resets_at: None,
                retry_after: None,
            });
            let outcome = judge(End::Exited(0), Promised::Success, &transcript);
            let Outcome::Failed(failure) = outcome else {
                panic!("{kind:?}: {outcome:?}");
            };
            assert_eq!(failure.class(), class);
        }
    }

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
            let text = Transcript::new(Format::Text);
            assert_eq!(judge(end, promised, &text), outcome, "{end:?} {promised:?}");
        }
        for promised in [Nothing, Success, Blocked] {
            for (cut, failure) in [
                (
                    Cut::IterationTimeout(minute),
                    Failure::IterationTimeout(minute),
                ),
                (Cut::IdleTimeout(minute), Failure::IdleTimeout(minute)),
                (Cut::RunTimeout(minute), Failure::RunTimeout(minute)),
                (Cut::Budget, Failure::Budget),
            ] {
                for transcript in [Transcript::new(Format::Text), well()] {
                    let outcome = judge(End::Cut(cut), promised, &transcript);
                    assert_eq!(outcome, Outcome::Failed(failure));
                }
            }
            let cut = End::Cut(Cut::Interrupted(Signal::INT));
            assert_eq!(judge(cut, promised, &well()), Outcome::Interrupted);
        }
    }
}
