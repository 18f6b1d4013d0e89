//! The job summary: what a person reads in the morning. It is written anew after every iteration, so that a run that is
//! killed leaves the truth up to then; and it says so itself, in its first line, until the run has ended.
//!
//! Nothing in here grows with the number of iterations, and nothing foreign is more than text.

mod chart;
mod columns;
mod heading;
mod incidents;
mod page;
#[cfg(test)]
mod tests;
mod unstarted;

use std::collections::VecDeque;
use std::fmt::{Display, Write};
use std::time::Duration;

pub use self::heading::Heading;
pub use self::unstarted::{refused, rehearsed};

use self::chart::chart;
use self::columns::Columns;
use self::heading::Told;
use self::incidents::Incidents;
use self::page::Page;
use super::markdown::{block, cut, sentence};
use crate::agent::Usage;
use crate::event::{Completed, Event, Moment, What};
use crate::iteration::{Outcome, Spent, Stats};
use crate::plan::Limit;
use crate::status::{Reason, Status};
use crate::units::{Cost, Count, Elapsed, Grouped};

/// How many iterations at the beginning and at the end of a run have a row.
const FIRST_ROWS: usize = 50;
const LAST_ROWS: usize = 150;
/// A table of more rows than this is folded.
const MOST_OPEN_ROWS: usize = 20;
const LAST_LINES: usize = 15;
/// Of how many iterations the agent's own account is told, and up to how many are not folded.
const MOST_ACCOUNTS: usize = 20;
const MOST_OPEN_ACCOUNTS: usize = 8;
/// How many settings, notes, protections and problems are told.
const MOST_ITEMS: usize = 60;
/// How many characters of a text are told, by its kind.
const LONGEST_NAME: usize = 200;
const LONGEST_VALUE: usize = 500;
const LONGEST_SENTENCE: usize = 1_000;

/// Takes in the events of a run and tells, at any time, what happened so far.
#[derive(Debug)]
pub struct Summary {
    heading: Told,
    state: State,
    limit: Limit,
    started: Option<Moment>,
    /// When something was recorded last.
    now: Option<Moment>,
    stats: Stats,
    failed: u32,
    interrupted: u32,
    first: Vec<Row>,
    last: VecDeque<Row>,
    last_failure: Option<LastFailure>,
    incidents: Incidents,
    /// How many notes have come up since it began.
    notes: usize,
    spent: Spent,
    /// The agents that worked, in the order of their first iteration.
    agents: Vec<String>,
    /// What the agent says it did, in the last iterations.
    accounts: VecDeque<(u32, String)>,
}

#[derive(Debug)]
enum State {
    Running,
    Interrupting(Reason),
    Ended(Reason, Duration),
}

#[derive(Debug, Clone, Copy)]
struct Row {
    iteration: u32,
    /// Which of the agents it was.
    agent: usize,
    outcome: Outcome,
    duration: Duration,
    usage: Usage,
}

#[derive(Debug)]
struct LastFailure {
    iteration: u32,
    how: String,
    lines: String,
}

impl Summary {
    pub fn new(heading: Heading) -> Self {
        Summary {
            heading: Told::new(&heading),
            state: State::Running,
            limit: Limit::Unlimited,
            started: None,
            now: None,
            stats: Stats::default(),
            failed: 0,
            interrupted: 0,
            first: Vec::new(),
            last: VecDeque::new(),
            last_failure: None,
            incidents: Incidents::default(),
            notes: 0,
            spent: Spent::default(),
            agents: Vec::new(),
            accounts: VecDeque::new(),
        }
    }

