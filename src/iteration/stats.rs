//! Statistics over durations in constant memory.

use std::fmt;
use std::time::Duration;

use crate::units::Elapsed;

/// Count, extremes, mean and deviation, updated one duration at a time (Welford's method).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stats {
    count: u32,
    min: Duration,
    max: Duration,
    mean: f64,
    /// The sum of the squared distances from the mean, in seconds squared.
    squares: f64,
}

impl Stats {
    pub fn push(&mut self, duration: Duration) {
        self.count += 1;
        self.min = if self.count == 1 {
            duration
        } else {
            self.min.min(duration)
        };
        self.max = self.max.max(duration);
        let seconds = duration.as_secs_f64();
        let old = self.mean;
        self.mean += (seconds - old) / f64::from(self.count);
        self.squares += (seconds - old) * (seconds - self.mean);
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn min(&self) -> Duration {
        self.min
    }

    pub fn max(&self) -> Duration {
        self.max
    }

    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.mean.max(0.0))
    }

    /// Of the whole population: divided by the count, not by one less.
    pub fn stddev(&self) -> Duration {
        if self.count < 2 {
            return Duration::ZERO;
        }
        let variance = self.squares.max(0.0) / f64::from(self.count);
        Duration::from_secs_f64(variance.sqrt())
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let [min, max, mean, stddev] =
            [self.min, self.max, self.mean(), self.stddev()].map(Elapsed);
        write!(f, "min={min}, max={max}, mean={mean}, stddev={stddev}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(seconds: &[f64]) -> Stats {
        let mut stats = Stats::default();
        for seconds in seconds {
            stats.push(Duration::from_secs_f64(*seconds));
        }
        stats
    }

    #[test]
    fn the_examples_of_the_specification() {
        assert_eq!(
            of(&[45.2, 38.7, 52.1]).to_string(),
            "min=38.7s, max=52.1s, mean=45.3s, stddev=5.5s"
        );
        // The specification says 12.3s here; its own formula gives 12.7s.
        assert_eq!(
            of(&[42.0, 36.0, 37.0, 15.0, 12.0, 13.0]).to_string(),
            "min=12.0s, max=42.0s, mean=25.8s, stddev=12.7s"
        );
    }

    #[test]
    fn one_duration_has_no_deviation() {
        assert_eq!(
            of(&[2.0]).to_string(),
            "min=2.0s, max=2.0s, mean=2.0s, stddev=0.0s"
        );
        assert_eq!(of(&[]).stddev(), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn as_exact_as_two_passes(seconds in prop::collection::vec(0.0_f64..1e6, 1..200)) {
            let stats = of(&seconds);
            let count = seconds.len() as f64;
            let mean = seconds.iter().sum::<f64>() / count;
            let variance = seconds.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            let near = |a: Duration, b: f64| (a.as_secs_f64() - b).abs() <= 1e-6 * (1.0 + b);
            prop_assert!(near(stats.mean(), mean));
            prop_assert!(near(stats.stddev(), variance.sqrt()));
            prop_assert!(near(stats.min(), seconds.iter().copied().fold(f64::MAX, f64::min)));
            prop_assert!(near(stats.max(), seconds.iter().copied().fold(0.0, f64::max)));
            prop_assert_eq!(stats.count() as usize, seconds.len());
        }
    }
}
