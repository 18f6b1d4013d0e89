//! Foreign text in GitHub-flavoured Markdown, so that nothing in it takes effect.
//!
//! Escapes and entities are not enough: GitHub looks for mentions, references, addresses, emoji and formulas in the text
//! that is left when the Markdown has been read, and there an entity is the character it stands for. It leaves code alone.
//! So everything foreign is code, and what is not code consists of words in which there is nothing to find.
//!
//! This holds where Markdown is read. A commit message is not: there GitHub looks at every character.

use std::borrow::Cow;

use crate::iteration::inert;
use crate::units::Grouped;

/// Text for a table cell or within a line: one line of code, whatever is in it.
///
/// A pipe would end a table cell even within code, and its escape would be seen outside of tables. So it stands between
/// two pieces of code, as an entity, and the result may be used in both places.
pub fn inline(text: &str) -> String {
    let line = one_line(text);
    let pieces: Vec<String> = line.split('|').map(code_span).collect();
    pieces.join("&#124;")
}

/// A sentence of our own that may hold foreign text, for the same places: plain words stay as they are, what stands
/// between backticks is code, and so is every word that may mean something.
///
/// What somebody else wrote from beginning to end belongs in [`inline`], where nobody can take it for ours.
pub fn sentence(text: &str) -> String {
    let line = one_line(text);
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let mut pieces = Vec::new();
    let mut rest = words.as_slice();
    while let Some(first) = rest.first() {
        let begins = pieces.is_empty();
        if is_plain(first, begins) {
            pieces.push((*first).to_owned());
            rest = &rest[1..];
        } else if let Some((piece, taken)) = quoted(rest) {
            pieces.push(piece);
            rest = &rest[taken..];
        } else {
            let speaks = |at: &usize| is_plain(rest[*at], false) || quoted(&rest[*at..]).is_some();
            let end = (1..rest.len()).find(speaks).unwrap_or(rest.len());
            pieces.push(inline(&rest[..end].join(" ")));
            rest = &rest[end..];
        }
    }
    pieces.join(" ")
}

/// Lines of text as a block of code. It begins on a line of its own, after an empty one where HTML stands before it.
pub fn block(text: &str) -> String {
    /// GitHub's parser counts the marks of a fence up to 255.
    const LONGEST_FENCE: usize = 200;
    let runs = backtick_runs(text).filter(|run| *run < LONGEST_FENCE);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    let mut block = format!("{fence}text\n");
    for line in text.lines() {
        // What is indented this far cannot end the block.
        if line.trim_start().starts_with(&"`".repeat(LONGEST_FENCE)) {
            block.push_str("    ");
        }
        let columns: Vec<Cow<str>> = line.split('\t').map(inert).collect();
        block.push_str(&columns.join("\t"));
        block.push('\n');
    }
    block.push_str(&fence);
    block.push('\n');
    block
}

/// The beginning of a text, and how much of it was left out.
pub fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let left_out = Grouped(text[end..].chars().count() as u64);
            Cow::Owned(format!(
                "{} … ({left_out} characters left out)",
                &text[..end]
            ))
        }
    }
}

/// Line ends are shown as such; other control characters, and those that turn the direction of writing, as escapes.
fn one_line(text: &str) -> String {
    let lines: Vec<Cow<str>> = text.lines().map(inert).collect();
    lines.join(" ⏎ ")
}

fn code_span(text: &str) -> String {
    /// GitHub's parser knows no longer ones than 80.
    const LONGEST_MARK: usize = 40;
    if text.is_empty() {
        return String::new();
    }
    // A code span ends at a run of backticks as long as the one that began it, neither longer nor shorter.
    let runs: Vec<usize> = backtick_runs(text).collect();
    let Some(length) = (1..=LONGEST_MARK).find(|length| !runs.contains(length)) else {
        return code_span(&text.replace('`', "ˋ"));
    };
    let mark = "`".repeat(length);
    // One space at both ends belongs to the marks.
    let is_padded = text.starts_with(' ') && text.ends_with(' ') && !text.trim().is_empty();
    let space = if is_padded || text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{mark}{space}{text}{space}{mark}")
}

/// The lengths of the runs of backticks.
fn backtick_runs(text: &str) -> impl Iterator<Item = usize> {
    text.split(|c| c != '`')
        .map(str::len)
        .filter(|run| *run > 0)
}

const OPENING: [char; 2] = ['(', '"'];
const CLOSING: [char; 8] = [',', '.', ';', ':', ')', '"', '!', '?'];

