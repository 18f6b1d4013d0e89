//! Standard output and standard error, written by one thread in the order in which things were said.
//!
//! A reader that does not read (a paused terminal, a full pipe) blocks that thread and nothing else: timeouts and signals
//! go on working. Whoever produces much asks [`Console::room`] first.
//!
//! In the action both are one stream, because the runner does not keep the order of two, and nothing leaves here with
//! a secret in it.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::redact::{RedactedStream, Secrets};

/// How much may wait to be written before producers should pause.
const BACKLOG: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Out,
    Err,
}

enum Message {
    Write(Target, Vec<u8>),
    /// Past the guard: this is how the runner learns what to mask.
    Unguarded(Vec<u8>),
    Guard(RedactedStream),
    Status(Option<String>),
    Flush(oneshot::Sender<Option<io::Error>>),
}

#[derive(Debug, Clone)]
pub struct Console {
    sender: Sender<Message>,
    backlog: Arc<AtomicUsize>,
    room: Arc<Notify>,
}

/// Standard output as a sink.
#[derive(Debug)]
pub struct Sink(Console);

impl Console {
    /// `status_line`: whether standard error can show one.
    pub fn start(status_line: bool) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let console = Console {
            sender,
            backlog: Arc::default(),
            room: Arc::default(),
        };
        let writer = Writer {
            backlog: console.backlog.clone(),
            room: console.room.clone(),
            status_line,
            status: None,
            drawn: false,
            mid_line: false,
            lost: None,
            guard: None,
        };
        thread::Builder::new()
            .name("console".to_owned())
            .stack_size(128 << 10)
            .spawn(move || writer.run(&receiver))?;
        Ok(console)
    }

    pub fn stdout_is_terminal() -> bool {
        io::stdout().is_terminal()
    }

    pub fn stderr_is_terminal() -> bool {
        io::stderr().is_terminal()
    }

    /// Whether somebody at a terminal may press Ctrl+C twice.
    pub fn is_interactive() -> bool {
        io::stdin().is_terminal() || io::stderr().is_terminal()
    }

    pub fn out(&self, bytes: Vec<u8>) {
        self.write(Target::Out, bytes);
    }

    pub fn err(&self, bytes: Vec<u8>) {
        self.write(Target::Err, bytes);
    }

    /// From here on everything goes to standard output, and no secret with it.
    pub fn guard(&self, secrets: &Secrets) {
        self.sender.send(Message::Guard(secrets.stream())).ok();
    }

    /// Writes past the guard. What the guard holds back, because a secret might have begun there, goes out before.
    pub fn unguarded(&self, text: String) {
        if text.is_empty() {
            return;
        }
        let bytes = text.into_bytes();
        self.backlog.fetch_add(bytes.len(), Ordering::Relaxed);
        self.sender.send(Message::Unguarded(bytes)).ok();
    }

    pub fn status(&self, line: Option<String>) {
        self.sender.send(Message::Status(line)).ok();
    }

    pub fn sink(&self) -> Sink {
        Sink(self.clone())
    }

    pub fn has_room(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) < BACKLOG
    }

    /// Waits until there is room again.
    pub async fn room(&self) {
        loop {
            let woken = self.room.notified();
            if self.has_room() {
                return;
            }
            woken.await;
        }
    }

    /// Waits until all that was said so far is written, or nobody reads it any more.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.sender.send(Message::Flush(done)).is_ok() {
            written.await.ok();
        }
    }

    /// The same, but no longer than a reader takes in nothing for this time: it may never read.
    pub async fn flush_while_read(&self, patience: Duration) {
        let mut flushed = std::pin::pin!(self.flush());
        loop {
            let waiting = self.backlog.load(Ordering::Relaxed);
            if tokio::time::timeout(patience, &mut flushed).await.is_ok()
                || self.backlog.load(Ordering::Relaxed) == waiting
            {
                return;
            }
        }
    }

    /// The same, where nothing else is going on. An error means that output was lost, to a full disk say; a reader that
    /// has gone away is none.
    pub fn flush_blocking(&self) -> io::Result<()> {
        let (done, written) = oneshot::channel();
        self.sender.send(Message::Flush(done)).ok();
        match written.blocking_recv() {
            Ok(Some(error)) => Err(error),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    fn write(&self, target: Target, bytes: Vec<u8>) {
        self.backlog.fetch_add(bytes.len(), Ordering::Relaxed);
        self.sender.send(Message::Write(target, bytes)).ok();
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.out(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Writer {
    backlog: Arc<AtomicUsize>,
    room: Arc<Notify>,
    status_line: bool,
    status: Option<String>,
    /// Whether the status line is on the screen now.
    drawn: bool,
    /// Whether the agent's output stopped in the middle of a line: the status line must not run into it.
    mid_line: bool,
    /// Why something did not reach standard output.
    lost: Option<io::Error>,
    guard: Option<RedactedStream>,
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut standard_out = io::stdout();
        let mut standard_err = io::stderr();
        // A write that fails is no reason to stop working.
        while let Ok(message) = messages.recv() {
            match message {
                Message::Write(target, bytes) => {
                    self.erase(&mut standard_err);
                    match (&mut self.guard, target) {
                        (Some(guard), _) => {
                            let shown = guard.feed(&bytes);
                            self.out(&mut standard_out, &shown);
                        }
                        (None, Target::Out) => self.out(&mut standard_out, &bytes),
                        (None, Target::Err) => {
                            standard_err.write_all(&bytes).ok();
                        }
                    }
                    if let Some(last) = bytes.last() {
                        self.mid_line = *last != b'\n';
                    }
                    self.draw(&mut standard_err);
                    self.written(bytes.len());
                }
                Message::Unguarded(bytes) => {
                    self.release(&mut standard_out);
                    self.out(&mut standard_out, &bytes);
                    self.written(bytes.len());
                }
                Message::Guard(guard) => {
                    self.release(&mut standard_out);
                    self.guard = Some(guard);
                }
                Message::Status(status) => {
                    self.erase(&mut standard_err);
                    self.status = status;
                    self.draw(&mut standard_err);
                }
                Message::Flush(done) => {
                    self.release(&mut standard_out);
                    done.send(self.lost.take()).ok();
                }
            }
        }
    }

    fn out(&mut self, standard_out: &mut impl Write, bytes: &[u8]) {
        let written = standard_out.write_all(bytes);
        let lost = written.and_then(|()| standard_out.flush()).err();
        let lost = lost.filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        self.lost = self.lost.take().or(lost);
    }

    /// Writes what the guard held back because a secret might have begun there.
    fn release(&mut self, standard_out: &mut impl Write) {
        if let Some(guard) = &mut self.guard {
            let held = guard.finish();
            self.out(standard_out, &held);
        }
    }

    fn written(&self, count: usize) {
        self.backlog.fetch_sub(count, Ordering::Relaxed);
        self.room.notify_one();
    }

    fn erase(&mut self, standard_err: &mut impl Write) {
        if self.drawn {
            standard_err.write_all(b"\r\x1b[2K").ok();
            self.drawn = false;
        }
    }

    fn draw(&mut self, standard_err: &mut impl Write) {
        let Some(status) = &self.status else {
            return;
        };
        if self.status_line && !self.mid_line {
            // A terminal that does not know its width says 0.
            let columns = match rustix::termios::tcgetwinsize(io::stderr()) {
                Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
                Ok(_) | Err(_) => 80,
            };
            let line: String = status.chars().take(columns.saturating_sub(1)).collect();
            write!(standard_err, "\x1b[2m{line}\x1b[0m").ok();
            standard_err.flush().ok();
            self.drawn = true;
        }
    }
}
