//! OpenAI's Responses API, as Codex uses it.

use serde_json::{Value, json};

use super::{Act, pieces};

/// Which process of an agent asks.
pub(super) const CONVERSATION: &str = "session-id";

/// What ends an item, words too.
pub(super) const END_OF_WORDS: &str = "response.output_item.done";

/// What the agent's tools have answered so far.
pub(super) fn results(body: &Value) -> Vec<String> {
    let items = body["input"].as_array().into_iter().flatten();
    items
        .filter(|item| {
            let kind = item["type"].as_str().unwrap_or_default();
            ["function_call_output", "custom_tool_call_output"].contains(&kind)
        })
        .map(|item| item["output"].to_string())
        .collect()
}

pub(super) fn turn(act: &Act, body: &Value) -> Vec<Value> {
    let mut item = match act {
        Act::Say(words) => message(words),
        Act::Run(command) => shell(command, body),
        Act::Write { file, text } => patch(file.to_str().unwrap(), text),
    };
    let number = results(body).len();
    item["id"] = json!(format!("item_{number}"));
    if !matches!(act, Act::Say(_)) {
        item["call_id"] = json!(format!("call_{number}"));
    }
    let mut events = vec![json!({"type": "response.created", "response": {"id": "resp_loopback"}})];
    if let Act::Say(words) = act {
        let begun =
            json!({"type": "message", "id": item["id"], "role": "assistant", "content": []});
        events
            .push(json!({"type": "response.output_item.added", "output_index": 0, "item": begun}));
        for piece in pieces(words) {
            events.push(json!({
                "type": "response.output_text.delta",
                "item_id": item["id"],
                "output_index": 0,
                "content_index": 0,
                "delta": piece,
            }));
        }
    }
    events.extend([
        json!({"type": END_OF_WORDS, "output_index": 0, "item": item}),
        json!({
            "type": "response.completed",
            "response": {"id": "resp_loopback", "usage": {
                "input_tokens": 12000,
                "input_tokens_details": {"cached_tokens": 8000},
                "output_tokens": 42,
                "output_tokens_details": {"reasoning_tokens": 10},
                "total_tokens": 12042,
            }},
        }),
    ]);
    events
}

fn message(words: &str) -> Value {
    let content = json!([{"type": "output_text", "text": words, "annotations": []}]);
    json!({"type": "message", "role": "assistant", "content": content})
}

/// Its shell tool has had several names. The one that it offers is called.
fn shell(command: &str, body: &Value) -> Value {
    let offered = |name: &str| {
        let mut tools = body["tools"].as_array().into_iter().flatten();
        tools.any(|tool| tool["name"] == name)
    };
    let (name, arguments) = if offered("exec_command") {
        ("exec_command", json!({"cmd": command}))
    } else if offered("shell_command") {
        ("shell_command", json!({"command": command}))
    } else {
        ("shell", json!({"command": ["sh", "-c", command]}))
    };
    json!({
        "type": "function_call",
        "name": name,
        "arguments": arguments.to_string(),
    })
}

/// It writes files by patches.
fn patch(file: &str, text: &str) -> Value {
    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
    json!({
        "type": "custom_tool_call",
        "name": "apply_patch",
        "input": format!("*** Begin Patch\n*** Add File: {file}\n{lines}*** End Patch\n"),
    })
}

/// A whole answer in one document: what a request without `stream` gets.
pub(super) fn aside() -> Value {
    json!({"id": "resp_loopback", "status": "completed", "output": [message("A task")]})
}

pub(super) fn error(status: u16, words: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", "invalid_api_key"),
        429 => ("requests", "rate_limit_exceeded"),
        500.. => ("server_error", "server_error"),
        _ => ("invalid_request_error", "invalid_request_error"),
    };
    json!({"error": {"message": words, "type": kind, "param": null, "code": code}})
}
