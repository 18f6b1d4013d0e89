use std::num::NonZeroU32;
use std::time::Duration;

use jiff::Timestamp;
use pulldown_cmark::{Event as Seen, Options, Parser, Tag};

use super::*;
use crate::agent::Context;
use crate::config::Format;
use crate::error::{Error, ErrorKind};
use crate::iteration::Failure;
use crate::iteration::Promised;
use crate::report::Protection;
use crate::signal::Signal;

const HOSTILE: &str =
    "@octocat fixes #1 | </details> <img src=x> ![x](https://evil.example) ``` $x$ :tada: \u{202e}";

fn heading() -> Heading {
    let setting = |name: &str, value: &str, source: &str| {
        (name.to_owned(), value.to_owned(), source.to_owned())
    };
    Heading {
        procedure: "build".to_owned(),
        commands: vec!["claude -p --dangerously-skip-permissions".to_owned()],
        version: "0.1.0",
        settings: vec![
            setting("Max Iterations", "10", "input: max-iterations"),
            setting("Iteration Timeout", "30m", "default of the action"),
            setting("Completion Promise", "SUCCESS", "built-in"),
        ],
        protections: vec![
            Protection {
                name: "own user",
                in_force: true,
                detail: "the agent runs as uid 1001 with a group of its own".to_owned(),
            },
            Protection {
                name: "Landlock",
                in_force: false,
                detail: "This kernel has no Landlock, and `sandbox: auto` lets the run go on."
                    .to_owned(),
            },
        ],
        notes: vec!["The run ends after 5h45m at the latest: `run-timeout` is not set.".to_owned()],
    }
}

/// A summary that hears of events at the times that it is told.
struct Run {
    summary: Summary,
    clock: Duration,
    spent: Spent,
}

impl Run {
    fn new(heading: Heading, limit: u32) -> Self {
        let mut run = Run {
            summary: Summary::new(heading),
            clock: Duration::ZERO,
            spent: Spent::default(),
        };
        run.tell(What::RunStarted {
            procedure: "build",
            task_id: "build",
            limit: NonZeroU32::new(limit).map_or(Limit::Unlimited, Limit::AtMost),
            agent: "claude",
            command: "claude",
        });
        run
    }

    fn tell(&mut self, what: What) {
        let start = Timestamp::from_second(1_794_795_000).unwrap();
        let at = Moment {
            time: start + self.clock,
            since_start: self.clock,
        };
        self.summary.record(&Event { at, what });
    }

    fn iterate(&mut self, iteration: u32, outcome: Outcome, seconds: u64, last_lines: &[&str]) {
        let duration = Duration::from_secs(seconds);
        self.clock += duration;
        self.tell(What::IterationCompleted(Box::new(Completed {
            last_lines: last_lines.iter().map(|line| (*line).to_owned()).collect(),
            ..Completed::of(iteration, outcome, duration)
        })));
    }

    /// A minute of an agent's work. `tell`: what else is known of it.
    fn work(&mut self, iteration: u32, agent: &str, outcome: Outcome, tell: fn(&mut Completed)) {
        let duration = Duration::from_secs(60);
        self.clock += duration;
        let mut completed = Completed {
            agent,
            ..Completed::of(iteration, outcome, duration)
        };
        tell(&mut completed);
        self.spent = self.spent.with(&completed.usage);
        completed.spent = self.spent;
        self.tell(What::IterationCompleted(Box::new(completed)));
    }

    fn end(&mut self, reason: &Reason) -> String {
        let total = self.clock;
        // The summary keeps statistics of its own, as it needs them before the end too.
        let stats = &Stats::default();
        let spent = &self.spent.clone();
        self.tell(What::RunEnded {
            reason,
            stats,
            spent,
            total,
        });
        self.summary.markdown()
    }
}

fn first_line(markdown: &str) -> &str {
    markdown.lines().next().unwrap_or_default()
}

fn exit(code: i32) -> Outcome {
    Outcome::Failed(Failure::Exit(code))
}

fn promised() -> Reason {
    let promise = "SUCCESS".to_owned();
    Reason::Promised { promise }
}

