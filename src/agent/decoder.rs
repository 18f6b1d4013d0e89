//! From an agent's output, chunk by chunk, to what it said and did.

use memchr::memchr;

use super::dialect::{self, Dialect};
use super::json::{self, Json};
use super::record::{Hear, Record};
use super::transcript::{Note, Transcript};
use crate::config::Format;
use crate::iteration::Stream;

/// How far into the output a format is looked for that nobody named. A plain-text agent shows files and what tools
/// print: what it shows later must not turn it into another.
const WINDOW: usize = 64 << 10;

/// How long a line can be at most, and at most has to be: an event can be long where few words are kept.
const LONGEST_LINE: usize = 8 << 20;
const LONG_LINE: usize = 1 << 20;

/// Reads one agent's output. Nothing in it can make this fail: what is not understood is plain text.
#[derive(Debug)]
pub struct Decoder {
    expected: Format,
    reading: Reading,
    line: Line,
    longest_line: usize,
    record: Record,
    /// Whether text has come before the first event.
    leads_in: bool,
    /// Whether text has come after the last event.
    trails_off: bool,
}

/// What the output is taken for.
#[derive(Debug)]
enum Reading {
    /// Plain text, for good.
    Text,
    /// Nothing yet. `left`: in how many more bytes any format is looked for, counted at the end of a line that is held:
    /// it began in time, and a result can be long.
    Open {
        left: usize,
        held: usize,
    },
    Events(Box<dyn Dialect>),
}

/// What is known of the line that is not complete.
#[derive(Debug)]
enum Line {
    Start,
    /// It may be an event.
    Held(Vec<u8>),
    /// It is none, and goes on as it comes.
    Text,
    /// It is too long to be one.
    Dropped,
}

impl Decoder {
    /// `limit`: how many bytes of words are kept, and about how long a line may be.
    pub fn new(expected: Format, limit: usize) -> Self {
        let reading = match expected {
            Format::Text => Reading::Text,
            _ => Reading::Open {
                left: WINDOW,
                held: 0,
            },
        };
        Decoder {
            expected,
            reading,
            line: Line::Start,
            longest_line: limit.clamp(LONG_LINE, LONGEST_LINE),
            record: Record::new(limit),
            leads_in: false,
            trails_off: false,
        }
    }

    /// Takes in a chunk as it arrives and tells what is in it.
    pub fn feed(&mut self, stream: Stream, bytes: &[u8], hear: &mut impl FnMut(Note)) {
        match stream {
            // Events are on standard output only.
            Stream::Stderr => hear(Note::Text(bytes)),
            Stream::Stdout => self.take(bytes, hear),
        }
    }

    /// Whether the agent has told that it is done. It may still take a moment to leave.
    pub fn has_ended(&self) -> bool {
        self.record.transcript.has_ended
    }

