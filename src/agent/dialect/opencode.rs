//! OpenCode: `run --format json`.

use std::time::Duration;

use super::{Dialect, answer};
use crate::agent::json::Json;
use crate::agent::record::{Hear, Record, about, name, trouble};
use crate::agent::transcript::Context;
use crate::agent::trouble::{Cause, Trouble, TroubleKind};

#[derive(Debug, Default)]
pub(super) struct Opencode;

pub(super) fn is_opening(event: &Json) -> bool {
    matches!(event.word("type"), "step_start" | "error") && is_own(event)
}

pub(super) fn is_own(event: &Json) -> bool {
    const PARTS: [&str; 5] = ["step_start", "text", "reasoning", "tool_use", "step_finish"];
    let is_told = match event.word("type") {
        "error" => event.at(&["error"]).is_map(),
        kind => PARTS.contains(&kind) && event.at(&["part"]).is_map(),
    };
    is_told && !event.word("sessionID").is_empty() && event.at(&["timestamp"]).count().is_some()
}

impl Dialect for Opencode {
    fn hear(&mut self, event: &Json, record: &mut Record, hear: &mut Hear) {
        if let Some(session) = name(event.at(&["sessionID"])) {
            record.transcript.session = Some(session);
        }
        let part = event.at(&["part"]);
        match event.word("type") {
            "step_start" => {
                record.transcript.has_ended = false;
                record.transcript.trouble = None;
            }
            "text" => record.says(part.word("text"), hear),
            "tool_use" => tool(part, record, hear),
            "step_finish" => step(part, record, hear),
            "error" => {
                record.transcript.trouble = Some(error(event.at(&["error"])));
                record.transcript.has_ended = true;
            }
            _ => {}
        }
    }

    fn finish(&mut self, _exit_code: Option<i32>, _record: &mut Record) {}
}

fn tool(part: &Json, record: &mut Record, hear: &mut Hear) {
    let state = part.at(&["state"]);
    let (id, tool) = (part.word("callID"), part.word("tool"));
    let input = match about(state.at(&["input"])) {
        "" => state.word("title"),
        input => input,
    };
    record.uses(id, tool, input, hear);
    match state.word("status") {
        "completed" => record.is_done(id),
        "denied" => record.is_denied(id, tool, input),
        "error" if is_denial(state.word("error")) => record.is_denied(id, tool, input),
        _ => {}
    }
}

/// OpenCode has no other word for it than these, which it tells the model.
fn is_denial(error: &str) -> bool {
    error.starts_with("The user rejected permission")
        || error.starts_with("The user has specified a rule which prevents")
}

/// A step is one question to the model. Its tokens and its cost are its own.
fn step(part: &Json, record: &mut Record, hear: &mut Hear) {
    let usage = &mut record.transcript.usage;
    let tokens = part.at(&["tokens"]);
    if tokens.is_map() {
        let cache = tokens.at(&["cache"]);
        let input = [
            tokens.many("input"),
            cache.many("read"),
            cache.many("write"),
        ];
        let input = input.into_iter().fold(0, u64::saturating_add);
        let output = tokens
            .many("output")
            .saturating_add(tokens.many("reasoning"));
        usage.has_tokens = true;
        usage.input_tokens = usage.input_tokens.saturating_add(input);
        usage.output_tokens = usage.output_tokens.saturating_add(output);
        usage.context = Some(Context {
            used: input,
            window: None,
        });
    }
    if let Some(cost) = part.at(&["cost"]).number() {
        usage.cost_usd = Some(usage.cost_usd.unwrap_or(0.0) + cost);
    }
    usage.turns = Some(usage.turns.unwrap_or(0).saturating_add(1));
    if part.word("reason") != "tool-calls" {
        record.transcript.has_ended = true;
        record.transcript.trouble = None;
    }
    record.tells_usage(hear);
}

fn error(error: &Json) -> Trouble {
    let data = error.at(&["data"]);
    let message = match data.word("message") {
        "" => error.word("name"),
        message => message,
    };
    let kind = match error.word("name") {
        "ContextOverflowError" => TroubleKind::ContextFull,
        "ProviderAuthError" => TroubleKind::Permanent(Cause::Key),
        "ProviderModelNotFoundError" => TroubleKind::Permanent(Cause::Model),
        _ => {
            // What the provider answered says more than what was made of it.
            let told = [message, data.word("responseBody")].join(" ");
            answer::kind(data.at(&["statusCode"]).count(), &told)
        }
    };
    let headers = data.at(&["responseHeaders"]);
    let seconds = headers.word("retry-after").trim();
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(seconds);
    let wait = seconds.parse().ok();
    let wait = wait.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Trouble {
        retry_after: wait.or_else(|| answer::wait_in(message)),
        resets_at: date.ok(),
        ..trouble(kind, message)
    }
}
