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
    above: &'a [u8],
    below: &'a [u8],
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

    /// What stands directly before and after.
    pub(super) fn near(self) -> (&'a [u8], &'a [u8]) {
        let from = self.above.len().saturating_sub(NEAR);
        (
            &self.above[from..],
            &self.below[..self.below.len().min(NEAR)],
        )
    }

    /// Whether the whole line of the tag is near: nobody knows what stands on a longer one.
    pub(super) fn shows_its_line(self) -> bool {
        let (above, below) = self.near();
        let ends = |side: &[u8]| side.len() < NEAR || side.iter().any(is_line_end);
        ends(above) && ends(below)
    }

    /// The same without what stands in front of each line, if all of them begin alike.
    fn near_without_prefix(self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (above, below) = self.near();
        let own = above.rsplit(is_line_end).next()?;
        let next = below.split(is_line_end).nth(1);
        let other = next.or_else(|| above.rsplit(is_line_end).nth(1))?;
        // Numbers differ from line to line, and so does the space that is left for them.
        let alike = |(a, b): &(&u8, &u8)| {
            let blank = |byte: u8| byte == b' ' || byte.is_ascii_digit();
            a == b || blank(**a) && blank(**b)
        };
        let length = own.iter().zip(other).take_while(alike).count();
        if !(2..=PREFIX).contains(&length) {
            return None;
        }
        let strip = |text: &[u8], skip_first: bool| -> Vec<u8> {
            let mut stripped = Vec::with_capacity(text.len());
            for (index, line) in text.split(is_line_end).enumerate() {
                let from = if index == 0 && skip_first { 0 } else { length };
                stripped.extend_from_slice(line.get(from..).unwrap_or_default());
            }
            stripped
        };
        // The first line above may begin anywhere, and the first one below is the rest of the tag's own.
        Some((strip(above, true), strip(below, true)))
    }
}

/// The places of a tag in the prompt.
#[derive(Debug)]
pub(super) struct Echoes(Vec<Surroundings>);

impl Echoes {
    pub(super) fn of(finder: &Finder, prompt: &[u8]) -> Self {
        let originals = finder.find_iter(prompt).map(|start| {
            let end = start + finder.needle().len();
            Surroundings::new(Around::new(prompt, start, end, false))
        });
        Echoes(originals.collect())
    }

    /// Whether a tag with these surroundings repeats one of the prompt.
    pub(super) fn include(&self, around: Around) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let own = Surroundings::new(around);
        self.0
            .iter()
            .any(|original| own.has_lines_of(original) || own.has_characters_of(original))
    }
}

/// What stands around a tag, without white space and quote marks.
#[derive(Debug)]
struct Surroundings {
    /// The lines that say anything, from the nearest on.
    lines_above: Vec<String>,
    lines_below: Vec<String>,
    /// The nearest characters before and after; twice, if something stands in front of each line.
    characters: Vec<(String, String)>,
    begins_cut: bool,
}

impl Surroundings {
    fn new(around: Around) -> Self {
        let said = |line: &String| !line.is_empty();
        let lines_above = around.above.rsplit(is_line_end).skip(1).map(bare);
        let lines_below = around.below.split(is_line_end).skip(1).map(bare);
        let (above, below) = around.near();
        let stripped = around.near_without_prefix();
        let characters = [(above, below)]
            .into_iter()
            .chain(
                stripped
                    .iter()
                    .map(|(above, below)| (&above[..], &below[..])),
            )
            .map(|(above, below)| {
                let before = last_characters(&bare(above), CHARACTERS).to_owned();
                (before, bare(below).chars().take(CHARACTERS).collect())
            });
        Surroundings {
            lines_above: lines_above.filter(said).take(MOST_PREFIXES).collect(),
            lines_below: lines_below.filter(said).take(MOST_PREFIXES).collect(),
            characters: characters.collect(),
            begins_cut: around.begins_cut,
        }
    }

    /// Where the prompt begins or ends, an echo may have anything.
    fn has_lines_of(&self, original: &Surroundings) -> bool {
        let above = original
            .lines_above
            .first()
            .map(|line| last_characters(line, NEAR));
        let below = original.lines_below.first();
        let is_above = above.is_none_or(|line| {
            is_neighbour(&self.lines_above, |own| own.ends_with(line)) || self.is_cut_from(line)
        });
        let is_below = below.is_none_or(|line| match line.char_indices().nth(NEAR) {
            None => is_neighbour(&self.lines_below, |own| own.ends_with(line)),
            Some((end, _)) => is_neighbour(&self.lines_below, |own| own.contains(&line[..end])),
        });
        (above.is_some() || below.is_some()) && is_above && is_below
    }

    fn has_characters_of(&self, original: &Surroundings) -> bool {
        let Some((wanted_before, wanted_after)) = original.characters.first() else {
            return false;
        };
        let comparable = !wanted_before.is_empty() || !wanted_after.is_empty();
        comparable
            && self.characters.iter().any(|(before, after)| {
                let is_before = before.ends_with(wanted_before)
                    || self.begins_cut && wanted_before.ends_with(before);
                is_before && after.starts_with(wanted_after)
            })
    }

    /// Whether the text begins within this line above the tag: the buffer has lost the rest.
    fn is_cut_from(&self, line: &str) -> bool {
        self.begins_cut
            && self.lines_above.len() <= 1
            && self.lines_above.iter().all(|rest| line.ends_with(rest))
    }
}

/// Whether the nearest line is the wanted one. Something may stand in front of each line of an echo, a number, a name or a
/// time; then it stands alone on lines that are blank in the prompt.
fn is_neighbour(lines: &[String], is_wanted: impl Fn(&str) -> bool) -> bool {
    let without_digits = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "");
    let mut passed = Vec::new();
    for line in lines {
        if is_wanted(line) {
            // Of a long line the beginning may be out of sight. So much of it is no coincidence.
            let is_long = line.len() > NEAR;
            let line = without_digits(line);
            return is_long
                || passed
                    .iter()
                    .all(|prefix: &String| line.starts_with(prefix));
        }
        if line.len() > PREFIX {
            return false;
        }
        passed.push(without_digits(line));
    }
    false
}

pub(super) fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn last_characters(text: &str, count: usize) -> &str {
    let from = text.char_indices().rev().take(count).last();
    &text[from.map_or(0, |(at, _)| at)..]
}

/// A text without white space, without the marks that are put around quoted text, and without Markdown's. What a JSON
/// string escapes is read.
fn bare(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut bare = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.clone().next() {
                Some('n' | 'r' | 't') => drop(rest.next()),
                Some('u') => {
                    let digits: String = rest.clone().skip(1).take(4).collect();
                    if let Some(c) = u32::from_str_radix(&digits, 16)
                        .ok()
                        .and_then(char::from_u32)
                    {
                        rest.nth(4);
                        bare.push(c);
                    }
                }
                _ => {}
            },
            '>' | '|' | '│' | '┃' | '"' | '\'' | '`' | '“' | '”' | '‘' | '’' | '«' | '»' =>
                {}
            '*' | '_' | '#' | ',' | '\0' => {}
            c if c.is_whitespace() => {}
            c => bare.push(c),
        }
    }
    bare
}
