//! The edge: processes, files, the environment, the clock, the terminal. Only `runner`, `commands` and `lib` use it, and
//! nothing outside of it touches the world.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the one place that may touch the world"
)]

mod clock;
mod command_files;
mod console;
mod credentials;
mod files;
mod folder;
mod git_dir;
mod helper;
mod log;
mod ownership;
mod process;
mod reader;
mod run_dir;
mod runner_files;
mod signals;
mod tenant;
#[cfg(test)]
mod trial;

pub use clock::Clock;
pub use command_files::{CommandFile, CommandFiles};
pub use console::{Console, Sink};
pub use credentials::{TakenCredentials, checkout_tokens, put_back_credentials, take_credentials};
pub use files::{
    current_program, enter, exists, read_any, read_stdin, read_text_file, throw_away_folder,
    working_folder, write_file,
};
pub use git_dir::git_dir;
pub use helper::{Helper, Program, serve_helper};
pub use log::start_log;
pub use ownership::{GivenBack, give_back, owner};
pub use process::{
    Answer, Attempt, Command, Confinement, Heard, Jail, LandlockStatus, Limits, Place,
    ProbeTargets, Ran, SecondSignal, Supervisor, ask, is_init, landlock_abi, private_gid, probe,
    protect, run_probe, run_probe_of, run_quietly,
};
pub use reader::{Reader, Workspace};
pub use run_dir::{RunDir, run_dir_base};
pub use runner_files::RunnerFiles;
pub use signals::Signals;
pub use tenant::{group_of, is_folder, is_root, random_word, resolve, settle};

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
