//! The table of the iterations. It has a column only for what is known of at least one of them.

use super::{LONGEST_NAME, Row};
use crate::iteration::Outcome;
use crate::report::markdown::{cut, sentence};
use crate::units::{Cost, Elapsed, Grouped};

pub(super) struct Columns<'a> {
    agents: &'a [String],
    has_agents: bool,
    has_tokens: bool,
    has_cost: bool,
    has_context: bool,
}

impl<'a> Columns<'a> {
    pub(super) fn of(rows: &[Row], agents: &'a [String]) -> Self {
        Columns {
            agents,
            has_agents: agents.len() > 1,
            has_tokens: rows.iter().any(|row| row.usage.has_tokens),
            has_cost: rows.iter().any(|row| row.usage.cost_usd.is_some()),
            has_context: rows.iter().any(|row| row.usage.context_percent().is_some()),
        }
    }

    pub(super) fn heading(&self) -> String {
        let (mut names, mut lines) = (
            "| iteration | outcome | duration |".to_owned(),
            "|---:|---|---:|".to_owned(),
        );
        for (is_there, name, line) in [
            (self.has_agents, " agent |", "---|"),
            (self.has_tokens, " tokens |", "---:|"),
            (self.has_cost, " cost |", "---:|"),
            (self.has_context, " context |", "---:|"),
        ] {
            if is_there {
                names.push_str(name);
                lines.push_str(line);
            }
        }
        format!("{names}\n{lines}\n")
    }

    pub(super) fn row(&self, row: &Row) -> String {
        let usage = &row.usage;
        let mut line = format!(
            "| {} | {} | {} |",
            row.iteration,
            outcome(row.outcome),
            Elapsed(row.duration)
        );
        let mut cell = |is_there: bool, value: Option<String>| {
            if is_there {
                line.push_str(&format!(" {} |", value.unwrap_or_default()));
            }
        };
        let agent = self.agents.get(row.agent);
        cell(
            self.has_agents,
            agent.map(|agent| sentence(&cut(agent, LONGEST_NAME))),
        );
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        let tokens = usage.has_tokens.then(|| Grouped(tokens).to_string());
        cell(self.has_tokens, tokens);
        cell(
            self.has_cost,
            usage.cost_usd.map(|cost| Cost(cost).to_string()),
        );
        let context = usage.context_percent();
        cell(
            self.has_context,
            context.map(|percent| format!("{percent} %")),
        );
        line.push('\n');
        line
    }
}

fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Continue => "✅ success".to_owned(),
        Outcome::JobDone => "✅ success, the agent promised that all is done".to_owned(),
        Outcome::Failed(failure) => format!("❌ {}: {failure}", failure.class()),
        Outcome::Interrupted => "🛑 interrupted".to_owned(),
    }
}
