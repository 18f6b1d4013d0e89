//! `rooda probe`: what the agent could do, tried in its jail. Started by rooda itself.

use super::World;
use crate::error::{Error, ErrorKind};
use crate::host;

pub fn run(world: &World) -> Result<u8, Error> {
    let report = host::read_stdin().and_then(|orders| host::probe(&orders));
    let report = report.map_err(|error| Error::caused(ErrorKind::Internal, &error))?;
    world.console.out(report.into_bytes());
    Ok(0)
}
