//! The log on GitHub: a group for each iteration, a fence around what the agent prints, and annotations.
//!
//! Everything goes to one stream, standard output or standard error: the runner does not keep the order across both. The
//! lines of the terminal reporter are to be made inert with [`inert_line`], for they quote foreign text outside of the
//! fence too.

mod command;
#[cfg(test)]
mod runner_model;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::event::{Completed, Event, What};
use crate::iteration::{Failure, Outcome, Stats};
use crate::plan::Limit;
use crate::redact::Secrets;
use crate::status::{Reason, Status};
use crate::units::{Count, Elapsed};

use self::command::cut;
pub use self::command::{
    add_mask, end_group, error, group, inert_line, notice, resume, stop_commands, warning,
};

/// The runner keeps ten annotations of a kind for a step. One warning may be needed at the end of the run.
const MOST_WARNINGS: u32 = 9;

/// How much an annotation tells of the agent's own words.
const MOST_LINES: usize = 10;
const LONGEST_LINE: usize = 300;

/// Tells the runner what belongs together, what not to obey, and what to show to everybody.
///
/// What it returns holds no secrets, and must not be redacted again: a secret such as `stop` would break the fence.
#[derive(Debug)]
pub struct Workflow<T> {
    shows_output: bool,
    fails: Vec<Status>,
    secrets: Secrets,
    token: T,
    limit: Limit,
    is_grouped: bool,
    /// The token that ends the fence, while there is one.
    fence: Option<String>,
    /// Whether the agent's last line lacks its end.
    mid_line: bool,
    warnings: u32,
    /// The end of the output of the last iteration, if it failed.
    failed: Option<LastWords>,
}

#[derive(Debug)]
struct LastWords {
    iteration: u32,
    lines: Vec<String>,
}

impl<T: FnMut() -> String> Workflow<T> {
    /// `fails`: the statuses that fail the step. `token`: gives 128 random bits in hexadecimal, others each time.
    pub fn new(shows_output: bool, fails: Vec<Status>, secrets: Secrets, token: T) -> Self {
        Workflow {
            shows_output,
            fails,
            secrets,
            token,
            limit: Limit::Unlimited,
            is_grouped: false,
            fence: None,
            mid_line: false,
            warnings: 0,
            failed: None,
        }
    }

    /// What is printed before all that the terminal reporter has for this event. Of output that is redacted in pieces,
    /// the rest is printed before that.
    pub fn before(&mut self, event: &Event) -> String {
        match &event.what {
            What::RunStarted { limit, .. } => {
                self.limit = *limit;
                String::new()
            }
            What::IterationStarted { iteration, .. } => {
                let mut text = self.close();
                text.push_str(&group(&self.name(*iteration)));
                self.is_grouped = true;
                text
            }
            What::Shown { text } if self.shows_output => self.before_output(text),
            // The line that tells how it went is seen without unfolding anything.
            What::IterationCompleted(_)
            | What::Limited { .. }
            | What::AgentChanged { .. }
            | What::RunEnded { .. } => self.close(),
            What::Shown { .. }
            | What::PromptReady { .. }
            | What::PhaseAnnounced { .. }
            | What::ToolUsed { .. }
            | What::Running { .. }
            | What::RawOutput { .. }
            | What::NotUnderstood { .. }
            | What::UsageUnknown { .. }
            | What::ContextFilling { .. }
            | What::Waiting { .. }
            | What::OutputTruncated { .. }
            | What::LeftBehind { .. }
            | What::Survived { .. }
            | What::ProcessesUnseen { .. }
            | What::PromiseIgnored { .. }
            | What::Interrupting { .. } => String::new(),
        }
    }

    /// What is printed after all that the terminal reporter has for this event.
    pub fn after(&mut self, event: &Event) -> String {
        match &event.what {
            What::IterationCompleted(completed) => self.completed(completed),
            What::RunEnded {
                reason,
                stats,
                total,
                ..
            } => self.ended(reason, stats, Elapsed(*total)),
            What::RunStarted { .. }
            | What::IterationStarted { .. }
            | What::PromptReady { .. }
            | What::Shown { .. }
            | What::PhaseAnnounced { .. }
            | What::ToolUsed { .. }
            | What::Running { .. }
            | What::RawOutput { .. }
            | What::NotUnderstood { .. }
            | What::UsageUnknown { .. }
            | What::ContextFilling { .. }
            | What::Limited { .. }
            | What::Waiting { .. }
            | What::AgentChanged { .. }
            | What::OutputTruncated { .. }
            | What::LeftBehind { .. }
            | What::Survived { .. }
            | What::ProcessesUnseen { .. }
            | What::PromiseIgnored { .. }
            | What::Interrupting { .. } => String::new(),
        }
    }

