//! What a run may use up, and what it has.

use crate::agent::Usage;
use crate::status::Reason;

/// What the agents have told of so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Whether any of them told of tokens.
    pub has_tokens: bool,
    pub cost_usd: Option<f64>,
    /// Whether somebody worked who did not tell the cost.
    pub is_cost_partial: bool,
}

impl Spent {
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// This and what one more iteration used up.
    pub fn with(mut self, usage: &Usage) -> Spent {
        self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(usage.output_tokens);
        self.has_tokens |= usage.has_tokens;
        // An agent that could not work at all cost nothing, which says nothing of what others cost.
        let has_worked = usage.input_tokens > 0 || usage.output_tokens > 0;
        self.is_cost_partial |= has_worked && usage.cost_usd.is_none();
        let cost = usage.cost_usd.filter(|cost| *cost > 0.0 || has_worked);
        self.cost_usd = match (self.cost_usd, cost) {
            // Nobody has more, and a sum must stay a number.
            (Some(before), Some(more)) => Some((before + more).min(1e12)),
            (before, more) => before.or(more),
        };
        self
    }
}

/// The bounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Budget {
    pub cost_usd: Option<f64>,
    pub tokens: Option<u64>,
}

impl Budget {
    /// Why there is nothing left, if that is so.
    pub fn used_up_by(&self, spent: &Spent) -> Option<Reason> {
        if let (Some(budget), Some(cost)) = (self.cost_usd, spent.cost_usd)
            && cost >= budget
        {
            return Some(Reason::CostBudget { cost, budget });
        }
        match self.tokens {
            Some(budget) if spent.tokens() >= budget => Some(Reason::TokenBudget {
                tokens: spent.tokens(),
                budget,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_not_work_says_nothing_of_the_cost() {
        let refused = Usage {
            cost_usd: Some(0.0),
            ..Usage::default()
        };
        let free = Usage {
            input_tokens: 1,
            has_tokens: true,
            ..refused
        };
        assert_eq!(Spent::default().with(&refused).cost_usd, None);
        assert_eq!(Spent::default().with(&free).cost_usd, Some(0.0));
        let silent = Usage {
            cost_usd: None,
            ..free
        };
        let both = Spent::default().with(&free).with(&silent);
        assert!(both.is_cost_partial && !Spent::default().with(&free).is_cost_partial);
    }

    #[test]
    fn a_budget_is_used_up_when_it_is_reached() {
        let spent = |input_tokens, output_tokens, cost_usd| {
            let usage = Usage {
                input_tokens,
                output_tokens,
                has_tokens: true,
                cost_usd,
                ..Usage::default()
            };
            Spent::default().with(&usage).with(&usage)
        };
        let budget = Budget {
            cost_usd: Some(1.0),
            tokens: Some(100),
        };
        assert_eq!(budget.used_up_by(&spent(40, 9, Some(0.49))), None);
        let tokens = Some(Reason::TokenBudget {
            tokens: 100,
            budget: 100,
        });
        assert_eq!(budget.used_up_by(&spent(40, 10, None)), tokens);
        let cost = Some(Reason::CostBudget {
            cost: 1.0,
            budget: 1.0,
        });
        assert_eq!(budget.used_up_by(&spent(40, 10, Some(0.5))), cost);
        assert_eq!(
            Budget::default().used_up_by(&spent(u64::MAX, 1, Some(9e9))),
            None
        );
    }
}
