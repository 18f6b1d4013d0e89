//! The commands, one file each.

pub mod action;
pub mod agents;
mod check;
pub mod completions;
pub mod demo;
pub mod demo_agent;
pub mod doctor;
pub mod helper;
pub mod info;
mod keeper;
pub mod list;
pub mod probe;
pub mod run;
pub mod schema;
mod shelf;
pub mod version;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::PlaceArgs;
use crate::config::{CONFIG_HOME, Layer, Source, builtin_layers, read_layer, variable_layers};
use crate::error::{Error, ErrorKind, without_number};
use crate::host::{self, Clock, Console, Reader};

/// What is read of the world once, at the start, and handed down from there.
#[derive(Debug)]
pub struct World {
    pub arguments: Vec<OsString>,
    pub environment: BTreeMap<String, String>,
    pub clock: Clock,
    pub console: Console,
}

impl World {
    /// The folders in which programs are looked for.
    pub fn path(&self) -> &str {
        self.environment.get("PATH").map_or("", String::as_str)
    }

    /// Whether rooda was started in a workflow, where nobody can stop it.
    pub fn is_in_actions(&self) -> bool {
        self.environment
            .get("GITHUB_ACTIONS")
            .is_some_and(|v| v == "true")
    }
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

/// Where the files of the configuration are.
pub(super) struct ConfigFiles {
    pub global: Option<PathBuf>,
    /// In place of the workspace's, and who named it.
    pub named: Option<(PathBuf, &'static str)>,
}

/// Enters the directory that was asked for and reads every layer but the flags.
fn read_place(world: &World, place: &PlaceArgs) -> Result<Vec<Layer>, Error> {
    if let Some(directory) = &place.directory {
        host::enter(directory).map_err(|error| Error::caused(ErrorKind::Unavailable, &error))?;
    }
    let files = ConfigFiles {
        global: global_config(world),
        named: place.config.clone().map(|path| (path, "--config")),
    };
    read_layers(world, &files, &Reader::Direct)
}

/// Reads every layer but flags and inputs. All problems are told at once.
fn read_layers(world: &World, files: &ConfigFiles, reader: &Reader) -> Result<Vec<Layer>, Error> {
    let mut layers = builtin_layers()?;
    let mut problems = Vec::new();
    let global = files.global.as_deref().map(|path| {
        let name = path.to_string_lossy().into_owned();
        (path, name.clone(), Source::Global(name))
    });
    let workspace = match &files.named {
        Some((path, _)) => {
            let name = path.to_string_lossy().into_owned();
            (path.as_path(), name.clone(), Source::Config(name))
        }
        None => (
            Path::new(FILE),
            FILE.to_owned(),
            Source::Workspace(format!("./{FILE}")),
        ),
    };
    let wanted: Vec<_> = global.into_iter().chain([workspace]).collect();
    let paths: Vec<&Path> = wanted.iter().map(|(path, ..)| *path).collect();
    let mut texts = reader.texts(&[&paths[..], &[Path::new(OTHER_NAME)]].concat());
    if let (None, Some(Ok(Some(_)) | Err(_))) = (&files.named, texts.pop()) {
        let message = format!("{OTHER_NAME}: a file of this name is not read");
        let hint = format!("rename it to {FILE}, or name it with --config");
        problems.push(Error::new(ErrorKind::Config, message).hint(hint));
    }
    for ((_, name, source), text) in wanted.into_iter().zip(texts) {
        let named = match (&source, &files.named) {
            (Source::Config(_), Some((_, named))) => Some(named),
            _ => None,
        };
        match (text, named) {
            (Err(error), _) => problems.push(Error::caused(ErrorKind::NoInput, &error)),
            (Ok(Some(text)), _) => match read_layer(source, &name, &text) {
                Ok(layer) => layers.push(layer),
                Err(error) => problems.push(error),
            },
            (Ok(None), Some(named)) => {
                let message = format!("cannot read {name}: there is no such file");
                let error = Error::new(ErrorKind::NoInput, message);
                problems.push(error.hint(format_args!("it was named with {named}")));
            }
            (Ok(None), None) => {}
        }
    }
    match variable_layers(&world.environment) {
        Ok(variables) => layers.extend(variables),
        Err(error) => problems.push(error),
    }
    Error::join(problems)?;
    Ok(layers)
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
