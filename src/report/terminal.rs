//! The log: one line for everything worth telling, a status line on a terminal, a heartbeat elsewhere.

mod notice;

use std::io::Write;
use std::time::Duration;

use tracing::Level;

use self::notice::{doing, hint, notice, spent_so_far, used, whole};
use super::json::event_json;
use crate::event::{Completed, Event, Moment, What};
use crate::iteration::{Outcome, SafeForTerminal, Spent, Stats};
use crate::plan::Limit;
use crate::status::{Reason, Status};
use crate::units::{Count, Elapsed};

/// How long nothing may be heard of a running iteration where there is no status line.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// Tells the log and shows the agent's output. `say` is called for each line, `status` with what the status line
/// should show, if there is one.
#[derive(Debug)]
pub struct Terminal<Out> {
    /// Where the agent's output goes, if it is to be shown.
    output: Option<Out>,
    /// Set where the output goes to a terminal, which must not obey the agent.
    safe: Option<SafeForTerminal>,
    has_status_line: bool,
    limit: Limit,
    /// The agent that the run began with.
    first_agent: String,
    next_heartbeat: Duration,
    mid_line: bool,
    /// Whether no agent runs because a provider is waited for.
    is_waiting: bool,
}

/// Hands a line to the log.
pub fn say(at: Moment, line: &Line) {
    let time = at.time.as_millisecond();
    let since_start = at.since_start.as_millis() as u64;
    let event = line.event.as_ref().map(ToString::to_string);
    let event = event.as_deref().unwrap_or_default();
    let (message, continuation) = (line.message.as_str(), line.is_continuation);
    // The level of a tracing event is part of its call site, so each one needs its own.
    macro_rules! at_level {
        ($level:expr) => {
            tracing::event!(
                target: PROGRESS,
                $level,
                message,
                time,
                since_start,
                continuation,
                event
            )
        };
    }
    match line.level {
        Level::ERROR => at_level!(Level::ERROR),
        Level::WARN => at_level!(Level::WARN),
        Level::INFO => at_level!(Level::INFO),
        _ => at_level!(Level::DEBUG),
    }
}

/// The target of the lines that tell of the run, in contrast to diagnostics.
pub const PROGRESS: &str = "rooda::progress";

/// A line for the log.
#[derive(Debug)]
pub struct Line {
    pub level: Level,
    pub message: String,
    pub is_continuation: bool,
    pub event: Option<serde_json::Value>,
}

/// What becomes of an event.
#[derive(Debug, Default)]
pub struct Report {
    pub lines: Vec<Line>,
    /// `Some(None)`: the status line goes away.
    pub status: Option<Option<String>>,
}

impl Report {
    fn line(&mut self, level: Level, message: impl Into<String>) {
        self.lines.push(Line {
            level,
            message: message.into(),
            is_continuation: false,
            event: None,
        });
    }

    fn continuation(&mut self, level: Level, message: impl Into<String>) {
        self.lines.push(Line {
            level,
            message: message.into(),
            is_continuation: true,
            event: None,
        });
    }
}

impl<Out: Write> Terminal<Out> {
    pub fn new(output: Option<Out>, output_is_terminal: bool, has_status_line: bool) -> Self {
        Terminal {
            output,
            safe: output_is_terminal.then(SafeForTerminal::default),
            has_status_line,
            limit: Limit::Unlimited,
            first_agent: String::new(),
            next_heartbeat: HEARTBEAT,
            mid_line: false,
            is_waiting: false,
        }
    }

    pub fn report(&mut self, event: &Event) -> Report {
        let mut report = Report::default();
        if interrupts_output(&event.what) {
            self.finish_line();
        }
        self.tell(&event.what, &mut report);
        if let Some(first) = report.lines.first_mut() {
            first.event = event_json(&event.what);
        }
        report
    }

