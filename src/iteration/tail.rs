//! The end of an agent's output: both streams in the order of arrival, still told apart, never over the limit.

use std::collections::VecDeque;
use std::ops::Range;

use memchr::memchr;

use super::plain::plain_text;

/// Where a piece of output was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub fn other(self) -> Stream {
        match self {
            Stream::Stdout => Stream::Stderr,
            Stream::Stderr => Stream::Stdout,
        }
    }
}

/// How often the streams may alternate in what is kept. It bounds the bookkeeping of output that changes stream with
/// every byte; nothing else comes near it.
const MOST_RUNS: usize = 1 << 18;

/// Output is kept in blocks of this size: readers fill them directly, and the oldest is used again when it is due.
const BLOCK: usize = 256 << 10;

/// A buffer of the last bytes.
#[derive(Debug)]
pub struct Tail {
    limit: usize,
    blocks: VecDeque<Box<[u8]>>,
    unused: Option<Box<[u8]>>,
    /// Where the kept bytes begin in the first block, and where the free ones begin in the last.
    start: usize,
    end: usize,
    kept: usize,
    runs: VecDeque<Run>,
    total: u64,
    cut: [bool; 2],
}

#[derive(Debug)]
struct Run {
    stream: Stream,
    length: usize,
}

impl Tail {
    pub fn new(limit: usize) -> Self {
        Tail {
            limit,
            blocks: VecDeque::new(),
            unused: None,
            start: 0,
            end: BLOCK,
            kept: 0,
            runs: VecDeque::new(),
            total: 0,
            cut: [false; 2],
        }
    }

