//! `rooda action`: a step of a GitHub workflow, from its inputs to its outputs. It is PID 1 of its container, and root.

mod board;
mod cleanup;
mod install;
mod jail;
mod prepare;
mod protections;

use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

use super::World;
use crate::action::Job;
use crate::cli::ActionArgs;
use crate::config::builtin_layers;
use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::host::{self, Signals};
use crate::redact::{Secrets, secret_values};
use crate::report::workflow::{add_mask, refusal};
use crate::runner;
use crate::signal::Signal;
use crate::status::Status;

use board::Board;
use cleanup::Cleanup;
use prepare::{Prepared, Ready, prepare};

/// How a step ended.
enum End {
    Run(Status),
    /// The code says whether all is well.
    DryRun(u8),
    /// Before the loop could begin.
    Interrupted(Signal),
}

pub fn run(world: &World, arguments: &ActionArgs) -> u8 {
    let job = Job::read(&world.environment);
    // Those of the configuration come to it when that is read.
    let layers = builtin_layers().unwrap_or_default();
    let aliases = layers
        .iter()
        .flat_map(|layer| layer.settings.aliases.values());
    let keys = aliases.flat_map(|alias| alias.env.iter().flatten());
    let secrets = Secrets::new(secret_values(&world.environment, keys.map(String::as_str)));
    for mask in secrets.masks() {
        world.console.unguarded(add_mask(mask));
    }
    world.console.guard(&secrets);
    let mut board = match Board::open(world, &job, secrets.clone()) {
        Ok(board) => board,
        Err(error) => {
            world.console.unguarded(refusal(&error, &secrets));
            world.console.flush_blocking().ok();
            return error.kind.exit_code();
        }
    };
    let code = act(world, arguments, &job, &mut board);
    board.close();
    world.console.flush_blocking().ok();
    code
}

/// Runs the step and answers with its exit code.
fn act(world: &World, arguments: &ActionArgs, job: &Job, board: &mut Board) -> u8 {
    let mut cleanup = Cleanup::default();
    // A defect of ours must not keep the truth from the outputs.
    let ended = panic::catch_unwind(AssertUnwindSafe(|| {
        step(world, arguments, job, board, &mut cleanup)
    }));
    // First of all what the runner reads: it may not wait for the rest.
    board.restore();
    cleanup.run(board);
    let ended = ended.unwrap_or_else(|_| {
        let error = Error::new(ErrorKind::Internal, "rooda has a defect and had to stop");
        Err(error.hint("please report it with the log of this step"))
    });
    match ended {
        Ok(End::Run(status)) if board.fails(status) => status.exit_code(),
        Ok(End::Run(_)) => 0,
        Ok(End::DryRun(code)) => code,
        Ok(End::Interrupted(signal)) => {
            board.interrupted(signal);
            match board.fails(Status::Interrupted) {
                true => Status::Interrupted.exit_code(),
                false => 0,
            }
        }
        Err(error) => {
            board.refuse(&error);
            error.kind.exit_code()
        }
    }
}

fn step(
    world: &World,
    arguments: &ActionArgs,
    job: &Job,
    board: &mut Board,
    cleanup: &mut Cleanup,
) -> Result<End, Error> {
    // Nothing of ours may lead into the workspace by a relative name: what lies there is not ours.
    host::enter(Path::new("/")).map_err(|error| Error::caused(ErrorKind::Internal, &error))?;
    let internal = |error: std::io::Error| Error::new(ErrorKind::Internal, error);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.map_err(internal)?.block_on(async {
        // Whoever is PID 1 and does not listen does not hear a signal at all.
        let signals = Signals::listen().map_err(internal)?;
        prepare_and_run(world, arguments, job, signals, board, cleanup).await
    })
}

async fn prepare_and_run(
    world: &World,
    arguments: &ActionArgs,
    job: &Job,
    signals: Signals,
    board: &mut Board<'_>,
    cleanup: &mut Cleanup,
) -> Result<End, Error> {
    let prepared = prepare(world, arguments, job, signals, board, cleanup).await?;
    let Ready {
        plan,
        agents,
        mut host,
    } = match prepared {
        Prepared::Ready(ready) => *ready,
        Prepared::DryRun(code) => return Ok(End::DryRun(code)),
        Prepared::Interrupted(signal) => return Ok(End::Interrupted(signal)),
    };
    let mut emit = |event: &Event| board.report(event);
    let status = runner::run(&plan, &agents, &mut host, &mut emit).await;
    Ok(End::Run(status))
}
