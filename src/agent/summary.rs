//! An agent's own summary of what it did.

use crate::iteration::{inert, plain_text};

const MOST_LINES: usize = 6;
const MOST_CHARS: usize = 600;

/// How much of each end of a text is looked at.
const WINDOW: usize = 64 << 10;

/// The last section called summary that says something, else the first lines of the text. A few lines that command no
/// terminal; to a page they may still be markup.
pub fn summary(text: &str) -> Option<String> {
    let start = text.len().min(WINDOW);
    let start = (0..=start).rev().find(|at| text.is_char_boundary(*at));
    summary_section(text).or_else(|| shortened(lines(&text[..start?]).into_iter()))
}

/// The last section called summary that says something, and nothing else: for a text of which nobody knows where the
/// agent's last message begins.
pub fn summary_section(text: &str) -> Option<String> {
    let end = text.len() - text.len().min(WINDOW);
    let end = (end..=text.len()).find(|at| text.is_char_boundary(*at));
    of_sections(&text[end?..])
}

fn of_sections(text: &str) -> Option<String> {
    let lines = lines(text);
    let begun = lines.iter().enumerate().rev();
    let mut sections = begun.filter_map(|(at, line)| Some((at, opening(line)?)));
    sections.find_map(|(at, first)| {
        let rest = lines[at + 1..].iter().take_while(|line| !is_heading(line));
        shortened(std::iter::once(first.to_owned()).chain(rest.cloned()))
    })
}

/// Lines without anything that commands a terminal.
fn lines(text: &str) -> Vec<String> {
    let text = plain_text(text.as_bytes());
    let text = String::from_utf8_lossy(&text);
    let lines = text.split(['\n', '\r']);
    lines
        .map(|line| inert(&line.replace('\t', " ")).trim_end().to_owned())
        .collect()
}

/// What follows on the line itself, if a summary begins there: `## Summary`, `**Summary**`, `Summary: …`.
fn opening(line: &str) -> Option<&str> {
    let unmarked = line.trim_start_matches('#');
    let is_marked = unmarked.len() < line.len();
    let title = unmarked.trim_start();
    let plain = title.trim_start_matches("**");
    let is_bold = plain.len() < title.len();
    let (word, rest) = plain.split_at_checked("summary".len())?;
    if !word.eq_ignore_ascii_case("summary") {
        return None;
    }
    let after = rest.trim_start_matches("**").trim_start();
    match after.strip_prefix(':') {
        Some(first) => Some(first.trim_start_matches("**").trim()),
        None if after.is_empty() && (is_marked || is_bold) => Some(""),
        // `## Summary of changes`
        None if is_marked && rest.starts_with(' ') => Some(""),
        None => None,
    }
}

fn is_heading(line: &str) -> bool {
    let line = line.trim();
    let unmarked = line.trim_start_matches('#');
    let is_marked = unmarked.len() < line.len() && unmarked.starts_with(' ');
    let is_bold = |line: &str| line.len() > 4 && line.starts_with("**") && line.ends_with("**");
    is_marked || is_bold(line.trim_end_matches(':'))
}

/// The lines that say something, as many as fit.
fn shortened(lines: impl Iterator<Item = String>) -> Option<String> {
    let mut said = lines.filter_map(|line| said(&line));
    let mut text = String::new();
    // The dots have room too.
    let mut left = MOST_CHARS - 2;
    for line in said.by_ref().take(MOST_LINES) {
        if !text.is_empty() {
            text.push('\n');
        }
        let length = line.chars().count() + 1;
        if length > left {
            // Half of a word could be half of a secret, which nobody recognises.
            let kept: String = line.chars().take(left.saturating_sub(1)).collect();
            let end = kept.rfind(' ').unwrap_or(0);
            text.push_str(kept[..end].trim_end());
            text.push('…');
            return Some(text);
        }
        left -= length;
        text.push_str(&line);
    }
    if said.next().is_some() {
        text.push_str(" …");
    }
    (!text.is_empty()).then_some(text)
}

/// A line without promises, which are not for people. None if it is blank then, or only tells the phase.
fn said(line: &str) -> Option<String> {
    const OPEN: &str = "<promise>";
    const CLOSE: &str = "</promise>";
    let mut line = line.to_owned();
    while let Some(start) = line.find(OPEN) {
        let end = line[start..].find(CLOSE)?;
        line.replace_range(start..start + end + CLOSE.len(), "");
    }
    let is_told = !line.trim().is_empty()
        && !line.trim_start().starts_with("Phase:")
        && !line.contains(CLOSE);
    is_told.then(|| line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_word_is_cut_in_two() {
        let text = format!("{}\nsk-ant-0123456789abcdef0123456789", "x".repeat(578));
        let told = summary(&text).unwrap();
        assert!(!told.contains("sk-ant"), "{told}");
    }

    #[test]
    fn the_section_is_taken_up_to_the_next_heading() {
        for text in [
            "Intro\n## Summary\n\nDid a.\nDid b.\n\n## Next\nmore",
            "Intro\n# SUMMARY #\nDid a.\nDid b.\n**Next**\nmore",
            "#### Summary of changes\r\nDid a.\r\nDid b.\r\n",
            "Intro\n**Summary**\nDid a.\nDid b.\n<promise>SUCCESS</promise>",
            "Intro\n**Summary:** Did a.\nDid b.\n**Next:**\nmore",
            "Intro\nsummary: Did a.\nDid b.\n# Next",
            "## Summary\nold\n\n## Summary\nDid a.\nPhase: ACT\nDid b. <promise>SUCCESS</promise>",
            "## Summary\nDid a.\nDid b.\n## Summary\n\n<promise>SUCCESS</promise>\n",
        ] {
            let expected = Some("Did a.\nDid b.".to_owned());
            assert_eq!(summary(text), expected, "{text:?}");
        }
    }

    #[test]
    fn without_a_section_the_first_lines_are_taken() {
        for (text, expected) in [
            (
                "Did a.\n\nIn summary: fine\n",
                Some("Did a.\nIn summary: fine"),
            ),
            ("Summaries: none", Some("Summaries: none")),
            ("Summary", Some("Summary")),
            ("1\n2\n3\n4\n5\n6\n7", Some("1\n2\n3\n4\n5\n6 …")),
            ("1\n2\n3\n4\n5\n6\n\n", Some("1\n2\n3\n4\n5\n6")),
            ("<promise>SUCCESS</promise>\nPhase: OBSERVE\n \n", None),
            ("<pro<promise>x</promise>mise>SUCCESS</promise>", None),
            ("", None),
        ] {
            assert_eq!(summary(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn it_is_short_and_commands_no_terminal() {
        let text = format!("Summary: \x1b[2Ja\tb\u{202e} {}", "wörd ".repeat(1000));
        let short = summary(&text).unwrap();
        assert!(short.starts_with("a b\\u{202e} wörd wörd"), "{short}");
        assert!(short.ends_with("wörd…"), "{short}");
        assert!((585..=600).contains(&short.chars().count()));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_long_or_a_promise(
            text in "(## Summary\n|\\*\\*Summary|Summary:|<promise>|</promise>|SUCCESS|\n|ü|\x1b\\[2J|.{0,300}){0,40}",
        ) {
            if let Some(short) = summary(&text) {
                prop_assert!(short.chars().count() <= 600 && short.lines().count() <= 6);
                prop_assert!(!short.contains("</promise>"));
                prop_assert!(!short.contains(|c: char| c.is_control() && c != '\n'));
                prop_assert!(!short.trim().is_empty());
            }
        }
    }
}
