//! What is told of an agent while it runs.

use crate::agent::{Note, PhaseWatch, Rendition};
use crate::config::Phase;
use crate::event::{Moment, What};
use crate::iteration::{Stream, Tail};

/// How much of what people were shown is kept for the end.
const LAST_WORDS: usize = 4096;

/// Tells what an agent says and does while it runs.
pub(super) struct Listener {
    iteration: u32,
    rendition: Rendition,
    watch: PhaseWatch,
    pub(super) phase: Option<Phase>,
    pub(super) tool: Option<String>,
    pub(super) last_words: Tail,
}

impl Listener {
    pub(super) fn new(iteration: u32) -> Self {
        Listener {
            iteration,
            rendition: Rendition::default(),
            watch: PhaseWatch::default(),
            phase: None,
            tool: None,
            last_words: Tail::new(LAST_WORDS),
        }
    }

    pub(super) fn hear(&mut self, note: &Note, at: Moment, tell: &mut impl FnMut(Moment, What)) {
        let iteration = self.iteration;
        let text = &*self.rendition.show(note);
        if !text.is_empty() {
            if let Some(announced) = self.watch.feed(text)
                && self.phase.replace(announced) != Some(announced)
            {
                let phase = announced;
                tell(at, What::PhaseAnnounced { iteration, phase });
            }
            let end = text.len().saturating_sub(LAST_WORDS);
            self.last_words.push(Stream::Stdout, &text[end..]);
            tell(at, What::Shown { text });
        }
        if let Note::Tool { name, about } = note {
            self.tool = Some((*name).to_owned());
            let what = What::ToolUsed {
                iteration,
                name,
                about,
            };
            tell(at, what);
        }
    }
}
