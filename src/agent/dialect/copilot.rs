//! GitHub Copilot CLI: `--output-format json`.

use super::{Dialect, answer};
use crate::agent::json::Json;
use crate::agent::record::{Hear, Record, about, name, one_line, trouble};
use crate::agent::transcript::{Context, Note};
use crate::agent::trouble::{Cause, Trouble, TroubleKind};

#[derive(Debug, Default)]
pub(super) struct Copilot {
    /// The last error that was told. The result says whether it was the end.
    error: Option<Trouble>,
}

pub(super) fn is_opening(event: &Json) -> bool {
    let kind = event.word("type");
    (kind.starts_with("session.") || kind == "user.message") && is_own(event)
}

pub(super) fn is_own(event: &Json) -> bool {
    const FAMILIES: [&str; 5] = ["session.", "user.", "assistant.", "tool.", "model."];
    let has = |key| !event.word(key).is_empty();
    let kind = event.word("type");
    let is_told = if kind == "result" {
        has("sessionId") && event.at(&["exitCode"]).number().is_some()
    } else {
        let is_known = FAMILIES.iter().any(|family| kind.starts_with(family));
        is_known && has("id") && event.at(&["data"]).is_map()
    };
    is_told && has("timestamp")
}

impl Dialect for Copilot {
    fn hear(&mut self, event: &Json, record: &mut Record, hear: &mut Hear) {
        let data = event.at(&["data"]);
        match event.word("type") {
            "session.tools_updated" => record.transcript.model = name(data.at(&["model"])),
            "assistant.turn_start" => {
                let usage = &mut record.transcript.usage;
                usage.turns = Some(usage.turns.unwrap_or(0).saturating_add(1));
                record.tells_usage(hear);
            }
            "assistant.turn_retry" => hear(Note::Retry {
                message: &one_line(data.word("reason"), 200),
            }),
            // Its deltas come before it. A subagent's has the tool use that it belongs to.
            "assistant.message" if data.word("parentToolCallId").is_empty() => {
                self.error = None;
                record.says(data.word("content"), hear);
            }
            "tool.execution_start" => {
                let input = about(data.at(&["arguments"]));
                record.uses(data.word("toolCallId"), data.word("toolName"), input, hear);
            }
            "tool.execution_complete" => tool_ends(data, record, hear),
            "session.error" => self.error = Some(error(data)),
            "result" => {
                record.transcript.session = name(event.at(&["sessionId"]));
                record.transcript.has_ended = true;
                record.transcript.trouble = match event.many("exitCode") {
                    0 => None,
                    code => self.error.take().or_else(|| {
                        let message = format!("the session ended with exit code {code}");
                        Some(trouble(TroubleKind::Other, &message))
                    }),
                };
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

fn tool_ends(data: &Json, record: &mut Record, hear: &mut Hear) {
    let id = data.word("toolCallId");
    let error = data.at(&["error"]);
    if data.at(&["success"]).is_true() {
        record.is_done(id);
    } else if matches!(error.word("code"), "denied" | "rejected")
        || error.word("message").starts_with("Permission denied")
    {
        record.is_denied(id, error.word("code"), error.word("message"));
    }
    let metrics = data.at(&["toolTelemetry", "metrics"]);
    if let Some(used) = metrics.at(&["context_current_tokens"]).count() {
        let window = metrics.at(&["context_token_limit"]).count();
        record.transcript.usage.context = Some(Context { used, window });
        record.tells_usage(hear);
    }
}

fn error(data: &Json) -> Trouble {
    let message = data.word("message");
    let kind = match data.word("errorType") {
        "authentication" | "authorization" => TroubleKind::Permanent(Cause::Key),
        "rate_limit" => TroubleKind::RateLimited,
        _ => answer::kind(data.at(&["statusCode"]).count(), message),
    };
    Trouble {
        retry_after: answer::wait_in(message),
        ..trouble(kind, message)
    }
}
