//! What `rooda doctor` shows.

use std::fmt::{Display, Write};

use serde_json::{Value, json};

use crate::error::Problem;
use crate::iteration::inert;
use crate::units::Count;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Well,
    /// Odd, but no obstacle.
    Odd,
    /// A run would not begin, or come to nothing.
    Wrong,
}

impl Verdict {
    fn sign(self) -> char {
        match self {
            Verdict::Well => '✓',
            Verdict::Odd => '!',
            Verdict::Wrong => '✗',
        }
    }

    fn name(self) -> &'static str {
        match self {
            Verdict::Well => "well",
            Verdict::Odd => "odd",
            Verdict::Wrong => "wrong",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug)]
pub struct Finding {
    verdict: Verdict,
    said: Problem,
}

impl Finding {
    pub fn well(message: impl Display) -> Self {
        Finding::new(Verdict::Well, message)
    }

    pub fn odd(message: impl Display) -> Self {
        Finding::new(Verdict::Odd, message)
    }

    pub fn wrong(message: impl Display) -> Self {
        Finding::new(Verdict::Wrong, message)
    }

    fn new(verdict: Verdict, message: impl Display) -> Self {
        let said = Problem {
            message: message.to_string(),
            hints: Vec::new(),
        };
        Finding { verdict, said }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.said.hints.push(hint.to_string());
        self
    }

    fn is_wrong(&self) -> bool {
        self.verdict == Verdict::Wrong
    }
}

impl From<Problem> for Finding {
    fn from(said: Problem) -> Self {
        let verdict = Verdict::Wrong;
        Finding { verdict, said }
    }
}

/// Whether a run can begin.
pub fn is_ready(findings: &[Finding]) -> bool {
    !findings.iter().any(Finding::is_wrong)
}

/// A line for each, with what to do about it below. `ready` is what can be done when nothing is wrong.
pub fn doctor_text(findings: &[Finding], ready: &str) -> String {
    let mut text = String::new();
    for Finding { verdict, said } in findings {
        // Writing to a string cannot fail.
        writeln!(text, "{} {}", verdict.sign(), inert(&said.message)).ok();
        for hint in &said.hints {
            writeln!(text, "    {}", inert(hint)).ok();
        }
    }
    let wrong = findings.iter().filter(|finding| finding.is_wrong()).count();
    match wrong {
        0 => writeln!(text, "\nReady: {ready}").ok(),
        _ => writeln!(text, "\n{}", Count(wrong as u64, "problem")).ok(),
    };
    text
}

pub fn doctor_json(findings: &[Finding]) -> Value {
    let check = |Finding { verdict, said }: &Finding| {
        json!({
            "verdict": verdict.name(),
            "message": said.message,
            "hints": said.hints,
        })
    };
    json!({
        "ready": is_ready(findings),
        "checks": findings.iter().map(check).collect::<Value>(),
    })
}
