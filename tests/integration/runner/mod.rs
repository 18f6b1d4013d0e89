//! A local stand-in for GitHub's runner: everything it promises and does to a docker action, as one job on this machine.
//!
//!     let Some(job) = Job::new() else { return };
//!     let job = job.input("prompt", "Do it").file("README.md", "# Demo\n").checkout(Checkout::V6);
//!     let outcome = job.run();
//!     assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
//!     assert_eq!(outcome.output("status"), Some("success"));
//!
//! The action runs in a container: of the engine docker if `ROODA_TEST_IMAGE` names an image, else in namespaces of the
//! kernel's, with the program that was just built. `ROODA_TEST_ENGINE` (docker, namespaces) demands one of the two: then
//! it is a failure that it is not there, and never a test that is left out.

mod annotations;
mod arguments;
mod command_files;
mod commands;
mod console;
mod docker;
mod engine;
mod environment;
mod job;
mod lines;
mod manifest;
mod masks;
mod namespaces;
mod outcome;
mod record;
mod site;
mod step;

mod cancelling;
mod surroundings;
mod verdicts;

pub(crate) use annotations::Kind;
pub(crate) use job::{Checkout, DOCKER_GID, Job, RUNNER_UID, TOKEN};
pub(crate) use outcome::{Outcome, StepResult};
