//! A transcript in the making: what all dialects do with what they read.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::json::Json;
use super::transcript::{Note, Transcript, Usage};
use super::trouble::{Trouble, TroubleKind};
use crate::config::Format;
use crate::iteration::inert;

/// How many characters a tool use is told in.
const LINE: usize = 200;
/// How many of the CLI's own words about a problem are kept.
const MESSAGE: usize = 500;
/// How many bytes of the last message are kept.
const FINAL_MESSAGE: usize = 64 << 10;
/// How many names of messages and tool uses are remembered. Nothing but a count is wrong if there are more.
const MOST_NAMES: usize = 1 << 14;
/// How many tool uses are remembered with what they were about, in case they are refused.
const MOST_PENDING: usize = 32;

/// Whoever listens to an agent while it runs.
pub(super) type Hear<'a> = dyn FnMut(Note) + 'a;

#[derive(Debug)]
pub(super) struct Record {
    pub(super) transcript: Transcript,
    /// How many bytes of words are kept.
    limit: usize,
    /// Whether the last message may still go on.
    is_open: bool,
    tools: HashMap<u64, Use>,
    /// The tool uses that began last, each with one line.
    pending: VecDeque<(u64, String)>,
    told: Usage,
}

/// How far a tool use has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Begun,
    Done,
    Denied,
}

impl Record {
    pub(super) fn new(limit: usize) -> Self {
        Record {
            transcript: Transcript::new(Format::Text),
            limit,
            is_open: false,
            tools: HashMap::new(),
            pending: VecDeque::new(),
            told: Usage::default(),
        }
    }

    /// The assistant says something, as a message of its own.
    pub(super) fn says(&mut self, text: &str, hear: &mut Hear) {
        self.is_open = false;
        self.goes_on(text, hear);
        self.is_open = false;
    }

    /// The assistant says something that may be a piece of a message. A tag can be in two of them.
    pub(super) fn goes_on(&mut self, text: &str, hear: &mut Hear) {
        if text.is_empty() {
            return;
        }
        let begins = !self.is_open;
        let Transcript {
            words,
            final_message,
            ..
        } = &mut self.transcript;
        if begins {
            final_message.clear();
            if !words.is_empty() && !words.ends_with('\n') {
                words.push('\n');
            }
        }
        words.push_str(text);
        final_message.push_str(text);
        // Not at every piece: it moves what is kept.
        let is_time = |text: &str, most: usize| text.len() > most.saturating_mul(2).max(4096);
        if is_time(final_message, FINAL_MESSAGE) {
            keep_the_end(final_message, FINAL_MESSAGE);
        }
        if is_time(words, self.limit) {
            self.transcript.words_are_cut |= keep_the_end(words, self.limit);
        }
        self.is_open = true;
        hear(Note::Words { text, begins });
    }

    /// What the assistant says next is another message, also if it comes in pieces.
    pub(super) fn breaks_off(&mut self) {
        self.is_open = false;
    }

    /// The CLI's own word for what the last message is.
    pub(super) fn ends_with(&mut self, text: &str) {
        self.transcript.final_message.clear();
        self.transcript.final_message.push_str(text);
    }

    /// A tool use begins. Some CLIs tell that more than once.
    pub(super) fn uses(&mut self, id: &str, name: &str, about: &str, hear: &mut Hear) {
        let key = key(id);
        if !id.is_empty() && self.tools.contains_key(&key) {
            return;
        }
        self.breaks_off();
        self.remember(key, Use::Begun);
        self.transcript.tools.used = self.transcript.tools.used.saturating_add(1);
        let (name, about) = (one_line(name, LINE), one_line(about, LINE));
        if self.pending.len() >= MOST_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back((key, told(&name, &about)));
        hear(Note::Tool {
            name: &name,
            about: &about,
        });
    }

    /// A tool use ended well.
    pub(super) fn is_done(&mut self, id: &str) {
        let key = key(id);
        if self.tools.get(&key) == Some(&Use::Begun) {
            self.remember(key, Use::Done);
            self.transcript.tools.done = self.transcript.tools.done.saturating_add(1);
        }
    }

    /// A tool use was refused. `name` and `about` are for one that was not told before.
    pub(super) fn is_denied(&mut self, id: &str, name: &str, about: &str) {
        let key = key(id);
        if self.tools.get(&key) == Some(&Use::Denied) {
            return;
        }
        self.remember(key, Use::Denied);
        let tools = &mut self.transcript.tools;
        tools.denied = tools.denied.saturating_add(1);
        if tools.first_denied.is_none() {
            let known = self.pending.iter().find(|(pending, _)| *pending == key);
            tools.first_denied = Some(known.map_or_else(
                || told(&one_line(name, LINE), &one_line(about, LINE)),
                |(_, line)| line.clone(),
            ));
        }
    }

    fn remember(&mut self, key: u64, how: Use) {
        if self.tools.len() >= MOST_NAMES {
            self.tools.clear();
        }
        self.tools.insert(key, how);
    }

