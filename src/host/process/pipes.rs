//! The three pipes of an agent. Every step can be cancelled without losing a byte.

use std::fs::File;
use std::future::{pending, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::Child;
use std::task::{Context, Poll};
use std::thread;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::host::Console;
use crate::iteration::{Stream, Tail};

/// What is read at most once nobody should be left to write.
const LEFTOVER: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Pipes<'a> {
    output: Output,
    stdin: Option<Sender>,
    input: &'a [u8],
    console: &'a Console,
}

/// The two streams of output and what was kept of them.
#[derive(Debug)]
struct Output {
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    /// Which stream is asked first; they take turns, so that a flood on one does not hide the other.
    first: Stream,
    tail: Tail,
}

impl<'a> Pipes<'a> {
    pub(super) fn new(
        child: &mut Child,
        input: &'a [u8],
        limit: usize,
        console: &'a Console,
    ) -> io::Result<Self> {
        let reader = |pipe: Option<OwnedFd>| pipe.map(Receiver::from_owned_fd).transpose();
        let writer = |pipe: Option<OwnedFd>| pipe.map(Sender::from_owned_fd).transpose();
        Ok(Pipes {
            output: Output {
                stdout: reader(child.stdout.take().map(OwnedFd::from))?,
                stderr: reader(child.stderr.take().map(OwnedFd::from))?,
                first: Stream::Stdout,
                tail: Tail::new(limit),
            },
            stdin: writer(child.stdin.take().map(OwnedFd::from))?,
            input,
            console,
        })
    }

    /// Whether both streams of output have ended.
    pub(super) fn are_closed(&self) -> bool {
        self.output.stdout.is_none() && self.output.stderr.is_none()
    }

    /// Whether reading waits for the console and not for the agent.
    pub(super) fn are_held_up(&self) -> bool {
        !self.console.has_room()
    }

    /// Goes on reading, for nobody, until the writers are gone: a service that speaks would else be ended by its words.
    pub(super) fn listen_on(mut self) -> Tail {
        let pipes = [self.output.stdout.take(), self.output.stderr.take()];
        for pipe in pipes.into_iter().flatten() {
            let Ok(pipe) = pipe.into_blocking_fd() else {
                continue;
            };
            thread::spawn(move || io::copy(&mut File::from(pipe), &mut io::sink()));
        }
        self.output.tail
    }

    pub(super) fn into_tail(self) -> Tail {
        self.output.tail
    }

    /// Moves bytes once, in whichever direction is possible, and answers whether output arrived.
    pub(super) async fn pump(&mut self, heard: &mut impl FnMut(Stream, &[u8])) -> bool {
        let has_room = self.console.has_room();
        let output = &mut self.output;
        tokio::select! {
            count = poll_fn(|context| output.poll(context, heard)), if has_room => count > 0,
            () = writable(&self.stdin) => {
                self.write();
                false
            }
            () = self.console.room(), if !has_room => false,
        }
    }

    /// Reads what is there, without waiting for more. For when all writers are gone, or nearly so.
    pub(super) async fn drain(&mut self, heard: &mut impl FnMut(Stream, &[u8])) {
        let mut left = LEFTOVER;
        poll_fn(|context| {
            while left > 0 {
                match self.output.poll(context, heard) {
                    Poll::Ready(count) => left = left.saturating_sub(count),
                    Poll::Pending => break,
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Sends what is left of the prompt. An agent that does not want to read it is free not to.
    fn write(&mut self) {
        let Some(sender) = &self.stdin else {
            return;
        };
        match sender.try_write(self.input) {
            Ok(count) => self.input = &self.input[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => self.input = &[],
        }
        if self.input.is_empty() {
            self.stdin = None;
        }
    }
}

impl Output {
    /// Reads once from whichever stream has something. Zero bytes: a stream has ended.
    fn poll(
        &mut self,
        context: &mut Context,
        heard: &mut impl FnMut(Stream, &[u8]),
    ) -> Poll<usize> {
        for stream in [self.first, self.first.other()] {
            let pipe = match stream {
                Stream::Stdout => &mut self.stdout,
                Stream::Stderr => &mut self.stderr,
            };
            let Some(receiver) = pipe else {
                continue;
            };
            let mut buffer = ReadBuf::new(self.tail.spare());
            match Pin::new(receiver).poll_read(context, &mut buffer) {
                Poll::Pending => continue,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    let count = buffer.filled().len();
                    heard(stream, self.tail.commit(stream, count));
                    self.first = stream.other();
                    return Poll::Ready(count);
                }
                Poll::Ready(_) => {
                    *pipe = None;
                    return Poll::Ready(0);
                }
            }
        }
        Poll::Pending
    }
}

async fn writable(pipe: &Option<Sender>) {
    match pipe {
        Some(pipe) => pipe.writable().await.unwrap_or_default(),
        None => pending().await,
    }
}