    pub fn record(&mut self, event: &Event) {
        let incidents = &mut self.incidents;
        match &event.what {
            // These come by the thousand and change nothing.
            What::Shown { .. }
            | What::ToolUsed { .. }
            | What::RawOutput { .. }
            | What::Waiting { .. }
            | What::Running { .. } => return,
            What::RunStarted { limit, .. } => {
                self.limit = *limit;
                self.started = Some(event.at);
            }
            What::LeftBehind { ended, .. } => incidents.left_behind += ended,
            What::Survived { processes, .. } => incidents.survived += processes,
            What::ProcessesUnseen { .. } => incidents.unseen += 1,
            What::OutputTruncated { .. } => incidents.truncated += 1,
            What::PromiseIgnored { .. } => incidents.promises_ignored += 1,
            What::NotUnderstood { .. } => incidents.not_understood += 1,
            What::UsageUnknown { .. } => incidents.usage_unknown += 1,
            What::ContextFilling { percent, .. } => {
                incidents.fullest = incidents.fullest.max(*percent);
            }
            What::Limited { wait, .. } => {
                incidents.limited += 1;
                incidents.waited += wait.map_or(Duration::ZERO, |(pause, _)| pause);
            }
            What::AgentChanged {
                iteration,
                from,
                to,
                failure,
                message,
            } => {
                let class = failure.class();
                let said = match message.is_empty() {
                    true => String::new(),
                    false => format!(" ({message})"),
                };
                self.note(&format!(
                    "In iteration {iteration} {to} took over from {from}: {class}, {failure}{said}"
                ));
            }
            // What comes after the end does not change how it ended.
            What::Interrupting { reason } => {
                if !matches!(self.state, State::Ended(..)) {
                    self.state = State::Interrupting((*reason).clone());
                }
            }
            What::IterationCompleted(completed) => self.completed(completed),
            What::RunEnded {
                reason,
                total,
                spent,
                ..
            } => {
                self.spent = **spent;
                self.state = State::Ended((*reason).clone(), *total);
            }
            What::IterationStarted { .. }
            | What::PromptReady { .. }
            | What::PhaseAnnounced { .. } => {}
        }
        self.now = Some(event.at);
    }

    fn completed(&mut self, completed: &Completed) {
        match completed.outcome {
            Outcome::Continue | Outcome::JobDone => self.stats.push(completed.duration),
            Outcome::Failed(failure) => {
                self.stats.push(completed.duration);
                self.failed += 1;
                self.keep_last_lines(completed, failure.to_string());
            }
            Outcome::Interrupted => {
                self.interrupted += 1;
                if !completed.last_lines.is_empty() {
                    self.keep_last_lines(completed, "interrupted".to_owned());
                }
            }
        }
        self.spent = completed.spent;
        if let Some(summary) = &completed.summary {
            if self.accounts.len() == MOST_ACCOUNTS {
                self.accounts.pop_front();
            }
            let summary = summary.lines().collect::<Vec<_>>().join(" ");
            let summary = sentence(&cut(&summary, LONGEST_SENTENCE));
            self.accounts.push_back((completed.iteration, summary));
        }
        let row = Row {
            iteration: completed.iteration,
            agent: self.agent(completed.agent),
            outcome: completed.outcome,
            duration: completed.duration,
            usage: completed.usage,
        };
        if self.first.len() < FIRST_ROWS {
            self.first.push(row);
            return;
        }
        if self.last.len() == LAST_ROWS {
            self.last.pop_front();
        }
        self.last.push_back(row);
    }

    fn agent(&mut self, name: &str) -> usize {
        match self.agents.iter().position(|known| known == name) {
            Some(agent) => agent,
            None => {
                self.agents.push(name.to_owned());
                self.agents.len() - 1
            }
        }
    }

    /// Something that a person should know has come up since.
    pub fn note(&mut self, note: &str) {
        if self.notes < MOST_ITEMS {
            self.notes += 1;
            let note = sentence(&cut(note, LONGEST_SENTENCE));
            // Writing to a string cannot fail.
            writeln!(self.heading.warnings, "- {note}").ok();
        }
    }

