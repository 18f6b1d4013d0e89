//! `rooda completions`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use super::World;
use crate::cli::Cli;

pub fn run(world: &World, shell: Shell) -> u8 {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "rooda", &mut script);
    world.console.out(script);
    0
}
