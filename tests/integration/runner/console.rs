//! The runner's ear: each line of either stream is a command, or it is shown.

use std::fs;

use super::annotations::{Annotation, Kind};
use super::commands::{self, Command};
use super::environment::Paths;
use super::record::Record;

const COMMANDS: [&str; 15] = [
    "stop-commands",
    "set-env",
    "set-output",
    "save-state",
    "add-mask",
    "add-path",
    "add-matcher",
    "remove-matcher",
    "debug",
    "warning",
    "error",
    "notice",
    "group",
    "endgroup",
    "echo",
];

/// A token for `stop-commands` that the runner does not take: the step fails at once, and whatever runs is left running.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadToken;

pub(super) struct Console {
    pub(super) record: Record,
    paths: Paths,
    allowances: Allowances,
    stopped_until: Option<String>,
    echo: bool,
    closed: bool,
}

/// What the workflow's environment permits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowances {
    /// `ACTIONS_ALLOW_UNSECURE_COMMANDS`
    pub(super) commands: bool,
    /// `ACTIONS_ALLOW_UNSECURE_STOPCOMMAND_TOKENS`
    pub(super) tokens: bool,
}

impl Console {
    pub(super) fn new(record: Record, paths: Paths, allowances: Allowances) -> Self {
        Console {
            record,
            paths,
            allowances,
            stopped_until: None,
            echo: false,
            closed: false,
        }
    }

