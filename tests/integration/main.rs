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

mod demo;
mod interrupt;
mod log;
mod outcome;
mod supervision;
mod timeouts;
