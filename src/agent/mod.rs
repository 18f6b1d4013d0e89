//! What rooda knows of the agents that it runs.

mod decoder;
mod known;
mod phase;
mod transcript;
mod trouble;

pub use decoder::Decoder;
pub use known::{KNOWN, Known};
pub use phase::PhaseWatch;
pub use transcript::{Context, Note, Tools, Transcript, Usage};
pub use trouble::{Cause, Trouble, TroubleKind};
