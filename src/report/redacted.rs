//! Events without secrets.

use crate::event::{Completed, Event, What};
use crate::redact::Secrets;

/// Tells an event without the secrets that an agent's words may hold. Half a secret is not recognised any more, nor one
/// with marks of Markdown in it: they go before anything else is done with the words.
pub fn redacted(event: &Event, secrets: &Secrets, tell: impl FnOnce(&Event)) {
    let hide = |text: &str| secrets.redact(text).into_owned();
    let (said, named, running, ended);
    let what = match &event.what {
        What::IterationCompleted(completed) => What::IterationCompleted(Box::new(Completed {
            last_lines: completed.last_lines.iter().map(|line| hide(line)).collect(),
            message: completed.message.as_deref().map(hide),
            summary: completed.summary.as_deref().map(hide),
            session: completed.session.as_deref().map(hide),
            model: completed.model.as_deref().map(hide),
            version: completed.version.as_deref().map(hide),
            ..**completed
        })),
        What::ToolUsed {
            iteration,
            name,
            about,
        } => {
            said = hide(about);
            named = hide(name);
            What::ToolUsed {
                iteration: *iteration,
                name: &named,
                about: &said,
            }
        }
        What::Running {
            iteration,
            phase,
            tool,
            elapsed,
            since_output,
        } => {
            running = tool.map(hide);
            What::Running {
                iteration: *iteration,
                phase: *phase,
                tool: running.as_deref(),
                elapsed: *elapsed,
                since_output: *since_output,
            }
        }
        What::Limited {
            iteration,
            agent,
            failure,
            message,
            wait,
        } => {
            said = hide(message);
            What::Limited {
                iteration: *iteration,
                agent,
                failure: *failure,
                message: &said,
                wait: *wait,
            }
        }
        What::AgentChanged {
            iteration,
            from,
            to,
            failure,
            message,
        } => {
            said = hide(message);
            What::AgentChanged {
                iteration: *iteration,
                from,
                to,
                failure: *failure,
                message: &said,
            }
        }
        What::RunEnded {
            reason,
            stats,
            spent,
            total,
        } => {
            ended = reason.with_words(hide);
            What::RunEnded {
                reason: &ended,
                stats,
                spent,
                total: *total,
            }
        }
        _ => return tell(event),
    };
    tell(&Event { at: event.at, what });
}