#[test]
fn a_night_of_work() {
    let mut run = Run::new(heading(), 10);
    run.iterate(1, Outcome::Continue, 412, &[]);
    run.iterate(
        2,
        exit(1),
        95,
        &["error: could not compile `demo`", "2 errors"],
    );
    let ended = What::LeftBehind {
        iteration: 3,
        ended: 2,
    };
    run.tell(ended);
    run.iterate(3, Outcome::Continue, 380, &[]);
    run.iterate(4, Outcome::JobDone, 130, &[]);
    insta::assert_snapshot!(run.end(&promised()));
}

#[test]
fn two_agents_and_what_they_used_up() {
    let mut heading = heading();
    heading.commands.push("codex exec --json -".to_owned());
    let mut run = Run::new(heading, 10);
    run.work(1, "claude", Outcome::Continue, |completed| {
        completed.usage = used(51_486, Some(0.043), Some(12));
        completed.summary = Some("Wrote src/main.rs.\n@octocat fixes #1".to_owned());
    });
    run.tell(What::ContextFilling {
        iteration: 2,
        percent: 71,
    });
    run.work(2, "claude", Outcome::Failed(Failure::Error), |completed| {
        completed.usage = used(900_000, Some(1.5), Some(71));
        completed.message = Some("API Error: 500 | it broke".to_owned());
    });
    let until = Timestamp::from_second(1_794_795_100).unwrap();
    run.tell(What::Limited {
        iteration: 3,
        agent: "claude",
        failure: Failure::RateLimited,
        message: "You've hit your limit",
        wait: Some((Duration::from_secs(65), until)),
    });
    run.tell(What::AgentChanged {
        iteration: 3,
        from: "claude",
        to: "codex",
        failure: Failure::RateLimited,
        message: "You've hit your limit",
    });
    // It tells tokens, and nothing else.
    run.work(3, "codex", Outcome::Continue, |completed| {
        completed.usage = used(24_084, None, None);
        completed.summary = Some("Ran the tests.".to_owned());
    });
    run.tell(What::UsageUnknown {
        iteration: 4,
        what: "tokens",
    });
    run.tell(What::NotUnderstood {
        iteration: 4,
        expected: Format::Codex,
        read_as: Format::Text,
    });
    run.work(4, "codex", Outcome::Continue, |_| {});
    let budget = 1.5;
    let cost = 1.543;
    insta::assert_snapshot!(run.end(&Reason::CostBudget { cost, budget }));
}

/// What an iteration used up: tokens, cost, and how full the context was, in percent.
fn used(tokens: u64, cost_usd: Option<f64>, percent: Option<u64>) -> Usage {
    Usage {
        input_tokens: tokens - 100,
        output_tokens: 100,
        has_tokens: true,
        cost_usd,
        turns: None,
        context: percent.map(|percent| Context {
            used: percent * 2_000,
            window: Some(200_000),
        }),
    }
}

#[test]
fn the_words_of_a_cli_stand_in_for_lines_that_it_did_not_print() {
    let mut run = Run::new(heading(), 10);
    run.work(1, "claude", Outcome::Failed(Failure::Error), |completed| {
        completed.message = Some("it ``` broke".to_owned());
    });
    let markdown = run.summary.markdown();
    let told = "(the agent reported an error)</summary>\n\n````text\nit ``` broke\n````\n";
    assert!(markdown.contains(told), "{markdown}");
    run.work(2, "claude", exit(1), |_| {});
    let markdown = run.summary.markdown();
    assert!(
        markdown.contains("\n\nThe agent said nothing.\n"),
        "{markdown}"
    );
}

#[test]
fn until_the_end_it_says_that_it_is_not_the_end() {
    let mut run = Run::new(heading(), 5);
    for (iteration, so_far) in [(1, "1 of 5"), (2, "2 of 5"), (3, "3 of 5")] {
        run.iterate(iteration, Outcome::Continue, 60, &[]);
        let expected = format!(
            "## ⏳ rooda: running, {so_far} iterations so far; if you read this after the job ended, the run was killed"
        );
        assert_eq!(first_line(&run.summary.markdown()), expected);
    }
    let markdown = run.summary.markdown();
    assert!(markdown.contains(
        "Running for **3m00s**, from 2026-11-16 02:10; this was written 2026-11-16 02:13 UTC."
    ));
    let unlimited = Run::new(heading(), 0).summary.markdown();
    assert!(first_line(&unlimited).starts_with("## ⏳ rooda: running, 0 iterations so far; if"));
}

