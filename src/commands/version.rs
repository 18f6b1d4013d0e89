//! `rooda version`.

use super::World;

pub fn run(world: &World) -> u8 {
    let line = concat!("rooda ", env!("CARGO_PKG_VERSION"), "\n");
    world.console.out(line.into());
    0
}
