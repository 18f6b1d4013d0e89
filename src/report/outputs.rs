//! The outputs of the step. They are true at every moment, for a step may be killed at any: before the end they tell that
//! the run has not ended.

use std::time::Duration;

use crate::error::Error;
use crate::event::{Completed, Event, What};
use crate::iteration::{Outcome, Spent, Stats, inert};
use crate::redact::Secrets;
use crate::report::markdown::cut;
use crate::status::{Reason, Status};

/// The names of the outputs, in the order of action.yml.
pub const NAMES: [&str; 16] = [
    "status",
    "exit-code",
    "reason",
    "iterations",
    "succeeded",
    "failed",
    "duration-seconds",
    "mean-seconds",
    "stddev-seconds",
    "failure-class",
    "cost-usd",
    "input-tokens",
    "output-tokens",
    "run-dir",
    "summary-file",
    "events-file",
];

/// A reason may quote what the repository holds.
const LONGEST_REASON: usize = 1_000;

/// Where the files of a run are, relative to the folder for temporary files that later steps know too.
#[derive(Debug, Clone, Default)]
pub struct RunFiles {
    pub run_dir: String,
    pub summary_file: String,
    pub events_file: String,
}

/// What the step has to tell to later ones.
#[derive(Debug)]
pub struct Outputs {
    files: RunFiles,
    secrets: Secrets,
    end: End,
    started: Duration,
    duration: Duration,
    succeeded: u32,
    failed: u32,
    stats: Stats,
    spent: Spent,
    /// Why the last attempt failed, if it did.
    failure_class: &'static str,
}

/// How it stands with the run.
#[derive(Debug)]
enum End {
    /// There is no exit code yet, and if it stays like this there was none.
    NotYet,
    Ended(Status, String),
    Refused(u8, String),
    Rehearsed(u8),
}

impl Outputs {
    /// `files`: none where there is no run directory.
    pub fn new(files: Option<RunFiles>, secrets: Secrets) -> Self {
        Outputs {
            files: files.unwrap_or_default(),
            secrets,
            end: End::NotYet,
            started: Duration::ZERO,
            duration: Duration::ZERO,
            succeeded: 0,
            failed: 0,
            stats: Stats::default(),
            spent: Spent::default(),
            failure_class: "",
        }
    }

    /// More has become known that must not be told.
    pub fn hide(&mut self, secrets: Secrets) {
        self.secrets = secrets;
    }

    pub fn record(&mut self, event: &Event) {
        let now = event.at.since_start;
        self.duration = now.saturating_sub(self.started);
        match &event.what {
            What::RunStarted { .. } => {
                self.started = now;
                self.duration = Duration::ZERO;
            }
            What::Interrupting { reason } => self.ended(reason),
            What::IterationCompleted(completed) => self.completed(completed),
            What::Limited { failure, .. } | What::AgentChanged { failure, .. } => {
                self.failure_class = failure.class();
            }
            What::RunEnded {
                reason,
                stats,
                spent,
                total,
            } => {
                self.ended(reason);
                self.stats = **stats;
                self.spent = **spent;
                self.duration = *total;
            }
            What::IterationStarted { .. }
            | What::PromptReady { .. }
            | What::Shown { .. }
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
            | What::PromiseIgnored { .. } => {}
        }
    }

    fn ended(&mut self, reason: &Reason) {
        self.end = End::Ended(reason.status(), reason.to_string());
    }

    fn completed(&mut self, completed: &Completed) {
        self.spent = completed.spent;
        self.failure_class = match completed.outcome {
            Outcome::Failed(failure) => failure.class(),
            Outcome::Continue | Outcome::JobDone | Outcome::Interrupted => "",
        };
        match completed.outcome {
            Outcome::Continue | Outcome::JobDone => self.succeeded += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Interrupted => return,
        }
        self.stats.push(completed.duration);
    }

    /// An error kept the run from starting.
    pub fn refused(&mut self, error: &Error) {
        let messages: Vec<&str> = error.problems.iter().map(|p| p.message.as_str()).collect();
        self.end = End::Refused(error.kind.exit_code(), messages.join("; "));
    }

    /// All was checked and nothing was run.
    pub fn dry_run(&mut self, exit_code: u8) {
        self.end = End::Rehearsed(exit_code);
    }

