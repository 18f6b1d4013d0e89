//! What is no failure but should be known: how often it happened, in a sentence each.

use std::time::Duration;

use crate::units::{Count, Elapsed};

/// How often something happened that is no failure but should be known.
#[derive(Debug, Default)]
pub(super) struct Incidents {
    pub(super) left_behind: usize,
    pub(super) survived: usize,
    pub(super) unseen: u32,
    pub(super) truncated: u32,
    pub(super) promises_ignored: u32,
    pub(super) limited: u32,
    pub(super) waited: Duration,
    pub(super) not_understood: u32,
    pub(super) usage_unknown: u32,
    /// How full the context was at most, in percent.
    pub(super) fullest: u32,
}

impl Incidents {
    pub(super) fn told(&self) -> String {
        let times = |number: u32| match number {
            1 => "once".to_owned(),
            _ => format!("{number} times"),
        };
        let processes = |number: usize| Count(number as u64, "process").to_string();
        let incidents = [
            (
                self.survived > 0,
                format!(
                    "⚠️ {} of the agent did not end, not even with SIGKILL",
                    processes(self.survived)
                ),
            ),
            (
                self.unseen > 0,
                format!(
                    "⚠️ The agent's processes could not be seen {}; some may have gone on",
                    times(self.unseen)
                ),
            ),
            (
                self.promises_ignored > 0,
                format!(
                    "⚠️ An agent that had to be ended had promised something {}; that does not count",
                    times(self.promises_ignored)
                ),
            ),
            (
                self.truncated > 0,
                format!(
                    "⚠️ Output was truncated {}: only its end was kept and scanned",
                    times(self.truncated)
                ),
            ),
            (
                self.not_understood > 0,
                format!(
                    "⚠️ The agent's output was not in its format {}, and read as something else",
                    times(self.not_understood)
                ),
            ),
            (
                self.usage_unknown > 0,
                format!(
                    "⚠️ The agent did not tell what it used up {}: the budget does not cover that",
                    times(self.usage_unknown)
                ),
            ),
            (
                self.fullest > 0,
                format!(
                    "⚠️ The model's context was up to {} % full; models get worse above 60 %",
                    self.fullest
                ),
            ),
            (
                self.limited > 0,
                format!(
                    "The provider limited the rate or was overloaded {}; waited {} in all",
                    times(self.limited),
                    Elapsed(self.waited)
                ),
            ),
            (
                self.left_behind > 0,
                format!(
                    "Ended {} that the agent left behind",
                    processes(self.left_behind)
                ),
            ),
        ];
        let told = incidents.iter().filter(|(happened, _)| *happened);
        told.map(|(_, incident)| format!("- {incident}.\n"))
            .collect()
    }
}
