//! One agent's attempt at an iteration: from the prompt to what it was.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use jiff::Timestamp;

use super::Host;
use super::listener::Listener;
use crate::agent::{self, Decoder, Note, Transcript};
use crate::config::Format;
use crate::error::without_number;
use crate::event::{Completed, Moment, What};
use crate::host::{Command, Heard, Limits, Place, Ran};
use crate::iteration::{
    Cut, End, Failure, Outcome, Progress, Promised, Rule, Stream, Tail, judge, scan, scan_words,
};
use crate::plan::{Agent, Plan};
use crate::signal::Signal;
use crate::status::Reason;

/// How many lines of a failed agent's output are told.
const LAST_LINES: usize = 15;

/// How much of plain text is looked through for a summary.
const SUMMARIZED: usize = 64 << 10;

/// A context that is fuller than this, in percent, makes models worse.
const SMART_ZONE: u32 = 60;

/// One agent's attempt at an iteration.
pub(super) struct Attempt<'a> {
    pub(super) iteration: u32,
    /// The first is 1.
    pub(super) number: u32,
    pub(super) plan: &'a Plan,
    pub(super) agent: &'a Agent,
    /// Which of the agents it is, and so which of the jails is its own.
    pub(super) turn: usize,
    pub(super) prompt: &'a str,
    /// How long the run had taken when it began.
    pub(super) elapsed: Duration,
}

