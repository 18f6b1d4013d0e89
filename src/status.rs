//! How a run ended. The names and exit codes are public API: workflows and scripts depend on them.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::Serialize;

use crate::agent::Cause;
use crate::signal::Signal;
use crate::units::{Amount, Count, Exactly, Grouped};

/// The status of an ended run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The agent promised success.
    Success,
    /// The failure threshold was reached, the prompt could not be assembled, the AI command could not be started, or no
    /// retry would have helped.
    Aborted,
    /// The iteration limit was reached.
    MaxIters,
    /// The run deadline or a budget was reached, or a provider would have had to be waited for too long.
    Exhausted,
    /// SIGINT, SIGTERM or SIGHUP ended the run.
    Interrupted,
}

impl Status {
    pub const ALL: [Status; 5] = [
        Status::Success,
        Status::Aborted,
        Status::MaxIters,
        Status::Exhausted,
        Status::Interrupted,
    ];

    pub fn exit_code(self) -> u8 {
        match self {
            Status::Success => 0,
            Status::Aborted => 1,
            Status::MaxIters => 2,
            Status::Exhausted => 4,
            Status::Interrupted => 130,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::Aborted => "aborted",
            Status::MaxIters => "max-iters",
            Status::Exhausted => "exhausted",
            Status::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a run ended: one short sentence with the numbers in it.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    Promised {
        promise: String,
    },
    ConsecutiveFailures {
        failures: u32,
    },
    CannotPrompt {
        problem: String,
    },
    CannotStart {
        problem: String,
    },
    MaxIterations {
        limit: NonZeroU32,
        all_failed: bool,
    },
    RunTimeout {
        timeout: Duration,
    },
    CostBudget {
        cost: f64,
        budget: f64,
    },
    TokenBudget {
        tokens: u64,
        budget: u64,
    },
    /// There is a budget that must be held, and the agent did not tell what it used up of it.
    Unmeasured {
        what: &'static str,
    },
    /// The provider would have to be waited for too long.
    Limited {
        agent: String,
        what: String,
        /// The CLI's own words.
        message: String,
        pause: Duration,
        gave_up: GaveUp,
    },
    /// No retry will help.
    Permanent {
        agent: String,
        cause: Cause,
        message: String,
    },
    Interrupted {
        signal: Signal,
    },
}

/// Which bound a wait would have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GaveUp {
    Patience(Duration),
    Deadline(Duration),
}

impl Reason {
    pub fn status(&self) -> Status {
        match self {
            Reason::Promised { .. } => Status::Success,
            Reason::ConsecutiveFailures { .. }
            | Reason::CannotPrompt { .. }
            | Reason::CannotStart { .. }
            | Reason::Unmeasured { .. }
            | Reason::Permanent { .. } => Status::Aborted,
            Reason::MaxIterations { .. } => Status::MaxIters,
            Reason::RunTimeout { .. }
            | Reason::CostBudget { .. }
            | Reason::TokenBudget { .. }
            | Reason::Limited { .. } => Status::Exhausted,
            Reason::Interrupted { .. } => Status::Interrupted,
        }
    }

    /// The same, with something done to the words in it that are somebody else's.
    pub fn with_words(&self, change: impl Fn(&str) -> String) -> Reason {
        let mut reason = self.clone();
        match &mut reason {
            Reason::CannotPrompt { problem: words }
            | Reason::CannotStart { problem: words }
            | Reason::Limited { message: words, .. }
            | Reason::Permanent { message: words, .. } => *words = change(words),
            Reason::Promised { .. }
            | Reason::ConsecutiveFailures { .. }
            | Reason::MaxIterations { .. }
            | Reason::RunTimeout { .. }
            | Reason::CostBudget { .. }
            | Reason::TokenBudget { .. }
            | Reason::Unmeasured { .. }
            | Reason::Interrupted { .. } => {}
        }
        reason
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Reason::Promised { promise } => write!(f, "Success: the agent promised \"{promise}\""),
            Reason::ConsecutiveFailures { failures } => {
                let failures = Count((*failures).into(), "consecutive failure");
                write!(f, "Aborting after {failures}")
            }
            Reason::CannotPrompt { problem } => {
                write!(f, "Aborting, the prompt cannot be assembled: {problem}")
            }
            Reason::CannotStart { problem } => {
                write!(f, "Aborting, the AI command cannot be started: {problem}")
            }
            Reason::MaxIterations { limit, all_failed } => {
                write!(f, "Reached max iterations: {limit}")?;
                // The limit may be lower than the number of failures that would abort a run.
                if *all_failed {
                    f.write_str(", and every one of them failed")?;
                }
                Ok(())
            }
            Reason::RunTimeout { timeout } => {
                write!(f, "Reached run timeout: {}", Exactly(*timeout))
            }
            Reason::CostBudget { cost, budget } => {
                let (cost, budget) = (Amount(*cost), Amount(*budget));
                write!(f, "Reached the cost budget: {cost} of {budget} USD spent")
            }
            Reason::TokenBudget { tokens, budget } => {
                let (tokens, budget) = (Grouped(*tokens), Grouped(*budget));
                write!(
                    f,
                    "Reached the token budget: {tokens} of {budget} tokens used"
                )
            }
            Reason::Unmeasured { what } => write!(
                f,
                "Aborting, the agent did not tell its {what}, and the budget must be held (budget_required)"
            ),
            Reason::Limited {
                agent,
                what,
                message,
                pause,
                gave_up,
            } => {
                write!(f, "Gave up on {agent}: {what}")?;
                if !message.is_empty() {
                    write!(f, " ({message})")?;
                }
                let pause = Exactly(Duration::from_secs(pause.as_secs().max(1)));
                write!(f, ", and waiting {pause} more would pass the ")?;
                match gave_up {
                    GaveUp::Patience(bound) => write!(
                        f,
                        "rate_limit_patience of {} (raise it, or name a second agent)",
                        Exactly(*bound)
                    ),
                    GaveUp::Deadline(timeout) => write!(f, "run timeout of {}", Exactly(*timeout)),
                }
            }
            Reason::Permanent {
                agent,
                cause,
                message,
            } => {
                write!(
                    f,
                    "Aborting, {agent} cannot go on: {message} ({})",
                    remedy(*cause)
                )
            }
            Reason::Interrupted { signal } => write!(f, "Interrupted by {signal}"),
        }
    }
}

/// What a person has to do before the next run.
fn remedy(cause: Cause) -> &'static str {
    match cause {
        Cause::Key => "mend the key: `rooda agents` tells which variables hold it",
        Cause::Credit => "add credit to the account, or name another agent",
        Cause::Model => "name a model that this key may use",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_as_documented() {
        let codes = Status::ALL.map(|status| (status.name(), status.exit_code()));
        assert_eq!(
            codes,
            [
                ("success", 0),
                ("aborted", 1),
                ("max-iters", 2),
                ("exhausted", 4),
                ("interrupted", 130),
            ]
        );
    }

    #[test]
    fn json_names_are_the_names() {
        for status in Status::ALL {
            let json = serde_json::to_value(status).ok();
            assert_eq!(json, Some(status.name().into()));
        }
    }
}
