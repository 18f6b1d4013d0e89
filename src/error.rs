//! What went wrong before a run could start, what to do about it, and the exit code that says so.

use std::fmt;

use crate::iteration::inert;

/// The kind of an error decides the exit code, here and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command line cannot be understood, or names what does not exist.
    Usage,
    /// A file that was named cannot be read.
    NoInput,
    /// Something a run needs is not there: the AI command, the working directory, git.
    Unavailable,
    /// A defect of rooda itself, or of the machine under it.
    Internal,
    /// A configuration file, a variable or a template is wrong.
    Config,
    /// A signal came before there was an answer.
    Interrupted,
}

impl ErrorKind {
    /// The exit codes are those of `sysexits.h`; 0 to 5 and 130 belong to [`crate::status::Status`].
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Usage => 64,
            ErrorKind::NoInput => 66,
            ErrorKind::Unavailable => 69,
            ErrorKind::Internal => 70,
            ErrorKind::Config => 78,
            ErrorKind::Interrupted => 130,
        }
    }
}

/// One thing that is wrong, in one sentence, and what the user can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub hints: Vec<String>,
}

/// One or more problems of one kind. Everything that can be found at once is reported at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub problems: Vec<Problem>,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        let problem = Problem {
            message: message.to_string(),
            hints: Vec::new(),
        };
        Error {
            kind,
            problems: vec![problem],
        }
    }

    /// Puts the whole chain of causes into the message: what was tried, and why it failed.
    pub fn caused(kind: ErrorKind, source: &anyhow::Error) -> Self {
        Error::new(kind, without_number(&format!("{source:#}")))
    }

    /// Adds advice to the problem that was added last.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        if let Some(problem) = self.problems.last_mut() {
            problem.hints.push(hint.to_string());
        }
        self
    }

    /// Joins several errors into one, if there are any. The kind of the first one counts.
    pub fn join(errors: impl IntoIterator<Item = Error>) -> Result<(), Error> {
        let mut errors = errors.into_iter();
        let Some(mut all) = errors.next() else {
            return Ok(());
        };
        for error in errors {
            all.problems.extend(error.problems);
        }
        Err(all)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for problem in &self.problems {
            // Keys and names in here may come from anywhere.
            writeln!(f, "Error: {}", inert(&problem.message))?;
            for hint in &problem.hints {
                writeln!(f, "Hint: {}", inert(hint))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// The words of an error of the system without its number, which adds nothing to them.
pub fn without_number(told: &str) -> &str {
    told.split(" (os error ").next().unwrap_or_default()
}

/// `` did you mean `build`? `` for the candidate nearest to what was written, if one is near enough.
pub fn did_you_mean<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(written, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// The candidate that was most likely meant: one that begins with what was written, one that is spelt alike, or the
/// only one that ends with it (`max_iterations` for `default_max_iterations`).
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let spelt_alike = candidates
        .iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
            let unfinished = written.len() > 2 && candidate.starts_with(written);
            (!unfinished, distance, *candidate)
        })
        .filter(|(finished, distance, candidate)| {
            !finished || *distance <= (candidate.len().max(written.len()) / 3).max(1)
        })
        .min()
        .map(|(_, _, candidate)| candidate);
    spelt_alike.or_else(|| {
        let mut ending = candidates
            .into_iter()
            .filter(|candidate| written.len() > 2 && candidate.ends_with(written));
        ending.next().filter(|_| ending.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near_or_absent() {
        let names = ["build", "bootstrap", "audit-spec", "audit-spec-to-impl"];
        let suggest = |written| did_you_mean(written, names);
        assert_eq!(suggest("biuld").as_deref(), Some("did you mean `build`?"));
        assert_eq!(suggest("BUILD").as_deref(), Some("did you mean `build`?"));
        assert_eq!(
            suggest("audit_spec").as_deref(),
            Some("did you mean `audit-spec`?")
        );
        assert_eq!(
            suggest("boot").as_deref(),
            Some("did you mean `bootstrap`?")
        );
        assert_eq!(
            suggest("impl").as_deref(),
            Some("did you mean `audit-spec-to-impl`?")
        );
        assert_eq!(suggest("deploy"), None);
        let keys = ["iteration_mode", "iteration_timeout"];
        assert_eq!(nearest("iteration_time", keys), Some("iteration_timeout"));
    }

    #[test]
    fn joined_errors_are_all_told() {
        let error = Error::join([
            Error::new(ErrorKind::Config, "first").hint("mend it"),
            Error::new(ErrorKind::NoInput, "second"),
        ]);
        let error = error.expect_err("two errors");
        assert_eq!(error.kind, ErrorKind::Config);
        assert_eq!(
            error.to_string(),
            "Error: first\nHint: mend it\nError: second\n"
        );
    }
}
