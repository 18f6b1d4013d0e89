//! What a layer can set. Only values that were checked on their own are here; whether they fit together is decided
//! when a run is resolved.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::Place;
use super::choice::{Format, IterationMode, LogFormat, LogLevel, PromiseMatch, TimestampFormat};
use super::name::AliasNames;
use super::value::{Bound, CommandLine, Dollars, Positive, Promise, Scalar, Setting, Span, Tokens};
use crate::units::Size;

/// One key of `loop`: the YAML files, the variables, the schema and the documentation are all made from this table.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: fn() -> Value,
}

macro_rules! loop_settings {
    ($( $(#[doc = $about:literal])+ $key:ident: $kind:ty, )+) => {
        /// The keys of `loop`, which a procedure may set for itself too.
        #[derive(Debug, Clone, Default)]
        pub struct LoopSettings { $( $(#[doc = $about])+ pub $key: Option<$kind>, )+ }

        pub const KEYS: &[Key] = &[ $( Key {
            name: stringify!($key),
            about: concat!($($about),+),
            schema: <$kind as Setting>::schema,
        }, )+ ];

        impl LoopSettings {
            /// Sets one key. `None`: there is no such key.
            pub(super) fn set(&mut self, key: &str, scalar: &Scalar) -> Option<Result<(), String>> {
                match key {
                    $( stringify!($key) => {
                        Some(Setting::read(scalar).map(|value| self.$key = Some(value)))
                    } )+
                    _ => None,
                }
            }
        }
    };
}

loop_settings! {
    /// `max-iterations` or `unlimited`.
    iteration_mode: IterationMode,
    /// How many iterations a run may take. Has no effect when the mode is `unlimited`.
    default_max_iterations: Positive,
    /// How long one iteration may take.
    iteration_timeout: Bound<Span>,
    /// How long the agent may be silent.
    idle_timeout: Bound<Span>,
    /// How long the whole run may take.
    run_timeout: Bound<Span>,
    /// How much money the whole run may cost, in US dollars, as far as the agents tell.
    max_cost_usd: Bound<Dollars>,
    /// How many tokens the whole run may take, read and written, as far as the agents tell.
    max_tokens: Bound<Tokens>,
    /// Whether a budget that the agent cannot be held to is an error and not a warning.
    budget_required: bool,
    /// How long to wait, all in all, for a provider that limits the rate or is overloaded.
    rate_limit_patience: Bound<Span>,
    /// How long processes may take to end after SIGTERM before they get SIGKILL.
    kill_grace: Span,
    /// How much of the agent's output is kept for scanning, counted from its end.
    max_output_buffer: Size,
    /// Consecutive failures after which the run is aborted.
    failure_threshold: Positive,
    /// `debug`, `info`, `warn` or `error`.
    log_level: LogLevel,
    /// `text` or `json`.
    log_format: LogFormat,
    /// `time`, `time-ms`, `relative`, `iso` or `none`.
    log_timestamp_format: TimestampFormat,
    /// Whether the agent's output is shown while it runs.
    show_ai_output: bool,
    /// The AI command line; it gets the prompt on standard input.
    ai_cmd: CommandLine,
    /// The name of an AI command in `ai_cmd_aliases`, or a list: the next one takes over when one cannot go on.
    ai_cmd_alias: AliasNames,
    /// The word or phrase inside the promise tags that means success.
    completion_promise: Promise,
    /// `anywhere` or `own-line`.
    promise_match: PromiseMatch,
}

/// The four phases, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Observe,
    Orient,
    Decide,
    Act,
}

pub const PHASES: [Phase; 4] = [Phase::Observe, Phase::Orient, Phase::Decide, Phase::Act];

impl Phase {
    /// The key in a configuration file, and the flag.
    pub fn key(self) -> &'static str {
        match self {
            Phase::Observe => "observe",
            Phase::Orient => "orient",
            Phase::Decide => "decide",
            Phase::Act => "act",
        }
    }

    /// The heading in the prompt, and what agents announce.
    pub fn heading(self) -> &'static str {
        match self {
            Phase::Observe => "OBSERVE",
            Phase::Orient => "ORIENT",
            Phase::Decide => "DECIDE",
            Phase::Act => "ACT",
        }
    }
}

/// Where the text of a fragment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    BuiltIn(String),
    /// Resolved against the folder of the file that names it.
    File(String),
    Inline(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Origin::BuiltIn(name) => write!(f, "builtin:{name}"),
            Origin::File(path) => f.write_str(path),
            Origin::Inline(_) => f.write_str("content in the configuration"),
        }
    }
}

/// One piece of a phase. With `parameters`, even empty ones, it is a template; without, its text is literal.
#[derive(Debug, Clone, PartialEq)]
pub struct FragmentSource {
    pub origin: Origin,
    pub parameters: Option<BTreeMap<String, Value>>,
    pub place: Option<Place>,
}

#[derive(Debug, Clone, Default)]
pub struct ProcedureSettings {
    pub display: Option<String>,
    pub summary: Option<String>,
    pub description: Option<String>,
    pub observe: Option<Vec<FragmentSource>>,
    pub orient: Option<Vec<FragmentSource>>,
    pub decide: Option<Vec<FragmentSource>>,
    pub act: Option<Vec<FragmentSource>>,
    pub overrides: LoopSettings,
}

impl ProcedureSettings {
    pub fn phase(&self, phase: Phase) -> Option<&Vec<FragmentSource>> {
        match phase {
            Phase::Observe => self.observe.as_ref(),
            Phase::Orient => self.orient.as_ref(),
            Phase::Decide => self.decide.as_ref(),
            Phase::Act => self.act.as_ref(),
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase, fragments: Vec<FragmentSource>) {
        match phase {
            Phase::Observe => self.observe = Some(fragments),
            Phase::Orient => self.orient = Some(fragments),
            Phase::Decide => self.decide = Some(fragments),
            Phase::Act => self.act = Some(fragments),
        }
    }
}

/// An AI command line and what is to be known of its program. What is left out is that of the built-in alias for the same
/// program, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    pub command: CommandLine,
    pub format: Option<Format>,
    /// The npm package that has the program.
    pub npm: Option<String>,
    /// The variables that hold its keys.
    pub env: Option<Vec<String>>,
}

/// All that one layer sets.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The section `loop`.
    pub defaults: LoopSettings,
    pub aliases: BTreeMap<String, Alias>,
    pub procedures: BTreeMap<String, ProcedureSettings>,
    /// Where each key of a file stands, by its full name (`procedures.build.ai_cmd_alias`).
    pub places: BTreeMap<String, Place>,
}