    fn tell(&mut self, what: &What, report: &mut Report) {
        match what {
            What::RunStarted {
                procedure,
                limit,
                task_id,
                agent,
                ..
            } => {
                self.limit = *limit;
                (*agent).clone_into(&mut self.first_agent);
                let bound = match limit {
                    Limit::Unlimited => "unlimited".to_owned(),
                    Limit::AtMost(limit) => {
                        format!("max {}", Count(limit.get().into(), "iteration"))
                    }
                };
                let task = if task_id == procedure {
                    String::new()
                } else {
                    format!(", task {task_id}")
                };
                let message =
                    format!("Starting procedure: {procedure} with {agent} ({bound}{task})");
                report.line(Level::INFO, message);
            }
            What::IterationStarted { iteration, agent } => {
                self.next_heartbeat = HEARTBEAT;
                self.is_waiting = false;
                let name = self.name(*iteration);
                let with = match *agent == self.first_agent {
                    true => String::new(),
                    false => format!(" with {agent}"),
                };
                report.line(Level::INFO, format!("{name} starting{with}..."));
            }
            What::Shown { text } => self.show(text),
            What::RawOutput { .. } => {}
            What::Running {
                iteration,
                phase,
                tool,
                elapsed,
                since_output,
            } => {
                let doing = doing(*phase, *tool);
                self.running(*iteration, &doing, *elapsed, *since_output, report);
            }
            What::Waiting { iteration, left } => {
                self.is_waiting = true;
                if self.has_status_line {
                    let name = self.name(*iteration);
                    let message = format!("{name} waits for the provider, {} left", whole(*left));
                    report.status = Some(Some(message));
                }
            }
            What::Interrupting { reason } => {
                report.status = Some(None);
                let what = match (self.is_waiting, self.has_status_line) {
                    (true, _) => "not waiting any longer",
                    (false, true) => "ending the agent (once more to kill it at once)",
                    (false, false) => "ending the agent",
                };
                report.line(Level::WARN, format!("{reason}: {what}"));
            }
            What::IterationCompleted(completed) => self.completed(completed, report),
            What::RunEnded {
                reason,
                stats,
                spent,
                total,
            } => ended(reason, stats, spent, *total, report),
            What::PromptReady { iteration, .. }
            | What::PhaseAnnounced { iteration, .. }
            | What::ToolUsed { iteration, .. }
            | What::NotUnderstood { iteration, .. }
            | What::UsageUnknown { iteration, .. }
            | What::ContextFilling { iteration, .. }
            | What::Limited { iteration, .. }
            | What::AgentChanged { iteration, .. }
            | What::OutputTruncated { iteration, .. }
            | What::LeftBehind { iteration, .. }
            | What::Survived { iteration, .. }
            | What::ProcessesUnseen { iteration }
            | What::PromiseIgnored { iteration, .. } => {
                let name = self.name(*iteration);
                if let Some((level, notice)) = notice(what) {
                    report.line(level, format!("{name}: {notice}"));
                }
            }
        }
    }

    fn completed(&mut self, completed: &Completed, report: &mut Report) {
        report.status = Some(None);
        let (level, outcome) = match completed.outcome {
            Outcome::Continue => (Level::INFO, "(success)".to_owned()),
            Outcome::JobDone => {
                let outcome = format!("(success, promised \"{}\")", completed.promise);
                (Level::INFO, outcome)
            }
            Outcome::Failed(failure) => {
                let (count, of) = (completed.consecutive_failures, completed.failure_threshold);
                let class = failure.class();
                let outcome = format!("(failure, consecutive: {count}/{of}): {class}: {failure}");
                (Level::WARN, outcome)
            }
            Outcome::Interrupted => (Level::WARN, "(interrupted)".to_owned()),
        };
        let name = self.name(completed.iteration);
        let duration = Elapsed(completed.duration);
        let usage = used(&completed.usage);
        let message = match &completed.message {
            Some(message) => format!(": {message}"),
            None => String::new(),
        };
        report.line(
            level,
            format!("{name} completed in {duration} {outcome}{message}{usage}"),
        );
        if let Some(hint) = hint(completed.outcome) {
            report.continuation(Level::WARN, format!("Hint: {hint}"));
        }
        for line in completed.summary.iter().flat_map(|summary| summary.lines()) {
            report.continuation(Level::INFO, format!("> {line}"));
        }
        // What was shown while it ran need not be shown again.
        if self.output.is_none() && !completed.last_lines.is_empty() {
            report.continuation(Level::WARN, "The agent's last lines:");
            for line in &completed.last_lines {
                report.continuation(Level::WARN, format!("| {line}"));
            }
        }
    }

    fn running(
        &mut self,
        iteration: u32,
        doing: &str,
        elapsed: Duration,
        since_output: Duration,
        report: &mut Report,
    ) {
        let message = format!(
            "{} running for {}, {doing}last output {} ago",
            self.name(iteration),
            whole(elapsed),
            whole(since_output)
        );
        if self.has_status_line {
            report.status = Some(Some(message));
        } else if elapsed >= self.next_heartbeat {
            self.next_heartbeat = elapsed + HEARTBEAT;
            report.line(Level::INFO, message);
        }
    }

    fn name(&self, iteration: u32) -> String {
        match self.limit {
            Limit::Unlimited => format!("Iteration {iteration}"),
            Limit::AtMost(limit) => format!("Iteration {iteration}/{limit}"),
        }
    }

    /// Shows output. A reader that went away is no reason to stop.
    fn show(&mut self, bytes: &[u8]) {
        let Some(output) = &mut self.output else {
            return;
        };
        let shown = match &mut self.safe {
            Some(safe) => safe.chunk(bytes).into(),
            None => std::borrow::Cow::Borrowed(bytes),
        };
        if let Some(last) = shown.last() {
            self.mid_line = *last != b'\n';
        }
        output.write_all(&shown).ok();
    }

    /// The agent's last line may lack its end; ours begins on a new one.
    fn finish_line(&mut self) {
        let Some(output) = &mut self.output else {
            return;
        };
        if let Some(safe) = &mut self.safe {
            output.write_all(safe.reset()).ok();
        }
        if self.mid_line {
            output.write_all(b"\n").ok();
            self.mid_line = false;
        }
    }
}

