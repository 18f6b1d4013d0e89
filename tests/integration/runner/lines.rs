//! Lines as the runner cuts them: at LF, CR or CRLF. A lone CR begins a new line.

/// Cuts a stream that arrives in pieces.
#[derive(Default)]
pub(super) struct Cutter {
    rest: Vec<u8>,
    after_return: bool,
}

impl Cutter {
    /// The lines that are complete now. Bytes that are no UTF-8 are replaced.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in piece {
            match byte {
                b'\n' if self.after_return => {}
                b'\n' | b'\r' => lines.push(self.take()),
                _ => self.rest.push(byte),
            }
            self.after_return = byte == b'\r';
        }
        lines
    }

    /// What is left when the stream ends.
    pub(super) fn end(&mut self) -> Option<String> {
        (!self.rest.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> String {
        let line = std::mem::take(&mut self.rest);
        String::from_utf8_lossy(&line).into_owned()
    }
}

/// All lines of a text.
pub(super) fn of(text: &str) -> Vec<String> {
    let mut cutter = Cutter::default();
    let mut lines = cutter.push(text.as_bytes());
    lines.extend(cutter.end());
    lines
}

#[test]
fn lines_end_at_line_feeds_and_at_carriage_returns() {
    let cases: [(&str, &[&str]); 7] = [
        ("", &[]),
        ("a\nb\n", &["a", "b"]),
        ("a\r\nb", &["a", "b"]),
        ("10%\r20%\r::error::x", &["10%", "20%", "::error::x"]),
        ("a\n\nb", &["a", "", "b"]),
        ("a\r\r\nb", &["a", "", "b"]),
        ("a\n\rb", &["a", "", "b"]),
    ];
    for (text, expected) in cases {
        assert_eq!(of(text), expected, "{text:?}");
    }
}

#[test]
fn a_line_end_may_arrive_in_two_pieces() {
    let mut cutter = Cutter::default();
    assert_eq!(cutter.push(b"a\r"), ["a"]);
    assert_eq!(cutter.push(b"\nb\xff"), Vec::<String>::new());
    assert_eq!(cutter.push(b"\xf0\x9f"), Vec::<String>::new());
    assert_eq!(cutter.push(b"\xa6\x80\n"), ["b\u{fffd}\u{1f980}"]);
    assert_eq!(cutter.end(), None);
}
