//! `rooda info`.

use super::{World, read_place};
use crate::cli::InfoArgs;
use crate::config::{Catalogue, Request, Target, resolve};
use crate::error::Error;
use crate::report::{info_json, info_text};

pub fn run(world: &World, arguments: &InfoArgs) -> Result<u8, Error> {
    let mut layers = read_place(world, &arguments.place)?;
    let catalogue = Catalogue::new(&mut layers);
    let info = catalogue.procedure(&arguments.procedure)?;
    let request = Request {
        target: Target::Procedure(arguments.procedure.clone()),
        phases: Vec::new(),
        context: Vec::new(),
        task_id: None,
        in_actions: false,
    };
    let resolved = resolve(&catalogue, request)?;
    let text = if arguments.json {
        format!("{:#}\n", info_json(&info, &resolved))
    } else {
        info_text(&info, &resolved)
    };
    world.console.out(text.into_bytes());
    Ok(0)
}
