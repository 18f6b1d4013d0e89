//! rooda runs AI coding CLIs in OODA loops: each iteration is a fresh process with a freshly composed prompt, and state
//! lives in files.
//!
//! # The house
//!
//! Only [`host`] touches the world: processes, files, the environment, the clock, the terminal. Only [`runner`],
//! [`commands`] and this file use it. Everything else is plain functions and values, tested without doubles; clippy's
//! `disallowed-methods` holds the walls. A run is: layers → [`config::resolve`] → [`plan::Plan`] → [`runner::run`], which
//! tells what happens as [`event::Event`]s, which [`report`] turns into bytes.

pub mod action;
pub mod agent;
pub mod cli;
pub mod commands;
pub mod config;
pub mod error;
pub mod event;
pub mod host;
pub mod iteration;
pub mod plan;
pub mod prompt;
pub mod redact;
pub mod report;
pub mod runner;
pub mod signal;
pub mod status;
pub mod units;

use std::panic::{self, AssertUnwindSafe};

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::commands::World;
use crate::error::{Error, ErrorKind};
use crate::host::{Clock, Console};

/// Runs the program and answers with its exit code.
pub fn main() -> u8 {
    host::protect();
    let Ok(console) = Console::start(Console::stderr_is_terminal()) else {
        return ErrorKind::Internal.exit_code();
    };
    let world = World {
        arguments: host::arguments(),
        environment: host::environment(),
        clock: Clock::start(),
        console,
    };
    // A defect of ours must not look like one of the statuses of a run.
    let code = panic::catch_unwind(AssertUnwindSafe(|| {
        match Cli::try_parse_from(&world.arguments) {
            Ok(cli) => dispatch(&world, &cli).unwrap_or_else(|error| refuse(&world, &error)),
            Err(error) => match cli::left_over_word(&error, &world.arguments) {
                Some(error) => refuse(&world, &error),
                None => explain(&world, &error),
            },
        }
    }));
    code.unwrap_or_else(|_| {
        let error = Error::new(ErrorKind::Internal, "rooda has a defect and had to stop");
        refuse(
            &world,
            &error.hint("please report the message above with the command line"),
        )
    })
}

fn dispatch(world: &World, cli: &Cli) -> Result<u8, Error> {
    let code = match &cli.command {
        None if cli.version => commands::version::run(world),
        None => return commands::run::procedure(world, &cli.run),
        Some(Command::Run(arguments)) => return commands::run::procedure(world, arguments),
        Some(Command::Loop(arguments)) => return commands::run::task(world, arguments),
        Some(Command::Action(arguments)) => return Ok(commands::action::run(world, arguments)),
        Some(Command::List(arguments)) => commands::list::run(world, arguments)?,
        Some(Command::Info(arguments)) => commands::info::run(world, arguments)?,
        Some(Command::Agents(arguments)) => commands::agents::run(world, arguments)?,
        Some(Command::Doctor(arguments)) => commands::doctor::run(world, arguments)?,
        Some(Command::Demo) => return commands::demo::run(world),
        Some(Command::DemoAgent) => commands::demo_agent::run(world)?,
        Some(Command::Helper) => commands::helper::run()?,
        Some(Command::Probe) => commands::probe::run(world)?,
        Some(Command::Schema) => commands::schema::run(world),
        Some(Command::Completions { shell }) => commands::completions::run(world, *shell)?,
        Some(Command::Version) => commands::version::run(world),
    };
    commands::finish(world, code)
}

fn refuse(world: &World, error: &Error) -> u8 {
    world.console.err(error.to_string().into_bytes());
    world.console.flush_blocking().ok();
    error.kind.exit_code()
}

/// Help that was asked for goes to standard output; a mistake is a usage error, told like all others.
fn explain(world: &World, error: &clap::Error) -> u8 {
    let on_terminal = if error.use_stderr() {
        Console::stderr_is_terminal()
    } else {
        Console::stdout_is_terminal()
    };
    let text = error.render();
    let text = if on_terminal {
        text.ansi().to_string()
    } else {
        text.to_string()
    };
    let code = if error.use_stderr() {
        let text = text
            .replacen("error:", "Error:", 1)
            .replace("tip:", "Hint:");
        world.console.err(text.into_bytes());
        ErrorKind::Usage.exit_code()
    } else {
        world.console.out(text.into_bytes());
        0
    };
    commands::finish(world, code).unwrap_or_else(|error| refuse(world, &error))
}
