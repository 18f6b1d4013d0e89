//! The words of the command line themselves: what is left over of them, and what a dry run stands for.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};

use super::SUBCOMMANDS;
use crate::error::{Error, ErrorKind};

/// What to say of words that are left over. The parser takes them for subcommands or flags, which is never meant.
pub fn left_over_word(error: &clap::Error, arguments: &[OsString]) -> Option<Error> {
    let told =
        |message: String, hint: String| Some(Error::new(ErrorKind::Usage, message).hint(hint));
    let words: Vec<&str> = arguments
        .iter()
        .skip(1)
        .filter_map(|w| w.to_str())
        .collect();
    let first = words.first().copied().unwrap_or_default();
    match (
        error.get(ContextKind::InvalidSubcommand),
        error.get(ContextKind::InvalidArg),
    ) {
        (_, Some(ContextValue::String(word)))
            if first == "loop"
                && error.kind() == clap::error::ErrorKind::UnknownArgument
                && !word.starts_with('-') =>
        {
            told(
                format!("the task is one argument, and `{word}` stands after it"),
                "put the task in quotes: rooda loop \"Make the tests pass\"".to_owned(),
            )
        }
        (Some(ContextValue::String(word)), _) if first == "help" => told(
            format!("there is no command `{word}`"),
            format!("`rooda info {word}` tells about a procedure"),
        ),
        (Some(ContextValue::String(word)), _) => {
            match words.iter().find(|word| SUBCOMMANDS.contains(word)) {
                Some(command) => told(
                    format!("the command `{command}` comes first, and its flags after it"),
                    format!("`rooda {command} --help`"),
                ),
                None => told(
                    format!("a run has one procedure, and `{word}` stands after it"),
                    "to tell the agent something, use --context \"only the auth module\""
                        .to_owned(),
                ),
            }
        }
        _ => None,
    }
}

/// The command that a dry run would have run: the same words without `--dry-run`.
pub fn without_dry_run(arguments: &[OsString]) -> String {
    let words = arguments.iter().skip(1).map(|word| word.to_string_lossy());
    let mut kept = vec!["rooda".to_owned()];
    let mut literal = false;
    for word in words {
        literal |= word == "--";
        // `-dv`, `-dn3` and their like: short flags run together, of which only the last may take a value.
        let cluster = word.strip_prefix('-').unwrap_or_default();
        let end = cluster.find(|c| !"dvqu".contains(c));
        let (flags, rest) = cluster.split_at(end.unwrap_or(cluster.len()));
        let has_it = word == "--dry-run" || flags.contains('d');
        if literal || !has_it {
            kept.push(shell_words::quote(&word).into_owned());
        } else if word != "--dry-run" && cluster != "d" {
            let word = format!("-{}{rest}", flags.replace('d', ""));
            kept.push(shell_words::quote(&word).into_owned());
        }
    }
    kept.join(" ")
}

/// The command that `rooda doctor` was asked about: the same words without that one, which is the first.
pub fn without_doctor(arguments: &[OsString]) -> String {
    let words = arguments.iter().skip(2).map(|word| word.to_string_lossy());
    let quoted = words.map(|word| shell_words::quote(&word).into_owned());
    let kept: Vec<String> = ["rooda".to_owned()].into_iter().chain(quoted).collect();
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_a_dry_run_can_be_pasted() {
        for (given, kept) in [
            (
                "build -d -c 'it'\\''s here' --dry-run",
                "build -c 'it'\\''s here'",
            ),
            ("build -vd", "build -v"),
            ("build -dn3 -udq", "build -n3 -uq"),
            (
                "build -cdone -Cd '--context=-d'",
                "build -cdone -Cd '--context=-d'",
            ),
            ("loop -d -- -d", "loop -- -d"),
            ("loop - -d", "loop -"),
        ] {
            let words = shell_words::split(given).expect("quoted well");
            let words: Vec<OsString> = ["x/rooda".into()]
                .into_iter()
                .chain(words.into_iter().map(OsString::from))
                .collect();
            assert_eq!(without_dry_run(&words), format!("rooda {kept}"));
        }
    }
}