    fn take(&mut self, mut bytes: &[u8], hear: &mut Hear) {
        while !bytes.is_empty() {
            if matches!(self.reading, Reading::Text) {
                hear(Note::Text(bytes));
                return;
            }
            let plain = match self.line {
                Line::Start => plain_lines(bytes),
                Line::Held(_) | Line::Text | Line::Dropped => 0,
            };
            let (piece, rest) = match plain {
                0 => bytes.split_at(memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1)),
                plain => bytes.split_at(plain),
            };
            match plain {
                0 => self.piece(piece, hear),
                _ => self.text(piece, hear),
            }
            self.look_away(piece.len());
            bytes = rest;
        }
    }

    /// Takes in a line, or what has come of it.
    fn piece(&mut self, piece: &[u8], hear: &mut Hear) {
        let is_end = piece.ends_with(b"\n");
        let line = std::mem::replace(&mut self.line, Line::Start);
        self.line = match line {
            Line::Start if !may_be_events(piece) => {
                self.text(piece, hear);
                Line::Text
            }
            Line::Start if piece.len() > self.longest_line => self.is_too_long(&[], piece, hear),
            Line::Start if is_end => {
                self.read(piece, hear);
                Line::Start
            }
            Line::Start => Line::Held(piece.to_vec()),
            Line::Held(held) if held.len() + piece.len() > self.longest_line => {
                self.is_too_long(&held, piece, hear)
            }
            Line::Held(mut held) => {
                held.extend_from_slice(piece);
                if !may_be_events(&held) {
                    self.text(&held, hear);
                    Line::Text
                } else if is_end {
                    self.read(&held, hear);
                    Line::Start
                } else {
                    Line::Held(held)
                }
            }
            Line::Text => {
                self.text(piece, hear);
                Line::Text
            }
            Line::Dropped => Line::Dropped,
        };
        if is_end {
            self.line = Line::Start;
        }
    }

    /// Passes on what is no event.
    fn text(&mut self, text: &[u8], hear: &mut Hear) {
        self.trails_off |= !text.trim_ascii().is_empty();
        hear(Note::Text(text));
    }

    /// Text is passed on, however long its lines are. An event is not worth it.
    fn is_too_long(&mut self, held: &[u8], piece: &[u8], hear: &mut Hear) -> Line {
        if let (Reading::Open { .. }, Some(dialect)) = (&self.reading, dialect::of(self.expected)) {
            // What was expected came, and nobody can read it: that is no plain text.
            self.record.transcript.format = self.expected;
            self.reading = Reading::Events(dialect);
        }
        if let Reading::Events(_) = self.reading {
            self.record.breaks_off();
            hear(Note::Text(b"(a line was too long to be read)\n"));
            return Line::Dropped;
        }
        self.text(held, hear);
        self.text(piece, hear);
        Line::Text
    }

    /// Counts what was looked at in vain.
    fn look_away(&mut self, count: usize) {
        let Reading::Open { left, held } = &mut self.reading else {
            return;
        };
        *held += count;
        if !matches!(self.line, Line::Held(_)) {
            *left = left.saturating_sub(std::mem::take(held));
            if *left == 0 && self.expected == Format::Auto {
                self.reading = Reading::Text;
            }
        }
    }

    /// Reads a line that looks like events.
    fn read(&mut self, line: &[u8], hear: &mut Hear) {
        let mut is_event = false;
        let json = without_blanks(line);
        let is_json = json::each(json, &mut |event| is_event |= self.event(event, hear));
        if !is_json {
            // Whatever it was, the message is not whole.
            self.record.breaks_off();
        }
        if !is_event {
            self.text(line, hear);
        }
    }

    fn event(&mut self, event: &Json, hear: &mut Hear) -> bool {
        if event.word("type").is_empty() {
            return false;
        }
        if let Reading::Open { left, .. } = self.reading {
            let any = dialect::begun_by(event).filter(|_| left > 0);
            let expected = dialect::is_of(self.expected, event).then_some(self.expected);
            let Some(format) = any.or(expected) else {
                return false;
            };
            let Some(dialect) = dialect::of(format) else {
                return false;
            };
            self.record.transcript.format = format;
            self.reading = Reading::Events(dialect);
            self.leads_in = self.trails_off;
        }
        match &mut self.reading {
            Reading::Events(dialect) => {
                self.trails_off = false;
                dialect.hear(event, &mut self.record, hear);
                true
            }
            Reading::Text | Reading::Open { .. } => false,
        }
    }

    /// The output is over. `exit_code`: that of a process which ended by itself.
    pub fn finish(mut self, exit_code: Option<i32>, hear: &mut impl FnMut(Note)) -> Transcript {
        if let Line::Held(held) = std::mem::replace(&mut self.line, Line::Start) {
            let is_event = matches!(self.reading, Reading::Events(_));
            let trails_off = self.trails_off;
            // Half an event says nothing to anybody.
            self.read(&held, &mut |note| match note {
                Note::Text(_) if is_event => {}
                note => hear(note),
            });
            self.trails_off &= trails_off || !is_event;
        }
        if let Reading::Events(dialect) = &mut self.reading {
            dialect.finish(exit_code, &mut self.record);
        }
        let mut transcript = self.record.end();
        let is_between = self.leads_in && self.trails_off;
        if self.expected == Format::Auto && is_between && !transcript.has_ended {
            // Nobody said that these were its events, and they stand between something else: it has shown a file. Of what
            // is used up too much is better known than too little.
            transcript = Transcript {
                usage: transcript.usage,
                ..Transcript::new(Format::Text)
            };
        }
        transcript.missed = match self.expected {
            Format::Auto | Format::Text => None,
            expected => (expected != transcript.format).then_some(expected),
        };
        transcript
    }
}

/// Whether a line can be an event or a list of them, as far as it has come.
fn may_be_events(line: &[u8]) -> bool {
    let rest = without_blanks(line);
    if line.len() - rest.len() >= LONGEST_BLANK {
        return false;
    }
    match rest {
        [b'{', second, ..] => matches!(second, b'"' | b' '),
        [b'[', second, ..] => *second == b'{',
        [b'{' | b'['] => true,
        // Half a byte order mark, and blanks, are nothing yet.
        [0xef] | [0xef, 0xbb] => true,
        [] => true,
        _ => false,
    }
}

/// Nobody indents an event further than this.
const LONGEST_BLANK: usize = 1024;

/// The line without a byte order mark and blanks before it.
fn without_blanks(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let blanks = line
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    &line[blanks.count()..]
}

/// How many bytes of whole lines there are that cannot be events: they go on together.
fn plain_lines(bytes: &[u8]) -> usize {
    let mut plain = 0;
    while let Some(end) = memchr(b'\n', &bytes[plain..]) {
        if may_be_events(&bytes[plain..=plain + end]) {
            break;
        }
        plain += end + 1;
    }
    plain
}

#[cfg(test)]
mod tests;
