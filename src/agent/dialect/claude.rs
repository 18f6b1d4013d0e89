//! Claude Code: `--output-format stream-json`, and `json`, which is its last event alone or a list of all.

use jiff::Timestamp;

use super::{Dialect, answer};
use crate::agent::json::Json;
use crate::agent::record::{Hear, Record, Tally, about, name, trouble};
use crate::agent::transcript::Context;
use crate::agent::trouble::{Cause, Trouble, TroubleKind};

#[derive(Debug, Default)]
pub(super) struct Claude {
    /// Input and output, by message: a message comes in several events, each with the usage of the whole.
    tokens: Tally,
    has_spoken: bool,
    /// The model that the main conversation is with.
    model: String,
    /// An error that was told in the conversation. The result says whether it was the end.
    error: Option<Trouble>,
    resets_at: Option<Timestamp>,
}

pub(super) fn is_opening(event: &Json) -> bool {
    match event.word("type") {
        "system" => event.word("subtype") == "init" && is_own(event),
        "result" => event.at(&["usage"]).is_map() && is_own(event),
        _ => false,
    }
}

pub(super) fn is_own(event: &Json) -> bool {
    const TYPES: [&str; 6] = [
        "system",
        "assistant",
        "user",
        "result",
        "stream_event",
        "rate_limit_event",
    ];
    TYPES.contains(&event.word("type")) && !event.word("session_id").is_empty()
}

impl Dialect for Claude {
    fn hear(&mut self, event: &Json, record: &mut Record, hear: &mut Hear) {
        if let Some(session) = name(event.at(&["session_id"])) {
            record.transcript.session = Some(session);
        }
        match event.word("type") {
            "system" => self.system(event, record, hear),
            "assistant" => self.assistant(event, record, hear),
            "user" => tool_results(event.at(&["message", "content"]), record),
            "rate_limit_event" => self.limit(event.at(&["rate_limit_info"])),
            "result" => self.result(event, record, hear),
            // `stream_event` has pieces of what comes as a whole later.
            _ => {}
        }
    }

    fn finish(&mut self, _exit_code: Option<i32>, record: &mut Record) {
        if !record.transcript.has_ended {
            record.transcript.trouble = self.error.take().map(|error| self.with_reset(error));
        }
    }
}

impl Claude {
    fn system(&mut self, event: &Json, record: &mut Record, hear: &mut Hear) {
        match event.word("subtype") {
            "init" => {
                record.transcript.version = name(event.at(&["claude_code_version"]));
                record.transcript.model = name(event.at(&["model"]));
                event.word("model").clone_into(&mut self.model);
            }
            "api_retry" => {
                let status = event.at(&["error_status"]).count();
                let status = status.map_or(String::new(), |status| format!(" {status}"));
                let (attempt, most) = (event.many("attempt"), event.many("max_retries"));
                let error = trouble(TroubleKind::Other, event.word("error")).message;
                let message = format!("{error}{status}, retry {attempt} of {most}");
                hear(crate::agent::Note::Retry { message: &message });
            }
            "permission_denied" => record.is_denied(
                event.word("tool_use_id"),
                event.word("tool_name"),
                event.word("message"),
            ),
            _ => {}
        }
    }

    fn assistant(&mut self, event: &Json, record: &mut Record, hear: &mut Hear) {
        let message = event.at(&["message"]);
        if event.at(&["is_api_error_message"]).is_true() || message.word("model") == "<synthetic>" {
            self.error = Some(self.api_error(event, &said(message)));
            return;
        }
        let is_main = event.at(&["parent_tool_use_id"]).text().is_none();
        if is_main {
            // It goes on: whatever was wrong is not how it ended.
            self.error = None;
            self.has_spoken = true;
            record.transcript.has_ended = false;
            record.transcript.trouble = None;
        }
        // Half a message, of a conversation that was broken off, may have been meant in any way.
        let is_whole = !event.at(&["aborted"]).is_true();
        for block in message.at(&["content"]).list() {
            match block.word("type") {
                "text" if is_main && is_whole => record.says(block.word("text"), hear),
                kind if kind.ends_with("tool_use") => {
                    let input = about(block.at(&["input"]));
                    record.uses(block.word("id"), block.word("name"), input, hear);
                }
                _ => {}
            }
        }
        tool_results(message.at(&["content"]), record);

        let told = message.at(&["usage"]);
        if !told.is_map() {
            return;
        }
        let input = [
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
        ];
        let input = sum(input.map(|key| told.many(key)));
        let figures = (input, told.many("output_tokens"));
        let usage = &mut record.transcript.usage;
        (usage.input_tokens, usage.output_tokens) = self.tokens.with(message.word("id"), figures);
        usage.has_tokens = true;
        if is_main {
            message.word("model").clone_into(&mut self.model);
            usage.context = Some(Context {
                used: input,
                window: None,
            });
        }
        record.tells_usage(hear);
    }

    fn limit(&mut self, info: &Json) {
        if info.word("status") == "rejected" {
            self.resets_at = reset(info).or(self.resets_at);
        }
    }

