//! `rooda schema`.

use super::World;
use crate::config::schema;

pub fn run(world: &World) -> u8 {
    world.console.out(format!("{:#}\n", schema()).into_bytes());
    0
}
