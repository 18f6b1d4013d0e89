//! Events and plans in, bytes out. Nothing in here knows a file, a clock or a terminal.

mod agents;
mod catalogue;
mod doctor;
mod dry_run;
mod json;
mod log_line;
pub mod markdown;
pub mod outputs;
mod protections;
mod redacted;
pub mod summary;
mod terminal;
pub mod workflow;

pub use agents::{Inspected, Presence, Version, agents_json, agents_text};
pub use catalogue::{info_json, info_text, list_json, list_text};
pub use doctor::{Finding, doctor_json, doctor_text, is_ready};
pub use dry_run::{Check, agent_label, dry_run};
pub use json::event_line;
pub use log_line::{LineStyle, LogLine};
pub use outputs::{NAMES as OUTPUTS, Outputs, RunFiles};
pub use protections::Protection;
pub use redacted::redacted;
pub use summary::{Heading, Summary};
pub use terminal::{Line, PROGRESS, Report, Terminal, say};
pub use workflow::Workflow;
