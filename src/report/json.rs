//! An event as a JSON object, for `--log-format json` and the events file of the action.

use serde_json::{Value, json};

use crate::event::{Completed, Event, What};
use crate::iteration::{Failure, Outcome};
use crate::plan::Limit;

/// What happened, for machines. Output and the ticks of a running agent are not logged.
pub(super) fn event_json(what: &What) -> Option<Value> {
    Some(match what {
        // Its file has the one, and the other tells nothing afterwards.
        What::Shown { .. } | What::RawOutput { .. } | What::Waiting { .. } => return None,
        What::RunStarted {
            procedure,
            task_id,
            limit,
            agent,
            command,
        } => json!({
            "event": "run_started",
            "procedure": procedure,
            "task_id": task_id,
            "max_iterations": match limit {
                Limit::Unlimited => Value::Null,
                Limit::AtMost(limit) => limit.get().into(),
            },
            "agent": agent,
            "command": command,
        }),
        What::IterationStarted { iteration, agent } => {
            json!({"event": "iteration_started", "iteration": iteration, "agent": agent})
        }
        What::PromptReady { iteration, bytes } => {
            json!({"event": "prompt_ready", "iteration": iteration, "bytes": bytes})
        }
        What::PhaseAnnounced { iteration, phase } => {
            json!({"event": "phase_announced", "iteration": iteration, "phase": phase})
        }
        What::Running {
            iteration,
            phase,
            tool,
            elapsed,
            since_output,
        } => json!({
            "event": "iteration_running",
            "iteration": iteration,
            "phase": phase,
            "tool": tool,
            "elapsed_ms": elapsed.as_millis() as u64,
            "since_output_ms": since_output.as_millis() as u64,
        }),
        What::ToolUsed {
            iteration,
            name,
            about,
        } => json!({"event": "tool_used", "iteration": iteration, "tool": name, "about": about}),
        What::NotUnderstood {
            iteration,
            expected,
            read_as,
        } => json!({
            "event": "output_not_understood",
            "iteration": iteration,
            "expected": expected,
            "read_as": read_as,
        }),
        What::UsageUnknown { iteration, what } => {
            json!({"event": "usage_unknown", "iteration": iteration, "what": what})
        }
        What::ContextFilling { iteration, percent } => {
            json!({"event": "context_filling", "iteration": iteration, "percent": percent})
        }
        What::Limited {
            iteration,
            agent,
            failure,
            message,
            wait,
        } => json!({
            "event": "iteration_limited",
            "iteration": iteration,
            "agent": agent,
            "failure_class": failure.class(),
            "said": message,
            "wait_ms": wait.map(|(pause, _)| pause.as_millis() as u64),
            "until": wait.map(|(_, until)| until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        }),
        What::AgentChanged {
            iteration,
            from,
            to,
            failure,
            message,
        } => json!({
            "event": "agent_changed",
            "iteration": iteration,
            "from": from,
            "to": to,
            "failure_class": failure.class(),
            "said": message,
        }),
        What::OutputTruncated {
            iteration,
            kept,
            total,
        } => json!({
            "event": "output_truncated",
            "iteration": iteration,
            "kept_bytes": kept,
            "total_bytes": total,
        }),
        What::LeftBehind { iteration, ended } => {
            json!({"event": "processes_left_behind", "iteration": iteration, "ended": ended})
        }
        What::Survived {
            iteration,
            processes,
        } => json!({
            "event": "processes_survived",
            "iteration": iteration,
            "processes": processes,
        }),
        What::ProcessesUnseen { iteration } => {
            json!({"event": "processes_unseen", "iteration": iteration})
        }
        What::PromiseIgnored {
            iteration,
            promised,
        } => json!({
            "event": "promise_ignored",
            "iteration": iteration,
            "promised": promised.word(),
        }),
        What::Interrupting { reason } => {
            json!({"event": "interrupting", "reason": reason.to_string()})
        }
        What::IterationCompleted(completed) => completed_json(completed),
        What::RunEnded {
            reason,
            stats,
            spent,
            total,
        } => json!({
            "event": "run_ended",
            "status": reason.status(),
            "exit_code": reason.status().exit_code(),
            "reason": reason.to_string(),
            "total_ms": total.as_millis() as u64,
            "iterations": stats.count(),
            "min_ms": stats.min().as_millis() as u64,
            "max_ms": stats.max().as_millis() as u64,
            "mean_ms": stats.mean().as_millis() as u64,
            "stddev_ms": stats.stddev().as_millis() as u64,
            "input_tokens": spent.has_tokens.then_some(spent.input_tokens),
            "output_tokens": spent.has_tokens.then_some(spent.output_tokens),
            "cost_usd": spent.cost_usd,
        }),
    })
}

/// An event as a line of the events file. The ticks of a running agent are left out: they tell nothing afterwards.
pub fn event_line(event: &Event) -> Option<String> {
    if matches!(event.what, What::Running { .. }) {
        return None;
    }
    let mut object = json!({
        "time": event.at.time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
    });
    if let (Value::Object(object), Value::Object(event)) = (&mut object, event_json(&event.what)?) {
        object.extend(event);
    }
    Some(object.to_string())
}

fn completed_json(completed: &Completed) -> Value {
    let usage = &completed.usage;
    let (outcome, failure) = match completed.outcome {
        Outcome::Continue => ("success", None),
        Outcome::JobDone => ("job_done", None),
        Outcome::Failed(failure) => ("failure", Some(failure)),
        Outcome::Interrupted => ("interrupted", None),
    };
    json!({
        "event": "iteration_completed",
        "iteration": completed.iteration,
        "agent": completed.agent,
        "outcome": outcome,
        "failure_class": failure.map(Failure::class),
        "failure": failure.map(|failure| failure.to_string()),
        "exit_code": match failure {
            Some(Failure::Exit(code)) => Some(code),
            _ => None,
        },
        "signal": match failure {
            Some(Failure::Signal(signal)) => Some(signal.to_string()),
            _ => None,
        },
        "duration_ms": completed.duration.as_millis() as u64,
        "consecutive_failures": completed.consecutive_failures,
        "failure_threshold": completed.failure_threshold,
        "last_lines": completed.last_lines,
        "said": completed.message,
        "summary": completed.summary,
        "session": completed.session,
        "model": completed.model,
        "agent_version": completed.version,
        "input_tokens": usage.has_tokens.then_some(usage.input_tokens),
        "output_tokens": usage.has_tokens.then_some(usage.output_tokens),
        "cost_usd": usage.cost_usd,
        "turns": usage.turns,
        "tools": completed.tools,
        "context_tokens": usage.context.map(|context| context.used),
        "context_window": usage.context.and_then(|context| context.window),
    })
}
