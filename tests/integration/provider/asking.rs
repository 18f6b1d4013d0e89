//! The provider, asked by hand.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{Act, Answer, Provider, Stall};
use crate::harness::PATIENCE;

/// A connection on which something must come in time.
fn connect(provider: &Provider) -> TcpStream {
    let stream = TcpStream::connect(provider.url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Asks, and gives all that is answered up to the end of the connection.
fn ask(provider: &Provider, head: &str, body: &Value) -> String {
    let mut stream = connect(provider);
    let body = body.to_string();
    let length = body.len();
    write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn anthropic(session: &str) -> String {
    format!("POST /v1/messages?beta=true HTTP/1.1\r\nX-Claude-Code-Session-Id: {session}")
}

fn with_results(count: usize) -> Value {
    let result = json!({"role": "user", "content": [{"type": "tool_result", "content": "ok"}]});
    json!({"tools": [{"name": "Bash"}], "messages": vec![result; count], "stream": true})
}

#[test]
fn a_retry_gets_the_same_answer_and_a_result_the_next() {
    let provider = Provider::start([
        vec![
            Answer::Does(Act::Run("true")),
            Answer::Does(Act::Say("The first is done")),
        ],
        vec![Answer::Does(Act::Say("The second is done"))],
    ]);
    for _ in 0..2 {
        let answer = ask(&provider, &anthropic("a"), &with_results(0));
        assert!(answer.contains("tool_use"), "{answer}");
    }
    let answer = ask(&provider, &anthropic("a"), &with_results(1));
    assert!(answer.contains("\"text\":\"first \""), "{answer}");
    for session in ["b", "c"] {
        let answer = ask(&provider, &anthropic(session), &with_results(0));
        assert!(answer.contains("\"text\":\"second \""), "{answer}");
    }
    let conversations: Vec<_> = provider
        .asked()
        .iter()
        .map(|one| one.conversation)
        .collect();
    assert_eq!(conversations, [0, 0, 0, 1, 2].map(Some));
}

#[test]
fn what_is_asked_beside_the_task_uses_up_no_answer() {
    let refusal = Answer::Refuse {
        status: 529,
        words: "Overloaded",
        headers: &[("retry-after", "7")],
    };
    let provider = Provider::start([vec![refusal]]);
    let title = json!({"max_tokens": 64, "messages": []});
    for (head, body, expected) in [
        (anthropic("a"), title.clone(), "200"),
        ("POST /v1/responses HTTP/1.1".to_owned(), title, "200"),
        (
            "POST /v1/messages/count_tokens HTTP/1.1".to_owned(),
            with_results(0),
            "200",
        ),
        ("HEAD / HTTP/1.1".to_owned(), Value::Null, "200"),
        ("GET /v1/models HTTP/1.1".to_owned(), Value::Null, "404"),
    ] {
        let answer = ask(&provider, &head, &body);
        let status = answer.split(' ').nth(1);
        assert_eq!(status, Some(expected), "{head}: {answer}");
    }
    assert_eq!(provider.conversations(), 0);
    let answer = ask(&provider, &anthropic("a"), &with_results(0));
    assert!(answer.starts_with("HTTP/1.1 529 "), "{answer}");
    assert!(answer.contains("retry-after: 7\r\n"), "{answer}");
    assert!(answer.contains("overloaded_error"), "{answer}");
    let paths: Vec<_> = provider.asked().into_iter().map(|one| one.path).collect();
    assert_eq!(
        paths[2..],
        [
            "/v1/messages/count_tokens",
            "/",
            "/v1/models",
            "/v1/messages"
        ]
    );
}

#[test]
fn a_stream_that_stalls_stays_open() {
    let words = "Half of it";
    for (at, is_complete) in [(Stall::InTheWords, false), (Stall::AfterTheWords, true)] {
        let provider = Provider::start([vec![Answer::Stall { words, at }]]);
        let mut stream = connect(&provider);
        let body = json!({"tools": [{"name": "exec_command"}]}).to_string();
        let length = body.len();
        write!(
            stream,
            "POST /v1/responses HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        provider.wait_for_stall();
        stream.set_nonblocking(true).unwrap();
        let mut heard = String::new();
        let error = stream.read_to_string(&mut heard).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        assert!(heard.contains("\"delta\":\"Half \""), "{heard}");
        assert_eq!(heard.contains("output_item.done"), is_complete, "{heard}");
        assert!(!heard.contains("response.completed"), "{heard}");
    }
}
