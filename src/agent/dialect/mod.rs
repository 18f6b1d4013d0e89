//! How each CLI writes down what happens: one event after the other, one JSON object a line.

mod answer;
mod claude;
mod codex;
mod copilot;
mod gemini;
mod opencode;

use std::fmt;

use super::json::Json;
use super::record::{Hear, Record};
use crate::config::Format;

/// Understands the events of one CLI. What it does not know, it leaves.
pub(super) trait Dialect: fmt::Debug + Send {
    fn hear(&mut self, event: &Json, record: &mut Record, hear: &mut Hear);

    /// No event comes any more. `exit_code`: that of a process which ended by itself.
    fn finish(&mut self, exit_code: Option<i32>, record: &mut Record);
}

/// The dialect of a format that is one.
pub(super) fn of(format: Format) -> Option<Box<dyn Dialect>> {
    match format {
        Format::Auto | Format::Text => None,
        Format::Claude => Some(Box::new(claude::Claude::default())),
        Format::Codex => Some(Box::new(codex::Codex::default())),
        Format::Gemini => Some(Box::new(gemini::Gemini::default())),
        Format::Opencode => Some(Box::new(opencode::Opencode)),
        Format::Copilot => Some(Box::new(copilot::Copilot::default())),
    }
}

/// The format that begins with such an event. A program that prints JSON of its own must not look like one of them, so
/// it takes more than a type.
pub(super) fn begun_by(event: &Json) -> Option<Format> {
    if claude::is_opening(event) {
        Some(Format::Claude)
    } else if codex::is_opening(event) {
        Some(Format::Codex)
    } else if gemini::is_opening(event) {
        Some(Format::Gemini)
    } else if opencode::is_opening(event) {
        Some(Format::Opencode)
    } else if copilot::is_opening(event) {
        Some(Format::Copilot)
    } else {
        None
    }
}

/// Whether an event can be one of a format that is expected.
pub(super) fn is_of(format: Format, event: &Json) -> bool {
    match format {
        Format::Auto | Format::Text => false,
        Format::Claude => claude::is_own(event),
        Format::Codex => codex::is_own(event),
        Format::Gemini => gemini::is_own(event),
        Format::Opencode => opencode::is_own(event),
        Format::Copilot => copilot::is_own(event),
    }
}
