//! The raw outputs that are kept in the run directory: not more than so many, and not larger than so much together.

use std::collections::VecDeque;
use std::io;

use crate::host::RunDir;
use crate::iteration::Tail;
use crate::redact::Secrets;

/// How much is kept of what agents print: of one, of all, and of how many.
const MOST_OF_ONE: usize = 10 << 20;
const MOST_BYTES: usize = 100 << 20;
const MOST_FILES: usize = 1_000;

#[derive(Debug)]
pub(super) struct Shelf {
    most_bytes: usize,
    most_files: usize,
    /// The oldest first, each with its size.
    files: VecDeque<(String, usize)>,
    bytes: usize,
}

impl Default for Shelf {
    fn default() -> Self {
        Shelf {
            most_bytes: MOST_BYTES,
            most_files: MOST_FILES,
            files: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl Shelf {
    /// Keeps what an agent printed, for whoever wants to know exactly. The oldest goes when it becomes too much.
    pub(super) fn keep(
        &mut self,
        run_dir: &mut RunDir,
        secrets: &Secrets,
        (iteration, attempt): (u32, u32),
        output: &Tail,
    ) -> io::Result<()> {
        let name = match attempt {
            1 => format!("iteration-{iteration}.log"),
            attempt => format!("iteration-{iteration}-{attempt}.log"),
        };
        let bytes = output.end(MOST_OF_ONE, |bytes| {
            let mut hidden = secrets.stream();
            let mut shown = hidden.feed(&bytes).into_owned();
            shown.extend(hidden.finish());
            shown
        });
        run_dir.write(&name, &bytes)?;
        for name in self.put(name, bytes.len()) {
            run_dir.remove(&name).ok();
        }
        Ok(())
    }

    /// A file was written. Answers with those that have to go for it, the oldest first.
    fn put(&mut self, name: String, length: usize) -> Vec<String> {
        self.files.push_back((name, length));
        self.bytes += length;
        let mut gone = Vec::new();
        while self.bytes > self.most_bytes || self.files.len() > self.most_files {
            let Some((name, length)) = self.files.pop_front() else {
                break;
            };
            self.bytes -= length;
            gone.push(name);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_are_too_many_or_they_are_too_large() {
        let mut shelf = Shelf {
            most_bytes: 100,
            most_files: 3,
            ..Shelf::default()
        };
        for (name, length, gone) in [
            ("1", 10, &[][..]),
            ("2", 40, &[]),
            ("3", 50, &[]),
            ("4", 0, &["1"]),
            ("5", 11, &["2"]),
            ("6", 100, &["3", "4", "5"]),
            // Nothing can be kept of what is too large alone.
            ("7", 101, &["6", "7"]),
            ("8", 1, &[]),
        ] {
            assert_eq!(shelf.put(name.to_owned(), length), gone, "{name}");
        }
        assert_eq!(shelf.bytes, 1);
    }
}
