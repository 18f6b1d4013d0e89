//! What to do when an agent cannot work: wait, let another one take over, or give up.

use std::time::Duration;

use jiff::Timestamp;

use super::outcome::Failure;
use crate::agent::{Cause, Trouble};
use crate::status::{GaveUp, Reason};

/// The first pause where nobody says how long to wait; each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The clocks of others may be a little behind.
const AFTER_RESET: Duration = Duration::from_secs(1);

/// What comes after an iteration.
#[derive(Debug, Clone, PartialEq)]
pub enum Recourse {
    /// It counts, whatever it was.
    Count,
    /// The provider has to be waited for; the iteration is tried again.
    Wait(Duration),
    /// The next agent tries it.
    HandOver,
    /// It counts, and nothing better can come.
    Abort(Reason),
    /// It does not count, and waiting is no use.
    GiveUp(Reason),
    /// It does not count, and the run ends for another reason.
    Leave,
}

/// How long the run has waited for a provider, and how long it may.
#[derive(Debug)]
pub struct Patience {
    bound: Option<Duration>,
    waited: Duration,
    pauses: u32,
}

/// How things stand when an agent could not work.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// The name of the agent.
    pub agent: &'a str,
    /// Whether another one can take over.
    pub has_next: bool,
    /// Whether the run ends anyway: it was interrupted, or its budget is used up.
    pub is_ending: bool,
    pub now: Timestamp,
    /// How long the run may take, and after how much of it no iteration starts any more.
    pub run_timeout: Option<(Duration, Duration)>,
}

impl Patience {
    /// `bound`: how long to wait for a provider before giving up on it.
    pub fn new(bound: Option<Duration>) -> Self {
        Patience {
            bound,
            waited: Duration::ZERO,
            pauses: 0,
        }
    }

    /// An agent could work again, or another one has its turn.
    pub fn renew(&mut self) {
        self.waited = Duration::ZERO;
        self.pauses = 0;
    }

    /// Decides what to do about a failure.
    pub fn recourse(
        &mut self,
        failure: Failure,
        trouble: Option<&Trouble>,
        standing: Standing,
    ) -> Recourse {
        match failure {
            Failure::RateLimited | Failure::Overloaded if standing.is_ending => Recourse::Leave,
            Failure::RateLimited | Failure::Overloaded => self.wait(failure, trouble, standing),
            Failure::Permanent(_) if standing.is_ending => Recourse::Count,
            Failure::Permanent(_) if standing.has_next => Recourse::HandOver,
            Failure::Permanent(cause) => Recourse::Abort(permanent(cause, trouble, standing)),
            Failure::NotStarted
            | Failure::Exit(_)
            | Failure::Signal(_)
            | Failure::Error
            | Failure::CutStream
            | Failure::Nothing
            | Failure::Reported
            | Failure::IterationTimeout(_)
            | Failure::IdleTimeout(_)
            | Failure::RunTimeout(_)
            | Failure::Budget
            | Failure::ContextFull
            | Failure::Denied => Recourse::Count,
        }
    }

    fn wait(
        &mut self,
        failure: Failure,
        trouble: Option<&Trouble>,
        standing: Standing,
    ) -> Recourse {
        let pause = self.pause(trouble, standing.now);
        let gave_up = match (self.bound, standing.run_timeout) {
            (Some(bound), _) if self.waited.saturating_add(pause) > bound => {
                Some(GaveUp::Patience(bound))
            }
            (_, Some((timeout, left))) if pause >= left => Some(GaveUp::Deadline(timeout)),
            _ => None,
        };
        match gave_up {
            None => {
                self.waited = self.waited.saturating_add(pause);
                self.pauses += 1;
                Recourse::Wait(pause)
            }
            Some(_) if standing.has_next => Recourse::HandOver,
            Some(gave_up) => Recourse::GiveUp(Reason::Limited {
                agent: standing.agent.to_owned(),
                what: failure.to_string(),
                message: words_of(trouble),
                pause,
                gave_up,
            }),
        }
    }

    /// Until the time that the provider names, or as long as it says, or longer each time.
    fn pause(&self, trouble: Option<&Trouble>, now: Timestamp) -> Duration {
        let growing = FIRST_PAUSE
            .saturating_mul(1 << self.pauses.min(16))
            .min(LONGEST_PAUSE);
        let until_reset = trouble
            .and_then(|trouble| trouble.resets_at)
            .and_then(|at| {
                // A time that has passed was no help.
                let left = at.duration_since(now);
                Duration::try_from(left).ok().filter(|left| !left.is_zero())
            });
        let told = until_reset.or(trouble.and_then(|trouble| trouble.retry_after));
        match told {
            // If that was not enough the first time, it will not be the next time.
            Some(told) => told.saturating_add(AFTER_RESET).max(if self.pauses == 0 {
                Duration::ZERO
            } else {
                growing
            }),
            None => growing,
        }
    }
}

fn permanent(cause: Cause, trouble: Option<&Trouble>, standing: Standing) -> Reason {
    Reason::Permanent {
        agent: standing.agent.to_owned(),
        cause,
        message: words_of(trouble),
    }
}

