//! Finds the agent's promise in plain text, and is not fooled by an echo of the prompt or by a quotation.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;
use memchr::memmem::Finder;

use super::plain::plain_text;
use super::tail::{Stream, Tail};
use crate::config::PromiseMatch;

/// The word that means failure, whatever the completion promise is.
pub const FAILURE: &str = "FAILURE";

/// What an agent promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promised {
    Nothing,
    Success,
    Failure,
}

impl Promised {
    pub fn word(self) -> &'static str {
        match self {
            Promised::Nothing => "nothing",
            Promised::Success => "success",
            Promised::Failure => "failure",
        }
    }
}

/// What counts as a promise.
#[derive(Debug, Clone, Copy)]
pub struct Rule<'a> {
    /// The word that means success.
    pub promise: &'a str,
    pub matching: PromiseMatch,
    /// What the agent was sent: a tag that merely repeats it is no promise.
    pub prompt: &'a str,
}

/// Scans what was kept of both streams, each on its own. FAILURE beats SUCCESS.
pub fn scan(output: &Tail, rule: Rule) -> Promised {
    let failure = Tag::new(FAILURE, rule);
    let success = Tag::new(rule.promise, rule);
    let mut promised = Promised::Nothing;
    for stream in [Stream::Stdout, Stream::Stderr] {
        let bytes = output.stream(stream);
        let text = without_escapes(&bytes);
        let cut = output.is_cut(stream);
        if failure.is_promised(&text, cut) {
            return Promised::Failure;
        }
        if promised == Promised::Nothing && success.is_promised(&text, cut) {
            promised = Promised::Success;
        }
    }
    promised
}

/// How far around a tag one looks. Far enough for any prompt, and bounded, so that hostile output cannot make this slow.
const FAR: usize = 4096;
const NEAR: usize = 256;

/// How many characters on each side must be those of the prompt to make an echo of a tag.
const CHARACTERS: usize = 24;

struct Tag<'a> {
    finder: Finder<'a>,
    matching: PromiseMatch,
    /// Where the prompt itself has the tag.
    in_prompt: Vec<Neighbours>,
}

impl Tag<'_> {
    fn new(word: &str, rule: Rule) -> Tag<'static> {
        let finder = Finder::new(&format!("<promise>{word}</promise>")).into_owned();
        let prompt = without_escapes(rule.prompt.as_bytes());
        let in_prompt = occurrences(&finder, &prompt, false)
            .map(|occurrence| occurrence.neighbours())
            .collect();
        Tag {
            finder,
            matching: rule.matching,
            in_prompt,
        }
    }

    fn is_promised(&self, text: &[u8], cut: bool) -> bool {
        occurrences(&self.finder, text, cut).any(|occurrence| {
            occurrence.counts(self.matching)
                && !self
                    .in_prompt
                    .iter()
                    .any(|prompt| occurrence.echoes(prompt))
        })
    }
}

fn occurrences<'a>(
    finder: &'a Finder,
    text: &'a [u8],
    cut: bool,
) -> impl Iterator<Item = Occurrence<'a>> {
    finder.find_iter(text).map(move |at| Occurrence {
        text,
        tag: at..at + finder.needle().len(),
        cut,
    })
}

/// What stands around a tag: the nearest lines, and the nearest characters whatever the line breaks.
#[derive(Debug)]
struct Neighbours {
    lines: Sides,
    characters: Sides,
}

/// `None`: the text begins or ends there.
#[derive(Debug)]
struct Sides {
    before: Option<String>,
    after: Option<String>,
}

impl Sides {
    /// Whether these are the sides of an occurrence in the prompt. `cut`: what stood before may be missing.
    fn are_those_of(&self, prompt: &Sides, cut: bool) -> bool {
        // Something may stand in front of each line of an echo: a number, a name, a time. Where the prompt begins or
        // ends, anything may.
        let before = match (&self.before, &prompt.before) {
            (Some(own), Some(prompt)) => {
                own.ends_with(prompt.as_str()) || cut && prompt.ends_with(own)
            }
            (None, Some(_)) => cut,
            (_, None) => true,
        };
        let after = match (&self.after, &prompt.after) {
            (Some(own), Some(prompt)) => own.ends_with(prompt.as_str()) || own.starts_with(prompt),
            (None, Some(_)) => false,
            (_, None) => true,
        };
        before && after && (prompt.before.is_some() || prompt.after.is_some())
    }
}

