//! Finds the agent's promise in plain text, and is not fooled by an echo of the prompt or by a quotation.

use std::borrow::Cow;
use std::ops::Range;

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
        let text = plain_text(&bytes);
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

struct Tag<'a> {
    finder: Finder<'a>,
    matching: PromiseMatch,
    /// Where the prompt itself has the tag.
    in_prompt: Vec<Neighbours>,
}

impl Tag<'_> {
    fn new(word: &str, rule: Rule) -> Tag<'static> {
        let finder = Finder::new(&format!("<promise>{word}</promise>")).into_owned();
        let prompt = plain_text(rule.prompt.as_bytes());
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

/// How much of a line is compared. Lines may be longer than what one looks at.
const NEAR: usize = 256;

/// What may stand in front of each line of an echo, and how many lines in a row may hold nothing else.
const PREFIX: usize = 64;
const MOST_PREFIXES: usize = 16;

/// The neighbours of a tag in the prompt. `None`: the prompt begins or ends there.
#[derive(Debug)]
struct Neighbours {
    /// The end of the line above.
    before: Option<String>,
    /// The line below, or only its beginning.
    after: Option<(String, bool)>,
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

    /// The lines above, from the nearest on, without white space and quote marks.
    fn above(&self) -> impl Iterator<Item = String> {
        let (above, _) = self.around();
        let lines = above.rsplit(is_line_end).skip(1).map(bare);
        lines.filter(|line| !line.is_empty())
    }

    /// The lines below, in the same manner.
    fn below(&self) -> impl Iterator<Item = String> {
        let (_, below) = self.around();
        let lines = below.split(is_line_end).skip(1).map(bare);
        lines.filter(|line| !line.is_empty())
    }

    fn neighbours(&self) -> Neighbours {
        let before = self.above().next().map(|line| {
            let from = line.char_indices().rev().take(NEAR).last();
            line[from.map_or(0, |(at, _)| at)..].to_owned()
        });
        let after = self
            .below()
            .next()
            .map(|line| match line.char_indices().nth(NEAR) {
                None => (line, true),
                Some((end, _)) => (line[..end].to_owned(), false),
            });
        Neighbours { before, after }
    }

    /// Whether the neighbouring lines are those of a tag in the prompt.
    fn echoes(&self, prompt: &Neighbours) -> bool {
        let above = match &prompt.before {
            None => true,
            Some(line) => {
                is_neighbour(self.above(), |own| own.ends_with(line)) || self.is_cut_from(line)
            }
        };
        let below = match &prompt.after {
            None => true,
            Some((line, true)) => is_neighbour(self.below(), |own| own.ends_with(line)),
            Some((line, false)) => is_neighbour(self.below(), |own| own.contains(line)),
        };
        let comparable = prompt.before.is_some() || prompt.after.is_some();
        comparable && above && below
    }

    /// Whether the text begins within this line above the tag: the buffer has lost the rest.
    fn is_cut_from(&self, line: &str) -> bool {
        let mut above = self.above();
        self.cut
            && self.tag.start <= FAR
            && above.next().is_none_or(|rest| line.ends_with(&rest))
            && above.next().is_none()
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

/// A line without white space and the marks that are put around or before quoted text.
fn bare(line: &[u8]) -> String {
    String::from_utf8_lossy(line)
        .chars()
        .filter(|c| {
            !c.is_whitespace()
                && !matches!(
                    c,
                    '>' | '|' | '│' | '┃' | '"' | '\'' | '`' | '“' | '”' | '‘' | '’' | '«' | '»'
                )
        })
        .collect()
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
    fn an_echo_is_one_wherever_the_buffer_begins() {
        for limit in 1..=PROMPT.len() {
            let mut tail = Tail::new(limit);
            tail.push(Stream::Stdout, PROMPT.as_bytes());
            let promised = scan(&tail, rule(PromiseMatch::Anywhere));
            assert_eq!(promised, Promised::Nothing, "the last {limit} bytes");
        }
    }

    #[test]
    fn an_echo_is_one_with_something_in_front_of_each_line() {
        let long = "long ".repeat(4000);
        for prompt in [
            "Print this\n\n\n<promise>SUCCESS</promise>\n\nand stop.\n",
            "<promise>SUCCESS</promise>\n\nis the word.\n",
            &format!("{long}print\n\n<promise>SUCCESS</promise>\n\nand {long}"),
        ] {
            let rule = Rule {
                prompt,
                ..rule(PromiseMatch::Anywhere)
            };
            let prefixed = |prefix: &dyn Fn(usize) -> String| -> String {
                let lines = prompt.lines().enumerate();
                lines
                    .map(|(index, line)| format!("{}{line}\n", prefix(index + 1)))
                    .collect()
            };
            for echo in [
                prefixed(&|number| format!("{number:6}\t")),
                prefixed(&|number| format!("[10:00:0{number}] agent: ")),
                prefixed(&|_| "user> ".to_owned()),
            ] {
                let promised = scan_bytes(echo.as_bytes(), rule);
                assert_eq!(promised, Promised::Nothing, "{echo:.200}");
            }
            // An answer of its own is none, even with the words of the prompt near.
            let answer = b"Print this\nDone.\n<promise>SUCCESS</promise>\nand stop.\n";
            assert_eq!(scan_bytes(answer, rule), Promised::Success);
        }
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
                let text = plain_text(&bytes);
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
