//! What a program says its version is.

use crate::iteration::inert;

/// Longer than any version, and shorter than a page of help.
const LONGEST: usize = 60;

/// The line that tells a version: the first that holds a digit.
pub fn version_line(output: &str) -> Option<String> {
    let line = output
        .lines()
        .map(str::trim)
        .find(|line| line.contains(|c: char| c.is_ascii_digit()))?;
    let line: String = line.chars().take(LONGEST).collect();
    Some(inert(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_with_a_digit_is_the_version() {
        let told = |output| version_line(output).unwrap_or_default();
        assert_eq!(told("2.1.325 (Claude Code)\n"), "2.1.325 (Claude Code)");
        assert_eq!(told("Welcome!\n  codex-cli 0.166.0\n"), "codex-cli 0.166.0");
        assert_eq!(told("no version\n"), "");
        assert_eq!(told(&"1".repeat(200)).len(), LONGEST);
    }
}
