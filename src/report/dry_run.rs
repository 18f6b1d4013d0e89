//! What `--dry-run` shows.

use std::fmt::Write;

use crate::error::Problem;
use crate::plan::{Agent, Plan};
use crate::units::Grouped;

const RULE: &str = "────────────────────────────────────────";

/// One thing that was checked.
#[derive(Debug)]
pub struct Check {
    /// What is well, or what is wrong and what more there is to say about it.
    pub result: Result<String, Problem>,
}

impl Check {
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }
}

/// What an agent is called among those of a run.
pub fn agent_label(index: usize) -> String {
    match index {
        0 => "AI Command".to_owned(),
        fallback => format!("Fallback {fallback}"),
    }
}

/// Configuration with provenance, checks, and, if all is well, the prompt and the command that would run it.
pub fn dry_run(
    plan: &Plan,
    agents: &[Agent],
    checks: &[Check],
    prompt: Option<&str>,
    ready: &str,
) -> String {
    let mut text = format!("=== Dry-Run: {} ===\n\nConfiguration:\n", plan.procedure);
    // Writing to a string cannot fail.
    for (index, agent) in agents.iter().enumerate() {
        let (command, provenance) = (&agent.command.text, &agent.provenance);
        let name = agent_label(index);
        writeln!(text, "  {name}: {command} ({provenance})").ok();
    }
    if agents.is_empty() {
        writeln!(text, "  AI Command: none").ok();
    }
    for (name, value, source) in plan.settings() {
        writeln!(text, "  {name}: {value} ({source})").ok();
    }
    if plan.task_id != plan.procedure {
        writeln!(text, "  Task ID: {} (cli: --task-id)", plan.task_id).ok();
    }
    text.push_str("\nValidation:\n");
    for check in checks {
        match &check.result {
            Ok(well) => writeln!(text, "  ✓ {well}").ok(),
            Err(problem) => {
                writeln!(text, "  ✗ {}", problem.message).ok();
                for hint in &problem.hints {
                    writeln!(text, "    {hint}").ok();
                }
                None
            }
        };
    }
    if let Some(prompt) = prompt {
        let size = Grouped(prompt.len() as u64);
        write!(text, "\nAssembled Prompt ({size} bytes):\n{RULE}\n{prompt}").ok();
        write!(
            text,
            "{RULE}\n\nDry-run complete. Ready to execute: {ready}\n"
        )
        .ok();
    }
    text
}
