//! What rooda knows of the agents that it runs.

mod decoder;
mod dialect;
mod json;
mod phase;
mod record;
mod rendition;
mod shown_events;
mod summary;
mod transcript;
mod trouble;
mod version;

pub use decoder::Decoder;
pub use phase::PhaseWatch;
pub use rendition::Rendition;
pub use shown_events::with_words_for_events;
pub use summary::{summary, summary_section};
pub use transcript::{Context, Note, Tools, Transcript, Usage};
pub use trouble::{Cause, Trouble, TroubleKind};
pub use version::version_line;
