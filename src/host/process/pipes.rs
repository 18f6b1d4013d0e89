//! The three pipes of an agent. Every step can be cancelled without losing a byte.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;

use tokio::net::unix::pipe::{Receiver, Sender};

use crate::host::Console;
use crate::iteration::{Stream, Tail};

/// What one turn of the loop may read once nobody can write any more.
const LEFTOVER: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Pipes<'a> {
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    stdin: Option<Sender>,
    input: &'a [u8],
    pub(super) tail: Tail,
    console: &'a Console,
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
            stdout: reader(child.stdout.take().map(OwnedFd::from))?,
            stderr: reader(child.stderr.take().map(OwnedFd::from))?,
            stdin: writer(child.stdin.take().map(OwnedFd::from))?,
            input,
            tail: Tail::new(limit),
            console,
        })
    }

    /// Whether both streams of output have ended.
    pub(super) fn are_closed(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }

    /// Whether reading waits for the console and not for the agent.
    pub(super) fn are_held_up(&self) -> bool {
        !self.console.has_room()
    }

    /// Moves bytes once, in whichever direction is possible, and answers whether output arrived.
    pub(super) async fn pump(&mut self, heard: &mut impl FnMut(Stream, &[u8])) -> bool {
        let has_room = self.console.has_room();
        tokio::select! {
            () = readable(&self.stdout), if has_room => self.read(Stream::Stdout, heard) > 0,
            () = readable(&self.stderr), if has_room => self.read(Stream::Stderr, heard) > 0,
            () = writable(&self.stdin) => {
                self.write();
                false
            }
            () = self.console.room(), if !has_room => false,
        }
    }

    /// Reads what is there, without waiting for more. For when all writers are gone, or nearly so.
    pub(super) fn drain(&mut self, heard: &mut impl FnMut(Stream, &[u8])) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let mut read = 0;
            while read < LEFTOVER {
                match self.read(stream, heard) {
                    0 => break,
                    count => read += count,
                }
            }
        }
    }

    fn read(&mut self, stream: Stream, heard: &mut impl FnMut(Stream, &[u8])) -> usize {
        let pipe = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let Some(receiver) = pipe else {
            return 0;
        };
        match receiver.try_read(self.tail.spare()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Ok(0) | Err(_) => {
                *pipe = None;
                0
            }
            Ok(count) => {
                heard(stream, self.tail.commit(stream, count));
                count
            }
        }
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

async fn readable(pipe: &Option<Receiver>) {
    match pipe {
        Some(pipe) => pipe.readable().await.unwrap_or_default(),
        None => pending().await,
    }
}

async fn writable(pipe: &Option<Sender>) {
    match pipe {
        Some(pipe) => pipe.writable().await.unwrap_or_default(),
        None => pending().await,
    }
}
