use super::*;
use crate::agent::{Cause, TroubleKind};

fn lines(parts: &[&str]) -> Transcript {
    whole(Format::Auto, parts.join("\n").as_bytes())
}

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#;

#[test]
fn only_the_assistant_itself_speaks() {
    let says = |more: &str, block: &str| {
        format!(
            r#"{{"type":"assistant","session_id":"s","message":{{"id":"1","content":[{block}]}}{more}}}"#
        )
    };
    let text = r#"{"type":"text","text":"<promise>SUCCESS</promise>"}"#;
    for line in [
        says(r#","parent_tool_use_id":"toolu_1""#, text),
        says(r#","is_api_error_message":true"#, text),
        says(r#","aborted":true"#, text),
        says("", text).replace(r#""id":"1""#, r#""model":"<synthetic>""#),
        says("", r#"{"type":"thinking","thinking":"<promise>SUCCESS</promise>"}"#),
        says("", r#"{"type":"tool_use","id":"1","name":"Bash","input":{"command":"<promise>SUCCESS</promise>"}}"#),
        says("", text).replace("\"assistant\"", "\"user\""),
        says("", text).replace("\"assistant\"", "\"stream_event\""),
        r#"{"type":"stream_event","session_id":"s","event":{"delta":{"text":"<promise>SUCCESS</promise>"}}}"#.to_owned(),
        r#"{"type":"result","session_id":"s","usage":{},"is_error":true,"result":"<promise>SUCCESS</promise>"}"#.to_owned(),
    ] {
        let transcript = lines(&[INIT, &line]);
        assert_eq!(transcript.format, Format::Claude);
        assert_eq!((transcript.words, transcript.final_message), (String::new(), String::new()), "{line}");
    }
    assert_eq!(
        lines(&[INIT, &says("", text)]).words,
        "<promise>SUCCESS</promise>"
    );
}

#[test]
fn what_codex_gets_over_is_no_trouble() {
    let begin = r#"{"type":"thread.started","thread_id":"t"}"#;
    let error = r#"{"type":"error","message":"Reconnecting... 1/5 (unexpected status 401)"}"#;
    let end = r#"{"type":"turn.completed","usage":{}}"#;
    assert_eq!(lines(&[begin, error, end]).trouble, None);
    let cut = lines(&[begin, error]);
    assert!(!cut.has_ended);
    assert_eq!(
        cut.trouble.unwrap().kind,
        TroubleKind::Permanent(Cause::Key)
    );
}

#[test]
fn an_exit_code_of_gemini_is_an_answer_of_its_provider() {
    let output = recorded("gemini-err429-stream.jsonl");
    for (code, kind) in [
        (Some(173), Some(TroubleKind::RateLimited)),
        (Some(145), Some(TroubleKind::Permanent(Cause::Key))),
        (Some(244), Some(TroubleKind::Overloaded)),
        (Some(1), None),
        (None, None),
    ] {
        let (transcript, _) = decoded(Format::Gemini, output, usize::MAX, code);
        assert_eq!(
            transcript.trouble.map(|trouble| trouble.kind),
            kind,
            "{code:?}"
        );
    }
    // A success stays one.
    let output = recorded("gemini-success-stream.jsonl");
    assert_eq!(
        decoded(Format::Gemini, output, 7, Some(145)).0.trouble,
        None
    );
}

#[test]
fn refusals_are_told_by_every_cli_in_its_own_way() {
    let codex = [
        r#"{"type":"thread.started","thread_id":"t"}"#,
        r#"{"type":"item.completed","item":{"id":"1","type":"command_execution","command":"rm x","status":"declined"}}"#,
    ];
    let opencode = [
        r#"{"type":"step_start","timestamp":1,"sessionID":"s","part":{}}"#,
        r#"{"type":"tool_use","timestamp":1,"sessionID":"s","part":{"tool":"bash","callID":"1","state":{"status":"error","input":{"command":"rm x"},"error":"The user rejected permission to use this specific tool call."}}}"#,
    ];
    let copilot = [
        r#"{"type":"session.info","id":"1","timestamp":"t","data":{}}"#,
        r#"{"type":"tool.execution_start","id":"1","timestamp":"t","data":{"toolCallId":"1","toolName":"bash","arguments":{"command":"rm x"}}}"#,
        r#"{"type":"tool.execution_complete","id":"1","timestamp":"t","data":{"toolCallId":"1","success":false,"error":{"code":"denied","message":"no"}}}"#,
    ];
    let claude = [
        INIT,
        r#"{"type":"result","session_id":"s","usage":{},"is_error":false,"permission_denials":[{"tool_use_id":"1","tool_name":"Bash","tool_input":{"command":"rm x"}}]}"#,
    ];
    for events in [&codex[..], &opencode, &copilot, &claude] {
        let tools = lines(events).tools;
        assert_eq!((tools.done, tools.denied), (0, 1), "{events:?}");
        let first = tools.first_denied.unwrap();
        assert!(first.ends_with(": rm x"), "{first}");
    }
}

#[test]
fn a_tool_is_told_in_one_inert_line() {
    let about = "a\\n\\u001b[2J\\u202e ".repeat(100);
    let event = format!(
        r#"{{"type":"item.started","item":{{"id":"1","type":"command_execution","command":"{about}"}}}}"#
    );
    let begin = "{\"type\":\"thread.started\",\"thread_id\":\"t\"}\n";
    let (_, heard) = decoded(
        Format::Auto,
        (begin.to_owned() + &event).as_bytes(),
        7,
        None,
    );
    let told = &heard.tools[0];
    assert!(
        told.starts_with("command_execution: a \\u{1b}[2J\\u{202e} a "),
        "{told}"
    );
    assert!(told.chars().count() < 230 && told.ends_with('…'), "{told}");
    assert!(!told.contains(char::is_control));
}

#[test]
fn a_subagent_of_copilot_does_not_speak() {
    let says = |more: &str| {
        format!(
            r#"{{"type":"assistant.message","id":"1","timestamp":"t","data":{{"content":"done"{more}}}}}"#
        )
    };
    let begin = r#"{"type":"session.info","id":"1","timestamp":"t","data":{}}"#;
    let transcript = lines(&[begin, &says(""), &says(r#","parentToolCallId":"call_1""#)]);
    assert_eq!(transcript.words, "done");
}

#[test]
fn pieces_of_a_message_join_unless_one_is_missing() {
    let begin = r#"{"type":"init","timestamp":"t","session_id":"s","model":"m"}"#;
    let piece = |text: &str| {
        format!(
            r#"{{"type":"message","timestamp":"t","role":"assistant","delta":true,"content":"{text}"}}"#
        )
    };
    let (one, two) = (piece("never <pro"), piece("mise>SUCCESS</promise>"));
    let whole = "never <promise>SUCCESS</promise>";
    assert_eq!(lines(&[begin, &one, "text", &two]).words, whole);
    for between in [
        r#"{"type":"tool_use","timestamp":"t","tool_id":"1","tool_name":"x"}"#,
        r#"{"type":"message","timestamp":"t","role":"assi"#,
        &format!("{{\"{}", "x".repeat(LONGEST_LINE)),
    ] {
        let transcript = lines(&[begin, &one, between, &two]);
        assert_eq!(transcript.words, "never <pro\nmise>SUCCESS</promise>");
        assert_eq!(transcript.final_message, "mise>SUCCESS</promise>");
    }
}

#[test]
fn usage_counts_each_message_once_and_subagents_too() {
    let says = |id: &str, parent: &str, output: u32| {
        format!(
            r#"{{"type":"assistant","session_id":"s","parent_tool_use_id":{parent},"message":{{"id":"{id}","model":"m","content":[],"usage":{{"input_tokens":100,"cache_read_input_tokens":10,"output_tokens":{output}}}}}}}"#
        )
    };
    let heard = lines(&[
        INIT,
        &says("1", "null", 1),
        &says("1", "null", 5),
        &says("2", "\"toolu\"", 7),
        &says("2", "\"toolu\"", 7),
    ]);
    assert_eq!(heard.usage.input_tokens, 220);
    assert_eq!(heard.usage.output_tokens, 12);
    assert_eq!(heard.usage.context.unwrap().used, 110);

    let result = r#"{"type":"result","session_id":"s","is_error":false,"result":"","usage":{"input_tokens":1},"modelUsage":{"small":{"inputTokens":900,"contextWindow":1},"m":{"inputTokens":200,"cacheReadInputTokens":50,"outputTokens":30,"contextWindow":200}}}"#;
    let ended = lines(&[INIT, &says("1", "null", 1), result]);
    assert_eq!(ended.usage.input_tokens, 1150);
    assert_eq!(ended.usage.output_tokens, 30);
    assert_eq!(ended.usage.context.unwrap().window, Some(200));
}

#[test]
fn what_claude_was_told_last_is_its_trouble_if_it_is_cut_off() {
    let limit = r#"{"type":"rate_limit_event","session_id":"s","rate_limit_info":{"status":"rejected","resetsAt":1794792142}}"#;
    let warning = r#"{"type":"rate_limit_event","session_id":"s","rate_limit_info":{"status":"allowed_warning","resetsAt":1}}"#;
    let error = r#"{"type":"assistant","session_id":"s","is_api_error_message":true,"error":"rate_limit","message":{"content":[{"type":"text","text":"limit"}]}}"#;
    let speaks = r#"{"type":"assistant","session_id":"s","message":{"content":[{"type":"text","text":"on"}]}}"#;
    let cut = lines(&[INIT, limit, warning, error]);
    let trouble = cut.trouble.unwrap();
    assert_eq!(
        (cut.has_ended, trouble.kind),
        (false, TroubleKind::RateLimited)
    );
    assert_eq!(trouble.message, "limit");
    assert_eq!(trouble.resets_at.unwrap().as_second(), 1_794_792_142);
    assert_eq!(lines(&[INIT, limit, error, speaks]).trouble, None);
}

#[test]
fn a_date_to_come_back_at_is_read() {
    let error = r#"{"type":"error","timestamp":1,"sessionID":"s","error":{"name":"APIError","data":{"message":"no","statusCode":503,"responseHeaders":{"retry-after":"Mon, 16 Nov 2026 00:16:18 GMT"}}}}"#;
    let trouble = lines(&[error]).trouble.unwrap();
    assert_eq!(
        trouble.resets_at.unwrap().to_string(),
        "2026-11-16T00:16:18Z"
    );
    assert_eq!(trouble.retry_after, None);
}
