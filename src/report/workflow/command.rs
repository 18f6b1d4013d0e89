//! Workflow commands: lines by which a step speaks to the runner. Each one here is a whole line with its end.

use std::borrow::Cow;

use crate::iteration::inert;

/// How long a message may be, in UTF-16 units: the runner cuts off the rest without a word.
const LONGEST_MESSAGE: usize = 4096;

/// Has the runner hide a value in all that is logged from here on.
pub fn add_mask(value: &str) -> String {
    format!("::add-mask::{}\n", data(value))
}

/// Opens a group of lines that the reader sees folded.
pub fn group(title: &str) -> String {
    format!("::group::{}\n", data(title))
}

pub fn end_group() -> String {
    "::endgroup::\n".to_owned()
}

pub fn error(title: &str, message: &str) -> String {
    annotation("error", title, message)
}

pub fn warning(title: &str, message: &str) -> String {
    annotation("warning", title, message)
}

pub fn notice(title: &str, message: &str) -> String {
    annotation("notice", title, message)
}

fn annotation(name: &str, title: &str, message: &str) -> String {
    let message = cut(message, LONGEST_MESSAGE);
    format!("::{name} title={}::{}\n", property(title), data(&message))
}

/// From here on the runner obeys nothing but [`resume`] with the same token.
pub fn stop_commands(token: &str) -> String {
    format!("::stop-commands::{token}\n")
}

pub fn resume(token: &str) -> String {
    format!("::{token}::\n")
}

/// Makes foreign text a line in which the runner sees no command, neither `::…` at its beginning nor `##[…]` anywhere.
/// A backslash is put in their way, as in other escapes: it can be seen, and unlike an invisible character it is not
/// passed over by comparisons that follow the rules of a language, as some of the runner's do.
pub fn inert_line(text: &str) -> Cow<'_, str> {
    let text = inert(text);
    let begins = text.len() - text.trim_start().len();
    let begins_command = text[begins..].starts_with("::");
    if !begins_command && !text.contains("##[") {
        return text;
    }
    let mut line = text.replace("##[", "##\\[");
    if begins_command {
        line.insert(begins, '\\');
    }
    Cow::Owned(line)
}

/// The beginning of a text, so that it has no more than so many UTF-16 units.
pub(super) fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    if text.encode_utf16().count() <= longest {
        return Cow::Borrowed(text);
    }
    let mut units = 0;
    let kept = text.chars().take_while(|c| {
        units += c.len_utf16();
        units < longest
    });
    let mut kept: String = kept.collect();
    kept.push('…');
    Cow::Owned(kept)
}

/// The percent sign comes first: the runner undoes it last.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_as_the_runner_reads_them() {
        for (written, expected) in [
            (add_mask("50%\r\n:,"), "::add-mask::50%25%0D%0A:,\n"),
            (group("Iteration 2/5"), "::group::Iteration 2/5\n"),
            (end_group(), "::endgroup::\n"),
            (
                error("a: b, 5%\n", "1: one\n2: 100%"),
                "::error title=a%3A b%2C 5%25%0A::1: one%0A2: 100%25\n",
            ),
            (warning("t", "%0A"), "::warning title=t::%250A\n"),
            (notice("t", "::"), "::notice title=t::::\n"),
            (stop_commands("x"), "::stop-commands::x\n"),
            (resume("x"), "::x::\n"),
        ] {
            assert_eq!(written, expected);
        }
    }

    #[test]
    fn a_long_message_is_cut_before_it_is_escaped() {
        let message = |text: &str| {
            let written = error("t", text);
            let data = written.strip_prefix("::error title=t::").map(str::trim_end);
            data.map(|data| data.replace("%25", "%"))
                .unwrap_or_default()
        };
        let exact = "%".repeat(LONGEST_MESSAGE);
        assert_eq!(message(&exact), exact);
        let longer = "%".repeat(LONGEST_MESSAGE + 1);
        assert_eq!(message(&longer), format!("{}…", &exact[1..]));
        // Characters of two units are kept or left out whole.
        let wide = "🦀".repeat(LONGEST_MESSAGE);
        let kept = message(&wide);
        assert_eq!(kept.encode_utf16().count(), LONGEST_MESSAGE - 1);
        assert!(kept.ends_with("🦀…"));
    }

    #[test]
    fn foreign_text_in_a_line_commands_nothing() {
        for (text, line) in [
            (
                "plain: text :: and # signs [x]",
                "plain: text :: and # signs [x]",
            ),
            ("::error::x", "\\::error::x"),
            (" \u{3000}\u{a0}::error::x", " \u{3000}\u{a0}\\::error::x"),
            ("see ##[error]x ###[y]", "see ##\\[error]x ###\\[y]"),
            ("  ::a ##[b]", "  \\::a ##\\[b]"),
            ("a\r::b\n::c", "a\\r::b\\n::c"),
            ("\t::x", "\\t::x"),
            (":", ":"),
            ("", ""),
        ] {
            assert_eq!(inert_line(text), line);
        }
        assert!(matches!(inert_line("plain"), Cow::Borrowed(_)));
    }
}
