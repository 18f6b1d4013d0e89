//! `rooda completions`.

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};

use super::World;
use crate::cli::Cli;
use crate::config::{Catalogue, builtin_layers};
use crate::error::Error;

pub fn run(world: &World, shell: Shell) -> Result<u8, Error> {
    let mut layers = builtin_layers()?;
    let catalogue = Catalogue::new(&mut layers);
    let procedures: Vec<String> = catalogue.names().into_iter().map(str::to_owned).collect();
    let aliases: Vec<String> = catalogue
        .alias_names()
        .into_iter()
        .map(str::to_owned)
        .collect();
    // Any name may be typed; the built-in ones can be completed.
    let known = |command: Command| {
        command.mut_args(|argument| match argument.get_id().as_str() {
            "procedure" => argument.value_parser(PossibleValuesParser::new(procedures.clone())),
            "ai_cmd_alias" => argument.value_parser(PossibleValuesParser::new(aliases.clone())),
            _ => argument,
        })
    };
    let mut command = known(Cli::command()).mut_subcommands(known);
    let mut script = Vec::new();
    generate(shell, &mut command, "rooda", &mut script);
    world.console.out(script);
    Ok(0)
}
