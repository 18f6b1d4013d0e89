//! What an agent said and did in one iteration, as its own events tell it.

use crate::config::Format;

use super::trouble::Trouble;

/// What was understood of an agent's output when it has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// How the output was read in the end. `Format::Text`: it was no stream of events, and what the assistant said is not
    /// known apart from the rest. Never `Format::Auto`.
    pub format: Format,
    /// The format that was expected but did not come.
    pub missed: Option<Format>,
    /// The assistant's words, in order, a message on lines of its own. Not what tools read or print, not the user's turn,
    /// not the words of subagents, not the CLI's own errors. Only the end is kept if they are too many.
    pub words: String,
    /// Whether the beginning of the words is missing.
    pub words_are_cut: bool,
    /// The assistant's last message.
    pub final_message: String,
    pub usage: Usage,
    pub tools: Tools,
    pub session: Option<String>,
    /// The CLI's version, if it says so.
    pub version: Option<String>,
    pub model: Option<String>,
    /// Whether the stream came to its own end. A stream that did not was cut.
    pub has_ended: bool,
    /// The error that the agent ended with. What it got over by itself is none.
    pub trouble: Option<Trouble>,
}

impl Transcript {
    /// One of which nothing is known yet.
    pub fn new(format: Format) -> Self {
        Transcript {
            format,
            missed: None,
            words: String::new(),
            words_are_cut: false,
            final_message: String::new(),
            usage: Usage::default(),
            tools: Tools::default(),
            session: None,
            version: None,
            model: None,
            has_ended: false,
            trouble: None,
        }
    }
}

/// What an iteration used up, as far as the CLI tells.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// All tokens that the model read, what came from a cache included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Whether the CLI told of tokens at all.
    pub has_tokens: bool,
    pub cost_usd: Option<f64>,
    pub turns: Option<u32>,
    pub context: Option<Context>,
}

impl Usage {
    /// How full the model's window is.
    pub fn context_percent(&self) -> Option<u32> {
        let context = self.context?;
        let window = context.window.filter(|window| *window > 0)?;
        let percent = context.used.saturating_mul(100) / window;
        u32::try_from(percent).ok()
    }
}

/// How full the model's window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    pub used: u64,
    /// How much it holds, if the CLI tells.
    pub window: Option<u64>,
}

/// What the agent used tools for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tools {
    /// How many uses began.
    pub used: u32,
    /// How many ended well: neither refused nor with an error.
    pub done: u32,
    /// How many the CLI refused because nobody had allowed them.
    pub denied: u32,
    /// What was refused first: the tool and one line about it.
    pub first_denied: Option<String>,
}

/// What is heard of an agent while it runs, in the order in which it happens.
#[derive(Debug, PartialEq)]
pub enum Note<'a> {
    /// Output that is no event: that of a plain-text agent, and what stands beside a stream of events.
    Text(&'a [u8]),
    /// Words of the assistant: a whole message, or the next piece of one.
    Words { text: &'a str, begins: bool },
    /// The assistant uses a tool. `about` is one line: the command, the file.
    Tool { name: &'a str, about: &'a str },
    /// The CLI has a problem with its provider and tries again by itself.
    Retry { message: &'a str },
    /// What the iteration has used up so far.
    Usage(Usage),
}
