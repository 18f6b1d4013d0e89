//! The state of a run between iterations, and the decision whether there is a next one.

use std::num::NonZeroU32;
use std::time::Duration;

use super::budget::{Budget, Spent};
use super::outcome::{Failure, Outcome};
use super::stats::Stats;
use crate::agent::Usage;
use crate::plan::Limit;
use crate::signal::Signal;
use crate::status::Reason;

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Run this iteration; the first one is 1.
    Run(u32),
    Stop(Reason),
}

#[derive(Debug)]
pub struct Progress {
    limit: Limit,
    threshold: NonZeroU32,
    run_timeout: Option<Duration>,
    budget: Budget,
    promise: String,
    failures: u32,
    deadline_passed: bool,
    promised: bool,
    stats: Stats,
    spent: Spent,
}

impl Progress {
    pub fn new(
        limit: Limit,
        threshold: NonZeroU32,
        run_timeout: Option<Duration>,
        budget: Budget,
        promise: &str,
    ) -> Self {
        Progress {
            limit,
            threshold,
            run_timeout,
            budget,
            promise: promise.to_owned(),
            failures: 0,
            deadline_passed: false,
            promised: false,
            stats: Stats::default(),
            spent: Spent::default(),
        }
    }

    /// Decides, after `elapsed` of the run and perhaps a signal to end it. When several reasons to stop hold at once, the
    /// order here decides.
    pub fn next(&self, elapsed: Duration, interrupted: Option<Signal>) -> Step {
        if self.promised {
            return Step::Stop(Reason::Promised {
                promise: self.promise.clone(),
            });
        }
        if let Some(signal) = interrupted {
            return Step::Stop(Reason::Interrupted { signal });
        }
        if self.failures >= self.threshold.get() {
            return Step::Stop(Reason::ConsecutiveFailures {
                failures: self.failures,
            });
        }
        let expired = |timeout: &Duration| self.deadline_passed || elapsed >= *timeout;
        if let Some(timeout) = self.run_timeout.filter(expired) {
            return Step::Stop(Reason::RunTimeout { timeout });
        }
        if let Some(reason) = self.budget.used_up_by(&self.spent) {
            return Step::Stop(reason);
        }
        if let Limit::AtMost(limit) = self.limit
            && self.stats.count() >= limit.get()
        {
            let all_failed = self.failures >= self.stats.count();
            return Step::Stop(Reason::MaxIterations { limit, all_failed });
        }
        match self.run_timeout {
            Some(timeout) if timeout - elapsed < last_moments(timeout) => {
                Step::Stop(Reason::RunTimeout { timeout })
            }
            _ => Step::Run(self.stats.count() + 1),
        }
    }

    /// The run's timeout, and after how long no iteration starts any more.
    pub fn last_start(&self, elapsed: Duration) -> Option<(Duration, Duration)> {
        let timeout = self.run_timeout?;
        let last = timeout.saturating_sub(last_moments(timeout));
        Some((timeout, last.saturating_sub(elapsed)))
    }

    /// Takes in what an agent used up, whether its iteration counts or not.
    pub fn spend(&mut self, usage: &Usage) {
        self.spent = self.spent.with(usage);
    }

    /// Whether nothing is left of the budget.
    pub fn is_used_up(&self) -> bool {
        self.budget.used_up_by(&self.spent).is_some()
    }

    /// Whether an agent that has used up this much so far must be stopped.
    pub fn is_used_up_with(&self, usage: &Usage) -> bool {
        self.budget.used_up_by(&self.spent.with(usage)).is_some()
    }

    pub fn spent(&self) -> &Spent {
        &self.spent
    }

    /// Takes in a finished iteration. An interrupted one was not finished and leaves no trace.
    pub fn record(&mut self, outcome: Outcome, duration: Duration) {
        match outcome {
            Outcome::Interrupted => return,
            Outcome::Continue => self.failures = 0,
            Outcome::JobDone => {
                self.failures = 0;
                self.promised = true;
            }
            // That the budget ended is not the agent's fault, and the run's end has a reason of its own.
            Outcome::Failed(Failure::Budget) => {}
            Outcome::Failed(failure) => {
                self.failures += 1;
                self.deadline_passed |= matches!(failure, Failure::RunTimeout(_));
            }
        }
        self.stats.push(duration);
    }

