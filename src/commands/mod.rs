//! The commands, one file each.

pub mod completions;
pub mod demo;
pub mod demo_agent;
pub mod info;
pub mod list;
pub mod run;
pub mod schema;
pub mod version;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::PlaceArgs;
use crate::config::{CONFIG_HOME, Layer, Source, builtin_layers, read_layer, variable_layers};
use crate::error::{Error, ErrorKind, without_number};
use crate::host::{self, Clock, Console};

/// What is read of the world once, at the start, and handed down from there.
#[derive(Debug)]
pub struct World {
    pub arguments: Vec<OsString>,
    pub environment: BTreeMap<String, String>,
    pub clock: Clock,
    pub console: Console,
}

/// Waits until what was asked for is written. If it cannot be, the command has not done its work.
pub fn finish(world: &World, code: u8) -> Result<u8, Error> {
    match world.console.flush_blocking() {
        Ok(()) => Ok(code),
        Err(error) => {
            let message = format!("cannot write to standard output: {error}");
            Err(Error::new(ErrorKind::Internal, without_number(&message)))
        }
    }
}

const FILE: &str = "rooda-config.yml";

/// What people may take for it.
const OTHER_NAME: &str = "rooda-config.yaml";

/// Enters the directory that was asked for and reads every layer but the flags. All problems are told at once.
fn read_layers(world: &World, place: &PlaceArgs) -> Result<Vec<Layer>, Error> {
    if let Some(directory) = &place.directory {
        host::enter(directory).map_err(|error| Error::caused(ErrorKind::Unavailable, &error))?;
    }
    let mut layers = builtin_layers()?;
    let mut problems = Vec::new();
    if place.config.is_none() && host::exists(Path::new(OTHER_NAME)) {
        let message = format!("{OTHER_NAME}: a file of this name is not read");
        let hint = format!("rename it to {FILE}, or name it with --config");
        problems.push(Error::new(ErrorKind::Config, message).hint(hint));
    }
    let global = global_config(world).map(|path| {
        let name = path.to_string_lossy().into_owned();
        read_file(&path, &name, Source::Global(name.clone()))
    });
    let workspace = match &place.config {
        Some(path) => {
            let name = path.to_string_lossy().into_owned();
            let missing = || {
                let message = format!("cannot read {name}: there is no such file");
                Error::new(ErrorKind::NoInput, message).hint("it was named with --config")
            };
            read_file(path, &name, Source::Config(name.clone()))
                .and_then(|layer| layer.ok_or_else(missing).map(Some))
        }
        None => read_file(
            Path::new(FILE),
            FILE,
            Source::Workspace(format!("./{FILE}")),
        ),
    };
    for read in global.into_iter().chain([workspace]) {
        match read {
            Ok(layer) => layers.extend(layer),
            Err(error) => problems.push(error),
        }
    }
    match variable_layers(&world.environment) {
        Ok(variables) => layers.extend(variables),
        Err(error) => problems.push(error),
    }
    Error::join(problems)?;
    Ok(layers)
}

fn read_file(path: &Path, name: &str, source: Source) -> Result<Option<Layer>, Error> {
    let text =
        host::read_text_file(path).map_err(|error| Error::caused(ErrorKind::NoInput, &error))?;
    text.map(|text| read_layer(source, name, &text)).transpose()
}

/// `$ROODA_CONFIG_HOME`, else `$XDG_CONFIG_HOME/rooda`, else `~/.config/rooda`.
fn global_config(world: &World) -> Option<PathBuf> {
    let variable = |name: &str| {
        world
            .environment
            .get(name)
            .filter(|value| !value.is_empty())
    };
    let folder = if let Some(home) = variable(CONFIG_HOME) {
        PathBuf::from(home)
    } else if let Some(config) = variable("XDG_CONFIG_HOME") {
        Path::new(config).join("rooda")
    } else {
        Path::new(variable("HOME")?).join(".config/rooda")
    };
    Some(folder.join(FILE))
}
