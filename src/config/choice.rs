//! Settings with a few named values.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use super::value::{Scalar, Setting};

/// A setting with a few named values.
macro_rules! choice {
    ($(#[doc = $about:literal])+ $name:ident { $( $(#[doc = $case_about:literal])+ $case:ident = $text:literal, )+ }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
        pub enum $name { $( $(#[doc = $case_about])+ #[serde(rename = $text)] #[value(name = $text)] $case, )+ }

        impl Setting for $name {
            fn read(scalar: &Scalar) -> Result<Self, String> {
                match scalar.text() {
                    $( Some($text) => Ok($name::$case), )+
                    _ => Err(concat!("expected one of", $( " `", $text, "`", )+).to_owned()),
                }
            }

            fn schema() -> Value {
                json!({"enum": [$( $text ),+]})
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(match self { $( $name::$case => $text, )+ })
            }
        }
    };
}

choice! {
    /// Whether the number of iterations is bounded.
    IterationMode {
        /// At most `default_max_iterations`.
        MaxIterations = "max-iterations",
        /// Until something else ends the run.
        Unlimited = "unlimited",
    }
}

choice! {
    /// How much the log tells.
    LogLevel {
        /// Also how the configuration was resolved and the prompt assembled
        Debug = "debug",
        /// Iterations, timing, outcomes, statistics
        Info = "info",
        /// Failures, timeouts, truncated output
        Warn = "warn",
        /// Only what ends a run badly
        Error = "error",
    }
}

choice! {
    /// How log lines are written.
    LogFormat {
        /// For people
        Text = "text",
        /// One JSON object per line
        Json = "json",
    }
}

choice! {
    /// What stands in front of a log line of text.
    TimestampFormat {
        /// `[10:00:45]`, local time.
        Time = "time",
        /// `[10:00:45.123]`, local time.
        TimeMs = "time-ms",
        /// `[+0:45.1]`, since the start of the run.
        Relative = "relative",
        /// `[2026-01-31T10:00:45Z]`.
        Iso = "iso",
        /// Nothing.
        None = "none",
    }
}

choice! {
    /// Where in the agent's output a promise counts.
    PromiseMatch {
        /// Anywhere, echoes of the prompt and quotations aside.
        Anywhere = "anywhere",
        /// Only alone on its line.
        OwnLine = "own-line",
    }
}

choice! {
    /// How an agent's output is read.
    Format {
        /// Recognised from the output.
        Auto = "auto",
        /// Plain text.
        Text = "text",
        /// Claude Code, `--output-format stream-json` or `json`.
        Claude = "claude",
        /// Codex, `exec --json`.
        Codex = "codex",
        /// Gemini CLI, `-o stream-json`.
        Gemini = "gemini",
        /// OpenCode, `run --format json`.
        Opencode = "opencode",
        /// GitHub Copilot, `--output-format json`.
        Copilot = "copilot",
    }
}

/// What an agent's output tells of what it uses up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tells {
    pub cost: bool,
    pub tokens: bool,
}

impl Format {
    /// The words of a command line that make its CLI print events in this format.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Format::Auto | Format::Text => &[],
            Format::Claude => &["--output-format", "stream-json", "--verbose"],
            Format::Codex => &["--json"],
            Format::Gemini => &["-o", "stream-json"],
            Format::Opencode => &["--format", "json"],
            Format::Copilot => &["--output-format", "json"],
        }
    }

    pub fn tells(self) -> Tells {
        let (cost, tokens) = match self {
            Format::Claude | Format::Opencode => (true, true),
            Format::Codex | Format::Gemini => (false, true),
            Format::Copilot | Format::Text | Format::Auto => (false, false),
        };
        Tells { cost, tokens }
    }
}