fn words_of(trouble: Option<&Trouble>) -> String {
    trouble
        .map(|trouble| trouble.message.clone())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::TroubleKind;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;
    const MINUTE: Duration = Duration::from_secs(60);

    fn limited(resets_in: Option<i64>, retry_after: Option<u64>) -> Trouble {
        Trouble {
            kind: TroubleKind::RateLimited,
            message: "slow down".to_owned(),
            resets_at: resets_in.and_then(|seconds| Timestamp::from_second(seconds).ok()),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    fn standing(has_next: bool, left: Option<Duration>) -> Standing<'static> {
        Standing {
            agent: "claude",
            has_next,
            is_ending: false,
            now: NOW,
            run_timeout: left.map(|left| (MINUTE * 60, left)),
        }
    }

    fn ask(patience: &mut Patience, trouble: &Trouble, standing: Standing) -> Recourse {
        patience.recourse(Failure::RateLimited, Some(trouble), standing)
    }

    fn seconds(recourse: Recourse) -> u64 {
        match recourse {
            Recourse::Wait(pause) => pause.as_secs(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pauses_grow_and_are_bounded() {
        let mut patience = Patience::new(None);
        let trouble = limited(None, None);
        let pauses: Vec<u64> = (0..9)
            .map(|_| seconds(ask(&mut patience, &trouble, standing(false, None))))
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        patience.renew();
        assert_eq!(
            seconds(ask(&mut patience, &trouble, standing(false, None))),
            5
        );
    }

    #[test]
    fn a_time_that_the_provider_names_is_waited_for() {
        let once = |trouble: Trouble| {
            seconds(ask(
                &mut Patience::new(None),
                &trouble,
                standing(false, None),
            ))
        };
        assert_eq!(once(limited(Some(600), None)), 601);
        assert_eq!(once(limited(Some(600), Some(7))), 601);
        assert_eq!(once(limited(None, Some(7))), 8);
        assert_eq!(once(limited(Some(-5), None)), 5);
        // Whoever wants to be waited for until the end of days is not.
        let mut patience = Patience::new(Some(MINUTE));
        let mut forever = limited(None, None);
        forever.retry_after = Some(Duration::MAX);
        let given_up = ask(&mut patience, &forever, standing(false, None));
        assert!(matches!(given_up, Recourse::GiveUp(_)), "{given_up:?}");
        let mut patience = Patience::new(None);
        for _ in 0..2 {
            let waited = ask(&mut patience, &forever, standing(false, None));
            assert_eq!(waited, Recourse::Wait(Duration::MAX));
        }
        // It said so before, and it was not true.
        let mut patience = Patience::new(None);
        let trouble = limited(None, Some(0));
        let pauses: Vec<u64> = (0..3)
            .map(|_| seconds(ask(&mut patience, &trouble, standing(false, None))))
            .collect();
        assert_eq!(pauses, [1, 10, 20]);
    }

    #[test]
    fn patience_and_the_deadline_bound_it() {
        let mut patience = Patience::new(Some(MINUTE));
        let trouble = limited(None, None);
        let mut again = |standing| ask(&mut patience, &trouble, standing);
        for pause in [5, 10, 20] {
            assert_eq!(seconds(again(standing(false, None))), pause);
        }
        // 35 of 60 seconds have passed.
        assert_eq!(again(standing(true, None)), Recourse::HandOver);
        let Recourse::GiveUp(reason) = again(standing(false, None)) else {
            panic!("it may not wait any longer");
        };
        assert_eq!(
            reason.to_string(),
            "Gave up on claude: the provider limits the rate (slow down), and waiting 40s more would pass the rate_limit_patience of 1m (raise it, or name a second agent)"
        );
        let mut patience = Patience::new(None);
        let deadline = standing(false, Some(MINUTE));
        let long = limited(Some(60), None);
        let Recourse::GiveUp(reason) = ask(&mut patience, &long, deadline) else {
            panic!("the run will be over");
        };
        assert!(
            reason
                .to_string()
                .ends_with("would pass the run timeout of 1h")
        );
        let shorter = limited(Some(58), None);
        assert_eq!(seconds(ask(&mut patience, &shorter, deadline)), 59);
    }

    #[test]
    fn what_is_permanent_ends_the_run_or_is_handed_over() {
        let trouble = Trouble {
            kind: TroubleKind::Permanent(Cause::Key),
            message: "Invalid API key".to_owned(),
            resets_at: None,
            retry_after: None,
        };
        let mut patience = Patience::new(None);
        let failure = Failure::Permanent(Cause::Key);
        let mut ask =
            |has_next| patience.recourse(failure, Some(&trouble), standing(has_next, None));
        assert_eq!(ask(true), Recourse::HandOver);
        let Recourse::Abort(reason) = ask(false) else {
            panic!("no retry will help");
        };
        let told = reason.to_string();
        assert!(
            told.starts_with("Aborting, claude cannot go on: Invalid API key"),
            "{told}"
        );
    }

    #[test]
    fn a_run_that_ends_anyway_waits_for_nobody() {
        let mut patience = Patience::new(None);
        let ending = Standing {
            is_ending: true,
            ..standing(true, None)
        };
        let trouble = limited(None, None);
        assert_eq!(ask(&mut patience, &trouble, ending), Recourse::Leave);
        let permanent = Failure::Permanent(Cause::Key);
        let recourse = patience.recourse(permanent, None, ending);
        assert_eq!(recourse, Recourse::Count);
    }

    #[test]
    fn ordinary_failures_count() {
        let mut patience = Patience::new(None);
        for failure in [
            Failure::ContextFull,
            Failure::Error,
            Failure::Denied,
            Failure::Exit(1),
        ] {
            let recourse = patience.recourse(failure, None, standing(true, None));
            assert_eq!(recourse, Recourse::Count);
        }
    }
}