#[test]
fn an_interruption_is_told_at_once_and_the_end_has_the_last_word() {
    let mut run = Run::new(heading(), 5);
    run.iterate(1, Outcome::Continue, 60, &[]);
    let signal = Signal::TERM;
    let reason = &Reason::Interrupted { signal };
    run.tell(What::Interrupting { reason });
    let expected = "## 🛑 rooda: interrupted – Interrupted by SIGTERM";
    assert_eq!(first_line(&run.summary.markdown()), expected);
    run.iterate(2, Outcome::Interrupted, 30, &[]);
    let markdown = run.end(reason);
    assert_eq!(first_line(&markdown), expected);
    assert!(
        markdown.contains("| 1 | 1 | 0 | 1 | 1m00s | 1m00s |"),
        "{markdown}"
    );
    assert!(markdown.contains("| 2 | 🛑 interrupted | 30.0s |"));
    assert!(first_line(&run.end(&promised())).starts_with("## ✅ rooda: success"));
    run.tell(What::Interrupting { reason });
    assert!(first_line(&run.summary.markdown()).starts_with("## ✅ rooda: success"));
}

#[test]
fn every_status_has_its_first_line() {
    let limit = NonZeroU32::new(5).unwrap();
    let timeout = Duration::from_secs(20_700);
    let problem = "/bin/claude: it is gone".to_owned();
    for (reason, expected) in [
        (
            promised(),
            "✅ rooda: success – the agent promised \"SUCCESS\"",
        ),
        (
            Reason::ConsecutiveFailures { failures: 3 },
            "❌ rooda: aborted – Aborting after 3 consecutive failures",
        ),
        (
            Reason::CannotStart { problem },
            "❌ rooda: aborted – Aborting, the AI command cannot be started: `/bin/claude:` it is gone",
        ),
        (
            Reason::MaxIterations {
                limit,
                all_failed: false,
            },
            "🔁 rooda: max-iters – Reached max iterations: 5",
        ),
        (
            Reason::RunTimeout { timeout },
            "⏰ rooda: exhausted – Reached run timeout: 5h45m",
        ),
    ] {
        let markdown = Run::new(heading(), 5).end(&reason);
        assert_eq!(first_line(&markdown), format!("## {expected}"));
    }
}

#[test]
fn what_the_agent_said_last_is_open_only_if_the_run_did_not_succeed() {
    let mut run = Run::new(heading(), 5);
    run.iterate(1, exit(1), 60, &["first"]);
    run.iterate(2, exit(2), 60, &["second"]);
    let failed = run.end(&Reason::ConsecutiveFailures { failures: 2 });
    let title = "The agent's last lines in iteration 2 (the agent exited with code 2)";
    let body = format!("\n<summary>{title}</summary>\n\n```text\nsecond\n```\n\n</details>\n");
    assert!(
        failed.contains(&format!("\n<details open>{body}")),
        "{failed}"
    );
    assert!(!failed.contains("first\n"));
    let succeeded = run.end(&promised());
    assert!(succeeded.contains(&format!("\n<details>{body}")));
}

#[test]
fn what_else_happened_is_counted() {
    let mut run = Run::new(heading(), 5);
    for iteration in [1, 2] {
        run.tell(What::Survived {
            iteration,
            processes: 1,
        });
        run.tell(What::ProcessesUnseen { iteration });
    }
    run.tell(What::PromiseIgnored {
        iteration: 1,
        promised: Promised::Success,
    });
    run.tell(What::OutputTruncated {
        iteration: 1,
        kept: 1,
        total: 2,
    });
    let markdown = run.summary.markdown();
    for incident in [
        "- ⚠️ 2 processes of the agent did not end, not even with SIGKILL.\n",
        "- ⚠️ The agent's processes could not be seen 2 times; some may have gone on.\n",
        "- ⚠️ An agent that had to be ended had promised something once; that does not count.\n",
        "- ⚠️ Output was truncated once: only its end was kept and scanned.\n",
    ] {
        assert!(markdown.contains(incident), "{incident}");
    }
}

