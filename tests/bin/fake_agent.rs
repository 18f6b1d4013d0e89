//! A real, scriptable little agent for the tests: `fake_agent SCRIPT`.
//!
//! Each line of the script is a command; `---` begins what is done at the next invocation, and the last part is repeated
//! from then on. Texts know the escapes `\n`, `\r`, `\t`, `\e`, `\\` and `\xNN`.
//!
//!     print TEXT          a line on standard output          raw TEXT        the same without a line end
//!     eprint TEXT         a line on standard error           eraw TEXT
//!     read                read the prompt                    save FILE       read the prompt into a file
//!     touch FILE          create a file with our pid in it   write FILE TEXT
//!     await FILE          go on when the file exists         sleep MILLISECONDS
//!     hang                for good                           exit N
//!     ignore SIGNAL       TERM, INT or HUP                   kill SIGNAL     end by a signal
//!     on SIGNAL FILE      when it comes, create the file (our last act) and exit with 0
//!     spawn WORDS         a child that stays                 setsid WORDS    one in a session of its own
//!     daemon WORDS        one that was forked twice          close STREAM    stdin, stdout or stderr
//!     flood BYTES         so much output, in one line        echo            print the prompt
//!     remove FILE                                            every MS TEXT   a line again and again, for good
//!     show FILE           print what is in a file
//!
//! WORDS are split as a shell does it. The files of `touch`, `write` and `on` appear with their content at once.
#![expect(
    clippy::disallowed_methods,
    clippy::exit,
    clippy::unwrap_used,
    clippy::zombie_processes,
    reason = "a test program, outside of the house"
)]

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, setsid};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--setsid") => {
            setsid().unwrap();
            panicking_exec(&arguments[1..]);
        }
        Some("--daemon") => {
            setsid().unwrap();
            child(&arguments[1..]);
        }
        Some(script) => perform(script),
        None => process::exit(64),
    }
}

fn panicking_exec(words: &[String]) {
    let error = Command::new(&words[0]).args(&words[1..]).exec();
    eprintln_raw(&format!("cannot run {words:?}: {error}\n"));
    process::exit(127);
}

fn child(words: &[String]) -> process::Child {
    Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

fn eprintln_raw(text: &str) {
    io::stderr().write_all(text.as_bytes()).ok();
}

fn perform(script: &str) {
    let text = fs::read_to_string(script).unwrap();
    let counter = format!("{script}.count");
    let invocation: usize = fs::read_to_string(&counter)
        .ok()
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0);
    fs::write(&counter, (invocation + 1).to_string()).unwrap();
    let parts: Vec<&str> = text.split("---\n").collect();
    let part = parts[invocation.min(parts.len() - 1)];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut signals = Signals::default();
        for line in part.lines() {
            let line = line.trim_start();
            let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
            step(command, rest, &mut signals).await;
        }
    });
}

#[derive(Default)]
struct Signals {
    ignored: Vec<SignalStream>,
    /// The first of these that comes ends the agent, politely.
    last_act: Option<(SignalStream, String)>,
}

impl Signals {
    /// Waits, and listens meanwhile.
    async fn pass(&mut self, time: Duration) {
        match &mut self.last_act {
            None => tokio::time::sleep(time).await,
            Some((stream, file)) => tokio::select! {
                () = tokio::time::sleep(time) => {}
                _ = stream.recv() => {
                    publish(file, "bye");
                    process::exit(0);
                }
            },
        }
    }
}