    /// Every output with its value, in the order of [`NAMES`]. What is not known is empty.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let (status, exit_code, reason) = match &self.end {
            End::NotYet => ("running", None, "the run has not ended yet"),
            End::Ended(status, reason) => {
                (status.name(), Some(status.exit_code()), reason.as_str())
            }
            End::Refused(exit_code, reason) => ("error", Some(*exit_code), reason.as_str()),
            End::Rehearsed(0) => ("dry-run", Some(0), "a dry run: all is well"),
            End::Rehearsed(exit_code) => (
                "dry-run",
                Some(*exit_code),
                "a dry run: not all is well, see the log",
            ),
        };
        let measured = |time: Duration| match self.stats.count() {
            0 => String::new(),
            _ => seconds(time),
        };
        let tokens = |number: u64| match self.spent.has_tokens {
            true => number.to_string(),
            false => String::new(),
        };
        let values = [
            status.to_owned(),
            exit_code.map_or_else(String::new, |code| code.to_string()),
            cut(&self.secrets.redact(reason), LONGEST_REASON).into_owned(),
            self.stats.count().to_string(),
            self.succeeded.to_string(),
            self.failed.to_string(),
            seconds(self.duration),
            measured(self.stats.mean()),
            measured(self.stats.stddev()),
            self.failure_class.to_owned(),
            // The sum of many decimals has too many of them.
            self.spent
                .cost_usd
                .map_or_else(String::new, |cost| format!("{cost:.6}")),
            tokens(self.spent.input_tokens),
            tokens(self.spent.output_tokens),
            self.files.run_dir.clone(),
            self.files.summary_file.clone(),
            self.files.events_file.clone(),
        ];
        // Each value is one line, whatever names the repository or the agent gave to things.
        let values = values.map(|value| inert(&value).into_owned());
        NAMES.into_iter().zip(values).collect()
    }

    /// The whole content of the file that the runner reads outputs from. `delimiter`: gives 128 random bits in
    /// hexadecimal, others each time.
    pub fn file(&self, mut delimiter: impl FnMut() -> String) -> String {
        let mut file = String::new();
        for (name, value) in self.entries() {
            let mut delimiter = format!("rooda-{}", delimiter());
            while value == delimiter {
                delimiter.push('-');
            }
            file.push_str(&format!("{name}<<{delimiter}\n{value}\n{delimiter}\n"));
        }
        file
    }
}

