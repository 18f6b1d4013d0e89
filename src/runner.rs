//! The loop. It connects the pure parts with the edge and tells what happens; it decides nothing itself.

mod attempt;
mod listener;

use std::path::Path;
use std::time::Duration;

use self::attempt::{Attempt, Iterated};
use crate::config::{FragmentSource, Origin};
use crate::error::{Error, ErrorKind};
use crate::event::{Event, Moment, What};
use crate::host::{Clock, Console, Jail, Reader, Signals, Supervisor};
use crate::iteration::{Budget, Outcome, Patience, Progress, Recourse, Standing, Step};
use crate::plan::{Agent, Plan};
use crate::prompt::{self, Text};
use crate::signal::Signal;
use crate::status::{Reason, Status};

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
    let clock = host.clock;
    let mut tell = |at: Moment, what: What| emit(&Event { at, what });
    let mut course = Course::new(plan, agents, host.started);
    tell(
        clock.now(),
        What::RunStarted {
            procedure: &plan.procedure,
            task_id: &plan.task_id,
            limit: plan.limit.value,
            agent: &agents[0].name,
            command: &agents[0].command.text,
        },
    );
    let reason = loop {
        if let Some(reason) = course.step(host, &mut tell).await {
            break reason;
        }
    };
    tell(
        clock.now(),
        What::RunEnded {
            reason: &reason,
            stats: course.progress.stats(),
            spent: course.progress.spent(),
            total: course.elapsed(clock.now()),
        },
    );
    reason.status()
}

/// How far a run has come.
struct Course<'a> {
    plan: &'a Plan,
    agents: &'a [Agent],
    started: Duration,
    progress: Progress,
    patience: Patience,
    /// Whose turn it is.
    turn: usize,
    /// The last attempt: which iteration, and how often it was tried.
    tried: (u32, u32),
    interrupted: Option<Signal>,
}

impl<'a> Course<'a> {
    fn new(plan: &'a Plan, agents: &'a [Agent], started: Duration) -> Self {
        Course {
            plan,
            agents,
            started,
            progress: progress(plan),
            patience: Patience::new(plan.rate_limit_patience.value.at().map(|span| span.0)),
            turn: 0,
            tried: (0, 0),
            interrupted: None,
        }
    }

    fn elapsed(&self, now: Moment) -> Duration {
        now.since_start.saturating_sub(self.started)
    }

    /// Tries an iteration. Answers with the reason if the run is over.
    async fn step(
        &mut self,
        host: &mut Host,
        tell: &mut impl FnMut(Moment, What),
    ) -> Option<Reason> {
        host.supervisor.reap_strays();
        if self.interrupted.is_none() {
            self.interrupted = host.signals.pending().await;
        }
        let before = host.clock.now();
        let iteration = match self.progress.next(self.elapsed(before), self.interrupted) {
            Step::Run(iteration) => iteration,
            Step::Stop(reason) => return Some(reason),
        };
        let prompt = match assemble(self.plan, &host.reader) {
            Ok(prompt) => prompt,
            Err(error) => {
                let problem = one_line(&error);
                return Some(Reason::CannotPrompt { problem });
            }
        };
        let agent = &self.agents[self.turn];
        let name = agent.name.as_str();
        tell(
            before,
            What::IterationStarted {
                iteration,
                agent: name,
            },
        );
        let bytes = prompt.len();
        tell(host.clock.now(), What::PromptReady { iteration, bytes });
        self.tried = match self.tried {
            (tried, attempt) if tried == iteration => (tried, attempt + 1),
            _ => (iteration, 1),
        };
        let attempt = Attempt {
            iteration,
            number: self.tried.1,
            plan: self.plan,
            agent,
            turn: self.turn,
            prompt: &prompt,
            elapsed: self.elapsed(before),
        };
        let iterated = attempt.run(host, &self.progress, tell).await;
        self.progress.spend(&iterated.transcript.usage);
        self.interrupted = iterated.interrupted;
        self.follow(&attempt, iterated, before, host, tell).await
    }

    /// Does what an attempt leads to.
    async fn follow(
        &mut self,
        attempt: &Attempt<'_>,
        iterated: Iterated,
        before: Moment,
        host: &mut Host,
        tell: &mut impl FnMut(Moment, What),
    ) -> Option<Reason> {
        let now = host.clock.now();
        let reason = match self.recourse(attempt, &iterated, now) {
            Recourse::Wait(pause) => {
                tell(now, attempt.limited(&iterated, Some((pause, now.time))));
                self.interrupted = wait(attempt.iteration, pause, host, tell).await;
                return None;
            }
            Recourse::GiveUp(reason) => {
                tell(now, attempt.limited(&iterated, None));
                return Some(reason);
            }
            Recourse::Leave => {
                tell(now, attempt.limited(&iterated, None));
                return None;
            }
            Recourse::HandOver => {
                self.turn += 1;
                self.patience.renew();
                tell(
                    now,
                    attempt.changed(&iterated, &self.agents[self.turn].name),
                );
                return None;
            }
            Recourse::Abort(reason) => Some(reason),
            Recourse::Count => iterated.broken.clone(),
        };
        self.patience.renew();
        let duration = now.since_start.saturating_sub(before.since_start);
        self.progress.record(iterated.outcome, duration);
        let completed = attempt.completed(iterated, duration, &self.progress);
        tell(
            host.clock.now(),
            What::IterationCompleted(Box::new(completed)),
        );
        reason
    }

    fn recourse(&mut self, attempt: &Attempt, iterated: &Iterated, now: Moment) -> Recourse {
        let Outcome::Failed(failure) = iterated.outcome else {
            return Recourse::Count;
        };
        let standing = Standing {
            agent: &attempt.agent.name,
            has_next: self.turn + 1 < self.agents.len(),
            is_ending: self.interrupted.is_some() || self.progress.is_used_up(),
            now: now.time,
            run_timeout: self.progress.last_start(self.elapsed(now)),
        };
        let trouble = iterated.transcript.trouble.as_ref();
        self.patience.recourse(failure, trouble, standing)
    }
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

pub fn one_line(error: &Error) -> String {
    let messages: Vec<&str> = error
        .problems
        .iter()
        .map(|problem| problem.message.as_str())
        .collect();
    messages.join("; ")
}
