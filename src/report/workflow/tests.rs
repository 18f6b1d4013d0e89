//! What all reporters together print, and what the runner makes of it.

use std::cell::RefCell;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::runner_model::Runner;
use super::*;
use crate::error::ErrorKind;
use crate::event::Moment;
use crate::iteration::{Promised, Spent, Stream, Tail};
use crate::redact::RedactedStream;
use crate::report::Terminal;
use crate::signal::Signal;

type Shared = Rc<RefCell<Vec<u8>>>;

/// Where the agent's output goes: redacted, into the log.
struct Sink(Rc<RefCell<RedactedStream>>, Shared);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let shown = self.0.borrow_mut().feed(bytes).into_owned();
        self.1.borrow_mut().extend(shown);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A step with its log: the reporters together, as an action has them.
struct Step<T> {
    log: Shared,
    stream: Rc<RefCell<RedactedStream>>,
    terminal: Terminal<Sink>,
    workflow: Workflow<T>,
    secrets: Secrets,
    /// The commands that are ours.
    commands: Vec<String>,
}

const SECRETS: [&str; 3] = ["sesame", "two\nlines", "50%, half: 1"];

fn token(number: u32) -> String {
    format!("{number:032x}")
}

fn step(shows_output: bool, fails: &[Status]) -> Step<impl FnMut() -> String> {
    let secrets = Secrets::new(SECRETS.map(str::to_owned));
    let stream = Rc::new(RefCell::new(secrets.stream()));
    let log = Shared::default();
    let output = shows_output.then(|| Sink(stream.clone(), log.clone()));
    let mut tokens = 0;
    let fresh = move || {
        tokens += 1;
        token(tokens)
    };
    let mut step = Step {
        log,
        stream,
        terminal: Terminal::new(output, false, false),
        workflow: Workflow::new(shows_output, fails.to_vec(), secrets.clone(), fresh),
        secrets,
        commands: Vec::new(),
    };
    step.tell(What::RunStarted {
        procedure: "build",
        task_id: "build",
        limit: NonZeroU32::new(5).map_or(Limit::Unlimited, Limit::AtMost),
        agent: "mine",
        command: "agent",
    });
    step
}

impl<T: FnMut() -> String> Step<T> {
    fn tell(&mut self, what: What) {
        let at = Moment {
            time: Timestamp::UNIX_EPOCH,
            since_start: Duration::ZERO,
        };
        let event = &Event { at, what };
        let before = self.workflow.before(event);
        self.command(&before);
        for line in self.terminal.report(event).lines {
            let message = self.secrets.redact(&line.message);
            let line = format!("{}\n", inert_line(&message));
            self.log.borrow_mut().extend(line.into_bytes());
        }
        let after = self.workflow.after(event);
        self.command(&after);
    }

    fn command(&mut self, text: &str) {
        if !text.is_empty() {
            let rest = self.stream.borrow_mut().finish();
            self.log.borrow_mut().extend(rest);
            self.log.borrow_mut().extend_from_slice(text.as_bytes());
            let lines = text.lines().filter(|line| !line.is_empty());
            self.commands.extend(lines.map(str::to_owned));
        }
    }

    fn output(&mut self, bytes: &[u8]) {
        self.tell(What::Shown { text: bytes });
    }

    fn completed(&mut self, iteration: u32, outcome: Outcome, last_lines: &[&str]) {
        let last_lines = last_lines.iter().map(|line| (*line).to_owned()).collect();
        self.tell(What::IterationCompleted(Box::new(Completed {
            last_lines,
            ..Completed::of(iteration, outcome, Duration::from_secs(1))
        })));
    }

    fn end(&mut self, reason: &Reason) {
        let stats = &Stats::default();
        let total = Duration::from_secs(60);
        self.tell(What::RunEnded {
            reason,
            stats,
            spent: &Spent::default(),
            total,
        });
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&self.log.borrow()).into_owned()
    }

    /// The last command.
    fn last(&self) -> &str {
        self.commands.last().map_or("", String::as_str)
    }
}

const EXIT: Outcome = Outcome::Failed(Failure::Exit(1));