/// Whether a word is nothing but a word or a number: no mark of Markdown, address, mention, reference, emoji, formula, and
/// not the name of a commit.
fn is_plain(word: &str, begins: bool) -> bool {
    let core = word.trim_start_matches(OPENING).trim_end_matches(CLOSING);
    let is_list_mark = begins && !word.starts_with(OPENING) && core.len() < word.len();
    let is_commit = core.len() >= 7 && core.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_word = core
        .split(['-', '\''])
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphabetic()));
    // `5`, `1.5s`, `9,800`, `5h45m`, `3/3`
    let is_number = core.split(['.', ',', '/']).all(|part| {
        part.starts_with(|c: char| c.is_ascii_digit())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    (is_word && !is_commit) || (is_number && !is_commit && !is_list_mark)
}

/// `` `these words`, `` as code, and how many words that were.
fn quoted(words: &[&str]) -> Option<(String, usize)> {
    let first = words.first()?;
    let opened = first.trim_start_matches(OPENING);
    let opening = &first[..first.len() - opened.len()];
    let opened = opened.strip_prefix('`')?;
    let (code, closing, taken) = match opened.split_once('`') {
        Some((code, closing)) => (code.to_owned(), closing, 1),
        None => {
            let last = 1 + words[1..].iter().position(|word| word.contains('`'))?;
            let (end, closing) = words[last].split_once('`')?;
            let code = [&[opened], &words[1..last], &[end]].concat().join(" ");
            (code, closing, last + 1)
        }
    };
    let is_closed = closing.chars().all(|c| CLOSING.contains(&c));
    (is_closed && !code.is_empty()).then(|| (format!("{opening}{}{closing}", inline(&code)), taken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pulldown_cmark::{Event, Options, Parser};

    /// What somebody may try, alone and put together.
    const HOSTILE: [&str; 57] = [
        "@octocat",
        "@org/team",
        "#12",
        "org/repo#12",
        "GH-12",
        "fixes #1",
        "closes https://github.com/o/r/issues/1",
        "https://evil.example/x",
        "www.evil.example",
        "a@evil.example",
        "mailto:a@b.example",
        "<https://a.example>",
        "8bf1299bcd590484e7d6aa7904bf88833d416dd0",
        "8bf1299",
        ":tada:",
        ":100:",
        "![x](https://a.example/x.png)",
        "[x](https://a.example)",
        "[x]: https://a.example",
        "[^1]",
        "[^1]: note",
        "<!--",
        "-->",
        "<img src=x>",
        "<details>",
        "</details>",
        "</summary>",
        "</pre>",
        "<script>",
        "&lt;",
        "&#64;octocat",
        "$x^2$",
        "$$",
        "$`x`$",
        "```math",
        "```",
        "````",
        "`",
        "``",
        "~~~",
        "~~x~~",
        "**b**",
        "_i_",
        "|",
        "\\|",
        "\\",
        "|---|",
        "# h",
        "> q",
        "> [!WARNING]",
        "- [ ] t",
        "1. l",
        "---",
        "===",
        "    code",
        "\n",
        "\r",
    ];

    fn anything() -> impl Strategy<Value = String> {
        let hostile = prop::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned);
        let between = prop::sample::select(vec!["", " ", "\n", "\n\n", "\t", "a", "\u{202e}", "`"]);
        let pieces = prop::collection::vec((hostile, between), 0..12).prop_map(|pieces| {
            let pieces = pieces.into_iter().map(|(piece, between)| piece + between);
            pieces.collect::<String>()
        });
        prop_oneof![pieces, any::<String>(), "[`| \\\\$a]{0,40}"]
    }

    /// What an independent parser sees: the structure, the text that is code, and the text that is not.
    #[derive(Debug, Default, PartialEq)]
    struct Seen {
        structure: Vec<String>,
        everything: String,
        outside: String,
    }

    fn seen(markdown: &str) -> Seen {
        let mut seen = Seen::default();
        let mut in_code_block = false;
        // Quotation marks are to stay as they are.
        let options = Options::all() - Options::ENABLE_SMART_PUNCTUATION;
        for event in Parser::new_ext(markdown, options) {
            match event {
                Event::Code(text) => seen.everything.push_str(&text),
                Event::Text(text) => {
                    seen.everything.push_str(&text);
                    if !in_code_block {
                        seen.outside.push_str(&text);
                    }
                }
                structure => {
                    let name = format!("{structure:?}");
                    in_code_block ^= name.contains("CodeBlock");
                    seen.structure.push(name);
                }
            }
        }
        seen
    }

    /// Places for text within a line.
    const PLACES: [&str; 7] = [
        "X\n",
        "before X after\n",
        "## before X\n",
        "- X\n  - X\n",
        "| a | b |\n|---|---|\n| X | X |\n| after | X |\n",
        "| a |\n|---|\n| X, X |\n",
        "<details><summary>s</summary>\n\nX\n\n</details>\n",
    ];

    /// Nothing that GitHub would look for in text.
    fn assert_harmless(text: &str) {
        for sign in [
            "@", "#", "$", "://", "www.", "<", "`", "[", "GH-", "*", "_", "~", "\\",
        ] {
            assert!(!text.contains(sign), "{sign} in {text:?}");
        }
        for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
            let is_hexadecimal = word.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(word.len() < 7 || !is_hexadecimal, "{word} in {text:?}");
        }
    }

    fn assert_inert_everywhere(made: &str, comes_out: &str) {
        for place in PLACES {
            let filled = seen(&place.replace('X', made));
            let harmless = seen(&place.replace('X', "x"));
            assert_eq!(
                filled.structure, harmless.structure,
                "{made:?} in {place:?}"
            );
            assert_harmless(&filled.outside);
            let expected = harmless.everything.replace('x', comes_out);
            assert_eq!(filled.everything, expected, "{made:?} in {place:?}");
        }
    }

    #[test]
    fn each_trick_alone_is_shown_and_does_nothing() {
        for text in HOSTILE {
            let text = text.trim_end();
            if !text.is_empty() {
                assert_inert_everywhere(&inline(text), text);
            }
        }
    }

    #[test]
    fn text_within_a_line_reads_well() {
        for (text, made) in [
            ("claude -p", "`claude -p`"),
            ("`x`", "`` `x` ``"),
            ("a | b", "`a `&#124;` b`"),
            ("a\\|b", "`a\\`&#124;`b`"),
            ("one\ntwo\r\nthree", "`one ⏎ two ⏎ three`"),
            ("\u{1b}[2J\u{202e}", "`\\u{1b}[2J\\u{202e}`"),
            (" padded ", "`  padded  `"),
            ("", ""),
        ] {
            assert_eq!(inline(text), made);
        }
    }

    #[test]
    fn sentences_stay_sentences() {
        for (text, made) in [
            (
                "Reached run timeout: 5h45m (3/3 of 9,800).",
                "Reached run timeout: 5h45m (3/3 of 9,800).",
            ),
            (
                "unknown key `max_iters`, did you mean (`max iterations`)?",
                "unknown key `max_iters`, did you mean (`max iterations`)?",
            ),
            (
                "the agent's file /a/b.md says @octocat fixes #1 and 8bf1299 is read-only",
                "the agent's file `/a/b.md` says `@octocat` fixes `#1` and `8bf1299` is read-only",
            ),
            ("promised \"all <b> done\"", "promised \"all `<b>` done\""),
            ("a defaced page", "a `defaced` page"),
            ("1. no list", "`1.` no list"),
            ("an `unclosed GH-12", "an `` `unclosed GH-12 ``"),
            ("two  spaces\nand lines", "two spaces `⏎` and lines"),
        ] {
            assert_eq!(sentence(text), made);
        }
    }

    #[test]
    fn a_text_that_needs_every_mark_there_is_still_cannot_leave_its_code() {
        let runs: Vec<String> = (1..100).map(|length| "`".repeat(length)).collect();
        let text = runs.join("x@octocat ");
        assert_inert_everywhere(&inline(&text), &text.replace('`', "ˋ"));
    }

    #[test]
    fn a_run_of_backticks_longer_than_any_fence_ends_no_block() {
        let text = format!("{}\n@octocat\n  {}\n", "`".repeat(300), "`".repeat(70_000));
        let block = block(&text);
        assert!(block.starts_with("```text\n    ```"));
        assert_eq!(seen(&block).outside, "");
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß!", 3), "äöü … (2 characters left out)");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn text_within_a_line_is_code_and_comes_back_out(text in anything()) {
            let line = one_line(&text);
            if line.is_empty() {
                prop_assert_eq!(inline(&text), "");
            } else {
                assert_inert_everywhere(&inline(&text), &line);
            }
        }

        #[test]
        fn sentences_do_nothing_and_lose_no_word(text in anything()) {
            let made = sentence(&text);
            let words = |text: &str| -> String {
                text.chars().filter(|c| !matches!(c, ' ' | '`' )).collect()
            };
            if !made.is_empty() {
                for place in PLACES {
                    let filled = seen(&place.replace('X', &made));
                    let harmless = seen(&place.replace('X', "x"));
                    prop_assert_eq!(&filled.structure, &harmless.structure);
                    assert_harmless(&filled.outside);
                    let expected = harmless.everything.replace('x', &one_line(&text));
                    prop_assert_eq!(words(&filled.everything), words(&expected));
                }
            }
        }

        #[test]
        fn blocks_are_code_and_come_back_out(text in anything()) {
            let made = block(&text);
            for place in ["X", "before\nX", "<details><summary>s</summary>\n\nX\n</details>\n"] {
                let filled = seen(&place.replace('X', &made));
                let harmless = seen(&place.replace('X', "```text\nx\n```\n"));
                prop_assert_eq!(&filled.structure, &harmless.structure);
                prop_assert_eq!(&filled.outside, &harmless.outside);
                let mut lines = String::new();
                for line in text.lines() {
                    let columns: Vec<_> = line.split('\t').map(inert).collect();
                    lines += &columns.join("\t");
                    lines.push('\n');
                }
                prop_assert_eq!(filled.everything, harmless.everything.replace("x\n", &lines));
            }
        }
    }
}
