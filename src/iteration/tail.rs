//! The end of an agent's output: both streams in the order of arrival, still told apart, never over the limit.

use std::collections::VecDeque;

use super::plain::plain_text;

/// Where a piece of output was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// How often the streams may alternate in what is kept. It bounds the bookkeeping of output that changes stream with
/// every byte; nothing else comes near it.
const MOST_RUNS: usize = 1 << 18;

/// A buffer of the last bytes.
#[derive(Debug)]
pub struct Tail {
    limit: usize,
    bytes: VecDeque<u8>,
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
            bytes: VecDeque::new(),
            runs: VecDeque::new(),
            total: 0,
            cut: [false; 2],
        }
    }

    pub fn push(&mut self, stream: Stream, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let kept = &chunk[chunk.len().saturating_sub(self.limit)..];
        self.drop_oldest((self.bytes.len() + kept.len()).saturating_sub(self.limit));
        if kept.len() < chunk.len() {
            self.cut[stream as usize] = true;
        }
        if kept.is_empty() {
            return;
        }
        self.grow(kept.len());
        self.bytes.extend(kept);
        match self.runs.back_mut() {
            Some(last) if last.stream == stream => last.length += kept.len(),
            _ => {
                if self.runs.len() == MOST_RUNS {
                    self.drop_oldest(self.runs.front().map_or(0, |run| run.length));
                }
                self.runs.push_back(Run {
                    stream,
                    length: kept.len(),
                });
            }
        }
    }

    fn drop_oldest(&mut self, mut count: usize) {
        self.bytes.drain(..count);
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

    /// Grows by doubling, but never past the limit: a `VecDeque` left to itself would take up to twice as much.
    fn grow(&mut self, more: usize) {
        let needed = self.bytes.len() + more;
        if needed > self.bytes.capacity() {
            let capacity = (self.bytes.capacity() * 2).clamp(needed, self.limit.max(needed));
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    pub fn kept(&self) -> usize {
        self.bytes.len()
    }

    /// All that was ever pushed.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn truncated(&self) -> bool {
        self.total > self.bytes.len() as u64
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
                let range = start..start + run.length;
                let (front, back) = self.bytes.as_slices();
                let front_part = range.start.min(front.len())..range.end.min(front.len());
                let back_part =
                    range.start.saturating_sub(front.len())..range.end.saturating_sub(front.len());
                bytes.extend_from_slice(&front[front_part]);
                bytes.extend_from_slice(&back[back_part]);
            }
            start += run.length;
        }
        bytes
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
        let mut skip = self.bytes.len().saturating_sub(MOST_BYTES);
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
                let range = start + skipped..start + run.length;
                window.extend(self.bytes.range(range));
                last_stream = Some(run.stream);
            }
            start += run.length;
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
                prop_assert!(tail.bytes.capacity() <= limit.max(64));
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
