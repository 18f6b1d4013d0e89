//! Everything that GitHub shows of a run: log, annotations, job summary, outputs, and the files of the run directory.

use super::super::World;
use super::super::shelf::Shelf;
use crate::action::{FailOn, Job};
use crate::error::{Error, ErrorKind};
use crate::event::{Event, What};
use crate::host::{self, CommandFile, CommandFiles, RunDir, RunnerFiles, Sink};
use crate::iteration::Tail;
use crate::redact::Secrets;
use crate::report::summary::{refused, rehearsed};
use crate::report::workflow::{add_mask, end_group, error, group, refusal, resume, stop_commands};
use crate::report::{
    Heading, Outputs, RunFiles, Summary, Terminal, Workflow, event_line, redacted, say,
};
use crate::signal::Signal;
use crate::status::{Reason, Status};

const SUMMARY: &str = "summary.md";
const EVENTS: &str = "events.jsonl";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) struct Board<'a> {
    world: &'a World,
    secrets: Secrets,
    files: CommandFiles,
    runner_files: RunnerFiles,
    run_dir: Option<RunDir>,
    /// To whom the run directory is given at the end.
    owner: (u32, u32),
    outputs: Outputs,
    page: Page,
    fail_on: FailOn,
    reporters: Option<Reporters>,
    /// The word that ends the fence around what foreign programs print before the loop.
    fence: Option<String>,
    /// Whether it stopped in the middle of a line.
    mid_line: bool,
    /// Whether a signal has come before the loop.
    is_interrupted: bool,
    /// What was odd before the loop began. It stands in the summary.
    notes: Vec<String>,
    shelf: Shelf,
}

/// Those that turn the events of a loop into a log.
struct Reporters {
    workflow: Workflow<fn() -> String>,
    terminal: Terminal<Sink>,
}

/// What stands in the job summary.
enum Page {
    /// It never came to a run, or not yet.
    Fixed(String),
    Run(Box<Summary>),
}

impl<'a> Board<'a> {
    pub(super) fn open(world: &'a World, job: &Job, secrets: Secrets) -> Result<Self, Error> {
        let files = CommandFiles::hold(&world.environment)
            .map_err(|error| Error::caused(ErrorKind::Unavailable, &error))?;
        let mut notes = Vec::new();
        let base = host::run_dir_base(&world.environment);
        let run_dir = match RunDir::create(&base, &job.step) {
            Ok(run_dir) => Some(run_dir),
            Err(error) => {
                notes.push(format!("there is no run directory: {error:#}"));
                None
            }
        };
        let relative = run_dir.as_ref().map(RunDir::relative);
        let files_of_run = relative.map(|run_dir| RunFiles {
            summary_file: format!("{run_dir}/{SUMMARY}"),
            events_file: format!("{run_dir}/{EVENTS}"),
            run_dir,
        });
        let mut board = Board {
            world,
            files,
            runner_files: RunnerFiles::default(),
            run_dir,
            owner: host::owner(&job.workspace).unwrap_or_default(),
            outputs: Outputs::new(files_of_run, secrets.clone()),
            secrets,
            page: Page::Fixed(STARTING.to_owned()),
            fail_on: FailOn::default(),
            reporters: None,
            fence: None,
            mid_line: false,
            is_interrupted: false,
            notes,
            shelf: Shelf::default(),
        };
        // A container that is killed from here on leaves that it was.
        board.publish();
        Ok(board)
    }

    /// From here on an agent's user may change the modes of the runner's files. Not sooner: what `setup` does with them, the
    /// author of the workflow wants.
    pub(super) fn note_runner_files(&mut self, job: &Job) {
        self.runner_files = RunnerFiles::note(&self.world.environment, &job.workspace);
    }

    pub(super) fn set_fail_on(&mut self, fail_on: FailOn) {
        self.fail_on = fail_on;
    }

    pub(super) fn fails(&self, status: Status) -> bool {
        self.fail_on.fails(status)
    }

    /// All that must appear nowhere.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Takes in more that must appear nowhere. The runner learns it before anything else is said.
    pub(super) fn mask(&mut self, values: impl IntoIterator<Item = String>) {
        let known = self.secrets.masks().count();
        for value in values {
            self.secrets.add(value);
        }
        for mask in self.secrets.masks().skip(known) {
            self.world.console.unguarded(add_mask(mask));
        }
        self.world.console.guard(&self.secrets);
        self.outputs.hide(self.secrets.clone());
    }

    /// Something is odd, but not wrong.
    pub(super) fn warn(&mut self, warning: &str) {
        tracing::warn!("{warning}");
        let note = self.secrets.redact(warning).into_owned();
        match &mut self.page {
            Page::Fixed(_) => self.notes.push(note),
            Page::Run(summary) => summary.note(&note),
        }
    }

    /// Fences what a foreign program is about to print.
    pub(super) fn open_stage(&mut self, title: &str) {
        let token = format!("rooda-{}", host::random_word());
        let text = format!("{}{}", group(title), stop_commands(&token));
        self.world.console.unguarded(text);
        self.fence = Some(token);
    }

    pub(super) fn stage_output(&mut self, bytes: &[u8]) {
        self.mid_line = bytes.last().is_some_and(|last| *last != b'\n');
        self.world.console.out(bytes.to_vec());
    }

    pub(super) fn close_stage(&mut self) {
        if let Some(token) = self.fence.take() {
            let newline = if std::mem::take(&mut self.mid_line) {
                "\n"
            } else {
                ""
            };
            let text = format!("{newline}{}{}", resume(&token), end_group());
            self.world.console.unguarded(text);
        }
    }