fn ended(reason: &Reason, stats: &Stats, spent: &Spent, total: Duration, report: &mut Report) {
    report.status = Some(None);
    let total = format!("{}{}", Elapsed(total), spent_so_far(spent));
    let iterations = Count(stats.count().into(), "iteration");
    let (level, message) = match reason.status() {
        // The work may be unfinished: a quiet log tells that too.
        Status::MaxIters => (Level::WARN, format!("{reason} (total: {total})")),
        status => {
            let level = match status {
                Status::Success => Level::INFO,
                Status::MaxIters | Status::Exhausted | Status::Interrupted => Level::WARN,
                Status::Aborted => Level::ERROR,
            };
            let message = format!("{reason} ({iterations} completed, total: {total})");
            (level, message)
        }
    };
    report.line(level, message);
    if stats.count() > 0 {
        report.continuation(Level::INFO, format!("Iteration timing: {stats}"));
    }
}

/// Whether the agent has stopped talking when this is told, or is about to.
fn interrupts_output(what: &What) -> bool {
    matches!(
        what,
        What::OutputTruncated { .. }
            | What::LeftBehind { .. }
            | What::Survived { .. }
            | What::ProcessesUnseen { .. }
            | What::PromiseIgnored { .. }
            | What::NotUnderstood { .. }
            | What::UsageUnknown { .. }
            | What::ContextFilling { .. }
            | What::Limited { .. }
            | What::AgentChanged { .. }
            | What::Interrupting { .. }
            | What::IterationCompleted { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Phase;
    use jiff::Timestamp;
    use std::num::NonZeroU32;

    fn event(seconds: u64, what: What) -> Event {
        let at = Moment {
            time: Timestamp::UNIX_EPOCH,
            since_start: Duration::from_secs(seconds),
        };
        Event { at, what }
    }

    /// A tick of the first iteration, as it comes about every second.
    fn tick(seconds: u64, since_output: u64) -> Event<'static> {
        let what = What::Running {
            iteration: 1,
            phase: (seconds > 100).then_some(Phase::Act),
            tool: (seconds > 150).then_some("Bash"),
            elapsed: Duration::from_secs(seconds),
            since_output: Duration::from_secs(since_output),
        };
        event(seconds, what)
    }

    fn started_by_mine(iteration: u32) -> What<'static> {
        let agent = "mine";
        What::IterationStarted { iteration, agent }
    }

    fn terminal(has_status_line: bool) -> Terminal<Vec<u8>> {
        let mut terminal = Terminal::new(Some(Vec::new()), false, has_status_line);
        let started = What::RunStarted {
            procedure: "build",
            task_id: "build",
            limit: NonZeroU32::new(3).map_or(Limit::Unlimited, Limit::AtMost),
            agent: "mine",
            command: "agent",
        };
        terminal.report(&event(0, started));
        terminal.report(&event(0, started_by_mine(1)));
        terminal
    }

    fn messages(report: &Report) -> Vec<&str> {
        report
            .lines
            .iter()
            .map(|line| line.message.as_str())
            .collect()
    }

    #[test]
    fn without_a_status_line_there_is_a_heartbeat_every_minute() {
        let mut terminal = terminal(false);
        let mut heard = Vec::new();
        for seconds in 0..=200 {
            let report = terminal.report(&tick(seconds, seconds % 70));
            assert!(report.status.is_none());
            let told = messages(&report);
            heard.extend(told.iter().map(|message| format!("{seconds}: {message}")));
        }
        assert_eq!(
            heard,
            [
                "60: Iteration 1/3 running for 1m00s, last output 1m00s ago",
                "120: Iteration 1/3 running for 2m00s, phase ACT, last output 50s ago",
                "180: Iteration 1/3 running for 3m00s, phase ACT, tool Bash, last output 40s ago",
            ]
        );
        // The next iteration has a minute of its own.
        terminal.report(&event(200, started_by_mine(2)));
        assert_eq!(messages(&terminal.report(&tick(59, 0))), [""; 0]);
        assert_eq!(messages(&terminal.report(&tick(60, 0))).len(), 1);
    }

    #[test]
    fn a_status_line_takes_the_place_of_the_heartbeat() {
        let mut terminal = terminal(true);
        let report = terminal.report(&tick(61, 2));
        assert_eq!(messages(&report), [""; 0]);
        let status = report.status.flatten();
        let expected = "Iteration 1/3 running for 1m01s, last output 2s ago";
        assert_eq!(status.as_deref(), Some(expected));
    }

    #[test]
    fn only_what_comes_after_the_output_ends_its_line() {
        let mut terminal = terminal(false);
        let output = What::Shown { text: b"half" };
        terminal.report(&event(1, output));
        let phase = Phase::Act;
        let iteration = 1;
        terminal.report(&event(1, What::PhaseAnnounced { iteration, phase }));
        terminal.report(&tick(60, 0));
        assert_eq!(terminal.output.as_deref(), Some(b"half".as_slice()));
        let ended = 1;
        for _ in 0..2 {
            terminal.report(&event(61, What::LeftBehind { iteration, ended }));
            assert_eq!(terminal.output.as_deref(), Some(b"half\n".as_slice()));
        }
    }
}
