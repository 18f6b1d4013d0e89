//! The loop. It connects the pure parts with the edge and tells what happens; it decides nothing itself.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use crate::agent::{self, Decoder, Note, PhaseWatch, Rendition, Transcript};
use crate::config::{Format, FragmentSource, Origin, Phase};
use crate::error::{Error, ErrorKind, without_number};
use crate::event::{Completed, Event, Moment, What};
use crate::host::{
    Clock, Command, Console, Heard, Jail, Limits, Place, Ran, Reader, Signals, Supervisor,
};
use crate::iteration::{
    Budget, Cut, End, Failure, Outcome, Patience, Progress, Promised, Recourse, Rule, Standing,
    Step, Stream, Tail, judge, scan, scan_words,
};
use crate::plan::{Agent, Plan};
use crate::prompt::{self, Text};
use crate::signal::Signal;
use crate::status::{Reason, Status};

/// How many lines of a failed agent's output are told, and how much of what people were shown is kept for it.
const LAST_LINES: usize = 15;
const LAST_WORDS: usize = 4096;

/// How much of plain text is looked through for a summary.
const SUMMARIZED: usize = 64 << 10;

/// A context that is fuller than this, in percent, makes models worse.
const SMART_ZONE: u32 = 60;

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
    /// Where each agent is kept, if they are. Each has a jail of its own, for each has keys of its own.
    pub jails: Vec<Jail>,
}

/// Runs a plan to its end. The first agent begins; the others take over when one cannot go on.
pub async fn run(
    plan: &Plan,
    agents: &[Agent],
    host: &mut Host,
    emit: &mut impl FnMut(&Event),
) -> Status {
    let started = host.started;
    let clock = host.clock;
    let mut tell = |at: Moment, what: What| emit(&Event { at, what });
    let first = &agents[0];
    tell(
        clock.now(),
        What::RunStarted {
            procedure: &plan.procedure,
            task_id: &plan.task_id,
            limit: plan.limit.value,
            agent: &first.name,
            command: &first.command.text,
        },
    );
    let run_timeout = plan.run_timeout.value.at().map(|span| span.0);
    let mut progress = progress(plan);
    let mut patience = Patience::new(plan.rate_limit_patience.value.at().map(|span| span.0));
    let mut turn = Turn::default();
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
        let attempt = Attempt {
            iteration,
            number: turn.next_attempt(iteration),
            plan,
            agent: &agents[turn.agent],
            jail: turn.agent,
            prompt: &prompt,
            limits: limits(
                plan,
                &agents[turn.agent],
                run_timeout.map(|timeout| (timeout, elapsed)),
            ),
        };
        let iterated = iterate(&attempt, host, &progress, &mut tell).await;
        progress.spend(&iterated.transcript.usage);
        interrupted = iterated.interrupted;
        let now = clock.now();
        let recourse = match iterated.outcome {
            Outcome::Failed(failure) => {
                let elapsed = now.since_start.saturating_sub(started);
                let standing = Standing {
                    agent: &attempt.agent.name,
                    has_next: turn.agent + 1 < agents.len(),
                    now: now.time,
                    run_timeout: progress.last_start(elapsed),
                };
                let trouble = iterated.transcript.trouble.as_ref();
                patience.recourse(failure, trouble, standing)
            }
            Outcome::Continue | Outcome::JobDone | Outcome::Interrupted => Recourse::Count,
        };
        match recourse {
            Recourse::Wait(pause) => {
                tell(now, limited(&attempt, &iterated, Some((pause, now.time))));
                let signal = wait(iteration, pause, host, &mut tell).await;
                interrupted = interrupted.or(signal);
                continue;
            }
            Recourse::GiveUp(reason) => {
                tell(now, limited(&attempt, &iterated, None));
                break reason;
            }
            Recourse::HandOver => {
                let next = &agents[turn.agent + 1].name;
                tell(now, changed(&attempt, &iterated, next));
                turn.hand_over();
                patience.renew();
                continue;
            }
            Recourse::Count | Recourse::Abort(_) => patience.renew(),
        }
        let duration = now.since_start.saturating_sub(before.since_start);
        progress.record(iterated.outcome, duration);
        let aborted = match recourse {
            Recourse::Abort(reason) => Some(reason),
            _ => iterated.broken.clone(),
        };
        let completed = completed(&attempt, iterated, duration, &progress);
        tell(clock.now(), What::IterationCompleted(Box::new(completed)));
        if let Some(reason) = aborted {
            break reason;
        }
    };
    let total = clock.now().since_start.saturating_sub(started);
    tell(
        clock.now(),
        What::RunEnded {
            reason: &reason,
            stats: progress.stats(),
            spent: progress.spent(),
            total,
        },
    );
    reason.status()
}