    /// From here on nobody listens: what still comes is lost.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn hear(&mut self, line: &str) -> Result<(), BadToken> {
        if self.closed {
            return Ok(());
        }
        let token = self.stopped_until.clone();
        let is_known = |name: &str| {
            let mut names = COMMANDS.iter().copied().chain(token.as_deref());
            names.any(|known| known.eq_ignore_ascii_case(name))
        };
        let Some(command) = commands::parse(line, is_known) else {
            self.record.print(line);
            return Ok(());
        };
        match &token {
            Some(token) if command.name.eq_ignore_ascii_case(token) => {
                self.record.print(line);
                self.stopped_until = None;
            }
            Some(_) => self.record.print(line),
            None if command.name.eq_ignore_ascii_case("stop-commands") => {
                return self.stop(line, command.data);
            }
            None => self.obey(line, &command),
        }
        Ok(())
    }

    fn stop(&mut self, line: &str, token: String) -> Result<(), BadToken> {
        let is_command = COMMANDS
            .iter()
            .any(|name| name.eq_ignore_ascii_case(&token));
        let bad = token.is_empty() || token.eq_ignore_ascii_case("pause-logging") || is_command;
        if bad && !self.allowances.tokens {
            self.record.failed = true;
            self.record.error(
                "You cannot use a endToken that is an empty string, the string 'pause-logging', or another workflow \
                 command.",
            );
            self.close();
            return Err(BadToken);
        }
        self.record.print(line);
        if token.chars().count() > 6 {
            self.record.masks.add(&token);
        }
        self.stopped_until = Some(token);
        Ok(())
    }

    fn obey(&mut self, line: &str, command: &Command) {
        let name = command.name.to_lowercase();
        let omits_echo = ["add-mask", "debug", "warning", "error", "notice"];
        let shy = omits_echo.contains(&name.as_str());
        if self.echo && !shy {
            self.record.print(line);
        }
        if let Err(why) = self.perform(&name, command) {
            let told = if shy { &name } else { line };
            let what = format!("Unable to process command '{told}' successfully.");
            self.record.fail(&what, &why);
        }
    }

    fn perform(&mut self, name: &str, command: &Command) -> Result<(), String> {
        let data = command.data.as_str();
        let named = || {
            let missing = format!("Required field 'name' is missing in ##[{name}] command.");
            command.property("name").ok_or(missing)
        };
        match name {
            "error" => self.annotate(Kind::Error, command),
            "warning" => self.annotate(Kind::Warning, command),
            "notice" => self.annotate(Kind::Notice, command),
            "debug" => self.record.print_debug(data),
            "group" => self.record.print(&format!("##[group]{data}")),
            "endgroup" => self.record.print("##[endgroup]"),
            "add-mask" => self.mask(data),
            "echo" => match data.trim().to_lowercase().as_str() {
                "on" => self.echo = true,
                "off" => self.echo = false,
                _ => {
                    return Err(format!(
                        "Invalid echo command value. Possible values can be: 'on', 'off'. Current value is: '{data}'."
                    ));
                }
            },
            "set-output" => self.record.set_output(named()?, data),
            "save-state" => self.record.save_state(named()?, data),
            "set-env" | "add-path" if !self.allowances.commands => {
                return Err(format!("The `{name}` command is disabled."));
            }
            "set-env" => {
                let name = named()?.to_owned();
                self.set_env(&name, data);
            }
            "add-path" if data.is_empty() => return Err("path must not be empty".to_owned()),
            "add-path" => self.record.add_path(data),
            "add-matcher" => return self.add_matcher(data),
            "remove-matcher" => self.remove_matcher(command),
            other => unreachable!("{other} is in COMMANDS"),
        }
        Ok(())
    }

    fn annotate(&mut self, kind: Kind, command: &Command) {
        let annotation = Annotation::of_command(kind, command, &self.paths);
        self.record.annotate(annotation);
    }

    fn mask(&mut self, value: &str) {
        if value.trim().is_empty() {
            self.record
                .warning("Can't add secret mask for empty string in ##[add-mask] command.");
            return;
        }
        if self.echo {
            self.record.print("::add-mask::***");
        }
        self.record.masks.add(value);
    }

    fn set_env(&mut self, name: &str, value: &str) {
        if name.eq_ignore_ascii_case("NODE_OPTIONS") {
            self.record
                .error("Can't update NODE_OPTIONS environment variable using ::set-env:: command.");
        } else {
            self.record.env.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Matchers are noted, not applied.
    fn add_matcher(&mut self, file: &str) -> Result<(), String> {
        if file.is_empty() {
            self.record.warning("File path must be specified.");
            return Ok(());
        }
        let path = self.paths.on_host(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        serde_json::from_str::<serde_json::Value>(&text).map_err(|error| error.to_string())?;
        self.record.matchers.push(file.to_owned());
        Ok(())
    }

    fn remove_matcher(&mut self, command: &Command) {
        match (command.property("owner"), command.data.as_str()) {
            (Some(_), "") => {}
            (None, "") | (Some(_), _) => self
                .record
                .warning("Either an owner name or a file path must be specified."),
            (None, file) => self.record.matchers.retain(|known| known != file),
        }
    }
}

#[cfg(test)]
fn heard(lines: &[&str]) -> Record {
    heard_with(Allowances::default(), lines)
}

#[cfg(test)]
fn heard_with(allowances: Allowances, lines: &[&str]) -> Record {
    let mut console = Console::new(Record::default(), Paths::example(), allowances);
    for line in lines {
        if console.hear(line) == Err(BadToken) {
            console.record.log.push("(left)".to_owned());
        }
    }
    console.record
}

#[test]
fn commands_are_obeyed_and_all_else_is_shown() {
    let record = heard(&[
        "plain",
        "::group::Title",
        "::debug::not shown",
        "progress ##[warning]in the middle",
        "::endgroup::ignored",
        "::set-output name=a::1",
        "::save-state name=b::2",
        "::unknown::shown",
    ]);
    let log = [
        "plain",
        "##[group]Title",
        "##[warning]in the middle",
        "##[endgroup]",
        "::unknown::shown",
    ];
    assert_eq!(record.log, log);
    assert_eq!(record.outputs["a"], "1");
    assert_eq!(record.state["b"], "2");
    assert!(!record.failed);
}

#[test]
fn what_cannot_be_processed_fails_the_step_with_two_errors() {
    let cases = [
        "::set-env name=A::1",
        "::add-path::/x",
        "::echo::maybe",
        "::echo::",
        "::add-matcher::/nope.json",
        "::set-output::x",
        "::save-state name=::x",
        "##[set-env name=A]1",
    ];
    for line in cases {
        let record = heard(&[line]);
        assert!(record.failed, "{line}");
        assert_eq!(record.annotations.len(), 2, "{line}");
        let first = format!("Unable to process command '{line}' successfully.");
        assert_eq!(record.errors[0], first);
    }
    for line in [
        "::add-mask:: ",
        "::add-matcher::",
        "::remove-matcher::",
        "::error::x",
    ] {
        assert!(!heard(&[line]).failed, "{line}");
    }
}

#[test]
fn unsecure_commands_work_where_they_are_allowed() {
    let allowances = Allowances {
        commands: true,
        tokens: false,
    };
    let lines = [
        "::set-env name=A::1",
        "::set-env name=Node_Options::x",
        "::add-path::/x",
    ];
    let record = heard_with(allowances, &lines);
    assert_eq!(record.env["A"], "1");
    assert_eq!(record.env.len(), 1);
    assert_eq!(record.path, ["/x"]);
    assert!(!record.failed);
    assert_eq!(record.errors.len(), 1);
}

#[test]
fn nothing_is_obeyed_until_the_token_comes_in_either_form() {
    for resume in ["::a-token::", "##[A-Token]", "text ##[a-token] text"] {
        let record = heard(&[
            "::stop-commands::a-token",
            "::error::no",
            "##[set-env]no",
            "::another::",
            resume,
            "::error::yes",
        ]);
        let hidden = resume.replace("a-token", "***");
        let log = [
            "::stop-commands::a-token",
            "::error::no",
            "##[set-env]no",
            "::another::",
            &hidden,
            "##[error]yes",
        ];
        assert_eq!(record.log, log);
        assert_eq!(record.annotations.len(), 1);
        assert!(!record.failed);
    }
}

#[test]
fn a_short_token_is_not_masked_and_one_with_a_space_never_resumes() {
    let record = heard(&["::stop-commands::abc", "::abc::", "::error::yes"]);
    assert_eq!(record.masks.values(), Vec::<String>::new());
    assert_eq!(record.annotations.len(), 1);
    let record = heard(&["::stop-commands::a b", "::a b::", "::error::no"]);
    assert_eq!(record.annotations.len(), 0);
}

#[test]
fn a_bad_token_ends_the_step_at_once() {
    for token in ["", "pause-logging", "Error", "stop-commands"] {
        let line = format!("::stop-commands::{token}");
        let record = heard(&[&line, "lost"]);
        assert!(record.failed, "{token}");
        assert_eq!(record.log.len(), 2, "{:?}", record.log);
        assert_eq!(record.log[1], "(left)");
    }
    let allowances = Allowances {
        commands: false,
        tokens: true,
    };
    let record = heard_with(
        allowances,
        &["::stop-commands::error", "::error::", "::error::x"],
    );
    assert!(!record.failed);
    assert_eq!(record.annotations.len(), 1);
}

#[test]
fn masks_hide_what_comes_later() {
    let record = heard(&[
        "before: hunter2",
        "::add-mask::hunter2",
        "after: hunter2",
        "::error title=hunter2::hunter2!",
        "::add-mask::one%0Atwo",
        "two",
    ]);
    let log = ["before: hunter2", "after: ***", "##[error]***!", "***"];
    assert_eq!(record.log, log);
    assert_eq!(record.annotations[0].title.as_deref(), Some("***"));
    assert_eq!(record.masks.values(), ["hunter2", "one\ntwo", "one", "two"]);
}

#[test]
fn echo_shows_commands_but_no_secret() {
    let record = heard(&[
        "::echo::on",
        "::set-output name=a::1",
        "::add-mask::hunter2",
        "::error::once",
        "::echo::OFF",
        "::set-output name=a::2",
    ]);
    let log = [
        "::set-output name=a::1",
        "::add-mask::***",
        "##[error]once",
        "::echo::OFF",
    ];
    assert_eq!(record.log, log);
}

#[test]
fn annotations_find_their_file_in_the_workspace() {
    let cases = [
        ("/github/workspace/src/a.rs", "src/a.rs"),
        ("src/a.rs", "src/a.rs"),
        ("/etc/passwd", "/etc/passwd"),
    ];
    for (file, expected) in cases {
        let line = format!("::notice file={file},line=3,title=T::m");
        let annotation = heard(&[&line]).annotations.remove(0);
        assert_eq!(annotation.file.as_deref(), Some(expected));
        assert_eq!(annotation.kind, Kind::Notice);
        assert_eq!(annotation.place.line.as_deref(), Some("3"));
        assert!(!annotation.by_runner);
    }
}

#[test]
fn matchers_are_noted_if_they_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("matcher.json");
    fs::write(&file, "{}").unwrap();
    let file = file.to_str().unwrap();
    let add = format!("::add-matcher::{file}");
    assert_eq!(heard(&[&add]).matchers, [file]);
    let remove = format!("::remove-matcher::{file}");
    assert_eq!(heard(&[&add, &remove]).matchers, Vec::<String>::new());
}
