//! The time, by the calendar and since the start.

use std::time::Instant;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::event::Moment;

#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Clock {
            started: Instant::now(),
        }
    }

    pub fn now(&self) -> Moment {
        Moment {
            time: Timestamp::now(),
            since_start: self.started.elapsed(),
        }
    }

    pub fn zone() -> TimeZone {
        TimeZone::system()
    }
}