/// What became of an iteration.
pub(super) struct Iterated {
    pub(super) outcome: Outcome,
    pub(super) transcript: Transcript,
    /// The end of the output, if it did not end well.
    last_lines: Vec<String>,
    summary: Option<String>,
    pub(super) interrupted: Option<Signal>,
    /// Why there is no sense in going on.
    pub(super) broken: Option<Reason>,
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

impl<'a> Attempt<'a> {
    /// Runs the agent once and judges what it did.
    pub(super) async fn run(
        &self,
        host: &mut Host,
        progress: &Progress,
        tell: &mut impl FnMut(Moment, What),
    ) -> Iterated {
        let (ran, heard) = match self.run_agent(host, progress, tell).await {
            Ok(ran) => ran,
            Err(error) => {
                let problem = cannot_start(self.agent, &error);
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
            promise: &self.plan.completion_promise.value.0,
            matching: self.plan.promise_match.value,
            prompt: self.prompt,
        };
        let is_text = transcript.format == Format::Text;
        let promised = match is_text {
            true => scan(&ran.output, rule),
            false => scan_words(&transcript.words, transcript.words_are_cut, rule),
        };
        let outcome = judge(ran.end, promised, &transcript);
        let at = host.clock.now();
        notices(self.iteration, &ran, promised, &transcript, at, tell);
        let has_printed = ran.output.has(Stream::Stdout);
        tell_of_transcript(self, &transcript, has_printed, at, tell);
        let unmeasured = unmeasured(self.plan, &transcript).next();
        let broken = unmeasured
            .filter(|_| {
                let is_over = matches!(outcome, Outcome::JobDone | Outcome::Interrupted);
                self.plan.budget_required.value && !is_over && ran.interrupted.is_none()
            })
            .map(|what| Reason::Unmeasured { what });
        tell(
            at,
            What::RawOutput {
                iteration: self.iteration,
                attempt: self.number,
                output: &ran.output,
            },
        );
        Iterated {
            outcome,
            summary: match outcome {
                // Whatever it says, it did nothing.
                Outcome::Failed(Failure::Denied) => None,
                _ => summary_of(&transcript, &ran.output),
            },
            last_lines: match outcome {
                Outcome::Failed(_) | Outcome::Interrupted => match is_text {
                    true => ran.output.last_lines(LAST_LINES),
                    false => last_words.last_lines(LAST_LINES),
                },
                Outcome::Continue | Outcome::JobDone => Vec::new(),
            },
            transcript,
            interrupted: ran.interrupted,
            broken,
        }
    }

    /// Runs the agent and passes on what is heard of it. An error means that it could not be started.
    async fn run_agent(
        &self,
        host: &mut Host,
        progress: &Progress,
        tell: &mut impl FnMut(Moment, What),
    ) -> io::Result<(Ran, Overheard)> {
        let clock = host.clock;
        let iteration = self.iteration;
        let limits = self.limits();
        let mut decoder = Decoder::new(self.agent.format, limits.buffer);
        let mut listener = Listener::new(iteration);
        let command = Command {
            words: &self.agent.command.words,
            input: self.prompt.as_bytes(),
            place: host.jails.get(self.turn).map_or(Place::Here, Place::Jail),
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
                    // Who is done costs no more, and may have promised success.
                    if is_used_up && !decoder.has_ended() {
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
            .run(command, limits, &mut host.signals, &host.console, heard)
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

    /// What one iteration may take: its own timeout, or what is left of the run's if that is less.
    fn limits(&self) -> Limits {
        let plan = self.plan;
        let own = plan.iteration_timeout.value.at().map(|span| span.0);
        let run = plan.run_timeout.value.at().map(|span| span.0);
        let left = run.map(|timeout| (timeout.saturating_sub(self.elapsed), timeout));
        let deadline = match (own, left) {
            (Some(own), Some((left, timeout))) if left <= own => {
                Some((left, Cut::RunTimeout(timeout)))
            }
            (Some(own), _) => Some((own, Cut::IterationTimeout(own))),
            (None, Some((left, timeout))) => Some((left, Cut::RunTimeout(timeout))),
            (None, None) => None,
        };
        Limits {
            deadline,
            idle: plan.idle_timeout_for(self.agent),
            grace: plan.kill_grace.value.0,
            buffer: usize::try_from(plan.max_output_buffer.value.0).unwrap_or(usize::MAX),
        }
    }

    /// The provider did not let the agent work.
    pub(super) fn limited(
        &self,
        iterated: &'a Iterated,
        wait: Option<(Duration, Timestamp)>,
    ) -> What<'a> {
        What::Limited {
            iteration: self.iteration,
            agent: &self.agent.name,
            failure: iterated.failure(),
            message: iterated.message().unwrap_or_default(),
            wait: wait.map(|(pause, now)| (pause, now.saturating_add(pause).unwrap_or(now))),
        }
    }

    /// Another agent takes over.
    pub(super) fn changed(&self, iterated: &'a Iterated, next: &'a str) -> What<'a> {
        What::AgentChanged {
            iteration: self.iteration,
            from: &self.agent.name,
            to: next,
            failure: iterated.failure(),
            message: iterated.message().unwrap_or_default(),
        }
    }

    /// The iteration is over, whatever happened in it.
    pub(super) fn completed(
        &self,
        iterated: Iterated,
        duration: Duration,
        progress: &Progress,
    ) -> Completed<'a> {
        let plan = self.plan;
        let transcript = &iterated.transcript;
        let is_failed = matches!(iterated.outcome, Outcome::Failed(_));
        Completed {
            iteration: self.iteration,
            agent: &self.agent.name,
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

/// What the agent's own events say that a person should know.
fn tell_of_transcript(
    attempt: &Attempt,
    transcript: &Transcript,
    has_printed: bool,
    at: Moment,
    tell: &mut impl FnMut(Moment, What),
) {
    let iteration = attempt.iteration;
    // Who printed nothing at all has other problems.
    let missed = transcript.missed.filter(|_| has_printed);
    if let Some(expected) = missed {
        let read_as = transcript.format;
        let what = What::NotUnderstood {
            iteration,
            expected,
            read_as,
        };
        tell(at, what);
    }
    for what in unmeasured(attempt.plan, transcript) {
        tell(at, What::UsageUnknown { iteration, what });
    }
    if let Some(percent) = transcript
        .usage
        .context_percent()
        .filter(|p| *p > SMART_ZONE)
    {
        tell(at, What::ContextFilling { iteration, percent });
    }
}

/// What there is a budget for, but nobody knows how much of it was used up. An agent that could not work at all used up
/// nothing.
fn unmeasured(plan: &Plan, transcript: &Transcript) -> impl Iterator<Item = &'static str> {
    let usage = &transcript.usage;
    let tokens = plan.max_tokens.value.at().is_some() && !usage.has_tokens;
    let cost = plan.max_cost_usd.value.at().is_some() && usage.cost_usd.is_none();
    let could_work = transcript.trouble.is_none();
    [(tokens, "tokens"), (cost, "cost")]
        .into_iter()
        .filter(move |(is_unknown, _)| *is_unknown && could_work)
        .map(|(_, what)| what)
}

/// What else is worth knowing of an iteration.
fn notices(
    iteration: u32,
    ran: &Ran,
    promised: Promised,
    transcript: &Transcript,
    at: Moment,
    tell: &mut impl FnMut(Moment, What),
) {
    // Events were read as they came; of those only the assistant's words are kept.
    let kept = match transcript.format {
        Format::Text => ran.output.truncated().then(|| ran.output.kept()),
        _ => transcript.words_are_cut.then_some(transcript.words.len()),
    };
    if let Some(kept) = kept {
        let (kept, total) = (kept as u64, ran.output.total());
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