    /// The loop begins.
    pub(super) fn begin(&mut self, mut heading: Heading, shows_output: bool) {
        heading.notes.append(&mut self.notes);
        for (_, value, _) in &mut heading.settings {
            *value = self.secrets.redact(value).into_owned();
        }
        for command in &mut heading.commands {
            *command = self.secrets.redact(command).into_owned();
        }
        let failing = Status::ALL.into_iter().filter(|status| self.fails(*status));
        let failing = failing.collect();
        let secrets = self.secrets.clone();
        let output = shows_output.then(|| self.world.console.sink());
        self.page = Page::Run(Box::new(Summary::new(heading)));
        self.reporters = Some(Reporters {
            workflow: Workflow::new(shows_output, failing, secrets, host::random_word),
            terminal: Terminal::new(output, false, false),
        });
    }

    pub(super) fn report(&mut self, event: &Event) {
        if let What::RawOutput {
            iteration,
            attempt,
            output,
        } = &event.what
        {
            self.keep_output((*iteration, *attempt), output);
            return;
        }
        let secrets = self.secrets.clone();
        redacted(event, &secrets, |event| self.tell(event));
    }

    fn keep_output(&mut self, attempt: (u32, u32), output: &Tail) {
        if let Some(run_dir) = &mut self.run_dir
            && let Err(error) = self.shelf.keep(run_dir, &self.secrets, attempt, output)
        {
            tracing::warn!("cannot write to the run directory: {error}");
        }
    }

    fn tell(&mut self, event: &Event) {
        if let Some(reporters) = &mut self.reporters {
            let console = &self.world.console;
            console.unguarded(reporters.workflow.before(event));
            for line in &reporters.terminal.report(event).lines {
                say(event.at, line);
            }
            console.unguarded(reporters.workflow.after(event));
        }
        self.outputs.record(event);
        if let Page::Run(summary) = &mut self.page {
            summary.record(event);
        }
        if let Some(line) = event_line(event) {
            self.append(&line);
        }
        if is_news(&event.what) {
            self.publish();
        }
    }

    fn append(&mut self, line: &str) {
        let line = self.secrets.redact(line);
        if let Some(run_dir) = &mut self.run_dir {
            run_dir.append(EVENTS, line.as_bytes()).ok();
        }
    }

    /// A signal came before the loop had begun.
    pub(super) fn interrupted(&mut self, signal: Signal) {
        if std::mem::replace(&mut self.is_interrupted, true) {
            // It was told when it came.
            return;
        }
        let reason = &Reason::Interrupted { signal };
        let what = What::Interrupting { reason };
        let at = self.world.clock.now();
        if let Page::Fixed(page) = &mut self.page {
            *page = format!("### rooda: interrupted\n\n{reason}, before the first iteration.\n");
        }
        self.report(&Event { at, what });
    }

    pub(super) fn rehearsed(&mut self, text: &str, code: u8) {
        self.open_stage("Dry run");
        self.stage_output(text.as_bytes());
        self.close_stage();
        if code != 0 {
            let message =
                "The dry run found something wrong: see its group in the log, or the summary.";
            self.world
                .console
                .unguarded(error("rooda: dry-run", message));
        }
        self.page = Page::Fixed(rehearsed(text, code == 0, VERSION));
        self.outputs.dry_run(code);
        self.publish();
    }

    /// It does not come to a run.
    pub(super) fn refuse(&mut self, error: &Error) {
        self.close_stage();
        let text = refusal(error, &self.secrets);
        self.world.console.unguarded(text);
        self.page = Page::Fixed(refused(error, VERSION));
        self.outputs.refused(error);
        self.publish();
    }

    /// Writes down how things stand, whole, so that whoever reads it at any moment reads a truth.
    fn publish(&mut self) {
        let page = match &self.page {
            Page::Fixed(text) => text.clone(),
            Page::Run(summary) => summary.markdown(),
        };
        let page = self.secrets.redact(&page).into_owned();
        let outputs = self.outputs.file(host::random_word);
        let written = [
            self.files.write(CommandFile::Summary, page.as_bytes()),
            self.files.write(CommandFile::Output, outputs.as_bytes()),
        ];
        for error in written.into_iter().filter_map(Result::err) {
            tracing::warn!("cannot write for the runner: {error}");
        }
        if let Some(run_dir) = &mut self.run_dir
            && let Err(error) = run_dir.write(SUMMARY, page.as_bytes())
        {
            tracing::warn!("cannot write to the run directory: {error}");
        }
    }

    /// No agent is left. What the runner reads is put right.
    pub(super) fn restore(&mut self) {
        let repaired = self.files.restore();
        for repaired in repaired.into_iter().chain(self.runner_files.restore()) {
            self.warn(&format!(
                "the agent had tampered with what the runner reads: {repaired}"
            ));
        }
    }

    /// Writes down the last, and gives away what is ours.
    pub(super) fn close(&mut self) {
        self.publish();
        if let Some(run_dir) = &mut self.run_dir
            && let Err(error) = run_dir.hand_over(self.owner.0, self.owner.1)
        {
            tracing::warn!("cannot give the run directory to the workspace's owner: {error:#}");
        }
    }
}

const STARTING: &str = "### rooda: starting\n\nIf you read this after the job has ended, it was killed before the first iteration.\n";

/// Whether what stands in summary and outputs is no longer true.
fn is_news(what: &What) -> bool {
    match what {
        What::RunStarted { .. }
        | What::IterationCompleted(_)
        | What::Limited { .. }
        | What::AgentChanged { .. }
        | What::Interrupting { .. }
        | What::RunEnded { .. } => true,
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
        | What::PromiseIgnored { .. } => false,
    }
}