    /// Ends what is open, so that the runner obeys again. A run that comes to its end does this itself.
    pub fn close(&mut self) -> String {
        let mut text = String::new();
        if let Some(token) = self.fence.take() {
            // The terminal reporter may have ended the line by now. An empty line does no harm, an open fence does.
            if std::mem::take(&mut self.mid_line) {
                text.push('\n');
            }
            text.push_str(&resume(&token));
        }
        if std::mem::take(&mut self.is_grouped) {
            text.push_str(&end_group());
        }
        text
    }

    fn before_output(&mut self, bytes: &[u8]) -> String {
        if let Some(last) = bytes.last() {
            self.mid_line = *last != b'\n';
        }
        if self.fence.is_some() {
            return String::new();
        }
        // No command begins like this: the runner fails a step whose token is the name of one.
        let token = format!("rooda-{}", (self.token)());
        let text = stop_commands(&token);
        self.fence = Some(token);
        text
    }

    fn completed(&mut self, completed: &Completed) -> String {
        match completed.outcome {
            Outcome::Failed(failure) => {
                let text = self.failed(completed, failure);
                self.keep_last_words(completed);
                text
            }
            Outcome::Continue | Outcome::JobDone => {
                self.failed = None;
                String::new()
            }
            Outcome::Interrupted => {
                if !completed.last_lines.is_empty() {
                    self.keep_last_words(completed);
                }
                String::new()
            }
        }
    }

    fn keep_last_words(&mut self, completed: &Completed) {
        self.failed = Some(LastWords {
            iteration: completed.iteration,
            lines: completed.last_lines.clone(),
        });
    }

    fn failed(&mut self, completed: &Completed, failure: Failure) -> String {
        self.warnings = self.warnings.saturating_add(1);
        if self.warnings > MOST_WARNINGS {
            return String::new();
        }
        let mut message = failure.to_string();
        let says_something = |line: &&String| line.contains(char::is_alphanumeric);
        let said = completed.message.as_ref();
        let said = said.or_else(|| completed.last_lines.iter().rfind(says_something));
        if let Some(line) = said {
            message.push_str(": ");
            message.push_str(&self.said(line));
        }
        if self.warnings == MOST_WARNINGS {
            message.push_str("\nWhat else fails is told in the log alone.");
        }
        warning(
            &format!("Iteration {} failed", completed.iteration),
            &message,
        )
    }

    fn ended(&self, reason: &Reason, stats: &Stats, total: Elapsed) -> String {
        let status = reason.status();
        let title = format!("rooda: {status}");
        let reason = quote(&self.secrets, &reason.to_string());
        let iterations = Count(stats.count().into(), "iteration");
        let mut message = format!("{reason} ({iterations} completed, total: {total})");
        if let Some(last_words) = &self.failed {
            message.push_str(&self.last_words(last_words));
        }
        if self.fails.contains(&status) {
            error(&title, &message)
        } else if status == Status::Success {
            notice(&title, &message)
        } else {
            warning(&title, &message)
        }
    }

    fn last_words(&self, LastWords { iteration, lines }: &LastWords) -> String {
        if lines.is_empty() {
            return String::new();
        }
        let mut text = format!("\nThe agent's last lines, in iteration {iteration}:");
        for line in &lines[lines.len().saturating_sub(MOST_LINES)..] {
            text.push('\n');
            text.push_str(&self.said(line));
        }
        text
    }

    fn said(&self, line: &str) -> String {
        cut(&quote(&self.secrets, line), LONGEST_LINE).into_owned()
    }

    fn name(&self, iteration: u32) -> String {
        match self.limit {
            Limit::Unlimited => format!("Iteration {iteration}"),
            Limit::AtMost(limit) => format!("Iteration {iteration}/{limit}"),
        }
    }
}

/// An error that kept a run from starting, with what can be done about it.
pub fn refusal(failed: &Error, secrets: &Secrets) -> String {
    let mut lines = Vec::new();
    for problem in &failed.problems {
        lines.push(quote(secrets, &problem.message));
        for hint in &problem.hints {
            lines.push(format!("Hint: {}", quote(secrets, hint)));
        }
    }
    error("rooda", &lines.join("\n"))
}

/// Foreign words in one line of an annotation.
fn quote(secrets: &Secrets, line: &str) -> String {
    inert_line(&secrets.redact(line)).into_owned()
}
