//! `rooda schema`.

use crate::config::schema;
use crate::world::World;

pub fn run(world: &World) -> u8 {
    world.console.out(format!("{:#}\n", schema()).into_bytes());
    0
}