/// Seconds with up to three decimals, as every language reads them.
fn seconds(time: Duration) -> String {
    let text = format!("{}.{:03}", time.as_secs(), time.subsec_millis());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::event::Moment;
    use crate::iteration::Failure;
    use crate::plan::Limit;
    use crate::signal::Signal;
    use jiff::Timestamp;
    use proptest::prelude::*;

    fn record(outputs: &mut Outputs, milliseconds: u64, what: What) {
        let at = Moment {
            time: Timestamp::UNIX_EPOCH,
            since_start: Duration::from_millis(milliseconds),
        };
        outputs.record(&Event { at, what });
    }

    fn started() -> Outputs {
        let files = RunFiles {
            run_dir: "rooda/1-x".to_owned(),
            summary_file: "rooda/1-x/summary.md".to_owned(),
            events_file: "rooda/1-x/events.jsonl".to_owned(),
        };
        let secrets = Secrets::new(["sesame\n12".to_owned()]);
        let mut outputs = Outputs::new(Some(files), secrets);
        let what = What::RunStarted {
            procedure: "build",
            task_id: "build",
            limit: Limit::Unlimited,
            agent: "mine",
            command: "agent",
        };
        record(&mut outputs, 1_000, what);
        outputs
    }

    fn completed(outputs: &mut Outputs, now: u64, milliseconds: u64, outcome: Outcome) {
        let duration = Duration::from_millis(milliseconds);
        let what = What::IterationCompleted(Box::new(Completed::of(1, outcome, duration)));
        record(outputs, now, what);
    }

    fn end(outputs: &mut Outputs, reason: &Reason) {
        let stats = &outputs.stats.clone();
        let total = Duration::from_millis(12_345);
        let what = What::RunEnded {
            reason,
            stats,
            spent: &Spent::default(),
            total,
        };
        record(outputs, 99_000, what);
    }

    /// The values but for the files, in one line.
    fn told(outputs: &Outputs) -> String {
        let values = outputs.entries().into_iter().map(|(_, value)| value);
        values.take(9).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn the_outputs_are_true_at_every_moment() {
        let mut outputs = started();
        assert_eq!(
            told(&outputs),
            "running||the run has not ended yet|0|0|0|0||"
        );
        completed(&mut outputs, 2_500, 1_500, Outcome::Continue);
        completed(&mut outputs, 3_000, 500, Outcome::Failed(Failure::Exit(1)));
        assert_eq!(
            told(&outputs),
            "running||the run has not ended yet|2|1|1|2|1|0.5"
        );
        let reason = &Reason::Interrupted {
            signal: Signal::TERM,
        };
        record(&mut outputs, 3_010, What::Interrupting { reason });
        let interrupted = "interrupted|130|Interrupted by SIGTERM|2|1|1|2.01|1|0.5";
        assert_eq!(told(&outputs), interrupted);
        completed(&mut outputs, 3_020, 20, Outcome::Interrupted);
        assert_eq!(told(&outputs), interrupted.replace("2.01", "2.02"));
        // Signals can come too late.
        let promise = "DONE".to_owned();
        end(&mut outputs, &Reason::Promised { promise });
        assert_eq!(
            told(&outputs),
            "success|0|Success: the agent promised \"DONE\"|2|1|1|12.345|1|0.5"
        );
    }

    #[test]
    fn what_did_not_run_says_so() {
        let mut outputs = Outputs::new(None, Secrets::default());
        let error = Error::new(ErrorKind::Config, "one").hint("mend it");
        let other = Error::new(ErrorKind::NoInput, "two");
        let error = Error::join([error, other]).expect_err("two errors");
        outputs.refused(&error);
        assert_eq!(told(&outputs), "error|78|one; two|0|0|0|0||");
        outputs.dry_run(0);
        assert_eq!(told(&outputs), "dry-run|0|a dry run: all is well|0|0|0|0||");
        outputs.dry_run(1);
        assert!(told(&outputs).starts_with("dry-run|1|a dry run: not all is well"));
        let files: Vec<String> = outputs
            .entries()
            .into_iter()
            .map(|(_, v)| v)
            .skip(13)
            .collect();
        assert_eq!(files, ["", "", ""]);
    }

    #[test]
    fn the_names_are_those_of_the_action() {
        let action = include_str!("../../action.yml");
        let outputs = action.split("\noutputs:\n").nth(1).unwrap_or_default();
        let names = outputs
            .lines()
            .take_while(|line| !line.starts_with("runs:"))
            .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
        assert_eq!(names.collect::<Vec<_>>(), NAMES);
    }

    #[test]
    fn seconds_are_numbers() {
        for (milliseconds, text) in [
            (0, "0"),
            (1, "0.001"),
            (10, "0.01"),
            (500, "0.5"),
            (10_000, "10"),
            (3_600_120, "3600.12"),
        ] {
            assert_eq!(seconds(Duration::from_millis(milliseconds)), text);
        }
    }

    /// Reads the file as the runner does, but accepts nothing that it would grumble about.
    fn read(file: &str) -> Vec<(String, String)> {
        let mut entries = Vec::new();
        let mut lines = file.strip_suffix('\n').expect("a line end").split('\n');
        while let Some(line) = lines.next() {
            let (name, delimiter) = line.split_once("<<").expect("a name and a delimiter");
            assert!(!name.contains('=') && !name.is_empty() && !delimiter.is_empty());
            let mut value = Vec::new();
            loop {
                match lines.next().expect("the delimiter once more") {
                    line if line == delimiter => break,
                    line => value.push(line),
                }
            }
            entries.push((name.to_owned(), value.join("\n")));
        }
        entries
    }

    fn check(reason: &str) -> Result<(), TestCaseError> {
        let mut outputs = started();
        let problem = reason.to_owned();
        end(&mut outputs, &Reason::CannotPrompt { problem });
        let mut count = 0;
        let file = outputs.file(|| {
            count += 1;
            format!("{count:032x}")
        });
        prop_assert!(!file.contains('\r'));
        let entries = read(&file);
        let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
        prop_assert_eq!(names, NAMES);
        prop_assert_eq!(&entries[0].1, "aborted");
        prop_assert_eq!(
            entries
                .iter()
                .filter(|(_, value)| value.contains('\n'))
                .count(),
            0
        );
        for ((_, read), (_, told)) in entries.iter().zip(outputs.entries()) {
            prop_assert_eq!(read, &told);
        }
        Ok(())
    }

    #[test]
    fn a_hostile_reason_is_a_value_and_nothing_else() {
        for reason in [
            "",
            "status=success",
            "x\nstatus=success\ny",
            "x\rstatus=success\r",
            "rooda-00000000000000000000000000000003",
            "x\nrooda-00000000000000000000000000000003\nstatus=success",
            "x\r\nrooda-00000000000000000000000000000003\r\nstatus<<EOF\r\nsuccess\r\nEOF",
            "\u{feff}\0\u{2028}\u{85}<<=",
        ] {
            check(reason).expect(reason);
        }
    }

    #[test]
    fn a_value_never_ends_itself() {
        let mut outputs = Outputs::new(None, Secrets::default());
        outputs.refused(&Error::new(ErrorKind::Usage, "rooda-x"));
        let entries = read(&outputs.file(|| "x".to_owned()));
        assert_eq!(entries.len(), NAMES.len());
        assert_eq!(entries[2], ("reason".to_owned(), "rooda-x".to_owned()));
    }

    #[test]
    fn secrets_are_taken_out_of_the_reason_before_it_is_escaped() {
        let mut outputs = started();
        let problem = "is it sesame\n12 1234?".to_owned();
        end(&mut outputs, &Reason::CannotStart { problem });
        let entries = outputs.entries();
        assert!(
            entries[2].1.ends_with("is it *** 1234?"),
            "{}",
            entries[2].1
        );
    }

    proptest! {
        #[test]
        fn no_reason_breaks_the_file(reason in any::<String>()) {
            check(&reason)?;
        }
    }
}