async fn step(command: &str, rest: &str, signals: &mut Signals) {
    let words = || shell_words::split(rest).unwrap();
    match command {
        "" | "#" => {}
        "print" => emit(&mut io::stdout(), rest, "\n"),
        "raw" => emit(&mut io::stdout(), rest, ""),
        "eprint" => emit(&mut io::stderr(), rest, "\n"),
        "eraw" => emit(&mut io::stderr(), rest, ""),
        "read" => drop(prompt()),
        "save" => publish(rest, prompt()),
        "echo" => io::stdout().write_all(&prompt()).unwrap(),
        "touch" => publish(rest, process::id().to_string()),
        "write" => {
            let (file, text) = rest.split_once(' ').unwrap_or((rest, ""));
            publish(file, text);
        }
        "await" => {
            while !fs::exists(rest).unwrap() {
                signals.pass(Duration::from_millis(5)).await;
            }
        }
        "sleep" => {
            signals
                .pass(Duration::from_millis(rest.parse().unwrap()))
                .await
        }
        "hang" => signals.pass(Duration::from_secs(100_000)).await,
        "exit" => process::exit(rest.parse().unwrap()),
        "ignore" => signals.ignored.push(listen(rest)),
        "on" => {
            let (name, file) = rest.split_once(' ').unwrap();
            signals.last_act = Some((listen(name), file.to_owned()));
        }
        "kill" => {
            let own = Pid::from_raw(process::id() as i32).unwrap();
            // The runtime of Rust looks at the first SIGSEGV itself.
            kill_process(own, named(rest)).unwrap();
            kill_process(own, named(rest)).unwrap();
        }
        "spawn" => drop(child(&words())),
        "setsid" => again("--setsid", &words(), false),
        "daemon" => again("--daemon", &words(), true),
        "close" => close(rest),
        "remove" => fs::remove_file(rest).unwrap(),
        "show" => {
            let mut stdout = io::stdout();
            stdout.write_all(&fs::read(rest).unwrap()).unwrap();
            stdout.flush().unwrap();
        }
        "every" => {
            let (time, text) = rest.split_once(' ').unwrap();
            let time = Duration::from_millis(time.parse().unwrap());
            loop {
                emit(&mut io::stdout(), text, "\n");
                signals.pass(time).await;
            }
        }
        "flood" => flood(rest.parse().unwrap()),
        other => {
            eprintln_raw(&format!("fake_agent: unknown command {other:?}\n"));
            process::exit(70);
        }
    }
}

/// Starts ourselves in another role.
fn again(role: &str, words: &[String], wait: bool) {
    let own = std::env::current_exe().unwrap();
    let mut words = words.to_vec();
    words.splice(0..0, [own.to_string_lossy().into_owned(), role.to_owned()]);
    let mut started = child(&words);
    if wait {
        started.wait().unwrap();
    }
}

fn prompt() -> Vec<u8> {
    let mut prompt = Vec::new();
    io::stdin().read_to_end(&mut prompt).unwrap();
    prompt
}

/// Creates a file with its content at once, so that whoever waits for it never sees half of it.
fn publish(file: &str, text: impl AsRef<[u8]>) {
    let unfinished = format!("{file}.unfinished");
    fs::write(&unfinished, text).unwrap();
    fs::rename(unfinished, file).unwrap();
}

fn emit(stream: &mut impl Write, text: &str, end: &str) {
    let mut bytes = unescape(text);
    bytes.extend_from_slice(end.as_bytes());
    stream.write_all(&bytes).ok();
    stream.flush().ok();
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match rest.next() {
            Some('n') => bytes.push(b'\n'),
            Some('r') => bytes.push(b'\r'),
            Some('t') => bytes.push(b'\t'),
            Some('e') => bytes.push(0x1b),
            Some('x') => {
                let digits: String = rest.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
            }
            Some(other) => bytes.push(other as u8),
            None => {}
        }
    }
    bytes
}

fn named(name: &str) -> Signal {
    match name {
        "TERM" => Signal::TERM,
        "INT" => Signal::INT,
        "HUP" => Signal::HUP,
        "KILL" => Signal::KILL,
        "SEGV" => Signal::SEGV,
        "STOP" => Signal::STOP,
        other => unreachable!("no such signal here: {other}"),
    }
}

fn listen(name: &str) -> SignalStream {
    signal(SignalKind::from_raw(named(name).as_raw())).unwrap()
}

fn close(stream: &str) {
    let fd = match stream {
        "stdin" => rustix::stdio::take_stdin,
        "stdout" => rustix::stdio::take_stdout,
        _ => rustix::stdio::take_stderr,
    };
    #[expect(
        unsafe_code,
        reason = "closing a standard stream for good is the point"
    )]
    // SAFETY: nothing uses this stream afterwards.
    drop::<OwnedFd>(unsafe { fd() });
}

fn flood(mut left: usize) {
    let block = vec![b'x'; 1 << 16];
    let mut stdout = io::stdout().lock();
    while left > 0 {
        let count = left.min(block.len());
        if stdout.write_all(&block[..count]).is_err() {
            return;
        }
        left -= count;
    }
    stdout.flush().ok();
}
