//! Gemini CLI: `-o stream-json`.

use super::{Dialect, answer};
use crate::agent::json::{Json, within};
use crate::agent::record::{Hear, Record, about, name, trouble};
use crate::agent::trouble::{Trouble, TroubleKind};

#[derive(Debug, Default)]
pub(super) struct Gemini {
    /// The last error that was told. The result says whether it was the end.
    error: Option<String>,
}

pub(super) fn is_opening(event: &Json) -> bool {
    let has = |key| !event.word(key).is_empty();
    event.word("type") == "init" && has("session_id") && has("model") && has("timestamp")
}

pub(super) fn is_own(event: &Json) -> bool {
    let has = |key| !event.word(key).is_empty();
    has("timestamp")
        && match event.word("type") {
            "init" => is_opening(event),
            "message" => has("role"),
            "tool_use" | "tool_result" => has("tool_id"),
            "error" => has("severity"),
            "result" => event.at(&["stats"]).is_map(),
            _ => false,
        }
}

impl Dialect for Gemini {
    fn hear(&mut self, event: &Json, record: &mut Record, hear: &mut Hear) {
        match event.word("type") {
            "init" => {
                record.transcript.session = name(event.at(&["session_id"]));
                record.transcript.model = name(event.at(&["model"]));
            }
            "message" if event.word("role") == "assistant" => {
                record.transcript.has_ended = false;
                record.transcript.trouble = None;
                if event.at(&["delta"]).is_true() {
                    record.goes_on(event.word("content"), hear);
                } else {
                    record.says(event.word("content"), hear);
                }
            }
            "message" => record.breaks_off(),
            "tool_use" => {
                let input = about(event.at(&["parameters"]));
                record.uses(event.word("tool_id"), event.word("tool_name"), input, hear);
            }
            "tool_result" => {
                record.breaks_off();
                let id = event.word("tool_id");
                let error = event.at(&["error"]).word("type");
                if event.word("status") == "success" {
                    record.is_done(id);
                } else if is_denial(error) {
                    record.is_denied(id, error, event.at(&["error"]).word("message"));
                }
            }
            "error" => {
                record.breaks_off();
                self.error = Some(event.word("message").to_owned());
            }
            "result" => self.result(event, record, hear),
            _ => {}
        }
    }

    /// Its exit code is what is left of an HTTP status, and tells more than its words.
    fn finish(&mut self, exit_code: Option<i32>, record: &mut Record) {
        let Some(status) = exit_code.and_then(status_of) else {
            return;
        };
        let transcript = &mut record.transcript;
        if !transcript.has_ended {
            let told = self.error.take();
            let message = told.unwrap_or_else(|| format!("the provider answered {status}"));
            transcript.trouble = Some(error(Some(status), &message));
        } else if let Some(trouble) = &mut transcript.trouble
            && trouble.kind == TroubleKind::Other
        {
            trouble.kind = answer::kind(Some(status), &trouble.message);
        }
    }
}

impl Gemini {
    fn result(&mut self, event: &Json, record: &mut Record, hear: &mut Hear) {
        record.breaks_off();
        let stats = event.at(&["stats"]);
        if stats.is_map() {
            let usage = &mut record.transcript.usage;
            usage.has_tokens = true;
            usage.input_tokens = stats.many("input_tokens");
            usage.output_tokens = stats.many("output_tokens");
        }
        record.transcript.has_ended = true;
        record.transcript.trouble = (event.word("status") == "error").then(|| {
            let message = event.at(&["error"]).word("message");
            let told = self.error.take().unwrap_or_default();
            match (message, told.as_str()) {
                ("", "") => error(None, event.at(&["error"]).word("type")),
                ("", told) => error(None, told),
                (message, _) => error(status_in(message), message),
            }
        });
        record.tells_usage(hear);
    }
}

fn is_denial(error: &str) -> bool {
    error == "tool_not_registered"
        || ["denied", "policy", "permission"]
            .iter()
            .any(|word| error.contains(word))
}

fn error(status: Option<u64>, message: &str) -> Trouble {
    Trouble {
        retry_after: answer::wait_in(message),
        ..trouble(answer::kind(status, message), message)
    }
}

/// The provider's answer can be in the message as it was: `[API Error: {"error":{"code":401,…}}]`.
fn status_in(message: &str) -> Option<u64> {
    let json = within(&message[message.find('{')?..])?;
    json.at(&["error", "code"]).count()
}

fn status_of(exit_code: i32) -> Option<u64> {
    const STATUSES: [u64; 11] = [400, 401, 402, 403, 404, 413, 429, 500, 502, 503, 504];
    let exit_code = u64::try_from(exit_code).ok()?;
    STATUSES
        .into_iter()
        .find(|status| status % 256 == exit_code)
}