    /// Room for the next bytes. What is written there counts when [`Tail::commit`] says so.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.end == BLOCK {
            self.end = 0;
            let block = self.unused.take();
            let block = block.unwrap_or_else(|| vec![0; BLOCK].into_boxed_slice());
            self.blocks.push_back(block);
        }
        match self.blocks.back_mut() {
            Some(last) => &mut last[self.end..],
            None => &mut [],
        }
    }

    /// Takes in the first `count` bytes of [`Tail::spare`], and gives them back to look at.
    pub fn commit(&mut self, stream: Stream, count: usize) -> &[u8] {
        self.end += count;
        self.kept += count;
        self.total += count as u64;
        match self.runs.back_mut() {
            Some(last) if last.stream == stream => last.length += count,
            _ if count > 0 => self.runs.push_back(Run {
                stream,
                length: count,
            }),
            _ => {}
        }
        self.drop_oldest(self.kept.saturating_sub(self.limit));
        if self.runs.len() > MOST_RUNS {
            self.drop_oldest(self.runs.front().map_or(0, |run| run.length));
        }
        match self.blocks.back() {
            Some(last) => &last[self.end - count..self.end],
            None => &[],
        }
    }

    pub fn push(&mut self, stream: Stream, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = self.spare();
            let count = bytes.len().min(spare.len());
            spare[..count].copy_from_slice(&bytes[..count]);
            self.commit(stream, count);
            bytes = &bytes[count..];
        }
    }

    fn drop_oldest(&mut self, mut count: usize) {
        self.start += count;
        self.kept -= count;
        // The last block stays: it is the one being filled.
        while self.start >= BLOCK && self.blocks.len() > 1 {
            self.unused = self.blocks.pop_front();
            self.start -= BLOCK;
        }
        while count > 0 {
            let Some(first) = self.runs.front_mut() else {
                return;
            };
            let from_first = count.min(first.length);
            first.length -= from_first;
            count -= from_first;
            self.cut[first.stream as usize] = true;
            if first.length == 0 {
                self.runs.pop_front();
            }
        }
    }

    /// The kept bytes of a range, block by block.
    fn slices(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let (from, to) = (self.start + range.start, self.start + range.end);
        self.blocks
            .iter()
            .enumerate()
            .filter_map(move |(index, block)| {
                let begins = index * BLOCK;
                let part = from.max(begins)..to.min(begins + BLOCK);
                (part.start < part.end).then(|| &block[part.start - begins..part.end - begins])
            })
    }

    pub fn kept(&self) -> usize {
        self.kept
    }

    /// All that was ever pushed.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn truncated(&self) -> bool {
        self.total > self.kept as u64
    }

    /// Whether anything is kept of this stream.
    pub fn has(&self, stream: Stream) -> bool {
        self.runs.iter().any(|run| run.stream == stream)
    }

    /// Whether the beginning of this stream is missing.
    pub fn is_cut(&self, stream: Stream) -> bool {
        self.cut[stream as usize]
    }

    /// What is kept of one stream.
    pub fn stream(&self, stream: Stream) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length(stream));
        let mut start = 0;
        for run in &self.runs {
            if run.stream == stream {
                for slice in self.slices(start..start + run.length) {
                    bytes.extend_from_slice(slice);
                }
            }
            start += run.length;
        }
        bytes
    }

    /// The end of what is kept of both streams, in the order of arrival, made presentable: `hide` takes out what nobody may
    /// see. It begins with a whole line if anything is missing before it, for half a secret is not recognised any more;
    /// that is cut off last, so that it makes no halves itself.
    pub fn end(&self, most: usize, hide: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
        /// No line that matters is longer, and no secret.
        const LONGEST: usize = 16 << 10;
        let from = self.kept.saturating_sub(most);
        let bytes: Vec<u8> = self.slices(from..self.kept).flatten().copied().collect();
        let mut bytes = hide(bytes);
        if from > 0 || self.truncated() {
            let line_end = memchr(b'\n', &bytes[..bytes.len().min(LONGEST)]);
            let begin = line_end.map_or(bytes.len().min(LONGEST), |at| at + 1);
            bytes.drain(..begin);
        }
        bytes
    }

    /// The end of what is kept of one stream, as text.
    pub fn end_of(&self, stream: Stream, most: usize) -> String {
        let mut skip = self.length(stream).saturating_sub(most);
        let mut bytes = Vec::new();
        let mut start = 0;
        for run in &self.runs {
            if run.stream == stream {
                let skipped = skip.min(run.length);
                skip -= skipped;
                for slice in self.slices(start + skipped..start + run.length) {
                    bytes.extend_from_slice(slice);
                }
            }
            start += run.length;
        }
        String::from_utf8_lossy(&plain_text(&bytes)).into_owned()
    }

    fn length(&self, stream: Stream) -> usize {
        self.runs
            .iter()
            .filter(|run| run.stream == stream)
            .map(|run| run.length)
            .sum()
    }

    /// The last lines of both streams together, without escape sequences, at most `most` of them and not over 4 KiB.
    pub fn last_lines(&self, most: usize) -> Vec<String> {
        const MOST_BYTES: usize = 4096;
        let mut window = Vec::new();
        let mut skip = self.kept.saturating_sub(MOST_BYTES);
        let mut start = 0;
        let mut last_stream = None;
        for run in &self.runs {
            let skipped = skip.min(run.length);
            skip -= skipped;
            if skipped < run.length {
                // A line of one stream must not continue one of the other.
                if last_stream.is_some_and(|last| last != run.stream)
                    && window.last().is_some_and(|byte| *byte != b'\n')
                {
                    window.push(b'\n');
                }
                for slice in self.slices(start + skipped..start + run.length) {
                    window.extend_from_slice(slice);
                }
                last_stream = Some(run.stream);
            }
            start += run.length;
        }
        if self.truncated() || self.kept > MOST_BYTES {
            // Half a word may be half a secret, which nobody would recognise.
            let whole = window.iter().position(u8::is_ascii_whitespace);
            window.drain(..whole.unwrap_or(window.len()));
        }
        let text = plain_text(&window);
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text
            .split(['\n', '\r'])
            .filter(|line| !line.trim().is_empty())
            .collect();
        lines[lines.len().saturating_sub(most)..]
            .iter()
            .map(|line| line.trim_end().to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_streams_stay_apart_and_in_order() {
        let mut tail = Tail::new(100);
        tail.push(Stream::Stdout, b"one ");
        tail.push(Stream::Stderr, b"oops\n");
        tail.push(Stream::Stdout, b"two\n");
        assert_eq!(tail.stream(Stream::Stdout), b"one two\n");
        assert_eq!(tail.stream(Stream::Stderr), b"oops\n");
        assert_eq!(tail.last_lines(9), ["one", "oops", "two"]);
        assert_eq!(tail.last_lines(1), ["two"]);
        assert!(!tail.truncated());
    }

    #[test]
    fn alternating_bytes_cannot_blow_up_the_bookkeeping() {
        let mut tail = Tail::new(10 << 20);
        for _ in 0..2 * MOST_RUNS {
            tail.push(Stream::Stdout, b"o");
            tail.push(Stream::Stderr, b"e");
        }
        assert_eq!(tail.runs.len(), MOST_RUNS);
        assert_eq!(tail.kept(), MOST_RUNS);
        assert!(tail.truncated() && tail.is_cut(Stream::Stdout));
    }

    #[test]
    fn an_end_begins_with_a_whole_line() {
        let mut tail = Tail::new(20);
        tail.push(Stream::Stdout, b"one\n");
        tail.push(Stream::Stderr, b"two\n");
        assert_eq!(tail.end(100, |bytes| bytes), b"one\ntwo\n");
        assert_eq!(tail.end(6, |bytes| bytes), b"two\n");
        assert_eq!(tail.end_of(Stream::Stdout, 2), "e\n");
        tail.push(Stream::Stdout, b"a secret and more\nlast");
        assert!(tail.truncated());
        assert_eq!(tail.end(100, |bytes| bytes), b"last");
        tail.push(Stream::Stdout, &[b'x'; 20]);
        assert_eq!(tail.end(100, |bytes| bytes), b"");
    }

    #[test]
    fn no_end_begins_within_a_secret() {
        const SECRET: &str = "sk-ant-0123456789";
        let mut tail = Tail::new(1 << 20);
        let (before, after) = ("z".repeat((16 << 10) - 8), "q".repeat(20_000));
        let line = format!("{before}{SECRET}{after}");
        tail.push(Stream::Stdout, b"before ");
        tail.push(Stream::Stdout, line.as_bytes());
        let end = tail.end(line.len(), |bytes| {
            let text = String::from_utf8(bytes).unwrap();
            text.replace(SECRET, "***").into_bytes()
        });
        let end = String::from_utf8(end).unwrap();
        assert!(!end.contains("789"), "half a secret");
    }

    #[test]
    fn blocks_are_given_back() {
        let mut tail = Tail::new(BLOCK + 10);
        for number in 0..100_u8 {
            tail.push(Stream::Stdout, &vec![number; BLOCK - 7]);
            assert!(tail.blocks.len() <= 3);
        }
        let kept = tail.stream(Stream::Stdout);
        assert_eq!(kept.len(), BLOCK + 10);
        assert_eq!((kept[0], kept[16], kept[17]), (98, 98, 99));
    }

    #[test]
    fn last_lines_are_bounded_and_harmless() {
        let mut tail = Tail::new(1 << 20);
        tail.push(Stream::Stdout, &[b'x'; 100_000]);
        tail.push(Stream::Stderr, b"\x1b[31mred\x1b[0m\x07\0 \xff\n\n\n");
        let lines = tail.last_lines(5);
        assert_eq!(lines.last().map(String::as_str), Some("red \u{fffd}"));
        assert!(lines.iter().map(String::len).sum::<usize>() <= 4100);
    }

    proptest! {
        #[test]
        fn keeps_exactly_the_end(
            limit in 1_usize..64,
            chunks in prop::collection::vec(
                (any::<bool>(), prop::collection::vec(any::<u8>(), 0..48)), 0..40),
        ) {
            let mut tail = Tail::new(limit);
            let mut all = Vec::new();
            for (is_err, chunk) in &chunks {
                let stream = if *is_err { Stream::Stderr } else { Stream::Stdout };
                tail.push(stream, chunk);
                all.extend(chunk.iter().map(|byte| (stream, *byte)));
                prop_assert!(tail.kept() <= limit);
            }
            let kept = &all[all.len().saturating_sub(limit)..];
            for stream in [Stream::Stdout, Stream::Stderr] {
                let of = |bytes: &[(Stream, u8)]| -> Vec<u8> {
                    bytes.iter().filter(|(s, _)| *s == stream).map(|(_, b)| *b).collect()
                };
                prop_assert_eq!(tail.stream(stream), of(kept));
                prop_assert_eq!(tail.is_cut(stream), of(&all).len() > of(kept).len());
            }
            prop_assert_eq!(tail.total(), all.len() as u64);
            prop_assert_eq!(tail.truncated(), all.len() > limit);
        }
    }
}
