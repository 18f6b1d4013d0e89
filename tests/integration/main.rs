//! The tests of the program as a whole: the real binary, real processes, real files. One file per behaviour.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, outside of the house"
)]

mod harness;

mod action;
mod agents;
mod configuration;
mod credentials;
mod demo;
mod docs;
mod doctor;
mod dry_run;
mod help;
mod helper;
mod hostile_streams;
mod house;
mod image;
mod interrupt;
mod jail;
mod list_info;
mod log;
mod outcome;
mod programs;
mod prompts;
mod provider;
mod real_agents;
mod runner;
mod schema;
mod streams;
mod supervision;
mod timeouts;
mod usage;
