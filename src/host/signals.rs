//! The signals that end a run.

use std::fs;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::sleep;

use crate::signal::Signal;

/// Waits for SIGINT, SIGTERM and SIGHUP. A signal that was ignored when rooda started (`nohup`, a background job of a
/// script) stays ignored.
#[derive(Debug)]
pub struct Signals {
    streams: Vec<(Signal, Stream)>,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        let ignored = ignored_signals();
        let streams = [Signal::INT, Signal::TERM, Signal::HUP]
            .into_iter()
            .filter(|Signal(number)| ignored & (1 << (number - 1)) == 0)
            .map(|name| Ok((name, signal(SignalKind::from_raw(name.0))?)))
            .collect::<io::Result<_>>()?;
        Ok(Signals { streams })
    }

    /// The next signal. Never comes back if all of them are ignored.
    pub async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (name, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*name);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// A signal that comes within this time.
    pub async fn within(&mut self, time: Duration) -> Option<Signal> {
        tokio::select! {
            biased;
            signal = self.next() => Some(signal),
            () = sleep(time) => None,
        }
    }

    /// A signal that has already come.
    pub async fn pending(&mut self) -> Option<Signal> {
        tokio::select! {
            biased;
            signal = self.next() => Some(signal),
            () = std::future::ready(()) => None,
        }
    }
}

/// The mask of the signals that this process ignores, as the kernel tells it.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
