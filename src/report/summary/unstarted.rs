//! The summaries of runs that never started: because they could not, or because they should not.

use std::fmt::Write;

use super::page::Page;
use super::{LONGEST_SENTENCE, MOST_ITEMS, footer, headline, left_out};
use crate::error::{Error, Problem};
use crate::report::markdown::{block, cut, sentence};
use crate::units::Count;

/// How many characters of a rehearsal are shown: far more than people read, prompt included.
const LONGEST_REHEARSAL: usize = 100_000;

/// For a run that could not start: what is wrong, and what to do about it.
pub fn refused(error: &Error, version: &str) -> String {
    let mut list = String::new();
    let reason = match error.problems.as_slice() {
        [one] => {
            add_hints(&mut list, "", one);
            one.message.clone()
        }
        many => {
            // Writing to a string cannot fail.
            for problem in many.iter().take(MOST_ITEMS) {
                writeln!(list, "- {}", told(&problem.message)).ok();
                add_hints(&mut list, "  ", problem);
            }
            if let Some(left_out) = left_out(many.len(), "problem") {
                writeln!(list, "- {left_out}").ok();
            }
            Count(many.len() as u64, "problem").to_string()
        }
    };
    let mut page = Page::default();
    page.add(&headline("❌", "error", &reason));
    page.add(&list);
    let code = error.kind.exit_code();
    page.add(&format!("No iteration was run. The exit code is {code}."));
    page.add(&footer(version));
    page.finish()
}

fn add_hints(list: &mut String, indent: &str, problem: &Problem) {
    for hint in problem.hints.iter().take(MOST_ITEMS) {
        writeln!(list, "{indent}- 💡 {}", told(hint)).ok();
    }
}

/// For a dry run: the text of the rehearsal as it is.
pub fn rehearsed(text: &str, is_valid: bool, version: &str) -> String {
    let (sign, reason) = match is_valid {
        true => ("📝", "all is well, and nothing was run"),
        false => ("❌", "something is wrong, and nothing was run"),
    };
    let mut page = Page::default();
    page.add(&headline(sign, "dry-run", reason));
    page.add(&block(&cut(text, LONGEST_REHEARSAL)));
    page.add(&footer(version));
    page.finish()
}

fn told(text: &str) -> String {
    sentence(&cut(text, LONGEST_SENTENCE))
}
