//! What an iteration was: its output, its promise, its outcome, and what that means for the run.

mod budget;
mod echo;
mod outcome;
mod plain;
mod progress;
mod promise;
mod recourse;
mod stats;
mod tail;

pub use budget::{Budget, Spent};
pub use outcome::{Cut, End, Failure, Outcome, judge};
pub use plain::{SafeForTerminal, inert, plain_text};
pub use progress::{Progress, Step};
pub use promise::{FAILURE, Promised, Rule, holds_bare_tag, scan, scan_words};
pub use recourse::{Patience, Recourse, Standing};
pub use stats::Stats;
pub use tail::{Stream, Tail};
