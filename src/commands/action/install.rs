//! What is brought in before the loop: the `setup` script, and the agent's own program.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use super::board::Board;
use crate::agent::version_line;
use crate::error::{Error, ErrorKind};
use crate::host::{Command, Heard, Jail, Limits, Place, Ran};
use crate::iteration::{Cut, End, Stream};
use crate::plan::Agent;
use crate::runner::Host;
use crate::signal::Signal;

/// npm tries for long when a registry cannot be reached.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// How long a program may take to say its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of the output is kept to explain a failure.
const KEPT: usize = 1 << 20;
const TOLD_LINES: usize = 10;

/// What came of something that was run before the loop.
pub(super) enum Done {
    Well,
    Interrupted(Signal),
}

/// Runs the script of the input `setup`, as root. What it leaves running (a database, say) goes on.
pub(super) async fn setup(
    script: &str,
    environment: BTreeMap<String, String>,
    directory: &std::path::Path,
    timeout: Option<Duration>,
    host: &mut Host,
    board: &mut Board<'_>,
) -> Result<Done, Error> {
    let words = [
        "bash",
        "--noprofile",
        "--norc",
        "-eo",
        "pipefail",
        "-c",
        script,
    ];
    let command = Command {
        words: &words.map(str::to_owned),
        input: b"",
        place: Place::Root {
            environment: &environment,
            directory,
        },
    };
    let ran = stage("Setup", command, timeout, host, board).await;
    match outcome(ran)? {
        Outcome::Well => Ok(Done::Well),
        Outcome::Interrupted(signal) => Ok(Done::Interrupted(signal)),
        Outcome::Failed { how, last } => Err(Error::new(
            ErrorKind::Unavailable,
            format_args!("the setup script {how}{last}"),
        )
        .hint("its output is in the group `Setup` of the log")),
    }
}

/// What must be installed before the agent can run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub name: String,
    pub version: String,
}

impl Package {
    /// The package of an agent that is not there, or not in the version that was asked for.
    pub(super) fn wanted(
        agent: &Agent,
        version: Option<&String>,
        is_there: bool,
    ) -> Result<Option<Package>, Error> {
        let program = agent.command.program();
        match (&agent.npm, version) {
            (Some(_), None) if is_there => Ok(None),
            (Some(name), version) => Ok(Some(Package {
                name: name.clone(),
                version: version.cloned().unwrap_or_else(|| "latest".to_owned()),
            })),
            (None, None) if !is_there && !agent.keys.is_empty() => {
                let message = format!("AI command binary not found: {program}");
                Err(Error::new(ErrorKind::Unavailable, message).hint(format_args!(
                    "rooda does not install {program}: install it in `setup`, or use an image of your own"
                )))
            }
            (None, None) => Ok(None),
            (None, Some(_)) => {
                let message = format!("input agent-version: rooda does not install `{program}`");
                Err(Error::new(ErrorKind::Usage, message).hint(
                    "it installs claude, codex, gemini, opencode and copilot; install others in `setup`",
                ))
            }
        }
    }

