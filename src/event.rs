//! What happens in a run: the only vocabulary between the loop and the reporters. An event carries all that a reporter
//! needs, its time included; reporters look at no clock and ask nobody.

use std::time::Duration;

use jiff::Timestamp;

use crate::agent::Usage;
use crate::config::{Format, Phase};
use crate::iteration::{Failure, Outcome, Promised, Spent, Stats, Tail};
use crate::plan::Limit;
use crate::status::Reason;

/// A moment, by the calendar and by the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub time: Timestamp,
    pub since_start: Duration,
}

#[derive(Debug)]
pub struct Event<'a> {
    pub at: Moment,
    pub what: What<'a>,
}

#[derive(Debug)]
pub enum What<'a> {
    RunStarted {
        procedure: &'a str,
        task_id: &'a str,
        limit: Limit,
        /// The name of the agent that begins.
        agent: &'a str,
        command: &'a str,
    },
    IterationStarted {
        iteration: u32,
        /// The name of the agent that does it.
        agent: &'a str,
    },
    /// The prompt was composed and is about to be sent.
    PromptReady {
        iteration: u32,
        bytes: usize,
    },
    /// A piece of the agent's output, as people read it.
    Shown {
        text: &'a [u8],
    },
    /// The agent uses a tool.
    ToolUsed {
        iteration: u32,
        name: &'a str,
        about: &'a str,
    },
    PhaseAnnounced {
        iteration: u32,
        phase: Phase,
    },
    /// About every second while the agent runs.
    Running {
        iteration: u32,
        phase: Option<Phase>,
        /// The tool that was used last.
        tool: Option<&'a str>,
        elapsed: Duration,
        since_output: Duration,
    },
    /// What an agent printed in an iteration, or in an attempt at one, as it was, up to a bound.
    RawOutput {
        iteration: u32,
        attempt: u32,
        output: &'a Tail,
    },
    /// The output was not what the agent's format says: it was read as plain text, or as another format.
    NotUnderstood {
        iteration: u32,
        expected: Format,
        read_as: Format,
    },
    /// There is a budget, and nobody knows what this iteration used up of it: its cost or its tokens.
    UsageUnknown {
        iteration: u32,
        what: &'static str,
    },
    /// The model's context is fuller than is good for it.
    ContextFilling {
        iteration: u32,
        percent: u32,
    },
    /// The provider does not let the agent work. The iteration does not count, and is tried again after a while unless
    /// the run gives up.
    Limited {
        iteration: u32,
        agent: &'a str,
        failure: Failure,
        message: &'a str,
        /// How long to wait, and until when. Nothing: no longer.
        wait: Option<(Duration, Timestamp)>,
    },
    /// About every second while a provider is waited for.
    Waiting {
        iteration: u32,
        left: Duration,
    },
    /// One agent cannot go on and another one takes over.
    AgentChanged {
        iteration: u32,
        from: &'a str,
        to: &'a str,
        failure: Failure,
        message: &'a str,
    },
    /// More output than the buffer holds: only its end was kept.
    OutputTruncated {
        iteration: u32,
        kept: u64,
        total: u64,
    },
    /// Processes that the agent left behind were ended.
    LeftBehind {
        iteration: u32,
        ended: usize,
    },
    /// Processes that could not be ended, not even with SIGKILL.
    Survived {
        iteration: u32,
        processes: usize,
    },
    /// The agent's processes could not be seen: some may go on.
    ProcessesUnseen {
        iteration: u32,
    },
    /// An agent that had to be ended had promised something; it does not count.
    PromiseIgnored {
        iteration: u32,
        promised: Promised,
    },
    Interrupting {
        reason: &'a Reason,
    },
    IterationCompleted(Box<Completed<'a>>),
    RunEnded {
        reason: &'a Reason,
        stats: &'a Stats,
        spent: &'a Spent,
        total: Duration,
    },
}

/// An iteration that is over, whatever happened in it.
#[derive(Debug)]
pub struct Completed<'a> {
    pub iteration: u32,
    /// The name of the agent that did it.
    pub agent: &'a str,
    pub outcome: Outcome,
    /// What the agent's CLI says went wrong, in its own words.
    pub message: Option<String>,
    pub duration: Duration,
    pub consecutive_failures: u32,
    pub failure_threshold: u32,
    /// The word that means success.
    pub promise: &'a str,
    /// The end of the output of an iteration that failed or was interrupted.
    pub last_lines: Vec<String>,
    pub usage: Usage,
    /// What all iterations so far used up.
    pub spent: Spent,
    /// How many tools were used, if the agent tells.
    pub tools: Option<u32>,
    /// What the agent itself says it did.
    pub summary: Option<String>,
    /// The CLI's name for the conversation, the model, and its own version, if it tells.
    pub session: Option<String>,
    pub model: Option<String>,
    pub version: Option<String>,
}

#[cfg(test)]
impl Completed<'static> {
    /// One of which nothing else is known.
    pub fn of(iteration: u32, outcome: Outcome, duration: Duration) -> Self {
        Completed {
            iteration,
            agent: "mine",
            outcome,
            message: None,
            duration,
            consecutive_failures: 1,
            failure_threshold: 3,
            promise: "SUCCESS",
            last_lines: Vec::new(),
            usage: Usage::default(),
            spent: Spent::default(),
            tools: None,
            summary: None,
            session: None,
            model: None,
            version: None,
        }
    }
}
