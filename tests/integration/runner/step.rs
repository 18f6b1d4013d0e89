//! A running step: its streams are heard as they come, and it can be cancelled as GitHub does it.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::console::{BadToken, Console};
use super::engine::{Client, Container, Process, Started};
use super::job::Job;
use super::lines::Cutter;
use super::outcome::{Outcome, StepResult};
use super::preparation::Prepared;

/// What the runner waits for.
enum News {
    Ended(ExitStatus),
    StreamEnded,
    /// The runner gives up on the step.
    BadToken,
}

/// Why a step is interrupted.
#[derive(Clone, Copy)]
enum Cause {
    Cancel,
    TimeOut { minutes: u32 },
    ShutDown,
}

#[must_use = "wait for it or cancel it"]
pub(crate) struct Step<'a> {
    job: &'a Job,
    client: Client,
    container: Option<Container>,
    console: Arc<Mutex<Console>>,
    news: Receiver<News>,
    streams: usize,
    exit: Option<ExitStatus>,
    left: bool,
    interrupted: Option<Instant>,
    id: String,
    header: Vec<String>,
    begun: Instant,
}

impl<'a> Step<'a> {
    pub(super) fn new(job: &'a Job, prepared: Prepared, started: Started) -> Self {
        let console = Arc::new(Mutex::new(prepared.console));
        let (sender, news) = mpsc::channel();
        listen(started.stdout, console.clone(), sender.clone());
        listen(started.stderr, console.clone(), sender.clone());
        let ended = started.ended;
        thread::spawn(move || {
            if let Ok(status) = ended.recv() {
                sender.send(News::Ended(status)).ok();
            }
        });
        Step {
            job,
            client: started.client,
            container: Some(started.container),
            console,
            news,
            streams: 2,
            exit: None,
            left: false,
            interrupted: None,
            id: prepared.id,
            header: prepared.header,
            begun: Instant::now(),
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Outcome {
        self.wait_patiently();
        self.finish(None)
    }

    /// Cancels the job.
    pub(crate) fn cancel(self) -> Outcome {
        self.interrupt(Cause::Cancel)
    }

    /// The step has taken longer than its `timeout-minutes`.
    pub(crate) fn time_out(self, minutes: u32) -> Outcome {
        self.interrupt(Cause::TimeOut { minutes })
    }

    /// The runner itself is told to end: nobody reads what the step has written for it.
    pub(crate) fn shut_down(self) -> Outcome {
        self.interrupt(Cause::ShutDown)
    }

    /// Sends the first signal of a cancellation, and does no more. `cancel` goes on from there.
    pub(crate) fn sigint(&mut self) {
        self.client.signal(Signal::INT);
        self.interrupted = Some(Instant::now());
    }

    /// Waits until the log shows a text, and gives its lines so far.
    pub(crate) fn wait_for_log(&self, text: &str) -> Vec<String> {
        let deadline = Instant::now() + self.job.patience;
        loop {
            let log = self.log();
            if log.iter().any(|line| line.contains(text)) {
                return log;
            }
            let shown = log.join("\n");
            assert!(Instant::now() < deadline, "no {text:?} in:\n{shown}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The log so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.console.lock().unwrap().record.log.clone()
    }

    /// Whether the container runs.
    pub(crate) fn is_running(&self) -> bool {
        self.container.as_ref().is_some_and(Container::is_running)
    }

    /// What runs in the container.
    pub(crate) fn processes(&self) -> Vec<Process> {
        self.container
            .as_ref()
            .map_or(Vec::new(), Container::processes)
    }

    fn interrupt(mut self, cause: Cause) -> Outcome {
        if self.job.always && matches!(cause, Cause::Cancel) {
            return self.wait();
        }
        let delay = |seconds: f64| Duration::from_secs_f64(seconds * self.job.scale);
        let (polite, insistent) = (delay(7.5), delay(2.5));
        if self.interrupted.is_none() {
            self.sigint();
        }
        self.wait_until(self.interrupted.unwrap() + polite);
        if self.exit.is_none() {
            self.client.signal(Signal::TERM);
            self.wait_until(Instant::now() + insistent);
        }
        if self.exit.is_none() {
            self.console.lock().unwrap().close();
            self.client.kill();
        }
        self.finish(Some(cause))
    }

    fn wait_patiently(&mut self) {
        self.wait_until(self.begun + self.job.patience);
        let has_ended = self.exit.is_some() || self.left;
        assert!(has_ended, "it does not end:\n{}", self.log().join("\n"));
    }

    /// Until the client has ended and both streams have, until the runner gives up on it, or until a point in time.
    fn wait_until(&mut self, deadline: Instant) {
        while !self.left && (self.exit.is_none() || self.streams > 0) {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.news.recv_timeout(rest) {
                Ok(News::Ended(status)) => self.exit = Some(status),
                Ok(News::StreamEnded) => self.streams -= 1,
                Ok(News::BadToken) => self.left = true,
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => unreachable!("news come until the end"),
            }
        }
    }

    fn finish(mut self, cause: Option<Cause>) -> Outcome {
        let mut record = self.console.lock().unwrap().record.clone();
        let exit_code = self.exit.map(code);
        match cause {
            Some(Cause::Cancel) => record.error("The operation was canceled."),
            Some(Cause::TimeOut { minutes }) => record.error(&format!(
                "The action 'Run octo-org/rooda-action@v1' has timed out after {minutes} minutes."
            )),
            Some(Cause::ShutDown) => {
                record.error("The runner has received a shutdown signal.");
            }
            None => {}
        }
        if !matches!(cause, Some(Cause::ShutDown)) {
            self.job.read_command_files(&self.id, &mut record);
        }
        let result = match cause {
            Some(Cause::Cancel) => StepResult::Canceled,
            Some(Cause::TimeOut { .. } | Cause::ShutDown) => StepResult::Failed,
            None if exit_code == Some(0) && !record.failed => StepResult::Succeeded,
            None => StepResult::Failed,
        };
        self.job.state.borrow_mut().take_over(&record);
        let elapsed = self.begun.elapsed();
        let header = std::mem::take(&mut self.header);
        Outcome::new(
            result,
            exit_code,
            record,
            header,
            elapsed,
            self.job.continue_on_error,
        )
    }
}

/// A container that outlives its step belongs to the job.
impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.console
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .close();
        self.job
            .containers
            .borrow_mut()
            .extend(self.container.take());
    }
}

/// What `docker run` makes of the end of the first process.
fn code(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap())
}

fn listen(mut stream: Box<dyn Read + Send>, console: Arc<Mutex<Console>>, news: Sender<News>) {
    thread::spawn(move || {
        let mut cutter = Cutter::default();
        let mut piece = [0; 1 << 16];
        let hear = |lines: Vec<String>| {
            let mut console = console.lock().unwrap();
            for line in lines {
                if console.hear(&line) == Err(BadToken) {
                    news.send(News::BadToken).ok();
                }
            }
        };
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            hear(cutter.push(&piece[..count]));
        }
        hear(cutter.end().into_iter().collect());
        news.send(News::StreamEnded).ok();
    });
}