    /// The whole summary as it stands. It replaces the one before.
    pub fn markdown(&self) -> String {
        let mut page = Page::default();
        page.add(&self.first_line());
        page.add(&self.facts());
        page.add(&format!(
            "{}{}",
            self.heading.warnings,
            self.incidents.told()
        ));
        let is_success =
            matches!(&self.state, State::Ended(reason, _) if reason.status() == Status::Success);
        // Who reads that a run failed asks next what the agent said.
        if !is_success {
            self.tell_last_failure(&mut page, true);
        }
        self.tell_accounts(&mut page);
        let rows: Vec<Row> = self.first.iter().chain(&self.last).copied().collect();
        page.add(&self.statistics());
        page.add(&chart(&rows, self.recorded()).unwrap_or_default());
        self.tell_iterations(&mut page, &rows);
        if is_success {
            self.tell_last_failure(&mut page, false);
        }
        let (title, protections) = &self.heading.protections;
        page.fold(title, false, protections);
        page.fold(
            "Configuration and where it comes from",
            false,
            &self.heading.settings,
        );
        page.add(&footer(self.heading.version));
        page.finish()
    }

    /// The status and why.
    fn first_line(&self) -> String {
        match &self.state {
            State::Running => {
                let done = self.stats.count();
                let progress = match self.limit {
                    Limit::Unlimited => Count(done.into(), "iteration").to_string(),
                    Limit::AtMost(limit) => {
                        format!("{done} of {}", Count(limit.get().into(), "iteration"))
                    }
                };
                format!(
                    "## ⏳ rooda: running, {progress} so far; \
                     if you read this after the job ended, the run was killed"
                )
            }
            State::Interrupting(reason) | State::Ended(reason, _) => {
                let status = reason.status();
                let reason = reason.to_string();
                // The status is told already.
                let reason = reason.strip_prefix("Success: ").unwrap_or(&reason);
                headline(sign(status), status.name(), reason)
            }
        }
    }

    /// What ran, how long, and when.
    fn facts(&self) -> String {
        let mut facts = format!("{}.", self.heading.work);
        let (Some(started), Some(now)) = (self.started, self.now) else {
            return facts;
        };
        let (from, until) = (clock(started), clock(now));
        // Writing to a string cannot fail.
        match self.state {
            State::Ended(_, total) => {
                let total = Elapsed(total);
                write!(facts, " Ran **{total}**, from {from} to {until} UTC.").ok()
            }
            State::Running | State::Interrupting(_) => {
                let so_far = Elapsed(now.since_start.saturating_sub(started.since_start));
                write!(
                    facts,
                    " Running for **{so_far}**, from {from}; this was written {until} UTC."
                )
                .ok()
            }
        };
        let least = match self.spent.is_cost_partial {
            true => "at least ",
            false => "",
        };
        let tokens = Grouped(self.spent.tokens());
        let tokens = (self.spent.tokens() > 0).then(|| format!("{tokens} tokens"));
        let cost = self
            .spent
            .cost_usd
            .map(|cost| format!("{least}{}", Cost(cost)));
        let used: Vec<String> = tokens.into_iter().chain(cost).collect();
        if !used.is_empty() {
            write!(facts, " Used **{}**.", used.join(", ")).ok();
        }
        facts
    }

    /// What the agent says it did. It may be wrong: that is why it is called what it says.
    fn tell_accounts(&self, page: &mut Page) {
        let mut list = String::new();
        for (iteration, account) in self.accounts.iter().rev() {
            writeln!(list, "- **Iteration {iteration}**: {account}").ok();
        }
        if !list.is_empty() {
            let open = self.accounts.len() <= MOST_OPEN_ACCOUNTS;
            page.fold("What the agent says it did", open, &list);
        }
    }

