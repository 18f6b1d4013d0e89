//! What agents printed on the command line: kept in the repository's own folder, for whoever wants to know exactly.

use std::path::Path;

use super::World;
use super::shelf::Shelf;
use crate::host::{self, RunDir};
use crate::iteration::Tail;
use crate::plan::Agent;
use crate::redact::{Secrets, secret_values};

/// What must not stand in a log or a file: the keys of the agents, and what the environment calls a secret.
pub(super) fn own_secrets(world: &World, agents: &[Agent]) -> Secrets {
    let keys = agents.iter().flat_map(|agent| &agent.keys);
    Secrets::new(secret_values(&world.environment, keys.map(String::as_str)))
}

/// Keeps it, if there is a repository.
pub(super) struct Keeper {
    run_dir: Option<RunDir>,
    secrets: Secrets,
    shelf: Shelf,
}

/// How many runs are kept, and how their folders are called.
const MOST_RUNS: usize = 10;
const RUN: &str = "run-";

impl Keeper {
    pub(super) fn new(world: &World, secrets: Secrets) -> Self {
        let name = world.clock.now().time.strftime("%Y%m%dT%H%M%SZ");
        let run_dir = host::git_dir(Path::new(".")).and_then(|git_dir| {
            let mut made = RunDir::create(&git_dir, &format!("{RUN}{name}"));
            if let Ok(made) = &mut made {
                made.keep_runs(RUN, MOST_RUNS).ok();
            }
            made.inspect_err(|error| {
                tracing::debug!("what the agent prints is not kept: {error:#}")
            })
            .ok()
        });
        Keeper {
            run_dir,
            secrets,
            shelf: Shelf::default(),
        }
    }

    pub(super) fn keep(&mut self, attempt: (u32, u32), output: &Tail) {
        let Some(run_dir) = &mut self.run_dir else {
            return;
        };
        let kept = self.shelf.keep(run_dir, &self.secrets, attempt, output);
        if let Err(error) = kept {
            tracing::debug!("what the agent printed is not kept: {error}");
        }
    }

    pub(super) fn tell(&self) {
        if let Some(run_dir) = self.run_dir.as_ref().filter(|run_dir| run_dir.is_there()) {
            let path = run_dir.path();
            tracing::info!("What the agent printed is in {}", path.display());
        }
    }
}