    /// Tells what was used up so far, if that is news. What was told once is not taken back: a budget may have ended the
    /// agent for it.
    pub(super) fn tells_usage(&mut self, hear: &mut Hear) {
        let usage = &mut self.transcript.usage;
        usage.input_tokens = usage.input_tokens.max(self.told.input_tokens);
        usage.output_tokens = usage.output_tokens.max(self.told.output_tokens);
        usage.cost_usd = match (usage.cost_usd, self.told.cost_usd) {
            (Some(now), Some(before)) => Some(now.max(before)),
            (now, before) => now.or(before),
        };
        if self.told != self.transcript.usage {
            self.told = self.transcript.usage;
            hear(Note::Usage(self.told));
        }
    }

    /// The transcript, when nothing more can come.
    pub(super) fn end(mut self) -> Transcript {
        let words = &mut self.transcript.words;
        self.transcript.words_are_cut |= keep_the_end(words, self.limit);
        let message = &mut self.transcript.final_message;
        if keep_the_end(message, FINAL_MESSAGE) {
            // Half a line may begin with half a secret, which nobody would recognise.
            let begin = message.find('\n').map_or(message.len(), |at| at + 1);
            message.drain(..begin);
        }
        self.transcript
    }
}

/// Counts each thing once that has a name, and the last figures that were told of it.
#[derive(Debug, Default)]
pub(super) struct Tally {
    sum: (u64, u64),
    of: HashMap<u64, (u64, u64)>,
}

impl Tally {
    /// The sum with these figures in it, in place of what was told of the same thing before.
    pub(super) fn with(&mut self, id: &str, figures: (u64, u64)) -> (u64, u64) {
        if self.of.len() >= MOST_NAMES {
            self.of.clear();
        }
        let before = self.of.insert(key(id), figures).unwrap_or_default();
        // Figures so large that they do not add up are nobody's, but must not matter.
        let replaced = |sum: u64, before, figure| sum.saturating_sub(before).saturating_add(figure);
        self.sum.0 = replaced(self.sum.0, before.0, figures.0);
        self.sum.1 = replaced(self.sum.1, before.1, figures.1);
        self.sum
    }
}

fn key(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

fn told(name: &str, about: &str) -> String {
    if about.is_empty() {
        name.to_owned()
    } else {
        format!("{name}: {about}")
    }
}

/// A problem, in the CLI's words.
pub(super) fn trouble(kind: TroubleKind, message: &str) -> Trouble {
    Trouble {
        kind,
        message: one_line(message, MESSAGE),
        resets_at: None,
        retry_after: None,
    }
}

/// A name that a CLI gives to something: a session, a model.
pub(super) fn name(json: &Json) -> Option<String> {
    let name = one_line(json.text()?, LINE);
    (!name.is_empty()).then_some(name)
}

/// What a tool is used for, of all that it is given: a command, a file.
pub(super) fn about<'j>(input: &'j Json) -> &'j str {
    const TELLING: [&str; 11] = [
        "command",
        "file_path",
        "filePath",
        "path",
        "absolute_path",
        "notebook_path",
        "pattern",
        "query",
        "url",
        "description",
        "prompt",
    ];
    let given = TELLING.iter().map(|key| input.word(key));
    let mut others = input.pairs().iter().filter_map(|(_, value)| value.text());
    given
        .into_iter()
        .find(|text| !text.is_empty())
        .or_else(|| others.next())
        .unwrap_or_default()
}

/// A text as one inert line of so many characters at most. A word that is too long for it is left out as a whole: half
/// of a secret would not be recognised as one.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    let mut left = most - 1;
    for word in text.split_whitespace() {
        let end = word
            .char_indices()
            .nth(most)
            .map_or(word.len(), |(at, _)| at);
        let inert = inert(&word[..end]);
        let length = inert.chars().count() + usize::from(!line.is_empty());
        if length > left {
            line.push('…');
            break;
        }
        left -= length;
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&inert);
    }
    line
}

/// Cuts off the beginning of a text that is too long. Answers whether it was.
fn keep_the_end(text: &mut String, most: usize) -> bool {
    if text.len() <= most {
        return false;
    }
    let mut start = text.len() - most;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.drain(..start);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_the_last_figures_of_each() {
        let mut tally = Tally::default();
        tally.with("a", (1, 2));
        tally.with("b", (10, 20));
        assert_eq!(tally.with("a", (3, 4)), (13, 24));
        let most = u64::MAX;
        assert_eq!(tally.with("c", (most, most)), (most, most));
        assert_eq!(tally.with("c", (0, 0)), (0, 0));
        assert_eq!(tally.with("b", (1, 1)), (1, 1));
    }

    #[test]
    fn a_line_is_cut_between_words() {
        for (text, line) in [
            (" one\n\ttwo ", "one two"),
            ("token sk-0123456789", "token…"),
            ("0123456789abcdef", "…"),
            ("\u{1b}[2Jabc", "…"),
            ("", ""),
        ] {
            assert_eq!(one_line(text, 10), line, "{text:?}");
        }
    }
}
