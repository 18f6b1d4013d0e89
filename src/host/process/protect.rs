//! Nobody looks into rooda's memory.

use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};

use super::user::is_init;

/// The subcommands of the action. They hold secrets, or are run where an agent is.
const PROTECTED: [&str; 3] = ["action", "helper", "probe"];

/// Keeps the memory of rooda from being dumped, and what /proc tells of it from all but root. Must come before anything
/// is read that is worth reading.
///
/// The command line has no secrets from its agent, which is the same user; it keeps its core dumps and debuggers.
pub fn protect() {
    let command = std::env::args_os().nth(1);
    let is_protected = |command: std::ffi::OsString| PROTECTED.iter().any(|name| command == *name);
    if is_init() || command.is_some_and(is_protected) {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
}

/// A change of the user sets it anew, to whatever the machine has for programs that change theirs.
pub(super) fn protect_again() {
    if !matches!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable)) {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
}
