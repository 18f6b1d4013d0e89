//! From an agent's output, chunk by chunk, to what it said and did.

use super::transcript::{Note, Transcript};
use crate::config::Format;
use crate::iteration::Stream;

/// Reads one agent's output. Nothing in it can make this fail: what is not understood is plain text.
#[derive(Debug)]
pub struct Decoder {
    expected: Format,
}

impl Decoder {
    /// `limit`: how many bytes of words are kept, and how long a line may be.
    pub fn new(expected: Format, _limit: usize) -> Self {
        Decoder { expected }
    }

    /// Takes in a chunk as it arrives and tells what is in it.
    pub fn feed(&mut self, _stream: Stream, bytes: &[u8], hear: &mut impl FnMut(Note)) {
        hear(Note::Text(bytes));
    }

    /// The output is over. `exit_code`: that of a process which ended by itself.
    pub fn finish(self, _exit_code: Option<i32>, _hear: &mut impl FnMut(Note)) -> Transcript {
        let missed = match self.expected {
            Format::Auto | Format::Text => None,
            expected => Some(expected),
        };
        Transcript {
            missed,
            ..Transcript::new(Format::Text)
        }
    }
}
