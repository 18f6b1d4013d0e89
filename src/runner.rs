//! The loop. It connects the pure parts with the edge and tells what happens; it decides nothing itself.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::agent::PhaseWatch;
use crate::config::{FragmentSource, Origin, Phase};
use crate::error::{Error, ErrorKind, without_number};
use crate::event::{Completed, Event, Moment, What};
use crate::host::{
    Clock, Command, Console, Heard, Jail, Limits, Place, Ran, Reader, Signals, Supervisor,
};
use crate::iteration::{Cut, End, Failure, Outcome, Progress, Promised, Rule, Step, judge, scan};
use crate::plan::{Agent, Plan};
use crate::prompt::{self, Text};
use crate::signal::Signal;
use crate::status::{Reason, Status};

/// How many lines of a failed agent's output are told.
const LAST_LINES: usize = 15;

/// The world as a run needs it.
#[derive(Debug)]
pub struct Host {
    /// When the run began, for its timeout.
    pub started: Duration,
    pub clock: Clock,
    pub console: Console,
    pub signals: Signals,
    pub supervisor: Supervisor,
    pub reader: Reader,
    /// Where the agent is kept, if it is.
    pub jail: Option<Jail>,
}

/// Runs a plan to its end.
pub async fn run(
    plan: &Plan,
    agent: &Agent,
    host: &mut Host,
    emit: &mut impl FnMut(&Event),
) -> Status {
    let started = host.started;
    let clock = host.clock;
    let mut tell = |at: Moment, what: What| emit(&Event { at, what });
    tell(
        clock.now(),
        What::RunStarted {
            procedure: &plan.procedure,
            task_id: &plan.task_id,
            limit: plan.limit.value,
            command: &agent.command.text,
        },
    );
    let run_timeout = plan.run_timeout.value.at().map(|span| span.0);
    let mut progress = Progress::new(
        plan.limit.value,
        plan.failure_threshold.value.0,
        run_timeout,
        &plan.completion_promise.value.0,
    );
    let mut interrupted = None;
    let reason = loop {
        host.supervisor.reap_strays();
        if interrupted.is_none() {
            interrupted = host.signals.pending().await;
        }
        let elapsed = clock.now().since_start.saturating_sub(started);
        let iteration = match progress.next(elapsed, interrupted) {
            Step::Run(iteration) => iteration,
            Step::Stop(reason) => break reason,
        };
        let before = clock.now();
        let prompt = match assemble(plan, &host.reader) {
            Ok(prompt) => prompt,
            Err(error) => {
                let problem = one_line(&error);
                break Reason::CannotPrompt { problem };
            }
        };
        tell(before, What::IterationStarted { iteration });
        let bytes = prompt.len();
        tell(clock.now(), What::PromptReady { iteration, bytes });
        let limits = limits(plan, run_timeout.map(|timeout| (timeout, elapsed)));
        let iterated = iterate(iteration, plan, agent, &prompt, limits, host, &mut tell).await;
        let duration = clock.now().since_start.saturating_sub(before.since_start);
        progress.record(iterated.outcome, duration);
        tell(
            clock.now(),
            What::IterationCompleted(Completed {
                iteration,
                outcome: iterated.outcome,
                duration,
                consecutive_failures: progress.consecutive_failures(),
                failure_threshold: plan.failure_threshold.value.0.get(),
                promise: &plan.completion_promise.value.0,
                last_lines: iterated.last_lines,
            }),
        );
        if let Some(reason) = iterated.broken {
            break reason;
        }
        interrupted = iterated.interrupted;
    };
    let total = clock.now().since_start.saturating_sub(started);
    tell(
        clock.now(),
        What::RunEnded {
            reason: &reason,
            stats: progress.stats(),
            total,
        },
    );
    reason.status()
}

/// Reads the fragments anew and composes the prompt: the agent may have changed them.
pub fn assemble(plan: &Plan, reader: &Reader) -> Result<String, Error> {
    let mut problems = Vec::new();
    let mut texts = Vec::new();
    for (fragment, read) in read_fragments(plan, reader) {
        match read {
            Ok(text) => texts.push(Text { fragment, text }),
            Err(error) => problems.push(error),
        }
    }
    Error::join(problems)?;
    prompt::compose(plan, texts, |template| reader.render(template))
}

/// The text of every fragment. An error says where it was named.
pub fn read_fragments<'a>(
    plan: &'a Plan,
    reader: &Reader,
) -> Vec<(&'a FragmentSource, Result<String, Error>)> {
    let files: Vec<&Path> = plan.work.fragments().filter_map(file_of).collect();
    let mut texts = reader.texts(&files).into_iter();
    let read = |fragment: &'a FragmentSource| {
        let read = match &fragment.origin {
            Origin::Inline(text) => Ok(text.clone()),
            Origin::BuiltIn(name) => prompt::builtin_prompt(name).map(str::to_owned),
            Origin::File(path) => match texts.next() {
                Some(Ok(Some(text))) => Ok(text),
                Some(Err(error)) => Err(Error::caused(ErrorKind::NoInput, &error)),
                Some(Ok(None)) | None => {
                    let message = format!("cannot read {path}: No such file or directory");
                    Err(Error::new(ErrorKind::NoInput, message))
                }
            },
        };
        let named = |error: Error| match &fragment.place {
            Some(place) => error.hint(format_args!("it is named at {place}")),
            None => error,
        };
        (fragment, read.map_err(named))
    };
    plan.work.fragments().map(read).collect()
}

