//! Anthropic's Messages API, as Claude Code uses it.

use serde_json::{Value, json};

use super::{Act, pieces};

/// Which process of an agent asks.
pub(super) const CONVERSATION: &str = "x-claude-code-session-id";

/// What ends a block of words.
pub(super) const END_OF_WORDS: &str = "content_block_stop";

/// What the agent's tools have answered so far.
pub(super) fn results(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().into_iter().flatten();
    messages
        .filter_map(|message| message["content"].as_array())
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .map(|block| block["content"].to_string())
        .collect()
}

pub(super) fn turn(act: &Act, body: &Value) -> Vec<Value> {
    let id = format!("toolu_{}", results(body).len());
    let (start, deltas, stop_reason) = match act {
        Act::Say(words) => (
            json!({"type": "text", "text": ""}),
            pieces(words)
                .map(|piece| json!({"type": "text_delta", "text": piece}))
                .collect(),
            "end_turn",
        ),
        Act::Run(command) => tool(&id, "Bash", &json!({"command": command})),
        Act::Write { file, text } => {
            tool(&id, "Write", &json!({"file_path": file, "content": text}))
        }
    };
    let mut events = vec![
        json!({"type": "message_start", "message": message(&json!([]), &Value::Null)}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
    ];
    for delta in deltas {
        events.push(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    }
    events.extend([
        json!({"type": END_OF_WORDS, "index": 0}),
        json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": null},
            "usage": {"output_tokens": 42},
        }),
        json!({"type": "message_stop"}),
    ]);
    events
}

/// The use of a tool: how its block begins, what follows, and why the turn ends.
fn tool(id: &str, name: &str, input: &Value) -> (Value, Vec<Value>, &'static str) {
    let input = input.to_string();
    let deltas = pieces(&input)
        .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
        .collect();
    (
        json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
        deltas,
        "tool_use",
    )
}

/// A whole message in one document: what a request without `stream` gets.
pub(super) fn aside() -> Value {
    message(
        &json!([{"type": "text", "text": "{\"title\": \"A task\"}"}]),
        &json!("end_turn"),
    )
}

fn message(content: &Value, stop_reason: &Value) -> Value {
    json!({
        "id": "msg_loopback",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": {
            "input_tokens": 120,
            "cache_creation_input_tokens": 2000,
            "cache_read_input_tokens": 15000,
            "output_tokens": 1,
        },
    })
}

pub(super) fn error(status: u16, words: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": words}, "request_id": "req_loopback"})
}
