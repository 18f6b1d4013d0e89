//! The edge: processes, files, the environment, the clock, the terminal. Only `runner`, `commands` and `lib` use it, and
//! nothing outside of it touches the world.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the one place that may touch the world"
)]

mod clock;
mod command_files;
mod console;
mod files;
mod folder;
mod log;
mod process;
mod run_dir;
mod signals;
#[cfg(test)]
mod trial;

pub use clock::Clock;
pub use command_files::{CommandFile, CommandFiles};
pub use console::{Console, Sink};
pub use files::{
    current_program, enter, exists, find_program, missing_interpreter, read_any, read_prompt,
    read_stdin, read_text_file, throw_away_folder, write_file,
};
pub use log::start_log;
pub use process::{
    Command, Confinement, Heard, Jail, LandlockStatus, Limits, Ran, Supervisor, private_gid,
    run_quietly,
};
pub use run_dir::{RunDir, run_dir_base};
pub use signals::Signals;

use std::collections::BTreeMap;

/// The arguments. What is not Unicode is kept readable; no flag of rooda needs more.
pub fn arguments() -> Vec<std::ffi::OsString> {
    std::env::args_os().collect()
}

/// The environment. What is not Unicode in it becomes U+FFFD.
pub fn environment() -> BTreeMap<String, String> {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}
