//! Annotations: what GitHub shows beside the log, and how many of them.

use super::commands::Command;
use super::environment::Paths;

/// Kept per kind in one step. The others are only logged.
pub(super) const PER_STEP: usize = 10;
/// Kept in one job, over all kinds.
pub(super) const PER_JOB: usize = 50;
const LONGEST: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Error,
    Warning,
    Notice,
}

impl Kind {
    /// The word of its command and of its line in the log.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Error => "error",
            Kind::Warning => "warning",
            Kind::Notice => "notice",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Annotation {
    pub(crate) kind: Kind,
    pub(crate) title: Option<String>,
    pub(crate) message: String,
    /// Relative to the workspace, if it is in there.
    pub(crate) file: Option<String>,
    pub(crate) place: Place,
    /// Whether GitHub shows it: the first ones of a step and of a job are kept.
    pub(crate) kept: bool,
    /// Raised by the runner itself, not by a command.
    pub(crate) by_runner: bool,
}

/// The lines and columns, after the runner has dropped what makes no sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: Option<String>,
    pub(crate) end_line: Option<String>,
    pub(crate) column: Option<String>,
    pub(crate) end_column: Option<String>,
}

impl Annotation {
    pub(super) fn of_runner(kind: Kind, message: &str) -> Self {
        Annotation {
            kind,
            title: None,
            message: message.to_owned(),
            file: None,
            place: Place::default(),
            kept: true,
            by_runner: true,
        }
    }

    pub(super) fn of_command(kind: Kind, command: &Command, paths: &Paths) -> Self {
        let owned = |key: &str| command.property(key).map(str::to_owned);
        Annotation {
            title: owned("title"),
            file: owned("file").map(|file| paths.in_workspace(&file)),
            place: place(command),
            by_runner: false,
            ..Annotation::of_runner(kind, &command.data)
        }
    }
}

fn place(command: &Command) -> Place {
    let owned = |key: &str| command.property(key).map(str::to_owned);
    let number = |text: &Option<String>| text.as_ref()?.trim().parse::<i32>().ok();
    let mut place = Place {
        line: owned("line"),
        end_line: owned("endLine"),
        column: owned("col"),
        end_column: owned("endColumn"),
    };
    if number(&place.end_line).is_some() && number(&place.line).is_none() {
        place.line = place.end_line.clone();
    }
    if number(&place.end_column).is_some() && number(&place.column).is_none() {
        place.column = place.end_column.clone();
    }
    let many_lines = number(&place.end_line).is_some() && place.line != place.end_line;
    let reversed = |from: &Option<String>, to: &Option<String>| matches!((number(from), number(to)), (Some(from), Some(to)) if to < from);
    if number(&place.line).is_none() || many_lines || reversed(&place.column, &place.end_column) {
        (place.column, place.end_column) = (None, None);
    }
    if reversed(&place.line, &place.end_line) {
        (place.line, place.end_line) = (None, None);
    }
    place
}

/// The first 4,096 characters, counted as .NET counts them: in UTF-16.
pub(super) fn cut(message: &str) -> String {
    let mut length = 0;
    message
        .chars()
        .take_while(|sign| {
            length += sign.len_utf16();
            length <= LONGEST
        })
        .collect()
}

#[test]
fn places_that_make_no_sense_are_dropped() {
    let cases = [
        ("line=3", "3 - - -"),
        ("line=3,endLine=5", "3 5 - -"),
        ("endLine=5", "5 5 - -"),
        ("line=5,endLine=3", "- - - -"),
        ("line=3,col=2,endColumn=9", "3 - 2 9"),
        ("line=3,endColumn=9", "3 - 9 9"),
        ("line=3,col=9,endColumn=2", "3 - - -"),
        ("col=2", "- - - -"),
        ("line=3,endLine=4,col=2", "3 4 - -"),
        ("line=3,endLine=3,col=2", "3 3 2 -"),
    ];
    for (properties, expected) in cases {
        let line = format!("::error {properties}::m");
        let place = place(&super::commands::parse(&line, |_| true).unwrap());
        let parts = [place.line, place.end_line, place.column, place.end_column];
        let shown = parts.map(|part| part.unwrap_or_else(|| "-".to_owned()));
        assert_eq!(shown.join(" "), expected, "{properties}");
    }
}

#[test]
fn messages_are_cut_at_4096_utf16_units() {
    assert_eq!(cut(&"x".repeat(5000)).len(), 4096);
    assert_eq!(cut(&"\u{1f980}".repeat(5000)).chars().count(), 2048);
    assert_eq!(cut("short"), "short");
}