fn progress(plan: &Plan) -> Progress {
    let budget = Budget {
        cost_usd: plan.max_cost_usd.value.at().map(|dollars| dollars.0),
        tokens: plan.max_tokens.value.at().map(|tokens| tokens.0),
    };
    Progress::new(
        plan.limit.value,
        plan.failure_threshold.value.0,
        plan.run_timeout.value.at().map(|span| span.0),
        budget,
        &plan.completion_promise.value.0,
    )
}

/// Whose turn it is, and how often an iteration was tried.
#[derive(Debug, Default)]
struct Turn {
    agent: usize,
    iteration: u32,
    attempt: u32,
}

impl Turn {
    fn next_attempt(&mut self, iteration: u32) -> u32 {
        if self.iteration != iteration {
            self.iteration = iteration;
            self.attempt = 0;
        }
        self.attempt += 1;
        self.attempt
    }

    fn hand_over(&mut self) {
        self.agent += 1;
    }
}

/// One agent's attempt at an iteration.
struct Attempt<'a> {
    iteration: u32,
    /// The first is 1.
    number: u32,
    plan: &'a Plan,
    agent: &'a Agent,
    /// Which of the jails is the agent's.
    jail: usize,
    prompt: &'a str,
    limits: Limits,
}

fn limited<'a>(
    attempt: &Attempt<'a>,
    iterated: &'a Iterated,
    wait: Option<(Duration, Timestamp)>,
) -> What<'a> {
    What::Limited {
        iteration: attempt.iteration,
        agent: &attempt.agent.name,
        failure: iterated.failure(),
        message: iterated.message().unwrap_or_default(),
        wait: wait.map(|(pause, now)| (pause, now.saturating_add(pause).unwrap_or(now))),
    }
}

fn changed<'a>(attempt: &Attempt<'a>, iterated: &'a Iterated, next: &'a str) -> What<'a> {
    What::AgentChanged {
        iteration: attempt.iteration,
        from: &attempt.agent.name,
        to: next,
        failure: iterated.failure(),
        message: iterated.message().unwrap_or_default(),
    }
}

fn completed<'a>(
    attempt: &Attempt<'a>,
    iterated: Iterated,
    duration: Duration,
    progress: &Progress,
) -> Completed<'a> {
    let plan = attempt.plan;
    let transcript = &iterated.transcript;
    let is_failed = matches!(iterated.outcome, Outcome::Failed(_));
    Completed {
        iteration: attempt.iteration,
        agent: &attempt.agent.name,
        outcome: iterated.outcome,
        message: iterated.message().filter(|_| is_failed).map(str::to_owned),
        duration,
        consecutive_failures: progress.consecutive_failures(),
        failure_threshold: plan.failure_threshold.value.0.get(),
        promise: &plan.completion_promise.value.0,
        usage: transcript.usage,
        spent: *progress.spent(),
        tools: match transcript.format {
            Format::Text => None,
            _ => Some(transcript.tools.used),
        },
        session: transcript.session.clone(),
        model: transcript.model.clone(),
        version: transcript.version.clone(),
        summary: iterated.summary,
        last_lines: iterated.last_lines,
    }
}

/// Waits for a provider, or for a signal.
async fn wait(
    iteration: u32,
    pause: Duration,
    host: &mut Host,
    tell: &mut impl FnMut(Moment, What),
) -> Option<Signal> {
    let until = host.clock.now().since_start.saturating_add(pause);
    loop {
        let now = host.clock.now();
        let left = until.saturating_sub(now.since_start);
        if left.is_zero() {
            return None;
        }
        tell(now, What::Waiting { iteration, left });
        if let Some(signal) = host.signals.within(left.min(Duration::from_secs(1))).await {
            let reason = &Reason::Interrupted { signal };
            tell(host.clock.now(), What::Interrupting { reason });
            return Some(signal);
        }
    }
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
fn limits(plan: &Plan, agent: &Agent, run: Option<(Duration, Duration)>) -> Limits {
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
        idle: plan.idle_timeout_for(agent),
        grace: plan.kill_grace.value.0,
        buffer: usize::try_from(plan.max_output_buffer.value.0).unwrap_or(usize::MAX),
    }
}

