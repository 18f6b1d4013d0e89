//! A local stand-in for GitHub's runner: everything it promises and does to a docker action, as one job on this machine.
//!
//!     let Some(job) = Job::new() else { return };
//!     let job = job.input("prompt", "Do it").file("README.md", "# Demo\n").checkout(Checkout::V6);
//!     let outcome = job.run();
//!     assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
//!     assert_eq!(outcome.output("status"), Some("success"));
//!
//! A [`Job`] is made of a workflow's words: `input`, `env`, `secret`, `file`, `checkout`, `event` and others. Its first step
//! makes the folders. `job.run()` runs the action to its end; `job.start()` gives a `Step` that can be watched
//! (`wait_for_log`, `processes`) and ended in every way there is (`wait`, `cancel`, `time_out`, `shut_down`). An [`Outcome`]
//! is what GitHub would show and hand on. Afterwards the job tells what was left: `foreign_files`, `leftovers`,
//! `is_running`, `docker_connections`, and `host_step` tries what a later step could do. Further steps of one job share
//! its workspace, variables, masks and home.
//!
//! For the entry point there is the action's own, or a shell `script`, or any `entrypoint`; `agent` is a script for the fake
//! agent.
//!
//! The action runs in a container: of the engine docker if `ROODA_TEST_IMAGE` names an image (`ROODA_TEST_DOCKER_ARGS` are
//! further options, such as `--network host`), else in namespaces of the kernel's, with the program that was just built.
//! Both need root. `ROODA_TEST_ENGINE` (docker, namespaces) demands one of the two: then it is a failure that it is not
//! there, and never a test that is left out.

mod acts;
mod annotations;
mod arguments;
mod command_files;
mod commands;
mod console;
mod contexts;
mod docker;
mod engine;
mod environment;
mod job;
mod lines;
mod manifest;
mod masks;
mod namespaces;
mod outcome;
mod preparation;
mod record;
mod site;
mod step;

mod cancelling;
mod surroundings;
mod verdicts;

pub(crate) use annotations::Kind;
pub(crate) use job::{Checkout, DOCKER_GID, Job, RUNNER_UID, TOKEN};
pub(crate) use outcome::{Outcome, StepResult};
