//! As much of HTTP as the agents speak: one request on each connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

pub(super) struct Request {
    pub(super) method: String,
    /// Without the query: Claude Code adds `?beta=true`.
    pub(super) path: String,
    headers: Vec<(String, String)>,
    /// Null if it is not JSON.
    pub(super) body: Value,
}

impl Request {
    /// `None`: the connection was opened, and nothing was asked.
    pub(super) fn read(stream: &TcpStream) -> Option<Request> {
        let mut reader = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            Some(line.trim_end().to_owned()).filter(|line| !line.is_empty())
        };
        let first = line()?;
        let mut words = first.split(' ');
        let method = words.next()?.to_owned();
        let path = words.next()?.split('?').next()?.to_owned();
        let mut headers = Vec::new();
        while let Some(line) = line() {
            let (name, value) = line.split_once(':')?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Request {
            method,
            path,
            headers,
            body: Value::Null,
        };
        let length = request.header("content-length").unwrap_or("0");
        let mut body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        request.body = serde_json::from_slice(&body).unwrap_or_default();
        Some(request)
    }

    /// A header, by its name in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name)?;
        Some(&found.1)
    }
}

/// Answers with a document. An agent that has gone in the meantime is no error of ours.
pub(super) fn document(
    mut stream: &TcpStream,
    status: u16,
    headers: &[(&str, &str)],
    body: &Value,
) {
    let body = body.to_string();
    let mut head = format!(
        "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream
        .write_all(format!("{head}\r\n{body}").as_bytes())
        .ok();
}

/// Answers with a stream of events. It ends with the connection.
pub(super) fn events(mut stream: &TcpStream, events: &[Value]) {
    let mut text =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            .to_owned();
    for event in events {
        let name = event["type"].as_str().expect("every event has a type");
        text += &format!("event: {name}\ndata: {event}\n\n");
    }
    stream.write_all(text.as_bytes()).ok();
}

/// Says nothing more until the agent goes.
pub(super) fn hang(mut stream: &TcpStream) {
    let mut rest = [0; 64];
    while let Ok(1..) = stream.read(&mut rest) {}
}