/// What became of an iteration.
struct Iterated {
    outcome: Outcome,
    transcript: Transcript,
    /// The end of the output, if it did not end well.
    last_lines: Vec<String>,
    summary: Option<String>,
    interrupted: Option<Signal>,
    /// Why there is no sense in going on.
    broken: Option<Reason>,
}

impl Iterated {
    fn failure(&self) -> Failure {
        match self.outcome {
            Outcome::Failed(failure) => failure,
            Outcome::Continue | Outcome::JobDone | Outcome::Interrupted => Failure::Error,
        }
    }

    /// What the agent's CLI says went wrong.
    fn message(&self) -> Option<&str> {
        let trouble = self
            .transcript
            .trouble
            .as_ref()
            .map(|trouble| &trouble.message);
        let denied = self.transcript.tools.first_denied.as_ref();
        match self.outcome {
            Outcome::Failed(Failure::Denied) => denied.map(String::as_str),
            _ => trouble.map(String::as_str),
        }
    }
}

/// Runs the agent once and judges what it did.
async fn iterate(
    attempt: &Attempt<'_>,
    host: &mut Host,
    progress: &Progress,
    tell: &mut impl FnMut(Moment, What),
) -> Iterated {
    let (ran, heard) = match run_agent(attempt, host, progress, tell).await {
        Ok(ran) => ran,
        Err(error) => {
            let problem = cannot_start(attempt.agent, &error);
            return Iterated {
                outcome: Outcome::Failed(Failure::NotStarted),
                transcript: Transcript::new(Format::Text),
                last_lines: Vec::new(),
                summary: None,
                interrupted: None,
                broken: Some(Reason::CannotStart { problem }),
            };
        }
    };
    let Overheard {
        transcript,
        last_words,
    } = heard;
    let rule = Rule {
        promise: &attempt.plan.completion_promise.value.0,
        matching: attempt.plan.promise_match.value,
        prompt: attempt.prompt,
    };
    let is_text = transcript.format == Format::Text;
    let promised = match is_text {
        true => scan(&ran.output, rule),
        false => scan_words(&transcript.words, transcript.words_are_cut, rule),
    };
    let outcome = judge(ran.end, promised, &transcript);
    let at = host.clock.now();
    notices(attempt.iteration, &ran, promised, is_text, at, tell);
    tell_of_transcript(attempt, &transcript, at, tell);
    tell(
        at,
        What::RawOutput {
            iteration: attempt.iteration,
            attempt: attempt.number,
            output: &ran.output,
        },
    );
    Iterated {
        outcome,
        summary: summary_of(&transcript, &ran.output),
        last_lines: match outcome {
            Outcome::Failed(_) | Outcome::Interrupted => match is_text {
                true => ran.output.last_lines(LAST_LINES),
                false => last_words.last_lines(LAST_LINES),
            },
            Outcome::Continue | Outcome::JobDone => Vec::new(),
        },
        transcript,
        interrupted: ran.interrupted,
        broken: None,
    }
}

/// What the agent says it did. Of plain text nobody knows which is its last message: only a section of that name counts.
fn summary_of(transcript: &Transcript, output: &Tail) -> Option<String> {
    match transcript.format {
        Format::Text => agent::summary_section(&output.end_of(Stream::Stdout, SUMMARIZED)),
        _ => agent::summary(&transcript.final_message),
    }
}

/// What was understood of an agent when it has ended.
struct Overheard {
    transcript: Transcript,
    /// The end of what people were shown.
    last_words: Tail,
}

