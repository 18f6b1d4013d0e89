//! What is told of an agent while it runs.

use crate::agent::{Note, PhaseWatch, Rendition};
use crate::config::Phase;
use crate::event::{Moment, What};
use crate::iteration::{Stream, Tail};

/// How many uses of tools are told one by one; how many there were is told at the end.
const MOST_TOOLS: usize = 1_000;

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
    tools: usize,
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
            tools: 0,
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
            // One byte more than is kept, so that what is cut off is known to be.
            let end = text.len().saturating_sub(LAST_WORDS + 1);
            self.last_words.push(Stream::Stdout, &text[end..]);
            tell(at, What::Shown { text });
        }
        if let Note::Tool { name, about } = note {
            self.tool = Some((*name).to_owned());
            self.tools += 1;
            if self.tools > MOST_TOOLS {
                return;
            }
            let what = What::ToolUsed {
                iteration,
                name,
                about,
            };
            tell(at, what);
        }
    }
}