    fn result(&mut self, event: &Json, record: &mut Record, hear: &mut Hear) {
        let said = event.word("result");
        record.transcript.has_ended = true;
        record.transcript.trouble = None;
        if event.at(&["is_error"]).is_true() || event.word("subtype").starts_with("error") {
            let errors: Vec<_> = event
                .at(&["errors"])
                .list()
                .iter()
                .filter_map(Json::text)
                .collect();
            let message = match (said, errors.as_slice()) {
                ("", []) => event.word("subtype").to_owned(),
                ("", errors) => errors.join("; "),
                (said, _) => said.to_owned(),
            };
            let mut error = self.api_error(event, &message);
            if let (TroubleKind::Other, Some(told)) = (error.kind, self.error.take()) {
                error.kind = told.kind;
                error.resets_at = told.resets_at;
            }
            record.transcript.trouble = Some(self.with_reset(error));
        } else {
            if !self.has_spoken {
                record.says(said, hear);
            }
            if !said.is_empty() {
                record.ends_with(said);
            }
        }
        for denial in event.at(&["permission_denials"]).list() {
            let input = about(denial.at(&["tool_input"]));
            record.is_denied(denial.word("tool_use_id"), denial.word("tool_name"), input);
        }
        self.usage(event, record);
        record.tells_usage(hear);
        // What follows is another turn, with words of its own.
        self.has_spoken = false;
    }

    /// The result counts all turns, and by model the subagents too. A conversation that was broken off counts nothing:
    /// what was heard before is not less true for that.
    fn usage(&self, event: &Json, record: &mut Record) {
        let usage = &mut record.transcript.usage;
        usage.cost_usd = event.at(&["total_cost_usd"]).number().or(usage.cost_usd);
        let turns = event.at(&["num_turns"]).count();
        usage.turns = turns
            .map(|turns| turns.try_into().unwrap_or(u32::MAX))
            .or(usage.turns);

        let by_model = event.at(&["modelUsage"]).pairs();
        let total = event.at(&["usage"]);
        let figures = |told: &Json, input: [&str; 3], output: &str| {
            (sum(input.map(|key| told.many(key))), told.many(output))
        };
        let of_model = |told: &Json| {
            let input = [
                "inputTokens",
                "cacheCreationInputTokens",
                "cacheReadInputTokens",
            ];
            figures(told, input, "outputTokens")
        };
        let (input, output) = if by_model.is_empty() {
            let input = [
                "input_tokens",
                "cache_creation_input_tokens",
                "cache_read_input_tokens",
            ];
            figures(total, input, "output_tokens")
        } else {
            by_model.iter().fold((0, 0), |(input, output), (_, told)| {
                let more = of_model(told);
                (sum([input, more.0]), sum([output, more.1]))
            })
        };
        usage.has_tokens |= total.is_map() || !by_model.is_empty();
        usage.input_tokens = usage.input_tokens.max(input);
        usage.output_tokens = usage.output_tokens.max(output);

        let main = by_model
            .iter()
            .find(|(model, told)| *model == self.model || told.word("canonicalModel") == self.model)
            .or_else(|| by_model.iter().max_by_key(|(_, told)| of_model(told)));
        if let (Some(context), Some((_, told))) = (&mut usage.context, main) {
            context.window = told.at(&["contextWindow"]).count();
        }
    }

    /// An error, by the names and numbers that Claude Code gives it and at last by its words.
    fn api_error(&self, event: &Json, message: &str) -> Trouble {
        let status = event.at(&["api_error_status"]).count();
        let kind = if event.word("terminal_reason") == "prompt_too_long" {
            TroubleKind::ContextFull
        } else if let Some(kind) = of_name(event.word("error")) {
            kind
        } else if status.is_some() || event.word("terminal_reason") == "api_error" {
            let by_type = of_name(event.word("api_error_type"));
            match answer::kind(status, message) {
                TroubleKind::Other => by_type.unwrap_or(TroubleKind::Other),
                kind => kind,
            }
        } else {
            TroubleKind::Other
        };
        let params = event.at(&["api_error_params", "rate_limit_info"]);
        Trouble {
            resets_at: reset(params),
            ..trouble(kind, message)
        }
    }

    fn with_reset(&self, mut error: Trouble) -> Trouble {
        error.resets_at = match error.kind {
            TroubleKind::RateLimited => error.resets_at.or(self.resets_at),
            _ => None,
        };
        error
    }
}

fn of_name(name: &str) -> Option<TroubleKind> {
    match name {
        "authentication_failed"
        | "authentication_error"
        | "permission_error"
        | "oauth_org_not_allowed" => Some(TroubleKind::Permanent(Cause::Key)),
        "billing_error" => Some(TroubleKind::Permanent(Cause::Credit)),
        "model_not_found" | "not_found_error" => Some(TroubleKind::Permanent(Cause::Model)),
        "rate_limit" | "rate_limit_error" => Some(TroubleKind::RateLimited),
        "server_error" | "overloaded" | "overloaded_error" | "api_error" | "timeout_error" => {
            Some(TroubleKind::Overloaded)
        }
        "request_too_large" => Some(TroubleKind::ContextFull),
        _ => None,
    }
}

fn reset(info: &Json) -> Option<Timestamp> {
    let seconds = info.at(&["resetsAt"]).count()?;
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

fn tool_results(content: &Json, record: &mut Record) {
    for block in content.list() {
        if block.word("type").ends_with("tool_result") && !block.at(&["is_error"]).is_true() {
            record.is_done(block.word("tool_use_id"));
        }
    }
}

fn said(message: &Json) -> String {
    let blocks = message.at(&["content"]).list().iter();
    let texts: Vec<_> = blocks.map(|block| block.word("text")).collect();
    texts.join(" ")
}

fn sum<const N: usize>(counts: [u64; N]) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}