    fn statistics(&self) -> String {
        let stats = &self.stats;
        if self.recorded() == 0 {
            return String::new();
        }
        let numbers = [
            ("iterations", stats.count()),
            ("✅ succeeded", stats.count() - self.failed),
            ("❌ failed", self.failed),
            ("🛑 interrupted", self.interrupted),
        ];
        let durations = [
            ("shortest", stats.min()),
            ("longest", stats.max()),
            ("mean", stats.mean()),
            ("standard deviation", stats.stddev()),
        ];
        // Of the four numbers only the last is left out where there is nothing to count.
        let numbers = numbers[..3 + usize::from(self.interrupted > 0)]
            .iter()
            .map(|(name, number)| (*name, Grouped((*number).into()).to_string()));
        let durations = durations.map(|(name, duration)| (name, Elapsed(duration).to_string()));
        let (names, values): (Vec<&str>, Vec<String>) = numbers.chain(durations).unzip();
        format!(
            "| {} |\n|{}\n| {} |",
            names.join(" | "),
            "---:|".repeat(names.len()),
            values.join(" | ")
        )
    }

    fn keep_last_lines(&mut self, completed: &Completed, how: String) {
        self.last_failure = Some(LastFailure {
            iteration: completed.iteration,
            how,
            // An agent that tells in events what is wrong may have printed nothing that people read.
            lines: match (completed.last_lines.as_slice(), &completed.message) {
                ([], Some(message)) => last_lines(std::slice::from_ref(message)),
                (lines, _) => last_lines(lines),
            },
        });
    }

    fn tell_last_failure(&self, page: &mut Page, open: bool) {
        if let Some(last) = &self.last_failure {
            let title = format!(
                "The agent's last lines in iteration {} ({})",
                last.iteration, last.how
            );
            page.fold(&title, open, &last.lines);
        }
    }

    fn tell_iterations(&self, page: &mut Page, rows: &[Row]) {
        if rows.is_empty() {
            return;
        }
        let columns = Columns::of(rows, &self.agents);
        let mut table = columns.heading();
        let left_out = self.recorded() as usize - rows.len();
        for (index, row) in rows.iter().enumerate() {
            if index == FIRST_ROWS && left_out > 0 {
                let left_out = Grouped(left_out as u64);
                writeln!(
                    table,
                    "| … | … {left_out} iterations left out, all are in the events file | … |"
                )
                .ok();
            }
            table.push_str(&columns.row(row));
        }
        if rows.len() > MOST_OPEN_ROWS {
            let total = Grouped(self.recorded().into());
            page.fold(&format!("The iterations, {total} in all"), false, &table);
        } else {
            page.add(&table);
        }
    }

    /// All iterations that there were, the interrupted one too.
    fn recorded(&self) -> u32 {
        self.stats.count() + self.interrupted
    }
}

/// The first line: a sign for the eye, the status, and why.
fn headline(sign: &str, status: &str, reason: &str) -> String {
    let reason = sentence(&cut(reason, LONGEST_SENTENCE));
    format!("## {sign} rooda: {status} – {reason}")
}

fn clock(at: Moment) -> impl Display {
    at.time.strftime("%Y-%m-%d %H:%M")
}

fn sign(status: Status) -> &'static str {
    match status {
        Status::Success => "✅",
        Status::Aborted => "❌",
        Status::MaxIters => "🔁",
        Status::Exhausted => "⏰",
        Status::Interrupted => "🛑",
    }
}

/// The end of an output, each line of bounded length.
fn last_lines(lines: &[String]) -> String {
    let left_out = lines.len().saturating_sub(LAST_LINES);
    let lines = lines[left_out..]
        .iter()
        .map(|line| cut(line, LONGEST_VALUE));
    let lines = lines.collect::<Vec<_>>().join("\n");
    match (lines.is_empty(), left_out) {
        (true, _) => "The agent said nothing.".to_owned(),
        (false, 0) => block(&lines),
        (false, left_out) => {
            let left_out = Grouped(left_out as u64);
            format!("… {left_out} lines left out …\n\n{}", block(&lines))
        }
    }
}

/// What is said in the place of more items than are told.
fn left_out(items: usize, noun: &str) -> Option<String> {
    let left_out = items.checked_sub(MOST_ITEMS + 1)? as u64 + 1;
    Some(format!("… {} left out", Count(left_out, noun)))
}

fn footer(version: &str) -> String {
    format!("<sub>rooda {version}</sub>")
}
