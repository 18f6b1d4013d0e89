//! What can be wrong between an agent and its provider, and what to do about it.

use std::time::Duration;

use jiff::Timestamp;

/// An error that an agent's own events report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// The CLI's own words, one line, bounded.
    pub message: String,
    /// When the provider will answer again, if it says so.
    pub resets_at: Option<Timestamp>,
    /// How long to wait, if it says that.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    RateLimited,
    Overloaded,
    /// No retry will help.
    Permanent(Cause),
    /// The conversation has outgrown the model's window.
    ContextFull,
    /// Anything else: an ordinary failure.
    Other,
}

/// Why no retry will help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Key,
    Credit,
    Model,
}
