//! The sentences of the log, in a few words each.

use std::time::Duration;

use tracing::Level;

use crate::agent::Usage;
use crate::config::Phase;
use crate::event::What;
use crate::iteration::{Failure, Outcome, Spent};
use crate::units::{Cost, Count, Elapsed, Grouped, Size};

/// What the agent is at, as far as it tells.
pub(super) fn doing(phase: Option<Phase>, tool: Option<&str>) -> String {
    let phase = phase.map(|phase| format!("phase {}, ", phase.heading()));
    let tool = tool.map(|tool| format!("tool {tool}, "));
    phase.unwrap_or_default() + &tool.unwrap_or_default()
}

/// What an iteration used up, for the end of its line.
pub(super) fn used(usage: &Usage) -> String {
    let mut parts = Vec::new();
    let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
    // Who could not work used up nothing, and need not say so.
    let cost = usage.cost_usd.filter(|cost| *cost > 0.0 || tokens > 0);
    if tokens > 0 {
        parts.push(format!("{} tokens", Grouped(tokens)));
    }
    parts.extend(cost.map(|cost| Cost(cost).to_string()));
    parts.extend(
        usage
            .context_percent()
            .map(|percent| format!("context {percent} %")),
    );
    match parts.is_empty() {
        true => String::new(),
        false => format!(" [{}]", parts.join(", ")),
    }
}

/// What can be done about a failure that a person has to mend.
pub(super) fn hint(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Failed(Failure::Denied) => Some(
            "the command line lacks the flag that lets the agent work without asking; the built-in aliases have it (`rooda agents`)",
        ),
        Outcome::Failed(Failure::Nothing) => {
            Some("was the prompt read? The AI command must take it on standard input")
        }
        Outcome::Failed(_) | Outcome::Continue | Outcome::JobDone | Outcome::Interrupted => None,
    }
}

/// The CLI's own words in brackets, if there are any.
pub(super) fn quoted(message: &str) -> String {
    match message.is_empty() {
        true => String::new(),
        false => format!(" ({message})"),
    }
}

/// What else happened in an iteration, in a few words.
pub(super) fn notice(what: &What) -> Option<(Level, String)> {
    Some(match what {
        What::PromptReady { bytes, .. } => {
            let size = Size(*bytes as u64);
            (Level::DEBUG, format!("prompt assembled, {size}"))
        }
        What::PhaseAnnounced { phase, .. } => (Level::DEBUG, format!("phase {}", phase.heading())),
        What::ToolUsed { name, about, .. } => (Level::DEBUG, format!("tool {name}: {about}")),
        What::NotUnderstood {
            expected, read_as, ..
        } => {
            let notice = format!(
                "the agent's output is not what the format `{expected}` says; it was read as {read_as}"
            );
            (Level::WARN, notice)
        }
        What::UsageUnknown { what, .. } => {
            let notice = format!("the agent did not tell its {what}: the budget does not cover it");
            (Level::WARN, notice)
        }
        What::ContextFilling { percent, .. } => {
            let notice = format!(
                "the context was {percent} % full; models get worse above 60 %: give it smaller tasks"
            );
            (Level::WARN, notice)
        }
        What::Limited {
            agent,
            failure,
            message,
            wait,
            ..
        } => {
            let class = failure.class();
            let message = quoted(message);
            let notice = match wait {
                Some((pause, until)) => format!(
                    "{class}: {agent}: {failure}{message}; waiting {} until {} UTC, then trying again",
                    whole(*pause),
                    until.strftime("%H:%M:%S")
                ),
                None => format!("{class}: {agent}: {failure}{message}; not waiting for it"),
            };
            (Level::WARN, notice)
        }
        What::AgentChanged {
            from,
            to,
            failure,
            message,
            ..
        } => {
            let class = failure.class();
            let message = quoted(message);
            let notice = format!("{class}: {from}: {failure}{message}; {to} takes over");
            (Level::WARN, notice)
        }
        What::OutputTruncated { kept, total, .. } => {
            let (kept, total) = (Size(*kept), Size(*total));
            let notice = format!(
                "output truncated: kept the last {kept} of {total}; what came before is not scanned"
            );
            (Level::WARN, notice)
        }
        What::LeftBehind { ended, .. } => {
            let processes = Count(*ended as u64, "process");
            let notice = format!("ended {processes} that the agent left behind");
            (Level::INFO, notice)
        }
        What::Survived { processes, .. } => {
            let processes = Count(*processes as u64, "process");
            let notice =
                format!("{processes} of the agent did not end, not even with SIGKILL; going on");
            (Level::WARN, notice)
        }
        What::ProcessesUnseen { .. } => {
            let notice =
                "the agent's processes cannot be seen (/proc cannot be read); some may go on";
            (Level::WARN, notice.to_owned())
        }
        What::PromiseIgnored { promised, .. } => {
            let word = promised.word();
            let notice =
                format!("the agent had promised {word} before it was ended; that does not count");
            (Level::WARN, notice)
        }
        _ => return None,
    })
}

/// What the whole run used up, for the end of its last line.
pub(super) fn spent_so_far(spent: &Spent) -> String {
    let tokens = (spent.tokens() > 0).then(|| format!(", {} tokens", Grouped(spent.tokens())));
    let least = match spent.is_cost_partial {
        true => "at least ",
        false => "",
    };
    let cost = spent
        .cost_usd
        .map(|cost| format!(", {least}{}", Cost(cost)));
    tokens.unwrap_or_default() + &cost.unwrap_or_default()
}

/// A running time in whole seconds: the tenths would only flicker.
pub(super) fn whole(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        _ => Elapsed(Duration::from_secs(seconds)).to_string(),
    }
}
