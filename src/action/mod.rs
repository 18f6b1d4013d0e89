//! The action's side of things: what a job says in `INPUT_*` and its other variables, as layers and options. No I/O.

mod environment;
mod inputs;
mod job;
mod options;

pub use environment::{Passed, agent_environment, setup_environment};
pub use inputs::{INPUTS, Inputs, read_inputs};
pub use job::{Job, default_layers, step_debug_layer};
pub use options::{FailOn, RunAs, Sandbox};
