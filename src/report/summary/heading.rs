//! What is known before the first iteration. It never changes, so it becomes Markdown once.

use std::fmt::Write;

use super::{LONGEST_NAME, LONGEST_SENTENCE, LONGEST_VALUE, MOST_ITEMS, left_out};
use crate::report::markdown::{cut, inline, sentence};
use crate::report::protections::Protection;

/// What is known before the first iteration.
#[derive(Debug, Clone)]
pub struct Heading {
    pub procedure: String,
    /// The command lines of the agents: of the one that begins, and of those that may take over.
    pub commands: Vec<String>,
    pub version: &'static str,
    /// Name, value, source.
    pub settings: Vec<(String, String, String)>,
    pub protections: Vec<Protection>,
    /// Sentences that a person should read.
    pub notes: Vec<String>,
}

/// The heading as Markdown, within bounds.
#[derive(Debug)]
pub(super) struct Told {
    /// Procedure and commands.
    pub(super) work: String,
    /// Protections that are not in force, and notes: these are not folded.
    pub(super) warnings: String,
    pub(super) settings: String,
    /// Title and body.
    pub(super) protections: (String, String),
    pub(super) version: &'static str,
}

impl Told {
    pub(super) fn new(heading: &Heading) -> Self {
        let protections = &heading.protections;
        let in_force = protections.iter().filter(|one| one.in_force).count();
        let title = format!("Protections: {in_force} of {} in force", protections.len());
        Told {
            work: format!(
                "Procedure {} with {}",
                inline(&cut(&heading.procedure, LONGEST_NAME)),
                commands(&heading.commands)
            ),
            warnings: warnings(protections, &heading.notes),
            settings: settings(&heading.settings),
            protections: (title, table(protections)),
            version: heading.version,
        }
    }
}

fn commands(commands: &[String]) -> String {
    let told = commands.iter().take(MOST_ITEMS);
    let told = told.map(|command| inline(&cut(command, LONGEST_VALUE)));
    told.collect::<Vec<_>>().join(", then ")
}

// Writing to a string cannot fail.

fn warnings(protections: &[Protection], notes: &[String]) -> String {
    let mut list = String::new();
    for missing in protections.iter().filter(|one| !one.in_force) {
        let detail = sentence(&cut(&missing.detail, LONGEST_SENTENCE));
        writeln!(list, "- ⚠️ **Not in force: {}**. {detail}", missing.name).ok();
    }
    for note in notes.iter().take(MOST_ITEMS) {
        let note = sentence(&cut(note, LONGEST_SENTENCE));
        writeln!(list, "- {note}").ok();
    }
    if let Some(left_out) = left_out(notes.len(), "note") {
        writeln!(list, "- {left_out}").ok();
    }
    list
}

fn settings(settings: &[(String, String, String)]) -> String {
    if settings.is_empty() {
        return String::new();
    }
    let mut table = "| setting | value | from |\n|---|---|---|\n".to_owned();
    for (name, value, source) in settings.iter().take(MOST_ITEMS) {
        writeln!(
            table,
            "| {} | {} | {} |",
            sentence(&cut(name, LONGEST_NAME)),
            inline(&cut(value, LONGEST_VALUE)),
            sentence(&cut(source, LONGEST_NAME))
        )
        .ok();
    }
    if let Some(left_out) = left_out(settings.len(), "setting") {
        writeln!(table, "| … | {left_out} | … |").ok();
    }
    table
}

fn table(protections: &[Protection]) -> String {
    if protections.is_empty() {
        return String::new();
    }
    let mut table = "| protection | in force | |\n|---|---|---|\n".to_owned();
    for one in protections {
        let in_force = if one.in_force { "✅ yes" } else { "⚠️ no" };
        let detail = sentence(&cut(&one.detail, LONGEST_SENTENCE));
        writeln!(table, "| {} | {in_force} | {detail} |", one.name).ok();
    }
    table
}