fn file_of(fragment: &FragmentSource) -> Option<&Path> {
    match &fragment.origin {
        Origin::File(path) => Some(Path::new(path)),
        Origin::BuiltIn(_) | Origin::Inline(_) => None,
    }
}

/// What one iteration may take: its own timeout, or what is left of the run's if that is less.
fn limits(plan: &Plan, run: Option<(Duration, Duration)>) -> Limits {
    let own = plan.iteration_timeout.value.at().map(|span| span.0);
    let left = run.map(|(timeout, elapsed)| (timeout.saturating_sub(elapsed), timeout));
    let deadline = match (own, left) {
        (Some(own), Some((left, timeout))) if left <= own => Some((left, Cut::RunTimeout(timeout))),
        (Some(own), _) => Some((own, Cut::IterationTimeout(own))),
        (None, Some((left, timeout))) => Some((left, Cut::RunTimeout(timeout))),
        (None, None) => None,
    };
    Limits {
        deadline,
        idle: plan.idle_timeout.value.at().map(|span| span.0),
        grace: plan.kill_grace.value.0,
        buffer: usize::try_from(plan.max_output_buffer.value.0).unwrap_or(usize::MAX),
    }
}

/// What became of an iteration.
struct Iterated {
    outcome: Outcome,
    /// The end of the output, if it did not end well.
    last_lines: Vec<String>,
    interrupted: Option<Signal>,
    /// Why there is no sense in going on.
    broken: Option<Reason>,
}

/// Runs the agent once and judges what it did.
async fn iterate(
    iteration: u32,
    plan: &Plan,
    agent: &Agent,
    prompt: &str,
    limits: Limits,
    host: &mut Host,
    tell: &mut impl FnMut(Moment, What),
) -> Iterated {
    let ran = match run_agent(iteration, agent, prompt, limits, host, tell).await {
        Ok(ran) => ran,
        Err(error) => {
            let problem = cannot_start(agent, &error);
            return Iterated {
                outcome: Outcome::Failed(Failure::NotStarted),
                last_lines: Vec::new(),
                interrupted: None,
                broken: Some(Reason::CannotStart { problem }),
            };
        }
    };
    let promised = scan(
        &ran.output,
        Rule {
            promise: &plan.completion_promise.value.0,
            matching: plan.promise_match.value,
            prompt,
        },
    );
    let outcome = judge(ran.end, promised);
    notices(iteration, &ran, promised, host.clock.now(), tell);
    Iterated {
        outcome,
        last_lines: match outcome {
            Outcome::Failed(_) | Outcome::Interrupted => ran.output.last_lines(LAST_LINES),
            Outcome::Continue | Outcome::JobDone => Vec::new(),
        },
        interrupted: ran.interrupted,
        broken: None,
    }
}

/// Runs the agent and passes on what is heard of it. An error means that it could not be started.
async fn run_agent(
    iteration: u32,
    agent: &Agent,
    prompt: &str,
    limits: Limits,
    host: &mut Host,
    tell: &mut impl FnMut(Moment, What),
) -> io::Result<Ran> {
    let clock = host.clock;
    let mut watch = PhaseWatch::default();
    let mut phase: Option<Phase> = None;
    let command = Command {
        words: &agent.command.words,
        input: prompt.as_bytes(),
        place: host.jail.as_ref().map_or(Place::Here, Place::Jail),
    };
    let heard = |heard: Heard| match heard {
        Heard::Output(stream, bytes) => {
            let at = clock.now();
            if let Some(announced) = watch.feed(bytes)
                && phase.replace(announced) != Some(announced)
            {
                let phase = announced;
                tell(at, What::PhaseAnnounced { iteration, phase });
            }
            tell(at, What::Output { stream, bytes });
        }
        Heard::Tick {
            elapsed,
            since_output,
        } => tell(
            clock.now(),
            What::Running {
                iteration,
                phase,
                elapsed,
                since_output,
            },
        ),
        Heard::Interrupted(signal) => {
            let reason = &Reason::Interrupted { signal };
            tell(clock.now(), What::Interrupting { reason });
        }
    };
    host.supervisor
        .run(command, limits, &mut host.signals, &host.console, heard)
        .await
}

/// What else is worth knowing of an iteration.
fn notices(
    iteration: u32,
    ran: &Ran,
    promised: Promised,
    at: Moment,
    tell: &mut impl FnMut(Moment, What),
) {
    if ran.output.truncated() {
        let (kept, total) = (ran.output.kept() as u64, ran.output.total());
        let what = What::OutputTruncated {
            iteration,
            kept,
            total,
        };
        tell(at, what);
    }
    if matches!(ran.end, End::Cut(_)) && promised != Promised::Nothing {
        let what = What::PromiseIgnored {
            iteration,
            promised,
        };
        tell(at, what);
    }
    if ran.left_behind > 0 {
        let ended = ran.left_behind;
        tell(at, What::LeftBehind { iteration, ended });
    }
    if ran.unseen {
        tell(at, What::ProcessesUnseen { iteration });
    }
    if ran.survivors > 0 {
        let processes = ran.survivors;
        let what = What::Survived {
            iteration,
            processes,
        };
        tell(at, what);
    }
}

fn cannot_start(agent: &Agent, error: &io::Error) -> String {
    let name = agent.command.words.first().map_or("", String::as_str);
    // The file was there a moment ago. If it is a script, the kernel means the program in its first line.
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "; it is gone, or the interpreter in its `#!` line is missing",
        _ => "",
    };
    format!("{name}: {}{advice}", without_number(&error.to_string()))
}

pub fn one_line(error: &Error) -> String {
    let messages: Vec<&str> = error
        .problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    messages.join("; ")
}
