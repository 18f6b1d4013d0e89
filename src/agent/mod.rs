//! What is known of the agents: how they announce their phase.

mod phase;

pub use phase::PhaseWatch;
