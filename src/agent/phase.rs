//! Finds the lines `Phase: OBSERVE`, `ORIENT`, `DECIDE` and `ACT` in an agent's output while it arrives.

use memchr::memmem::Finder;

use crate::config::{PHASES, Phase};

const MARK: &[u8] = b"Phase: ";
const LONGEST: usize = "Phase: OBSERVE".len();

/// How much of a chunk is looked at.
const MOST: usize = 16 << 10;

/// Fed with chunks as they come, cut anywhere. Announcements only steer the display, so nothing depends on them.
#[derive(Debug)]
pub struct PhaseWatch {
    finder: Finder<'static>,
    /// The end of the last chunk, as long as it could be the beginning of an announcement.
    carry: Vec<u8>,
}

impl Default for PhaseWatch {
    fn default() -> Self {
        PhaseWatch {
            finder: Finder::new(MARK),
            carry: Vec::new(),
        }
    }
}

impl PhaseWatch {
    /// The last phase that is announced in this chunk, if any. Of a large chunk only the end is looked at: an agent that
    /// floods its output is not announcing anything, and looking at every byte would cost as much as reading it.
    pub fn feed(&mut self, chunk: &[u8]) -> Option<Phase> {
        let chunk = &chunk[chunk.len().saturating_sub(MOST)..];
        // Where two chunks meet.
        self.carry
            .extend_from_slice(&chunk[..chunk.len().min(LONGEST)]);
        let across = self.last_in(&self.carry);
        let within = self.last_in(chunk);
        self.carry
            .extend_from_slice(&chunk[chunk.len().min(LONGEST)..]);
        self.carry
            .drain(..self.carry.len().saturating_sub(LONGEST - 1));
        within.or(across)
    }

    fn last_in(&self, bytes: &[u8]) -> Option<Phase> {
        self.finder
            .find_iter(bytes)
            .filter_map(|at| {
                let word = &bytes[at + MARK.len()..];
                PHASES
                    .into_iter()
                    .find(|phase| word.starts_with(phase.heading().as_bytes()))
            })
            .last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_announcement_counts() {
        let mut watch = PhaseWatch::default();
        assert_eq!(
            watch.feed(b"Phase: OBSERVE\nreading\nPhase: ORIENT\n"),
            Some(Phase::Orient)
        );
        assert_eq!(watch.feed(b"nothing here"), None);
        assert_eq!(watch.feed(b"Phase: LUNCH\n"), None);
        let mut flood = vec![b'x'; 1 << 20];
        flood.extend_from_slice(b"Phase: ACT");
        assert_eq!(watch.feed(&flood), Some(Phase::Act));
    }

    proptest! {
        #[test]
        fn an_announcement_is_found_wherever_the_chunks_are_cut(
            before in "[ -~\n]{0,40}",
            after in "[ -~\n]{0,40}",
            size in 1_usize..20,
        ) {
            let text = format!("{before}Phase: DECIDE\n{after}");
            let mut watch = PhaseWatch::default();
            let mut seen = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                seen.extend(watch.feed(chunk));
            }
            prop_assert!(seen.contains(&Phase::Decide));
        }
    }
}