    pub fn consecutive_failures(&self) -> u32 {
        self.failures
    }

    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

/// No iteration starts in the last tenth of the run's time: it could only be cut off.
fn last_moments(timeout: Duration) -> Duration {
    (timeout / 10).min(Duration::from_secs(30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Continue, Failed, Interrupted, JobDone};

    const SECOND: Duration = Duration::from_secs(1);

    fn progress(limit: u32, threshold: u32, run_timeout: Option<Duration>) -> Progress {
        let number = |n| NonZeroU32::new(n).expect("not zero");
        let limit = match limit {
            0 => Limit::Unlimited,
            n => Limit::AtMost(number(n)),
        };
        let budget = Budget {
            tokens: Some(1_000),
            ..Budget::default()
        };
        Progress::new(limit, number(threshold), run_timeout, budget, "SUCCESS")
    }

    fn after(mut progress: Progress, outcomes: &[Outcome]) -> Step {
        for outcome in outcomes {
            progress.record(*outcome, SECOND);
        }
        progress.next(SECOND * outcomes.len() as u32, None)
    }

    fn failed() -> Outcome {
        Failed(Failure::Exit(1))
    }

    fn aborted(failures: u32) -> Step {
        Step::Stop(Reason::ConsecutiveFailures { failures })
    }

    fn reached(limit: u32) -> Step {
        let limit = NonZeroU32::new(limit).expect("not zero");
        let all_failed = false;
        Step::Stop(Reason::MaxIterations { limit, all_failed })
    }

    fn promised() -> Step {
        Step::Stop(Reason::Promised {
            promise: "SUCCESS".to_owned(),
        })
    }

    #[test]
    fn five_iterations_are_one_to_five() {
        assert_eq!(after(progress(5, 3, None), &[]), Step::Run(1));
        assert_eq!(after(progress(5, 3, None), &[Continue; 4]), Step::Run(5));
        assert_eq!(after(progress(5, 3, None), &[Continue; 5]), reached(5));
    }

    #[test]
    fn unlimited_goes_on() {
        assert_eq!(
            after(progress(0, 3, None), &[Continue; 500]),
            Step::Run(501)
        );
    }

    #[test]
    fn failures_count_only_in_a_row() {
        let ended = [failed(), failed(), Continue, failed(), failed()];
        assert_eq!(after(progress(0, 3, None), &ended), Step::Run(6));
        assert_eq!(after(progress(0, 3, None), &[failed(); 3]), aborted(3));
    }

    #[test]
    fn the_threshold_is_checked_before_the_limit() {
        assert_eq!(after(progress(3, 3, None), &[failed(); 3]), aborted(3));
        assert_eq!(after(progress(1, 1, None), &[failed()]), aborted(1));
        let limit = NonZeroU32::MIN;
        let all_failed = true;
        let reached = Step::Stop(Reason::MaxIterations { limit, all_failed });
        assert_eq!(after(progress(1, 2, None), &[failed()]), reached);
    }

    #[test]
    fn success_counts_on_the_last_iteration_too() {
        assert_eq!(
            after(progress(2, 3, None), &[Continue, JobDone]),
            promised()
        );
    }

    #[test]
    fn a_signal_comes_after_success_and_before_all_else() {
        let next = |outcome| {
            let mut progress = progress(1, 1, Some(SECOND));
            progress.record(outcome, SECOND);
            progress.next(SECOND, Some(Signal::INT))
        };
        let signal = Signal::INT;
        assert_eq!(next(JobDone), promised());
        assert_eq!(next(failed()), Step::Stop(Reason::Interrupted { signal }));
        assert_eq!(next(Continue), Step::Stop(Reason::Interrupted { signal }));
    }

    #[test]
    fn an_interrupted_iteration_is_not_counted() {
        assert_eq!(
            after(progress(2, 1, None), &[Continue, Interrupted]),
            Step::Run(2)
        );
    }

    #[test]
    fn no_iteration_starts_in_the_last_tenth_of_the_time() {
        let stopped = |seconds: u32| {
            Step::Stop(Reason::RunTimeout {
                timeout: SECOND * seconds,
            })
        };
        let timeout = |seconds: u32| Some(SECOND * seconds);
        assert_eq!(
            after(progress(0, 3, timeout(100)), &[Continue; 90]),
            Step::Run(91)
        );
        assert_eq!(
            after(progress(0, 3, timeout(100)), &[Continue; 91]),
            stopped(100)
        );
        assert_eq!(
            after(progress(0, 3, timeout(3600)), &[Continue; 3570]),
            Step::Run(3571)
        );
        assert_eq!(
            after(progress(0, 3, timeout(3600)), &[Continue; 3571]),
            stopped(3600)
        );
        // In the last tenth, but all that was asked for is done.
        assert_eq!(
            after(progress(91, 3, timeout(100)), &[Continue; 91]),
            reached(91)
        );
        assert_eq!(
            after(progress(100, 3, timeout(100)), &[Continue; 100]),
            stopped(100)
        );
    }

    #[test]
    fn a_budget_ends_the_run_after_success_and_threshold_and_before_the_limit() {
        let next = |outcome, threshold| {
            let mut progress = progress(1, threshold, None);
            let usage = Usage {
                input_tokens: 1_000,
                ..Usage::default()
            };
            assert!(progress.is_used_up_with(&usage));
            progress.spend(&usage);
            progress.record(outcome, SECOND);
            progress.next(SECOND, None)
        };
        let exhausted = Step::Stop(Reason::TokenBudget {
            tokens: 1_000,
            budget: 1_000,
        });
        assert_eq!(next(JobDone, 1), promised());
        assert_eq!(next(failed(), 1), aborted(1));
        assert_eq!(next(Failed(Failure::Budget), 1), exhausted);
        assert_eq!(next(Continue, 1), exhausted);
    }

    #[test]
    fn an_iteration_cut_by_the_deadline_ends_the_run() {
        let cut = Failed(Failure::RunTimeout(SECOND * 100));
        let exhausted = Step::Stop(Reason::RunTimeout {
            timeout: SECOND * 100,
        });
        assert_eq!(after(progress(1, 3, Some(SECOND * 100)), &[cut]), exhausted);
        assert_eq!(
            after(progress(1, 1, Some(SECOND * 100)), &[cut]),
            aborted(1)
        );
    }
}