/// Runs the agent and passes on what is heard of it. An error means that it could not be started.
async fn run_agent(
    attempt: &Attempt<'_>,
    host: &mut Host,
    progress: &Progress,
    tell: &mut impl FnMut(Moment, What),
) -> io::Result<(Ran, Overheard)> {
    let clock = host.clock;
    let iteration = attempt.iteration;
    let mut decoder = Decoder::new(attempt.agent.format, attempt.limits.buffer);
    let mut listener = Listener::new(iteration);
    let command = Command {
        words: &attempt.agent.command.words,
        input: attempt.prompt.as_bytes(),
        place: host
            .jails
            .get(attempt.jail)
            .map_or(Place::Here, Place::Jail),
    };
    let heard = |heard: Heard| {
        match heard {
            Heard::Output(stream, bytes) => {
                let at = clock.now();
                let mut is_used_up = false;
                decoder.feed(stream, bytes, &mut |note| {
                    if let Note::Usage(usage) = &note {
                        is_used_up |= progress.is_used_up_with(usage);
                    }
                    listener.hear(&note, at, tell);
                });
                if is_used_up {
                    return ControlFlow::Break(Cut::Budget);
                }
            }
            Heard::Tick {
                elapsed,
                since_output,
            } => tell(
                clock.now(),
                What::Running {
                    iteration,
                    phase: listener.phase,
                    tool: listener.tool.as_deref(),
                    elapsed,
                    since_output,
                },
            ),
            Heard::Interrupted(signal) => {
                let reason = &Reason::Interrupted { signal };
                tell(clock.now(), What::Interrupting { reason });
            }
        }
        ControlFlow::Continue(())
    };
    let ran = host
        .supervisor
        .run(
            command,
            attempt.limits,
            &mut host.signals,
            &host.console,
            heard,
        )
        .await?;
    let at = clock.now();
    let transcript = decoder.finish(ran.end.exit_code(), &mut |note| {
        listener.hear(&note, at, tell);
    });
    let last_words = listener.last_words;
    let overheard = Overheard {
        transcript,
        last_words,
    };
    Ok((ran, overheard))
}

/// Tells what an agent says and does while it runs.
struct Listener {
    iteration: u32,
    rendition: Rendition,
    watch: PhaseWatch,
    phase: Option<Phase>,
    tool: Option<String>,
    last_words: Tail,
}

impl Listener {
    fn new(iteration: u32) -> Self {
        Listener {
            iteration,
            rendition: Rendition::default(),
            watch: PhaseWatch::default(),
            phase: None,
            tool: None,
            last_words: Tail::new(LAST_WORDS),
        }
    }

    fn hear(&mut self, note: &Note, at: Moment, tell: &mut impl FnMut(Moment, What)) {
        let iteration = self.iteration;
        let text = &*self.rendition.show(note);
        if !text.is_empty() {
            if let Some(announced) = self.watch.feed(text)
                && self.phase.replace(announced) != Some(announced)
            {
                let phase = announced;
                tell(at, What::PhaseAnnounced { iteration, phase });
            }
            let end = text.len().saturating_sub(LAST_WORDS);
            self.last_words.push(Stream::Stdout, &text[end..]);
            tell(at, What::Shown { text });
        }
        if let Note::Tool { name, about } = note {
            self.tool = Some((*name).to_owned());
            let what = What::ToolUsed {
                iteration,
                name,
                about,
            };
            tell(at, what);
        }
    }
}

/// What the agent's own events say that a person should know.
fn tell_of_transcript(
    attempt: &Attempt,
    transcript: &Transcript,
    at: Moment,
    tell: &mut impl FnMut(Moment, What),
) {
    let iteration = attempt.iteration;
    if let Some(expected) = transcript.missed {
        let read_as = transcript.format;
        let what = What::NotUnderstood {
            iteration,
            expected,
            read_as,
        };
        tell(at, what);
    }
    let plan = attempt.plan;
    let usage = &transcript.usage;
    let unknown_tokens = plan.max_tokens.value.at().is_some() && !usage.has_tokens;
    let unknown_cost = plan.max_cost_usd.value.at().is_some() && usage.cost_usd.is_none();
    // An agent that could not work at all used up nothing.
    if (unknown_tokens || unknown_cost) && transcript.trouble.is_none() {
        tell(at, What::UsageUnknown { iteration });
    }
    if let Some(percent) = usage.context_percent().filter(|p| *p > SMART_ZONE) {
        tell(at, What::ContextFilling { iteration, percent });
    }
}

/// What else is worth knowing of an iteration.
fn notices(
    iteration: u32,
    ran: &Ran,
    promised: Promised,
    is_text: bool,
    at: Moment,
    tell: &mut impl FnMut(Moment, What),
) {
    // Events were read as they came.
    if is_text && ran.output.truncated() {
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
