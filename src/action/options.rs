//! The options that only the action has.

use std::fmt;

use crate::error::did_you_mean;
use crate::status::Status;

/// Which statuses fail the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailOn(Vec<Status>);

impl FailOn {
    pub fn fails(&self, status: Status) -> bool {
        self.0.contains(&status)
    }

    /// Reads a list of statuses, or `none`. Answers with what was expected.
    pub fn read(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = words(text).collect();
        if words == ["none"] {
            return Ok(FailOn(Vec::new()));
        }
        let status = |word: &&str| {
            let names = || Status::ALL.iter().map(|status| status.name()).skip(1);
            let known: Vec<&str> = names().collect();
            let known = known.join(", ");
            match Status::ALL
                .into_iter()
                .find(|status| status.name() == *word)
            {
                Some(Status::Success) => Err(
                    "expected no `success`: a step that fails when all went well helps nobody"
                        .to_owned(),
                ),
                Some(status) => Ok(status),
                None if *word == "none" => Err("expected `none` alone, or statuses".to_owned()),
                None => Err(match did_you_mean(word, names()) {
                    Some(hint) => format!("expected statuses ({known}) or `none`; {hint}"),
                    None => format!("expected statuses ({known}) or `none`"),
                }),
            }
        };
        words
            .iter()
            .map(status)
            .collect::<Result<_, _>>()
            .map(FailOn)
    }
}

impl Default for FailOn {
    /// Whatever is not success fails the step.
    fn default() -> Self {
        let all = Status::ALL.into_iter();
        FailOn(all.filter(|status| *status != Status::Success).collect())
    }
}

impl fmt::Display for FailOn {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("none"),
            statuses => {
                let names: Vec<&str> = statuses.iter().map(|status| status.name()).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}

/// The user the agent runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunAs {
    /// Whoever owns the workspace, unless that is root.
    #[default]
    Owner,
    Uid(u32),
}

impl RunAs {
    pub fn read(text: &str) -> Result<Self, String> {
        match text {
            "owner" => Ok(RunAs::Owner),
            "root" => Ok(RunAs::Uid(0)),
            _ => match text.parse() {
                // The largest number means "no user" to the kernel.
                Ok(uid) if uid < u32::MAX => Ok(RunAs::Uid(uid)),
                _ => Err("expected `owner`, `root` or a numeric uid".to_owned()),
            },
        }
    }
}

impl fmt::Display for RunAs {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RunAs::Owner => f.write_str("owner"),
            RunAs::Uid(0) => f.write_str("root"),
            RunAs::Uid(uid) => uid.fmt(f),
        }
    }
}

/// What happens when a protection does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// The run is refused.
    #[default]
    Required,
    /// It is told, and the run goes on.
    Auto,
    /// The agent is another user, and that is all.
    Off,
}

impl Sandbox {
    pub fn read(text: &str) -> Result<Self, String> {
        match text {
            "required" => Ok(Sandbox::Required),
            "auto" => Ok(Sandbox::Auto),
            "off" => Ok(Sandbox::Off),
            _ => Err("expected one of `required` `auto` `off`".to_owned()),
        }
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Sandbox::Required => "required",
            Sandbox::Auto => "auto",
            Sandbox::Off => "off",
        })
    }
}

/// The words of a list, however they are separated.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_success_fails_the_step_unless_told_otherwise() {
        let default = FailOn::default();
        for status in Status::ALL {
            assert_eq!(default.fails(status), status != Status::Success, "{status}");
        }
        let none = FailOn::read("none").expect("it is a word of ours");
        assert!(Status::ALL.into_iter().all(|status| !none.fails(status)));
        let some = FailOn::read("aborted,\n exhausted\n").expect("they are statuses");
        assert!(some.fails(Status::Aborted) && some.fails(Status::Exhausted));
        assert!(!some.fails(Status::MaxIters) && !some.fails(Status::Interrupted));
        assert_eq!(some.to_string(), "aborted, exhausted");
    }

    #[test]
    fn a_list_of_statuses_holds_nothing_else() {
        for (text, told) in [
            ("success", "helps nobody"),
            ("none, aborted", "`none` alone"),
            ("abortd", "did you mean `aborted`?"),
            ("max_iters", "max-iters"),
            ("error", "expected statuses"),
        ] {
            let error = FailOn::read(text).expect_err(text);
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn users_and_sandboxes_read_as_they_print() {
        for text in ["owner", "root", "1001"] {
            assert_eq!(
                RunAs::read(text).map(|user| user.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "-1", "runner", "4294967295", "1001:121"] {
            assert!(RunAs::read(text).is_err(), "{text}");
        }
        for text in ["required", "auto", "off"] {
            assert_eq!(
                Sandbox::read(text).map(|s| s.to_string()),
                Ok(text.to_owned())
            );
        }
        assert!(Sandbox::read("on").is_err());
    }
}
