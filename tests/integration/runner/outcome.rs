//! How a step ended, and what it left to the workflow.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::annotations::{Annotation, Kind};
use super::masks::Masks;
use super::record::Record;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepResult {
    Succeeded,
    Failed,
    Canceled,
}

#[must_use = "compare it"]
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) result: StepResult,
    /// `None`: the client was killed, or left, before it ended.
    pub(crate) exit_code: Option<i32>,
    /// What the step gives to others.
    pub(crate) outputs: BTreeMap<String, String>,
    /// For the steps that follow.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) path: Vec<String>,
    pub(crate) state: BTreeMap<String, String>,
    /// As it is shown: masked, and `None` if it was empty or too long.
    pub(crate) summary: Option<String>,
    /// What the log shows before the action says anything.
    pub(crate) header: Vec<String>,
    /// The lines as GitHub shows them, masked.
    pub(crate) log: Vec<String>,
    pub(crate) annotations: Vec<Annotation>,
    /// What the runner itself had to complain about.
    pub(crate) errors: Vec<String>,
    /// What is masked: the secrets of the job and what was added.
    pub(crate) masks: Vec<String>,
    /// The files of the problem matchers that are in force.
    pub(crate) matchers: Vec<String>,
    pub(crate) elapsed: Duration,
    all_masks: Masks,
    continue_on_error: bool,
}

impl Outcome {
    pub(super) fn new(
        result: StepResult,
        exit_code: Option<i32>,
        record: Record,
        header: Vec<String>,
        elapsed: Duration,
        continue_on_error: bool,
    ) -> Self {
        Outcome {
            result,
            exit_code,
            outputs: record.outputs,
            env: record.env,
            path: record.path,
            state: record.state,
            summary: record.summary,
            header,
            log: record.log,
            annotations: record.annotations,
            errors: record.errors,
            masks: record.masks.values().to_vec(),
            matchers: record.matchers,
            elapsed,
            all_masks: record.masks,
            continue_on_error,
        }
    }

    /// An output of the step. Names do not heed case.
    pub(crate) fn output(&self, name: &str) -> Option<&str> {
        let mut outputs = self.outputs.iter();
        let found = outputs.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(found.1)
    }

    /// `steps.<id>.outcome` of the workflow.
    pub(crate) fn outcome(&self) -> &'static str {
        match self.result {
            StepResult::Succeeded => "success",
            StepResult::Failed => "failure",
            StepResult::Canceled => "cancelled",
        }
    }

    /// `steps.<id>.conclusion` of the workflow: after `continue-on-error`.
    pub(crate) fn conclusion(&self) -> &'static str {
        match self.result {
            StepResult::Failed if self.continue_on_error => "success",
            _ => self.outcome(),
        }
    }

    /// The whole log as one text.
    pub(crate) fn log_text(&self) -> String {
        self.log.iter().map(|line| format!("{line}\n")).collect()
    }

    /// The titles of the groups in the log.
    pub(crate) fn groups(&self) -> Vec<&str> {
        let titles = self
            .log
            .iter()
            .filter_map(|line| line.strip_prefix("##[group]"));
        titles.collect()
    }

    /// The lines of a group.
    pub(crate) fn group(&self, title: &str) -> Vec<&str> {
        let start = format!("##[group]{title}");
        let lines = self.log.iter().map(String::as_str);
        lines
            .skip_while(|line| *line != start)
            .skip(1)
            .take_while(|line| *line != "##[endgroup]")
            .collect()
    }

    /// The messages of the annotations of a kind that GitHub keeps.
    pub(crate) fn kept(&self, kind: Kind) -> Vec<&str> {
        let kept = self
            .annotations
            .iter()
            .filter(|one| one.kept && one.kind == kind);
        kept.map(|one| one.message.as_str()).collect()
    }

    /// What becomes of the outputs when the job hands them on: empty ones, and ones in which a secret is found, are left out.
    pub(crate) fn job_outputs(&self) -> BTreeMap<&str, &str> {
        let is_shown = |value: &str| !value.is_empty() && self.all_masks.hide(value) == value;
        let outputs = self.outputs.iter();
        outputs
            .filter(|(_, value)| is_shown(value))
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    /// How GitHub counts the outputs, of which a job may have 1 MB: in UTF-16.
    pub(crate) fn output_bytes(&self) -> usize {
        let texts = self.outputs.iter().flat_map(|(name, value)| [name, value]);
        texts.map(|text| text.encode_utf16().count() * 2).sum()
    }
}

/// Everything at once, for the message of a failed assertion.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{:?}, exit code {:?}", self.result, self.exit_code)?;
        writeln!(f, "outputs: {:#?}", self.outputs)?;
        writeln!(f, "errors: {:#?}", self.errors)?;
        write!(f, "----- log -----\n{}", self.log_text())?;
        let summary = self.summary.as_deref().unwrap_or("(none)");
        write!(f, "----- summary -----\n{summary}")
    }
}
