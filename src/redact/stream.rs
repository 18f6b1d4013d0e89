//! Redaction of what comes in pieces.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use aho_corasick::automaton::StateID;

use super::{MASK, Search};

/// Redacts what comes in pieces. Only what could be the beginning of a secret waits for the next piece.
pub struct RedactedStream {
    search: Search,
    state: StateID,
    /// What waits.
    pending: Vec<u8>,
    /// Where secrets are in it.
    hidden: Vec<Range<usize>>,
    /// Whether the one at its very beginning began earlier, and its mask is out.
    is_told: bool,
}

impl RedactedStream {
    pub(super) fn new(search: Search) -> Self {
        RedactedStream {
            state: match &search {
                Search::Forms(finder) => finder.start,
                Search::Nothing | Search::Everything => StateID::default(),
            },
            search,
            pending: Vec::new(),
            hidden: Vec::new(),
            is_told: false,
        }
    }

    pub fn feed<'a>(&mut self, chunk: &'a [u8]) -> Cow<'a, [u8]> {
        let finder = match &self.search {
            Search::Nothing => return Cow::Borrowed(chunk),
            Search::Forms(finder) => finder,
            Search::Everything => return Cow::Borrowed(&[]),
        };
        let waiting = self.pending.len();
        self.state = finder.scan(self.state, chunk, waiting, &mut self.hidden);
        let settled = waiting + chunk.len() - finder.depth(self.state);
        if waiting == 0 && self.hidden.is_empty() {
            self.pending.extend_from_slice(&chunk[settled..]);
            return Cow::Borrowed(&chunk[..settled]);
        }
        self.pending.extend_from_slice(chunk);
        Cow::Owned(self.release(settled))
    }

    /// The rest. What is fed after that is a new text.
    pub fn finish(&mut self) -> Vec<u8> {
        if let Search::Forms(finder) = &self.search {
            self.state = finder.start;
        }
        self.release(self.pending.len())
    }

    /// Lets go of the first bytes.
    fn release(&mut self, settled: usize) -> Vec<u8> {
        let mut shown = Vec::with_capacity(settled);
        let mut at = 0;
        let mut waiting = Vec::new();
        let mut is_told = false;
        for range in self.hidden.drain(..) {
            let was_told = self.is_told && range.start == 0;
            if range.start < settled {
                shown.extend_from_slice(&self.pending[at..range.start]);
                if !was_told {
                    shown.extend_from_slice(MASK.as_bytes());
                }
                at = range.end.min(settled);
            }
            if range.end > settled {
                is_told |= was_told || range.start < settled;
                waiting.push(range.start.saturating_sub(settled)..range.end - settled);
            }
        }
        shown.extend_from_slice(&self.pending[at..settled]);
        self.pending.drain(..settled);
        self.hidden = waiting;
        self.is_told = is_told;
        shown
    }
}

impl fmt::Debug for RedactedStream {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("RedactedStream").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::case;
    use super::super::{Secrets, forms};
    use proptest::prelude::*;

    #[test]
    fn secrets_that_run_into_each_other_do_not_fill_the_memory() {
        let mut stream = Secrets::new(["abca".to_owned()]).stream();
        let mut shown = Vec::new();
        for _ in 0..1000 {
            shown.extend_from_slice(&stream.feed(b"abcabc"));
            assert!(stream.pending.len() <= 4);
            assert!(stream.hidden.len() <= 1);
        }
        shown.extend(stream.finish());
        assert_eq!(String::from_utf8_lossy(&shown), "***bc");
    }

    #[test]
    fn after_the_end_a_new_text_begins() {
        let mut stream = Secrets::new(["sesame".to_owned()]).stream();
        assert_eq!(*stream.feed(b"sesa"), b""[..]);
        assert_eq!(stream.finish(), b"sesa");
        assert_eq!(*stream.feed(b"me!"), b"me!"[..]);
        assert_eq!(stream.finish(), b"");
    }

    proptest! {
        #[test]
        fn only_the_beginning_of_a_secret_waits((values, text) in case()) {
            let secrets = Secrets::new(values);
            let mut stream = secrets.stream();
            stream.feed(text.as_bytes());
            let begins = |tail: &&[u8]| {
                let mut forms = secrets.values.iter().flat_map(|value| forms(value));
                forms.any(|form| form.as_bytes().starts_with(tail))
            };
            let longest = (0..text.len()).map(|at| &text.as_bytes()[at..]).find(begins);
            prop_assert_eq!(stream.pending.as_slice(), longest.unwrap_or_default());
        }
    }
}
