//! What rooda knows of the agents that it runs.

mod known;
mod phase;

pub use known::{KNOWN, Known};
pub use phase::PhaseWatch;
