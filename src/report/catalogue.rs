//! What `rooda list` and `rooda info` show.

use std::fmt::Write;

use serde_json::{Value, json};

use super::dry_run::agent_label;
use crate::config::{ProcedureInfo, Resolved};
use crate::plan::Agent;

pub fn list_text(procedures: &[ProcedureInfo]) -> String {
    let width = procedures
        .iter()
        .map(|procedure| procedure.name.len())
        .max()
        .unwrap_or(0);
    procedures
        .iter()
        .fold(String::new(), |mut text, procedure| {
            let summary = procedure.summary.as_deref().unwrap_or_default();
            let line = format!("{:width$}  {summary}", procedure.name);
            writeln!(text, "{}", line.trim_end()).ok();
            text
        })
}

pub fn list_json(procedures: &[ProcedureInfo]) -> Value {
    procedures
        .iter()
        .map(|procedure| {
            json!({
                "name": procedure.name,
                "display": procedure.display,
                "summary": procedure.summary,
                "source": procedure.source.to_string(),
            })
        })
        .collect()
}

pub fn info_text(info: &ProcedureInfo, resolved: &Resolved) -> String {
    let mut text = info.name.clone();
    if let Some(display) = &info.display {
        write!(text, " ({display})").ok();
    }
    writeln!(text, ", {}", info.source).ok();
    if let Some(summary) = &info.summary {
        writeln!(text, "{summary}").ok();
    }
    if let Some(description) = &info.description {
        writeln!(text, "\n{description}").ok();
    }
    text.push_str("\nPhases:\n");
    for (phase, fragments) in &info.phases {
        let Some(fragments) = fragments else {
            continue;
        };
        writeln!(text, "  {} ({}):", phase.key(), fragments.source).ok();
        for fragment in &fragments.value {
            writeln!(text, "    {}", fragment.origin).ok();
        }
    }
    text.push_str("\nSettings:\n");
    match &resolved.agents {
        Ok(agents) => {
            for (index, agent) in agents.iter().enumerate() {
                let (command, provenance) = (&agent.command.text, &agent.provenance);
                let name = agent_label(index);
                writeln!(text, "  {name}: {command} ({provenance})").ok();
            }
        }
        Err(error) => {
            let problem = error
                .problems
                .first()
                .map_or("", |problem| &problem.message);
            writeln!(text, "  AI Command: none ({problem})").ok();
        }
    }
    for (name, value, source) in resolved.plan.settings() {
        writeln!(text, "  {name}: {value} ({source})").ok();
    }
    text
}

pub fn info_json(info: &ProcedureInfo, resolved: &Resolved) -> Value {
    let phases: serde_json::Map<String, Value> = info
        .phases
        .iter()
        .filter_map(|(phase, fragments)| {
            let fragments = fragments.as_ref()?;
            let names: Vec<String> = fragments
                .value
                .iter()
                .map(|fragment| fragment.origin.to_string())
                .collect();
            let source = fragments.source.to_string();
            Some((
                phase.key().to_owned(),
                json!({"fragments": names, "source": source}),
            ))
        })
        .collect();
    let settings: serde_json::Map<String, Value> = resolved
        .plan
        .settings()
        .into_iter()
        .map(|(name, value, source)| {
            let key = name.to_lowercase().replace(' ', "_");
            (key, json!({"value": value, "source": source}))
        })
        .collect();
    let agents = resolved.agents.as_deref().unwrap_or_default();
    let command = |agent: &Agent| {
        json!({
            "value": agent.command.text,
            "source": agent.provenance,
        })
    };
    json!({
        "name": info.name,
        "display": info.display,
        "summary": info.summary,
        "description": info.description,
        "source": info.source.to_string(),
        "phases": phases,
        "ai_command": agents.first().map(command),
        "fallbacks": agents.iter().skip(1).map(command).collect::<Value>(),
        "settings": settings,
    })
}
