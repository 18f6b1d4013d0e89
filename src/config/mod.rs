//! Configuration: layers that are kept apart, so that every value can say where it comes from.
//!
//! Each source (a file, one environment variable, one flag) becomes a [`Layer`] with whatever it sets. Nothing is
//! melted together: [`resolve`](resolve::resolve) asks the layers from the top down and notes who answered.

mod agents;
mod builtin;
mod choice;
mod name;
mod resolve;
mod schema;
mod settings;
mod value;
mod variables;
mod yaml;

use std::fmt;

pub use builtin::builtin_layers;
pub use choice::{
    Format, IterationMode, LogFormat, LogLevel, PromiseMatch, Tells, TimestampFormat,
};
pub use name::{AliasNames, read_variable_name};
pub use resolve::{Catalogue, ProcedureInfo, Request, Resolved, Target, resolve};
pub use schema::schema;
pub use settings::{
    Alias, FragmentSource, KEYS, LoopSettings, Origin, PHASES, Phase, ProcedureSettings, Settings,
};
pub use value::{Bound, CommandLine, Dollars, Positive, Promise, Setting, Span, Tokens, read_text};
pub use variables::{CONFIG_HOME, variable_layers};
pub use yaml::read_layer;

/// Where a value comes from, in the order of precedence, lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    BuiltIn,
    /// What the action does where the command line has another default.
    Action(&'static str),
    Global(String),
    Workspace(String),
    /// The file named with `--config`, which takes the place of the workspace's.
    Config(String),
    Variable(String),
    /// An input of the action.
    Input(&'static str),
    Flag(&'static str),
    /// Somebody asked GitHub to run the job once more and tell everything.
    StepDebug,
}

impl Source {
    /// Flags and inputs win over what a procedure sets; everything below is a default that the procedure may override.
    fn outranks_procedures(&self) -> bool {
        self.rank() >= Source::Input("").rank()
    }

    /// The precedence of a source.
    fn rank(&self) -> u8 {
        match self {
            Source::BuiltIn => 0,
            Source::Action(_) => 1,
            Source::Global(_) => 2,
            Source::Workspace(_) | Source::Config(_) => 3,
            Source::Variable(_) => 4,
            Source::Input(_) => 5,
            Source::Flag(_) => 6,
            Source::StepDebug => 7,
        }
    }

    /// Whether somebody chose it, and not we.
    pub fn is_given(&self) -> bool {
        !matches!(self, Source::BuiltIn | Source::Action(_))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Source::BuiltIn => f.write_str("built-in"),
            Source::Action(where_it_runs) => write!(f, "action default{where_it_runs}"),
            Source::Global(path) => write!(f, "global: {path}"),
            Source::Workspace(path) => write!(f, "workspace: {path}"),
            Source::Config(path) => write!(f, "config: {path}"),
            Source::Variable(name) => write!(f, "env: {name}"),
            Source::Input(name) => write!(f, "input: {name}"),
            Source::Flag(name) => write!(f, "cli: {name}"),
            Source::StepDebug => f.write_str("step debug logging"),
        }
    }
}

/// A value that knows where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

impl<T> Sourced<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Sourced<U> {
        Sourced {
            value: change(self.value),
            source: self.source,
        }
    }
}

/// What one source says.
#[derive(Debug, Clone)]
pub struct Layer {
    pub source: Source,
    pub settings: Settings,
}

impl Layer {
    /// A layer that sets one key of `loop`, as a flag or a variable does.
    pub fn of(source: Source, set: impl FnOnce(&mut LoopSettings)) -> Layer {
        let mut settings = Settings::default();
        set(&mut settings.defaults);
        Layer { source, settings }
    }
}

/// The line and column of a key in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: u64,
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