    pub(super) fn spec(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

/// Installs an npm package into the agent's home, as the agent: what a package does when it is installed is its own.
pub(super) async fn install(
    package: &Package,
    jail: &Jail,
    host: &mut Host,
    board: &mut Board<'_>,
) -> Result<Done, Error> {
    let spec = package.spec();
    let words = [
        "npm",
        "install",
        "--global",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        &spec,
    ];
    let command = Command {
        words: &words.map(str::to_owned),
        input: b"",
        place: Place::Jail(jail),
    };
    let title = format!("Install {spec}");
    let ran = stage(&title, command, Some(INSTALL_TIMEOUT), host, board).await;
    match outcome(ran)? {
        Outcome::Well => Ok(Done::Well),
        Outcome::Interrupted(signal) => Ok(Done::Interrupted(signal)),
        Outcome::Failed { how, last } => {
            let message = format!("cannot install {spec}: npm {how}{last}");
            Err(Error::new(ErrorKind::Unavailable, message)
                .hint("is the npm registry within reach, and is there such a version?")
                .hint("or put the CLI into an image of your own, or install it in `setup`"))
        }
    }
}

/// What an agent's program says its version is. Only those that rooda knows are asked: what another program does with
/// the flag is not known. A signal that comes meanwhile is meant for the whole step.
pub(super) async fn version_told(
    agent: &Agent,
    jail: &Jail,
    host: &mut Host,
    board: &mut Board<'_>,
) -> Result<Option<String>, Signal> {
    if agent.npm.is_none() {
        return Ok(None);
    }
    let words = [agent.command.program(), "--version"].map(str::to_owned);
    let command = Command {
        words: &words,
        input: b"",
        place: Place::Jail(jail),
    };
    let limits = Limits {
        deadline: Some((VERSION_TIMEOUT, Cut::RunTimeout(VERSION_TIMEOUT))),
        idle: None,
        grace: Duration::from_secs(1),
        buffer: KEPT,
    };
    let heard = |heard: Heard| {
        if let Heard::Interrupted(signal) = heard {
            board.interrupted(signal);
        }
        ControlFlow::Continue(())
    };
    let ran = host
        .supervisor
        .run(command, limits, &mut host.signals, &host.console, heard)
        .await;
    let output = match ran {
        Ok(Ran {
            interrupted: Some(signal),
            ..
        }) => return Err(signal),
        Ok(ran) if ran.end == End::Exited(0) => ran.output.end_of(Stream::Stdout, KEPT),
        Ok(_) | Err(_) => return Ok(None),
    };
    let version = version_line(&output);
    if let Some(version) = &version {
        tracing::info!("{}: {version}", agent.name);
    }
    Ok(version)
}

enum Outcome {
    Well,
    Interrupted(Signal),
    Failed { how: String, last: String },
}

fn outcome(ran: std::io::Result<Ran>) -> Result<Outcome, Error> {
    let ran = ran.map_err(|error| {
        Error::new(
            ErrorKind::Unavailable,
            format_args!("cannot start it: {error}"),
        )
    })?;
    // A signal may come just when it ends by itself. It is meant for the whole step.
    if let Some(signal) = ran.interrupted {
        return Ok(Outcome::Interrupted(signal));
    }
    let how = match ran.end {
        End::Exited(0) => return Ok(Outcome::Well),
        End::Cut(Cut::Interrupted(signal)) => return Ok(Outcome::Interrupted(signal)),
        End::Exited(code) => format!("ended with exit code {code}"),
        End::Signaled(signal) => format!("was ended by {signal}"),
        End::Cut(Cut::IterationTimeout(time) | Cut::IdleTimeout(time) | Cut::RunTimeout(time)) => {
            format!("did not end within {}", crate::units::Exactly(time))
        }
        End::Cut(Cut::Budget) => "was ended".to_owned(),
    };
    let lines = ran.output.last_lines(TOLD_LINES);
    // npm's last words are where its log is, which nobody will ever see.
    let tells = |line: &&String| !line.trim().is_empty() && !line.contains("A complete log of");
    let last = match lines.iter().rev().find(tells) {
        Some(line) => format!(": {}", line.trim()),
        None => String::new(),
    };
    Ok(Outcome::Failed { how, last })
}

/// Runs something before the loop, in a group of its own in the log.
async fn stage(
    title: &str,
    command: Command<'_>,
    timeout: Option<Duration>,
    host: &mut Host,
    board: &mut Board<'_>,
) -> std::io::Result<Ran> {
    let limits = Limits {
        deadline: timeout.map(|timeout| (timeout, Cut::RunTimeout(timeout))),
        idle: None,
        grace: Duration::from_secs(2),
        buffer: KEPT,
    };
    board.open_stage(title);
    let heard = |heard: Heard| {
        match heard {
            Heard::Output(_, bytes) => board.stage_output(bytes),
            Heard::Tick { .. } => {}
            Heard::Interrupted(signal) => board.interrupted(signal),
        }
        ControlFlow::Continue(())
    };
    let ran = host
        .supervisor
        .run(command, limits, &mut host.signals, &host.console, heard)
        .await;
    board.close_stage();
    ran
}
