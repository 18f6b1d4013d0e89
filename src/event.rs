//! What happens in a run: the only vocabulary between the loop and the reporters. An event carries all that a reporter
//! needs, its time included; reporters look at no clock and ask nobody.

use std::time::Duration;

use jiff::Timestamp;

use crate::config::Phase;
use crate::iteration::{Outcome, Promised, Stats, Stream};
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
        command: &'a str,
    },
    IterationStarted {
        iteration: u32,
    },
    /// The prompt was composed and is about to be sent.
    PromptReady {
        iteration: u32,
        bytes: usize,
    },
    /// A piece of the agent's output, as it arrives.
    Output {
        stream: Stream,
        bytes: &'a [u8],
    },
    PhaseAnnounced {
        iteration: u32,
        phase: Phase,
    },
    /// About every second while the agent runs.
    Running {
        iteration: u32,
        phase: Option<Phase>,
        elapsed: Duration,
        since_output: Duration,
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
    IterationCompleted(Completed<'a>),
    RunEnded {
        reason: &'a Reason,
        stats: &'a Stats,
        total: Duration,
    },
}

/// An iteration that is over, whatever happened in it.
#[derive(Debug)]
pub struct Completed<'a> {
    pub iteration: u32,
    pub outcome: Outcome,
    pub duration: Duration,
    pub consecutive_failures: u32,
    pub failure_threshold: u32,
    /// The word that means success.
    pub promise: &'a str,
    /// The end of the output of an iteration that failed or was interrupted.
    pub last_lines: Vec<String>,
}
