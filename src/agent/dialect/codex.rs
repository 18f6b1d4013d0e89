//! Codex: `exec --json`.

use super::{Dialect, answer};
use crate::agent::json::Json;
use crate::agent::record::{Hear, Record, name, trouble};
use crate::agent::transcript::Note;
use crate::agent::trouble::Trouble;

#[derive(Debug, Default)]
pub(super) struct Codex {
    /// The last error that was told. Unless the turn ends all the same, it is how it ended.
    error: Option<Trouble>,
}

pub(super) fn is_opening(event: &Json) -> bool {
    event.word("type") == "thread.started" && !event.word("thread_id").is_empty()
}

pub(super) fn is_own(event: &Json) -> bool {
    match event.word("type") {
        "thread.started" => is_opening(event),
        "turn.started" | "turn.completed" | "turn.failed" => true,
        "item.started" | "item.updated" | "item.completed" => event.at(&["item"]).is_map(),
        _ => false,
    }
}

impl Dialect for Codex {
    fn hear(&mut self, event: &Json, record: &mut Record, hear: &mut Hear) {
        match event.word("type") {
            "thread.started" => record.transcript.session = name(event.at(&["thread_id"])),
            "turn.started" => {
                record.transcript.has_ended = false;
                record.transcript.trouble = None;
            }
            "item.started" | "item.updated" => tool(event.at(&["item"]), record, hear),
            "item.completed" => {
                let item = event.at(&["item"]);
                if item.word("type") == "agent_message" {
                    record.says(item.word("text"), hear);
                }
                tool(item, record, hear);
                match item.word("status") {
                    "" | "completed" => record.is_done(item.word("id")),
                    "declined" => record.is_denied(item.word("id"), item.word("type"), ""),
                    _ => {}
                }
            }
            "error" => {
                let message = event.word("message");
                self.error = Some(error(message));
                if let Some(message) = &self.error.as_ref().map(|error| &error.message)
                    && message.starts_with("Reconnecting")
                {
                    hear(Note::Retry { message });
                }
            }
            "turn.failed" => {
                let message = event.at(&["error"]).word("message");
                record.transcript.trouble = if message.is_empty() {
                    self.error.take().or_else(|| Some(error("turn.failed")))
                } else {
                    Some(error(message))
                };
                record.transcript.has_ended = true;
            }
            "turn.completed" => {
                let told = event.at(&["usage"]);
                let usage = &mut record.transcript.usage;
                if told.is_map() {
                    usage.has_tokens = true;
                    usage.input_tokens = told.many("input_tokens");
                    usage.output_tokens = told.many("output_tokens");
                }
                record.transcript.trouble = None;
                record.transcript.has_ended = true;
                record.tells_usage(hear);
            }
            _ => {}
        }
    }

    fn finish(&mut self, _exit_code: Option<i32>, record: &mut Record) {
        if !record.transcript.has_ended {
            record.transcript.trouble = self.error.take();
        }
    }
}

fn tool(item: &Json, record: &mut Record, hear: &mut Hear) {
    let kind = item.word("type");
    let about = match kind {
        "command_execution" => item.word("command").to_owned(),
        "web_search" => item.word("query").to_owned(),
        "mcp_tool_call" => format!("{} {}", item.word("server"), item.word("tool")),
        "collab_tool_call" => item.word("tool").to_owned(),
        "file_change" => {
            let changes = item.at(&["changes"]).list().iter().take(10);
            let paths: Vec<_> = changes.map(|change| change.word("path")).collect();
            paths.join(" ")
        }
        _ => return,
    };
    record.uses(item.word("id"), kind, &about, hear);
}

fn error(message: &str) -> Trouble {
    Trouble {
        retry_after: answer::wait_in(message),
        ..trouble(answer::kind(answer::status_in(message), message), message)
    }
}
