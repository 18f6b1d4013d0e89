//! All that one run needs, typed and final. Nothing in here is looked up again while the run goes on, and every
//! setting knows where it comes from.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::config::{
    Bound, CommandLine, Dollars, Format, FragmentSource, LogFormat, LogLevel, Phase, Positive,
    Promise, PromiseMatch, Source, Sourced, Span, TimestampFormat, Tokens,
};
use crate::units::Size;

/// How many iterations a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Unlimited,
    AtMost(NonZeroU32),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Limit::Unlimited => f.write_str("unlimited"),
            Limit::AtMost(limit) => limit.fmt(f),
        }
    }
}

/// What the agent is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// A procedure: fragments for each of the four phases.
    Phases([(Phase, Vec<FragmentSource>); 4]),
    /// The same text every time.
    Task(String),
}

impl Work {
    pub fn fragments(&self) -> impl Iterator<Item = &FragmentSource> {
        let phases: &[_] = match self {
            Work::Phases(phases) => phases,
            Work::Task(_) => &[],
        };
        phases.iter().flat_map(|(_, fragments)| fragments)
    }
}

/// The command that is run in every iteration, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The name of its alias, else that of its program.
    pub name: String,
    pub command: CommandLine,
    /// How its output is read.
    pub format: Format,
    /// The npm package that has its program.
    pub npm: Option<String>,
    /// The variables that hold its keys. Empty: nobody knows them.
    pub keys: Vec<String>,
    /// `cli: --ai-cmd-alias "claude" → built-in alias`
    pub provenance: String,
}

#[derive(Debug, Clone)]
pub struct Plan {
    /// The name of the procedure, or `loop`.
    pub procedure: String,
    /// Names the task in logs and templates: the procedure's name, or `--task-id`.
    pub task_id: String,
    pub work: Work,
    /// Verbatim texts for the section CONTEXT.
    pub context: Vec<String>,
    pub limit: Sourced<Limit>,
    pub iteration_timeout: Sourced<Bound<Span>>,
    pub idle_timeout: Sourced<Bound<Span>>,
    pub run_timeout: Sourced<Bound<Span>>,
    pub max_cost_usd: Sourced<Bound<Dollars>>,
    pub max_tokens: Sourced<Bound<Tokens>>,
    pub budget_required: Sourced<bool>,
    pub rate_limit_patience: Sourced<Bound<Span>>,
    pub kill_grace: Sourced<Span>,
    pub max_output_buffer: Sourced<Size>,
    pub failure_threshold: Sourced<Positive>,
    pub completion_promise: Sourced<Promise>,
    pub promise_match: Sourced<PromiseMatch>,
    pub show_ai_output: Sourced<bool>,
    pub log_level: Sourced<LogLevel>,
    pub log_format: Sourced<LogFormat>,
    pub log_timestamp_format: Sourced<TimestampFormat>,
}

impl Plan {
    /// How long an agent may be silent. A default is no reason to end one that may print nothing before it has finished.
    pub fn idle_timeout_for(&self, agent: &Agent) -> Option<Duration> {
        let is_ours = matches!(self.idle_timeout.source, Source::Action(_));
        let may_be_silent = matches!(agent.format, Format::Text | Format::Auto);
        let timeout = self.idle_timeout.value.at().map(|span| span.0);
        timeout.filter(|_| !(is_ours && may_be_silent))
    }

    /// Every setting with its value and its source, in the order in which people look for them.
    pub fn settings(&self) -> Vec<(&'static str, String, String)> {
        fn row<T: fmt::Display>(
            name: &'static str,
            setting: &Sourced<T>,
        ) -> (&'static str, String, String) {
            (name, setting.value.to_string(), setting.source.to_string())
        }
        let threshold = self
            .failure_threshold
            .clone()
            .map(|Positive(number)| number);
        let promise = self.completion_promise.clone().map(|Promise(text)| text);
        vec![
            row("Max Iterations", &self.limit),
            row("Iteration Timeout", &self.iteration_timeout),
            row("Idle Timeout", &self.idle_timeout),
            row("Run Timeout", &self.run_timeout),
            row("Max Cost USD", &self.max_cost_usd),
            row("Max Tokens", &self.max_tokens),
            row("Budget Required", &self.budget_required),
            row("Rate Limit Patience", &self.rate_limit_patience),
            row("Kill Grace", &self.kill_grace),
            row("Max Output Buffer", &self.max_output_buffer),
            row("Failure Threshold", &threshold),
            row("Completion Promise", &promise),
            row("Promise Match", &self.promise_match),
            row("Show AI Output", &self.show_ai_output),
            row("Log Level", &self.log_level),
            row("Log Format", &self.log_format),
            row("Log Timestamp Format", &self.log_timestamp_format),
        ]
    }
}