#[test]
fn an_iteration_is_a_group_and_its_output_is_fenced() {
    let mut step = step(true, &[Status::Aborted]);
    step.tell(What::IterationStarted {
        iteration: 1,
        agent: "mine",
    });
    step.output(b"::error::x\nlast sesa");
    step.output(b"me\r");
    let (iteration, ended) = (1, 2);
    step.completed(1, Outcome::Continue, &[]);
    step.tell(What::IterationStarted {
        iteration: 2,
        agent: "mine",
    });
    step.output(b"whole\n");
    step.tell(What::LeftBehind { iteration, ended });
    step.completed(2, EXIT, &["whole"]);
    step.end(&Reason::ConsecutiveFailures { failures: 1 });
    assert_eq!(
        step.log(),
        "Starting procedure: build with mine (max 5 iterations)\n\
         ::group::Iteration 1/5\n\
         Iteration 1/5 starting...\n\
         ::stop-commands::rooda-00000000000000000000000000000001\n\
         ::error::x\n\
         last ***\r\n\
         ::rooda-00000000000000000000000000000001::\n\
         ::endgroup::\n\
         \n\
         Iteration 1/5 completed in 1.0s (success)\n\
         ::group::Iteration 2/5\n\
         Iteration 2/5 starting...\n\
         ::stop-commands::rooda-00000000000000000000000000000002\n\
         whole\n\
         Iteration 1/5: ended 2 processes that the agent left behind\n\
         ::rooda-00000000000000000000000000000002::\n\
         ::endgroup::\n\
         Iteration 2/5 completed in 1.0s (failure, consecutive: 1/3): process: the agent exited with code 1\n\
         ::warning title=Iteration 2 failed::the agent exited with code 1: whole\n\
         Aborting after 1 consecutive failure (0 iterations completed, total: 1m00s)\n\
         ::error title=rooda%3A aborted::Aborting after 1 consecutive failure \
         (0 iterations completed, total: 1m00s)%0A\
         The agent's last lines, in iteration 2:%0Awhole\n"
    );
}

#[test]
fn what_is_not_shown_needs_no_fence() {
    let mut step = step(false, &[]);
    step.tell(What::IterationStarted {
        iteration: 1,
        agent: "mine",
    });
    step.output(b"half a line");
    step.completed(1, Outcome::Continue, &[]);
    assert_eq!(step.commands, ["::group::Iteration 1/5", "::endgroup::"]);
    assert_eq!(Runner::read(&step.log.borrow()).obeyed, step.commands);
}

#[test]
fn a_run_that_breaks_off_can_be_closed() {
    let mut step = step(true, &[]);
    step.tell(What::IterationStarted {
        iteration: 1,
        agent: "mine",
    });
    step.output(b"half a line");
    let fence = token(1);
    assert_eq!(
        step.workflow.close(),
        format!("\n::rooda-{fence}::\n::endgroup::\n")
    );
    assert_eq!(step.workflow.close(), "");
    // One that is not closed does not leak into the next group.
    step.output(b"x\n");
    step.tell(What::IterationStarted {
        iteration: 2,
        agent: "mine",
    });
    let fence = token(2);
    let log = step.log();
    assert!(log.contains(&format!("x\n::rooda-{fence}::\n::group::Iteration 2/5\n")));
}

#[test]
fn the_last_line_that_says_something_is_told() {
    let mut step = step(false, &[]);
    let lines = ["first", "::error::it is 50%, half: 1 ##[x]", "--- }"];
    step.completed(1, EXIT, &lines);
    assert_eq!(
        step.last(),
        "::warning title=Iteration 1 failed::the agent exited with code 1: \\::error::it is *** ##\\[x]"
    );
    step.completed(2, Outcome::Failed(Failure::NotStarted), &["---"]);
    assert_eq!(
        step.last(),
        "::warning title=Iteration 2 failed::the agent could not be started"
    );
}

#[test]
fn there_is_room_for_a_warning_at_the_end() {
    let mut step = step(false, &[]);
    for iteration in 1..=20 {
        step.completed(iteration, EXIT, &[]);
    }
    assert_eq!(step.commands.len(), 9);
    assert_eq!(
        step.last(),
        "::warning title=Iteration 9 failed::the agent exited with code 1%0A\
         What else fails is told in the log alone."
    );
    step.end(&Reason::ConsecutiveFailures { failures: 20 });
    assert_eq!(step.commands.len(), 10);
    assert!(
        step.last()
            .starts_with("::warning title=rooda%3A aborted::")
    );
}

#[test]
fn the_end_is_told_as_the_step_takes_it() {
    let limit = NonZeroU32::MIN;
    let signal = Signal::TERM;
    let promise = "DONE".to_owned();
    for (reason, fails, expected) in [
        (
            Reason::MaxIterations {
                limit,
                all_failed: false,
            },
            true,
            "::error title=rooda%3A max-iters::Reached",
        ),
        (
            Reason::MaxIterations {
                limit,
                all_failed: false,
            },
            false,
            "::warning title=rooda%3A max-iters::Reached",
        ),
        (
            Reason::Interrupted { signal },
            true,
            "::error title=rooda%3A interrupted::Interr",
        ),
        (
            Reason::Interrupted { signal },
            false,
            "::warning title=rooda%3A interrupted::Int",
        ),
        (
            Reason::Promised { promise },
            false,
            "::notice title=rooda%3A success::Success: ",
        ),
    ] {
        let mut step = step(false, if fails { &Status::ALL[1..] } else { &[] });
        step.end(&reason);
        assert_eq!(step.commands.len(), 1);
        assert!(step.last().starts_with(expected), "{}", step.last());
    }
}

