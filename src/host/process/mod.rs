//! Processes: one agent at a time, watched until it ended, and until nothing of it is left.
//!
//! rooda is the reaper of everything the agent starts (a "child subreaper"), so whatever leaves the agent's session or
//! process group, by `setsid` or a double fork, becomes a child of rooda and can be found and ended. Nobody waits for
//! "any child" here: the agent's leader stays unreaped until its whole tree is gone, so that its process group cannot be
//! mistaken for another, and orphans are reaped one by one, by their pid.

mod jail;
mod landlock;
mod pipes;
mod probe;
mod protect;
mod question;
mod spawn;
mod supervise;
mod tree;
mod user;

pub use jail::{Confinement, Jail, private_gid};
pub use landlock::{LandlockStatus, kernel_abi as landlock_abi};
pub use probe::{Attempt, ProbeTargets, probe, run_probe, run_probe_of};
pub use protect::protect;
pub use question::{Answer, ask};
pub use spawn::run_quietly;
pub use supervise::{Command, Heard, Limits, Place, Ran, SecondSignal, Supervisor};
pub use user::is_init;

#[cfg(test)]
mod first_process;
