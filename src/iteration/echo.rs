//! Whether a tag in the output merely repeats one of the prompt.
//!
//! Agents echo their prompt in many ways: as it is, quoted, with something in front of each line, with the lines broken
//! anew, as a JSON string. What stays is what stands around the tag: the nearest lines, or the nearest characters.

use memchr::memmem::Finder;

/// How far around a tag one looks. Far enough for any prompt, and bounded, so that hostile output cannot make this slow.
const FAR: usize = 4096;

/// How much of a line is compared. Lines may be longer than what one looks at.
const NEAR: usize = 256;

/// How many characters on each side make an echo, whatever the line breaks.
const CHARACTERS: usize = 24;

/// What may stand in front of each line of an echo, and how many lines in a row may hold nothing else.
const PREFIX: usize = 64;
const MOST_PREFIXES: usize = 16;

/// The text around a tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) above: &'a [u8],
    pub(super) below: &'a [u8],
    /// Whether the text begins with `above`, and something that stood before it is missing.
    begins_cut: bool,
}

impl<'a> Around<'a> {
    /// `cut`: the beginning of the text is missing.
    pub(super) fn new(text: &'a [u8], tag_start: usize, tag_end: usize, cut: bool) -> Self {
        Around {
            above: &text[tag_start.saturating_sub(FAR)..tag_start],
            below: &text[tag_end..text.len().min(tag_end + FAR)],
            begins_cut: cut && tag_start <= FAR,
        }
    }

    /// The lines above that say anything, from the nearest on.
    fn lines_above(self) -> impl Iterator<Item = String> + 'a {
        let lines = self.above.rsplit(is_line_end).skip(1).map(bare);
        lines.filter(|line| !line.is_empty())
    }

    fn lines_below(self) -> impl Iterator<Item = String> + 'a {
        let lines = self.below.split(is_line_end).skip(1).map(bare);
        lines.filter(|line| !line.is_empty())
    }

    fn characters_before(self) -> String {
        let near = self.above.len().saturating_sub(NEAR);
        last_characters(&bare(&self.above[near..]), CHARACTERS).to_owned()
    }

    fn characters_after(self) -> String {
        let near = self.below.len().min(NEAR);
        bare(&self.below[..near]).chars().take(CHARACTERS).collect()
    }
}

/// The places of a tag in the prompt.
#[derive(Debug)]
pub(super) struct Echoes(Vec<Original>);

impl Echoes {
    pub(super) fn of(finder: &Finder, prompt: &[u8]) -> Self {
        let originals = finder.find_iter(prompt).map(|start| {
            let end = start + finder.needle().len();
            Original::new(Around::new(prompt, start, end, false))
        });
        Echoes(originals.collect())
    }

    /// Whether a tag with these surroundings repeats one of the prompt.
    pub(super) fn include(&self, around: Around) -> bool {
        self.0
            .iter()
            .any(|original| original.has_lines_of(around) || original.has_characters_of(around))
    }
}

/// What stands around a tag in the prompt. Where the prompt begins or ends, an echo may have anything.
#[derive(Debug)]
struct Original {
    /// The end of the line above.
    line_above: Option<String>,
    /// The line below, and whether that is the whole of it.
    line_below: Option<(String, bool)>,
    characters_before: String,
    characters_after: String,
}

impl Original {
    fn new(around: Around) -> Self {
        let line_above = around.lines_above().next();
        let line_below = around.lines_below().next();
        Original {
            line_above: line_above.map(|line| last_characters(&line, NEAR).to_owned()),
            line_below: line_below.map(|line| match line.char_indices().nth(NEAR) {
                None => (line, true),
                Some((end, _)) => (line[..end].to_owned(), false),
            }),
            characters_before: around.characters_before(),
            characters_after: around.characters_after(),
        }
    }

    fn has_lines_of(&self, around: Around) -> bool {
        let above = match &self.line_above {
            None => true,
            Some(line) => {
                is_neighbour(around.lines_above(), |own| own.ends_with(line))
                    || is_cut_from(around, line)
            }
        };
        let below = match &self.line_below {
            None => true,
            Some((line, true)) => is_neighbour(around.lines_below(), |own| own.ends_with(line)),
            Some((line, false)) => is_neighbour(around.lines_below(), |own| own.contains(line)),
        };
        let comparable = self.line_above.is_some() || self.line_below.is_some();
        comparable && above && below
    }

    fn has_characters_of(&self, around: Around) -> bool {
        let before = around.characters_before();
        let is_before = before.ends_with(&self.characters_before)
            || around.begins_cut && self.characters_before.ends_with(&before);
        let comparable = !self.characters_before.is_empty() || !self.characters_after.is_empty();
        comparable
            && is_before
            && around
                .characters_after()
                .starts_with(&self.characters_after)
    }
}

/// Whether the nearest line is the wanted one. Something may stand in front of each line of an echo, a number, a name or a
/// time; then it stands alone on lines that are blank in the prompt.
fn is_neighbour(lines: impl Iterator<Item = String>, is_wanted: impl Fn(&str) -> bool) -> bool {
    let without_digits = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "");
    let mut passed = Vec::new();
    for line in lines.take(MOST_PREFIXES) {
        if is_wanted(&line) {
            // Of a long line the beginning may be out of sight. So much of it is no coincidence.
            let is_long = line.len() > NEAR;
            let line = without_digits(&line);
            return is_long
                || passed
                    .iter()
                    .all(|prefix: &String| line.starts_with(prefix));
        }
        if line.len() > PREFIX {
            return false;
        }
        passed.push(without_digits(&line));
    }
    false
}

/// Whether the text begins within this line above the tag: the buffer has lost the rest.
fn is_cut_from(around: Around, line: &str) -> bool {
    let mut above = around.lines_above();
    around.begins_cut
        && above.next().is_none_or(|rest| line.ends_with(&rest))
        && above.next().is_none()
}

pub(super) fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn last_characters(text: &str, count: usize) -> &str {
    let from = text.char_indices().rev().take(count).last();
    &text[from.map_or(0, |(at, _)| at)..]
}

/// A text without white space, also in its escaped form, and without the marks that are put around quoted text.
fn bare(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut bare = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' => {
                characters.next_if(|next| matches!(next, 'n' | 'r' | 't'));
            }
            '>' | '|' | '│' | '┃' | '"' | '\'' | '`' | '“' | '”' | '‘' | '’' | '«' | '»' =>
                {}
            c if c.is_whitespace() => {}
            c => bare.push(c),
        }
    }
    bare
}