/// A tag in a text.
struct Occurrence<'a> {
    text: &'a [u8],
    tag: Range<usize>,
    /// Whether the beginning of the text is missing.
    cut: bool,
}

impl Occurrence<'_> {
    fn counts(&self, matching: PromiseMatch) -> bool {
        match matching {
            PromiseMatch::Anywhere => !self.is_quoted(),
            PromiseMatch::OwnLine => self.is_alone(),
        }
    }

    /// What stands before and after the tag, as far as it matters.
    fn around(&self) -> (&[u8], &[u8]) {
        (
            &self.text[self.tag.start.saturating_sub(FAR)..self.tag.start],
            &self.text[self.tag.end..self.text.len().min(self.tag.end + FAR)],
        )
    }

    /// The rest of the line before and after the tag.
    fn line(&self) -> (Cow<'_, str>, Cow<'_, str>) {
        let (above, below) = self.around();
        let before = above.rsplit(is_line_end).next().unwrap_or_default();
        let after = below.split(is_line_end).next().unwrap_or_default();
        (
            String::from_utf8_lossy(before),
            String::from_utf8_lossy(after),
        )
    }

    /// Whether the tag stands in a code span in the middle of a sentence: ``print `<promise>…</promise>` at the end``.
    /// A code span that is a sentence of its own is a promise in fancy dress.
    fn is_quoted(&self) -> bool {
        let (before, after) = self.line();
        if !before.ends_with('`') || !after.starts_with('`') {
            return false;
        }
        let before = before
            .trim_end_matches('`')
            .trim_end_matches([' ', '\t', '*', '_']);
        let after = after.trim_start_matches('`');
        let begins = before.is_empty()
            || before.ends_with(['.', '!', '?', ':', ';', '—'])
            || is_list_mark(before);
        let ends = !after.chars().any(char::is_alphanumeric);
        !(begins && ends)
    }

    /// Whether nothing but list marks and bold stands on the line.
    fn is_alone(&self) -> bool {
        let (before, after) = self.line();
        let emphasis: &[char] = &[' ', '\t', '*', '_'];
        is_list_mark(before.trim_end_matches(emphasis))
            && after.trim_start_matches(emphasis).is_empty()
    }

    /// Whether the surroundings are those of a tag in the prompt: the same lines, or the same characters in lines that
    /// were broken anew.
    fn echoes(&self, prompt: &Neighbours) -> bool {
        let own = self.neighbours();
        own.lines.are_those_of(&prompt.lines, self.cut)
            || own.characters.are_those_of(&prompt.characters, self.cut)
    }

    /// White space and quote marks do not count.
    fn neighbours(&self) -> Neighbours {
        let (above, below) = self.around();
        let near_above = &above[above.len().saturating_sub(NEAR)..];
        let near_below = &below[..below.len().min(NEAR)];
        let last = |text: String| {
            let from = text.char_indices().rev().nth(CHARACTERS - 1);
            text[from.map_or(0, |(at, _)| at)..].to_owned()
        };
        let first = |text: String| text.chars().take(CHARACTERS).collect::<String>();
        let said = |line: &String| !line.is_empty();
        Neighbours {
            lines: Sides {
                before: above.rsplit(is_line_end).skip(1).map(bare).find(said),
                after: below.split(is_line_end).skip(1).map(bare).find(said),
            },
            characters: Sides {
                before: Some(last(bare(near_above))).filter(said),
                after: Some(first(bare(near_below))).filter(said),
            },
        }
    }
}

