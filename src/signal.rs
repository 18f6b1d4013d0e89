//! Signals by name, as people know them.

use std::fmt;

/// A signal number of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signal(pub i32);

impl Signal {
    pub const HUP: Signal = Signal(1);
    pub const INT: Signal = Signal(2);
    pub const TERM: Signal = Signal(15);
}

const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let index = usize::try_from(self.0).ok().and_then(|n| n.checked_sub(1));
        match index.and_then(|index| NAMES.get(index)) {
            Some(name) => write!(f, "SIG{name}"),
            None => write!(f, "signal {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_signals_have_names() {
        let shown = [1, 2, 9, 11, 15, 31, 40, 0, -1].map(|number| Signal(number).to_string());
        assert_eq!(
            shown,
            [
                "SIGHUP",
                "SIGINT",
                "SIGKILL",
                "SIGSEGV",
                "SIGTERM",
                "SIGSYS",
                "signal 40",
                "signal 0",
                "signal -1"
            ]
        );
    }
}
