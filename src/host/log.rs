//! The log: every `tracing` event of rooda becomes a line on standard error.

use jiff::Timestamp;
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

use super::{Clock, Console};
use crate::config::LogLevel;
use crate::event::Moment;
use crate::report::{LineStyle, LogLine, PROGRESS};

/// Sends the log to the console from here on. Only the first call of a process has an effect.
pub fn start_log(console: &Console, clock: Clock, level: LogLevel, style: LineStyle) {
    let log = Log {
        console: console.clone(),
        clock,
        style,
    };
    let level = match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    };
    tracing::subscriber::set_global_default(registry().with(level).with(log)).ok();
}

struct Log {
    console: Console,
    clock: Clock,
    style: LineStyle,
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event, _: Context<S>) {
        let metadata = event.metadata();
        if !metadata.target().starts_with("rooda") {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let at = match (fields.time, fields.since_start) {
            (Some(time), Some(since_start)) => Moment {
                time: Timestamp::from_millisecond(time).unwrap_or_default(),
                since_start: Duration::from_millis(since_start),
            },
            _ => self.clock.now(),
        };
        let line = self.style.line(&LogLine {
            at,
            level: *metadata.level(),
            message: &fields.message,
            is_progress: metadata.target() == PROGRESS,
            is_continuation: fields.continuation,
            event: serde_json::from_str::<Value>(&fields.event).ok(),
        });
        if !line.is_empty() {
            self.console.err(line.into_bytes());
        }
    }
}

/// The fields that `report::say` sends along; diagnostics have a message only.
#[derive(Default)]
struct Fields {
    message: String,
    event: String,
    continuation: bool,
    time: Option<i64>,
    since_start: Option<u64>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "event" => value.clone_into(&mut self.event),
            _ => {}
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == "continuation" {
            self.continuation = value;
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "time" {
            self.time = Some(value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "since_start" {
            self.since_start = Some(value);
        }
    }
}