#[test]
fn ten_thousand_iterations_take_no_more_room_than_two_hundred() {
    let mut run = Run::new(heading(), 0);
    let mut sizes = Vec::new();
    for iteration in 1..=10_000 {
        let outcome = if iteration % 7 == 0 {
            exit(1)
        } else {
            Outcome::Continue
        };
        run.iterate(iteration, outcome, u64::from(iteration % 13) + 1, &[]);
        if iteration % 1_000 == 300 {
            sizes.push(run.summary.markdown().len());
        }
    }
    assert_eq!(run.summary.first.len() + run.summary.last.len(), 200);
    assert!(run.summary.last.capacity() < 1_000);
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(*most < least + least / 10, "{sizes:?}");

    let markdown = run.end(&promised());
    assert!(markdown.len() < 20_000, "{}", markdown.len());
    assert!(markdown.contains("<details>\n<summary>The iterations, 10,000 in all</summary>"));
    let cut = "| … | … 9,800 iterations left out, all are in the events file | … |\n| 9851 |";
    assert!(markdown.contains(cut), "{markdown}");
    for row in [1, 50, 9_851, 10_000] {
        assert!(markdown.contains(&format!("\n| {row} | ")), "{row}");
    }
    for row in [51, 9_850] {
        assert!(!markdown.contains(&format!("\n| {row} | ")), "{row}");
    }
    assert!(
        markdown.contains("| 10,000 | 8,572 | 1,428 |"),
        "{markdown}"
    );
    assert!(markdown.contains(
        "title \"Duration of the last 40 of 10,000 iterations (green: succeeded, red: failed)\""
    ));
}

#[test]
fn huge_texts_are_cut_and_say_so() {
    let huge = "ä|\u{202e}".repeat(50_000);
    let mut heading = heading();
    heading.procedure = huge.clone();
    heading.commands = vec![huge.clone(); 500];
    heading.settings = vec![(huge.clone(), huge.clone(), huge.clone()); 1_000];
    heading.notes = vec![huge.clone(); 1_000];
    for protection in &mut heading.protections {
        protection.detail = huge.clone();
    }
    let mut run = Run::new(heading, 0);
    let lines = vec![huge.as_str(); 70];
    run.iterate(1, exit(1), 60, &lines);
    let problem = "x".repeat(10_000_000);
    let markdown = run.end(&Reason::CannotPrompt { problem });
    assert!(markdown.len() < 1_048_576, "{}", markdown.len());
    for cut in [
        "- … 940 notes left out\n",
        "… 55 lines left out …",
        "… (149,500 characters left out)\n",
        "| … | … 940 settings left out | … |",
    ] {
        assert!(markdown.contains(cut), "{cut}");
    }
    assert!(first_line(&markdown).len() < 1_500);
    let mut error = Error::new(ErrorKind::Config, &huge).hint(&huge);
    error.problems = vec![error.problems[0].clone(); 1_000];
    assert!(refused(&error, "0.1.0").len() < 1_048_576);
    assert!(rehearsed(&huge.repeat(10), true, "0.1.0").len() < 1_048_576);
}

/// Asserts that an independent parser sees no more than what is ours.
fn assert_inert(markdown: &str) {
    let mut in_code_block = false;
    let (mut opened, mut closed) = (0, 0);
    for event in Parser::new_ext(markdown, Options::all()) {
        match event {
            Seen::Start(Tag::CodeBlock(_)) => in_code_block = true,
            Seen::End(pulldown_cmark::TagEnd::CodeBlock) => in_code_block = false,
            Seen::Start(tag) => assert!(
                !matches!(
                    tag,
                    Tag::Link { .. } | Tag::Image { .. } | Tag::FootnoteDefinition(_)
                ),
                "{tag:?}"
            ),
            Seen::Html(html) | Seen::InlineHtml(html) => {
                let own = ["<details", "<summary>", "</details>", "<sub>", "</sub>"];
                assert!(own.iter().any(|tag| html.starts_with(tag)), "{html}");
                assert!(!html.contains("octocat"), "{html}");
                opened += usize::from(html.starts_with("<details"));
                closed += usize::from(html.starts_with("</details>"));
            }
            Seen::Text(text) if !in_code_block => {
                let signs = ["@", "#", "$", "://", ":tada:", "octocat"];
                assert!(!signs.iter().any(|sign| text.contains(sign)), "{text}");
            }
            Seen::InlineMath(math) | Seen::DisplayMath(math) => panic!("{math}"),
            _ => {}
        }
    }
    assert_eq!(opened, closed);
}