/// Most output has no escape sequences, and finding that out costs next to nothing.
fn without_escapes(bytes: &[u8]) -> Cow<'_, [u8]> {
    match memchr(0x1b, bytes) {
        Some(_) => plain_text(bytes),
        None => Cow::Borrowed(bytes),
    }
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// `-`, `*`, `+`, `1.`, `2)` or nothing.
fn is_list_mark(text: &str) -> bool {
    let text = text.trim();
    let number = text.trim_end_matches(['.', ')']);
    matches!(text, "" | "-" | "*" | "+" | "•")
        || (number.len() + 1 == text.len()
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PROMPT: &str = "# Task\nDo it.\nWhen it is done, print\n<promise>SUCCESS</promise>\nand stop.\n\
                          If stuck print `<promise>FAILURE</promise>` on a line of its own.\n";

    fn rule(matching: PromiseMatch) -> Rule<'static> {
        Rule {
            promise: "SUCCESS",
            matching,
            prompt: PROMPT,
        }
    }

    fn scan_bytes(output: &[u8], rule: Rule) -> Promised {
        let mut tail = Tail::new(1 << 20);
        tail.push(Stream::Stdout, output);
        scan(&tail, rule)
    }

    fn anywhere(output: &str) -> Promised {
        scan_bytes(output.as_bytes(), rule(PromiseMatch::Anywhere))
    }

    #[test]
    fn a_tag_anywhere_counts() {
        for output in [
            "<promise>SUCCESS</promise>",
            "All done. <promise>SUCCESS</promise> Bye.",
            "text\n\n**<promise>SUCCESS</promise>**\n",
            "`<promise>SUCCESS</promise>`",
            "Done. `<promise>SUCCESS</promise>`",
            "Result: `<promise>SUCCESS</promise>`.",
            "- `<promise>SUCCESS</promise>`",
            "```\n<promise>SUCCESS</promise>\n```\n",
            "\x1b[32m<promise>SUC\x1b[1mCESS</promise>\x1b[0m\n",
            "\r\n<promise>SUCCESS</promise>\r\n",
            // The words of the prompt in another place are no echo.
            "When it is done, print\nsomething\n<promise>SUCCESS</promise>\nand stop.\n",
        ] {
            assert_eq!(anywhere(output), Promised::Success, "{output:?}");
        }
    }

    #[test]
    fn what_is_not_the_tag_does_not_count() {
        for output in [
            "",
            "SUCCESS",
            "<promise>success</promise>",
            "<promise> SUCCESS </promise>",
            "<promise>SUCCESS",
            "<promise>DONE</promise>",
        ] {
            assert_eq!(anywhere(output), Promised::Nothing, "{output:?}");
        }
    }

    #[test]
    fn a_tag_quoted_in_a_sentence_does_not_count() {
        for output in [
            "I will print `<promise>SUCCESS</promise>` when the tests pass.",
            "The last line must be `<promise>SUCCESS</promise>`",
            "Then print ``<promise>SUCCESS</promise>``.",
            "`<promise>SUCCESS</promise>` is what I print at the end",
        ] {
            assert_eq!(anywhere(output), Promised::Nothing, "{output:?}");
        }
    }

    #[test]
    fn an_echo_of_the_prompt_does_not_count() {
        let numbered: String = PROMPT
            .lines()
            .enumerate()
            .map(|(index, line)| format!("{:6}\t{line}\n", index + 1))
            .collect();
        let indented: String = PROMPT.lines().map(|line| format!("  > {line}\n")).collect();
        for output in [
            PROMPT,
            &numbered,
            &indented,
            &PROMPT.replace('\n', "\r\n"),
            &PROMPT.replace('\n', "\n\n"),
            &PROMPT.replace('\n', " "),
            &PROMPT.replace('\n', ""),
            &PROMPT.replace(' ', "\n"),
            &format!("{PROMPT:?}"),
            &format!("{{\"role\":\"user\",\"text\":{PROMPT:?}}}"),
            &format!("user\n{PROMPT}assistant\nworking on it"),
            "You said:\n> When it is done, print\n> <promise>SUCCESS</promise>\n> and stop.\n",
        ] {
            assert_eq!(anywhere(output), Promised::Nothing, "{output:?}");
        }
        let output = format!("{PROMPT}\nAll tests pass.\n<promise>SUCCESS</promise>\n");
        assert_eq!(anywhere(&output), Promised::Success);
    }

    #[test]
    fn an_echo_counts_as_one_at_the_edges_too() {
        let at_the_end = Rule {
            prompt: "# Task\nWhen done say\n<promise>SUCCESS</promise>",
            ..rule(PromiseMatch::Anywhere)
        };
        let echo = format!("prompt:\n{}\nmodel: thinking\n", at_the_end.prompt);
        assert_eq!(scan_bytes(echo.as_bytes(), at_the_end), Promised::Nothing);
        let answer = b"It works.\n<promise>SUCCESS</promise>\n";
        assert_eq!(scan_bytes(answer, at_the_end), Promised::Success);

        // The buffer begins in the middle of the echo: the line above the tag is gone.
        let mut tail = Tail::new("<promise>SUCCESS</promise>\nand stop.\n".len());
        tail.push(
            Stream::Stdout,
            &PROMPT.as_bytes()[..PROMPT.find("If").unwrap_or(0)],
        );
        assert!(tail.stream(Stream::Stdout).starts_with(b"<promise>"));
        assert_eq!(scan(&tail, rule(PromiseMatch::Anywhere)), Promised::Nothing);
    }

    #[test]
    fn failure_beats_success_on_either_stream() {
        let mut tail = Tail::new(1000);
        tail.push(Stream::Stdout, b"<promise>SUCCESS</promise>\n");
        assert_eq!(scan(&tail, rule(PromiseMatch::Anywhere)), Promised::Success);
        tail.push(Stream::Stderr, b"<promise>FAILURE</promise>\n");
        assert_eq!(scan(&tail, rule(PromiseMatch::Anywhere)), Promised::Failure);
    }

    #[test]
    fn a_tag_is_not_joined_from_two_streams() {
        let mut tail = Tail::new(1000);
        tail.push(Stream::Stdout, b"<promise>SUC");
        tail.push(Stream::Stderr, b"CESS</promise>\n");
        assert_eq!(scan(&tail, rule(PromiseMatch::Anywhere)), Promised::Nothing);
    }

    #[test]
    fn alone_on_its_line() {
        let own_line = |output: &str| scan_bytes(output.as_bytes(), rule(PromiseMatch::OwnLine));
        for output in [
            "x\n<promise>SUCCESS</promise>\ny",
            "  **<promise>SUCCESS</promise>**  \n",
            "- <promise>SUCCESS</promise>\r\n",
            "2. __<promise>SUCCESS</promise>__",
        ] {
            assert_eq!(own_line(output), Promised::Success, "{output:?}");
        }
        for output in [
            "Done: <promise>SUCCESS</promise>",
            "<promise>SUCCESS</promise>.",
            "not <promise>SUCCESS</promise>\n",
            "> <promise>SUCCESS</promise>\n",
            "`<promise>SUCCESS</promise>`\n",
        ] {
            assert_eq!(own_line(output), Promised::Nothing, "{output:?}");
        }
    }

    #[test]
    fn another_promise() {
        let custom = Rule {
            promise: "BUILD COMPLETE",
            ..rule(PromiseMatch::Anywhere)
        };
        let found = |output: &str| scan_bytes(output.as_bytes(), custom);
        assert_eq!(
            found("<promise>BUILD COMPLETE</promise>"),
            Promised::Success
        );
        assert_eq!(found("<promise>SUCCESS</promise>"), Promised::Nothing);
        assert_eq!(found("<promise>FAILURE</promise>"), Promised::Failure);
    }

    proptest! {
        #[test]
        fn any_bytes_and_any_chunks_give_one_answer(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..12),
                Just(b"<promise>SUCCESS</promise>".to_vec()),
                Just(b"<promise>FAILURE</promise>".to_vec()),
                Just(b"\n".to_vec()),
                Just(b"`".to_vec()),
                Just(b"\x1b[1m".to_vec()),
                Just(PROMPT.as_bytes().to_vec()),
            ], 0..12),
            size in 1_usize..40,
            own_line in any::<bool>(),
        ) {
            let bytes = pieces.concat();
            let matching = if own_line { PromiseMatch::OwnLine } else { PromiseMatch::Anywhere };
            let whole = scan_bytes(&bytes, rule(matching));
            let mut tail = Tail::new(1 << 20);
            for chunk in bytes.chunks(size) {
                tail.push(Stream::Stdout, chunk);
            }
            prop_assert_eq!(scan(&tail, rule(matching)), whole);
            if whole == Promised::Success {
                let text = without_escapes(&bytes);
                prop_assert!(Finder::new("<promise>SUCCESS</promise>").find(&text).is_some());
            }
        }

        #[test]
        fn a_promise_survives_any_surroundings_of_lines(
            before in "([ -~]{0,30}\n){0,4}",
            after in "(\n[ -~]{0,30}){0,4}",
        ) {
            prop_assume!(!before.contains("promise") && !after.contains("promise"));
            let output = format!("{before}<promise>SUCCESS</promise>{after}");
            prop_assert_eq!(anywhere(&output), Promised::Success);
        }
    }
}
