//! Finds the agent's promise in plain text, and is not fooled by an echo of the prompt or by a quotation.

use std::borrow::Cow;

use memchr::memchr;
use memchr::memmem::Finder;

use super::echo::{Around, Echoes, is_line_end};
use super::plain::{make_plain, plain_text};
use super::tail::{Stream, Tail};
use crate::agent::with_words_for_events;
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
        let mut text = with_words_for_events(output.stream(stream), output.is_cut(stream));
        // Most output has no escape sequences, and finding that out costs next to nothing.
        if memchr(0x1b, &text).is_some() {
            make_plain(&mut text);
        }
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

/// Scans what the assistant said, in a stream of events that tells it apart from all else. `cut`: the beginning is missing.
pub fn scan_words(words: &str, cut: bool, rule: Rule) -> Promised {
    let text = plain_text(words.as_bytes());
    if Tag::new(FAILURE, rule).is_promised(&text, cut) {
        Promised::Failure
    } else if Tag::new(rule.promise, rule).is_promised(&text, cut) {
        Promised::Success
    } else {
        Promised::Nothing
    }
}

/// Whether a prompt holds a tag that would count if an agent printed it just so.
pub fn holds_bare_tag(prompt: &str, word: &str) -> bool {
    let tag = format!("<promise>{word}</promise>");
    Finder::new(&tag).find_iter(prompt.as_bytes()).any(|start| {
        !is_quoted(Around::new(
            prompt.as_bytes(),
            start,
            start + tag.len(),
            false,
        ))
    })
}

/// How many tags are looked at in one stream.
const MOST_TAGS: usize = 4096;

struct Tag {
    finder: Finder<'static>,
    matching: PromiseMatch,
    echoes: Echoes,
}

impl Tag {
    fn new(word: &str, rule: Rule) -> Tag {
        let finder = Finder::new(&format!("<promise>{word}</promise>")).into_owned();
        let prompt = plain_text(rule.prompt.as_bytes());
        Tag {
            echoes: Echoes::of(&finder, &prompt),
            matching: rule.matching,
            finder,
        }
    }

    fn is_promised(&self, text: &[u8], cut: bool) -> bool {
        let found: Vec<usize> = self.finder.find_iter(text).collect();
        // The last ones count most, and looking at millions of them would take longer than the agent did.
        found.into_iter().rev().take(MOST_TAGS).any(|start| {
            let around = Around::new(text, start, start + self.finder.needle().len(), cut);
            let counts = match self.matching {
                PromiseMatch::Anywhere => !is_quoted(around),
                PromiseMatch::OwnLine => is_alone(around),
            };
            counts && !self.echoes.include(around)
        })
    }
}

/// The rest of the line before and after a tag.
fn line<'a>(around: Around<'a>) -> (Cow<'a, str>, Cow<'a, str>) {
    let (above, below) = around.near();
    let before = above.rsplit(is_line_end).next().unwrap_or_default();
    let after = below.split(is_line_end).next().unwrap_or_default();
    (
        String::from_utf8_lossy(before),
        String::from_utf8_lossy(after),
    )
}

/// Whether a tag stands in a code span in the middle of a sentence: ``print `<promise>…</promise>` at the end``. A code
/// span that is a sentence of its own is a promise in fancy dress.
fn is_quoted(around: Around) -> bool {
    let (before, after) = line(around);
    match (before.ends_with('`'), after.starts_with('`')) {
        (false, false) => return false,
        (true, true) => {}
        // The other backtick is on another line: the line was broken within the code span.
        (true, false) | (false, true) => return true,
    }
    let before = before
        .trim_end_matches('`')
        .trim_end_matches([' ', '\t', '*', '_']);
    let after = after.trim_start_matches('`');
    let begins = !before.chars().any(char::is_alphanumeric)
        || before.ends_with(['.', '!', '?', ':', ';', '—'])
        || is_list_mark(before);
    let ends = !after.chars().any(char::is_alphanumeric);
    !(begins && ends)
}

/// Whether nothing but list marks and bold stands on the line.
fn is_alone(around: Around) -> bool {
    if !around.shows_its_line() {
        return false;
    }
    let (before, after) = line(around);
    let emphasis: &[char] = &[' ', '\t', '*', '_'];
    is_list_mark(before.trim_end_matches(emphasis)) && after.trim_start_matches(emphasis).is_empty()
}

/// `-`, `*`, `+`, `1.`, `2)`, the marks of a heading, or nothing.
fn is_list_mark(text: &str) -> bool {
    let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '\u{feff}'));
    let number = text.trim_end_matches(['.', ')']);
    matches!(text, "" | "-" | "*" | "+" | "•" | "●")
        || (number.len() + 1 == text.len()
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit()))
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

    #[test]
    fn the_end_of_an_event_whose_beginning_is_missing_is_no_promise() {
        let event = "{\"type\":\"user\",\"session_id\":\"s\",\"message\":{\"content\":[{\"type\":\"tool_result\",\
                     \"content\":\"<promise>SUCCESS</promise>\"}]}}\n{\"type\":\"turn.started\"}\n";
        let mut tail = Tail::new(80);
        tail.push(Stream::Stdout, event.as_bytes());
        assert_eq!(scan(&tail, rule(PromiseMatch::Anywhere)), Promised::Nothing);
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