#[test]
fn nothing_foreign_takes_effect() {
    let foreign = HOSTILE.to_owned();
    let lines = format!("{HOSTILE}\n```\n# h\n</details>\n~~~\n````math\n");
    let mut heading = heading();
    heading.procedure = foreign.clone();
    heading.commands = vec![foreign.clone(); 2];
    heading.settings = vec![(foreign.clone(), lines.clone(), foreign.clone())];
    heading.notes = vec![foreign.clone(), lines.clone()];
    heading.protections[1].detail = lines.clone();
    let mut run = Run::new(heading, 0);
    run.iterate(1, exit(1), 60, &[&lines, "```", "</details>", HOSTILE]);
    let problem = lines.clone();
    let markdown = run.end(&Reason::CannotPrompt { problem });
    assert_inert(&markdown);
    assert!(first_line(&markdown).starts_with("## ❌ rooda: aborted – Aborting, the prompt"));
    let error = Error::new(ErrorKind::Config, &lines).hint(&lines);
    assert_inert(&refused(&error, "0.1.0"));
    let both = Error {
        kind: ErrorKind::Config,
        problems: [error.problems.clone(), error.problems].concat(),
    };
    assert_inert(&refused(&both, "0.1.0"));
    assert_inert(&rehearsed(&lines, false, "0.1.0"));
}

#[test]
fn runs_that_never_started_say_why_and_what_to_do() {
    let error = Error::new(ErrorKind::Config, "unknown key `levle`").hint("did you mean `level`?");
    assert_eq!(
        refused(&error, "0.1.0"),
        "## ❌ rooda: error – unknown key `levle`\n\n- 💡 did you mean `level`?\n\n\
         No iteration was run. The exit code is 78.\n\n<sub>rooda 0.1.0</sub>\n"
    );
    let other = Error::new(ErrorKind::Config, "`max_iterations` is 0").hint("use `unlimited`");
    let both = Error {
        kind: ErrorKind::Config,
        problems: [error.problems, other.problems].concat(),
    };
    assert_eq!(
        refused(&both, "0.1.0"),
        "## ❌ rooda: error – 2 problems\n\n- unknown key `levle`\n  - 💡 did you mean `level`?\n\
         - `max_iterations` is 0\n  - 💡 use `unlimited`\n\n\
         No iteration was run. The exit code is 78.\n\n<sub>rooda 0.1.0</sub>\n"
    );
    assert_eq!(
        rehearsed("=== Dry-Run: build ===\n", true, "0.1.0"),
        "## 📝 rooda: dry-run – all is well, and nothing was run\n\n\
         ```text\n=== Dry-Run: build ===\n```\n\n<sub>rooda 0.1.0</sub>\n"
    );
    let wrong = rehearsed("x", false, "0.1.0");
    assert!(wrong.starts_with("## ❌ rooda: dry-run – something is wrong"));
}

#[test]
fn the_chart_colours_by_outcome_and_numbers_what_it_can() {
    let mut run = Run::new(heading(), 0);
    run.iterate(1, Outcome::Continue, 90, &[]);
    assert!(!run.summary.markdown().contains("mermaid"));
    run.iterate(2, exit(1), 7_300, &[]);
    run.iterate(3, Outcome::Interrupted, 3_600, &[]);
    let markdown = run.summary.markdown();
    let chart = "xychart-beta\n    title \"Duration of each iteration (green: succeeded, red: failed, grey: interrupted)\"\n    \
                 x-axis \"iteration\" [1, 2, 3]\n    y-axis \"hours\" 0 --> 2.03\n    \
                 bar [0.03, -0.5075, -0.5075]\n    bar [-0.5075, 2.03, -0.5075]\n    bar [-0.5075, -0.5075, 1]\n```\n";
    assert!(markdown.contains(chart), "{markdown}");
    assert!(markdown.contains("\"#4ac26b, #cf222e, #8c959f\""));
    for iteration in 4..=30 {
        run.iterate(iteration, Outcome::Continue, 90, &[]);
    }
    let markdown = run.summary.markdown();
    assert!(!markdown.contains(", 30]"));
    assert!(markdown.contains("[\"\u{200b}\", \"\u{200b}\u{200b}\", \"\u{200b}\u{200b}\u{200b}\", \"\u{200b}\u{200b}\u{200b}\u{200b}\", 5, "));
}