#[test]
fn the_agents_last_words_are_told_if_they_are_the_last() {
    let mut step = step(false, &[Status::MaxIters]);
    let long = format!("{} sesame", "x".repeat(297));
    let mut lines = vec!["line"; 12];
    lines.push(&long);
    step.completed(1, EXIT, &lines);
    step.completed(2, Outcome::Interrupted, &[]);
    let limit = NonZeroU32::MIN;
    step.end(&Reason::MaxIterations {
        limit,
        all_failed: false,
    });
    let told = step
        .last()
        .split_once("in iteration 1:%0A")
        .map(|told| told.1);
    // The secret was taken out before its place was cut.
    let expected = format!("{}{} *…", "line%0A".repeat(9), "x".repeat(297));
    assert_eq!(told, Some(expected.as_str()));

    step.completed(3, Outcome::Continue, &[]);
    step.end(&Reason::MaxIterations {
        limit,
        all_failed: false,
    });
    let said = "Reached max iterations: 1 (0 iterations completed, total: 1m00s)";
    assert_eq!(
        step.last(),
        format!("::error title=rooda%3A max-iters::{said}")
    );
}

#[test]
fn a_refusal_tells_what_to_do() {
    let error = Error::new(ErrorKind::Config, "bad key `50%, half: 1`\n::x")
        .hint("100% sesame")
        .hint("or ##[this]");
    assert_eq!(
        refusal(&error, &Secrets::new(SECRETS.map(str::to_owned))),
        "::error title=rooda::bad key `***`\\n::x%0AHint: 100%25 ***%0AHint: or ##\\[this]\n"
    );
}

/// What an agent would print that wants to be obeyed.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "\n",
        "\r",
        "\r\n",
        " ",
        "\u{3000}",
        "::",
        "##[",
        "]",
        "##",
        "[",
        ":",
        "::error::x",
        "::set-env name=A::b",
        "##[set-output name=a]b",
        "::stop-commands::x",
        "::x::",
        "##[x]",
        "::endgroup::",
        "##[endgroup]",
        "::group::g",
        "::rooda-PREVIOUS::",
        "##[rooda-PREVIOUS]",
        "::rooda-",
        "::echo::on",
        "sesame",
        "sesa",
        "two\n",
        "two\nlines",
        "text",
        "\u{1b}[31m",
        "Iteration 1/5 completed",
        "%0A",
        "\u{85}",
        "\u{2028}",
        "\u{200b}",
        "\t",
    ]);
    let piece = prop_oneof![
        9 => piece.prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop::sample::select(vec![EXIT, Outcome::Continue, Outcome::Interrupted])
}

/// An iteration whose agent prints this in pieces of such a size, with something else told in between.
fn iterate<T: FnMut() -> String>(
    step: &mut Step<T>,
    iteration: u32,
    (printed, size, outcome): &(Vec<u8>, usize, Outcome),
) {
    // An agent may know the token of the fence before.
    let mut fences = step.commands.iter().rev();
    let previous = fences.find_map(|line| line.strip_prefix("::stop-commands::rooda-"));
    let previous = previous.unwrap_or_default().as_bytes();
    let printed = replace(printed, b"PREVIOUS", previous);
    let mut tail = Tail::new(1000);
    step.tell(What::IterationStarted {
        iteration,
        agent: "mine",
    });
    for (index, chunk) in printed.chunks(*size).enumerate() {
        tail.push(Stream::Stdout, chunk);
        step.output(chunk);
        let signal = Signal::INT;
        match index {
            1 => step.tell(What::Running {
                iteration,
                phase: None,
                tool: None,
                elapsed: Duration::from_secs(60),
                since_output: Duration::ZERO,
            }),
            2 => step.tell(What::Interrupting {
                reason: &Reason::Interrupted { signal },
            }),
            3 => step.tell(What::PromiseIgnored {
                iteration,
                promised: Promised::Success,
            }),
            _ => {}
        }
    }
    let lines = tail.last_lines(15);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    step.completed(iteration, *outcome, &lines);
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::new();
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(from) {
            replaced.extend_from_slice(to);
            rest = after;
        } else {
            replaced.push(*first);
            rest = &rest[1..];
        }
    }
    replaced
}

proptest! {
    #[test]
    fn the_runner_obeys_us_and_nobody_else(
        shows_output in any::<bool>(),
        iterations in prop::collection::vec((hostile(), 1_usize..30, outcome()), 1..4),
        reason in hostile(),
    ) {
        let mut step = step(shows_output, &Status::ALL[1..]);
        for (number, iteration) in (1..).zip(&iterations) {
            iterate(&mut step, number, iteration);
        }
        let problem = String::from_utf8_lossy(&reason).into_owned();
        step.end(&Reason::CannotPrompt { problem });

        let runner = Runner::read(&step.log.borrow());
        prop_assert_eq!(&runner.obeyed, &step.commands);
        prop_assert_eq!(runner.stopped, None);
        let errors = runner.obeyed.iter().filter(|command| command.starts_with("::error"));
        prop_assert_eq!(errors.count(), 1);
        for number in 1..=iterations.len() {
            let completed = format!("Iteration {number}/5 completed in");
            let seen = runner.seen.iter().filter(|line| line.starts_with(&completed));
            prop_assert_eq!(seen.count(), 1);
        }
        let log = step.log();
        for secret in SECRETS {
            prop_assert!(!log.contains(secret));
        }
    }
}
