//! What the program says of itself.

use clap::CommandFactory;
use rooda::cli::{Cli, SUBCOMMANDS};

use crate::harness::{Ran, Sandbox};

fn rooda<const N: usize>(arguments: [&str; N]) -> Ran {
    Sandbox::new().rooda(arguments).run()
}

#[test]
fn the_help_of_rooda() {
    insta::assert_snapshot!(rooda(["--help"]));
}

#[test]
fn the_short_help_of_rooda() {
    insta::assert_snapshot!(rooda(["-h"]));
}

#[test]
fn the_help_of_run() {
    insta::assert_snapshot!(rooda(["run", "--help"]));
}

#[test]
fn the_help_of_loop() {
    insta::assert_snapshot!(rooda(["loop", "--help"]));
}

#[test]
fn the_help_of_list() {
    insta::assert_snapshot!(rooda(["list", "--help"]));
}

#[test]
fn the_help_of_info() {
    insta::assert_snapshot!(rooda(["info", "--help"]));
}

#[test]
fn the_help_of_agents() {
    insta::assert_snapshot!(rooda(["agents", "--help"]));
}

#[test]
fn the_help_of_doctor() {
    insta::assert_snapshot!(rooda(["doctor", "--help"]));
}

#[test]
fn without_arguments_there_is_help_and_a_usage_error() {
    let alone = rooda::<0>([]);
    assert_eq!((alone.code, alone.stdout.as_str()), (Some(64), ""));
    assert_eq!(alone.stderr, rooda(["-h"]).stdout);
}

#[test]
fn help_can_be_asked_for_in_several_ways() {
    assert_eq!(
        rooda(["help"]).to_string(),
        rooda(["--help"]).to_string(),
        "help"
    );
    for command in SUBCOMMANDS.iter().filter(|name| **name != "help") {
        let asked = rooda(["help", command]);
        assert_eq!(asked.code, Some(0), "{asked}");
        assert_eq!(
            asked.to_string(),
            rooda([command, "--help"]).to_string(),
            "{command}"
        );
    }
    // Beside a procedure it means the same as without one.
    assert_eq!(rooda(["build", "--help"]).stdout, rooda(["--help"]).stdout);
}

#[test]
fn every_flag_has_a_purpose_and_a_place_in_the_help() {
    let command = Cli::command();
    for name in ["run", "loop"] {
        let command = command.find_subcommand(name).unwrap();
        for flag in command.get_arguments().filter(|flag| !flag.is_positional()) {
            let id = flag.get_id().as_str();
            // What only `loop` has is told first, without a heading.
            if id != "file" {
                assert!(flag.get_help_heading().is_some(), "{name} --{id}");
            }
            assert!(flag.get_help().is_some(), "{name} --{id}");
        }
    }
    let help = rooda(["run", "--help"]).stdout;
    for flag in [
        "-n, --max-iterations <N>",
        "-u, --unlimited",
        "-d, --dry-run",
        "-c, --context <TEXT>",
        "--ai-cmd <COMMAND>",
        "--ai-cmd-alias <NAME>",
        "--observe <PROMPT>",
        "--orient <PROMPT>",
        "--decide <PROMPT>",
        "--act <PROMPT>",
        "-C, --directory <DIR>",
        "--task-id <ID>",
        "--completion-promise <TEXT>",
        "--iteration-timeout <TIME>",
        "--idle-timeout <TIME>",
        "--run-timeout <TIME>",
        "--failure-threshold <N>",
        "--config <FILE>",
        "-v, --verbose",
        "-q, --quiet",
        "--log-level <LEVEL>",
        "--log-format <FORMAT>",
        "--color <WHEN>",
    ] {
        assert!(help.contains(flag), "{flag} is missing in:\n{help}");
    }
}

#[test]
fn every_built_in_alias_is_named() {
    let help = rooda(["--help"]).stdout;
    let words: Vec<&str> = help
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .collect();
    for layer in rooda::config::builtin_layers().unwrap() {
        for alias in layer.settings.aliases.keys() {
            assert!(words.contains(&alias.as_str()), "{alias}");
        }
    }
}

#[test]
fn every_way_to_ask_for_the_version_gives_it() {
    for arguments in [["--version"], ["-V"], ["version"]] {
        let ran = rooda(arguments);
        let version = concat!("rooda ", env!("CARGO_PKG_VERSION"), "\n");
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), version, ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn completions_know_commands_and_flags() {
    for (shell, mark) in [
        ("bash", "complete -F _rooda"),
        ("zsh", "#compdef rooda"),
        ("fish", "complete -c rooda"),
    ] {
        let ran = rooda(["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{shell}");
        for text in [mark, "completions", "max-iterations", "dry-run"] {
            assert!(ran.stdout.contains(text), "{shell}: {text}");
        }
    }
}
