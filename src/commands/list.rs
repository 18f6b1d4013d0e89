//! `rooda list`.

use super::{World, read_place};
use crate::cli::ListArgs;
use crate::config::Catalogue;
use crate::error::Error;
use crate::report::{list_json, list_text};

pub fn run(world: &World, arguments: &ListArgs) -> Result<u8, Error> {
    let mut layers = read_place(world, &arguments.place)?;
    let procedures = Catalogue::new(&mut layers).procedures();
    let text = if arguments.json {
        format!("{:#}\n", list_json(&procedures))
    } else {
        list_text(&procedures)
    };
    world.console.out(text.into_bytes());
    Ok(0)
}
