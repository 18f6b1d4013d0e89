//! The helper, which rooda starts for itself where an agent's files must be touched. It is not meant for people.

use crate::error::{Error, ErrorKind};
use crate::host;

pub fn run() -> Result<u8, Error> {
    host::serve_helper()
        .map(|()| 0)
        .map_err(|error| Error::caused(ErrorKind::Unavailable, &error))
}
