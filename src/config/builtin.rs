//! The built-in layer: two embedded files, read by the same code as a user's.

use super::{Layer, Source, read_layer};
use crate::error::{Error, ErrorKind};
use crate::prompt::builtin_text;

const DEFAULTS: &str = include_str!("defaults.yml");

/// The defaults of the loop with the AI command aliases, and the procedures.
pub fn builtin_layers() -> Result<Vec<Layer>, Error> {
    let procedures = builtin_text("procedures.yml").unwrap_or_default();
    [
        ("built-in defaults.yml", DEFAULTS),
        ("built-in procedures.yml", procedures),
    ]
    .into_iter()
    .map(|(file, text)| {
        // A mistake in here is ours, not the user's.
        read_layer(Source::BuiltIn, file, text).map_err(|error| Error {
            kind: ErrorKind::Internal,
            ..error
        })
    })
    .collect()
}
