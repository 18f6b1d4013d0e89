//! The inputs of the action: `INPUT_<NAME>` in the environment.

use std::collections::BTreeMap;

use super::options::{FailOn, RunAs, Sandbox, words};
use crate::config::{
    IterationMode, Layer, LoopSettings, Setting, Source, Target, read_text, read_variable_name,
};
use crate::error::{Error, ErrorKind, did_you_mean};

const PREFIX: &str = "INPUT_";

/// Every input, in the order of action.yml.
pub const INPUTS: [&str; 28] = [
    "procedure",
    "prompt",
    "context",
    "agent",
    "agent-version",
    "ai-cmd",
    "setup",
    "working-directory",
    "config",
    "max-iterations",
    "unlimited",
    "iteration-timeout",
    "idle-timeout",
    "run-timeout",
    "max-cost-usd",
    "max-tokens",
    "budget-required",
    "rate-limit-patience",
    "failure-threshold",
    "completion-promise",
    "agent-env",
    "run-as",
    "sandbox",
    "token",
    "fail-on",
    "verbose",
    "log-level",
    "dry-run",
];

/// What a container action gets beside its own inputs: how it is started.
const OF_THE_RUNNER: [&str; 2] = ["args", "entrypoint"];

/// What the inputs ask for.
#[derive(Debug)]
pub struct Inputs {
    pub target: Target,
    pub context: Vec<String>,
    /// Each input that is a setting of the loop, as a layer of its own.
    pub layers: Vec<Layer>,
    pub agent_version: Option<String>,
    pub setup: Option<String>,
    pub working_directory: Option<String>,
    pub config: Option<String>,
    pub agent_env: Vec<String>,
    pub run_as: RunAs,
    pub sandbox: Sandbox,
    pub token: Option<String>,
    pub fail_on: FailOn,
    pub dry_run: bool,
    /// Those that were given.
    given: Vec<&'static str>,
}

impl Inputs {
    /// Where the value of an input comes from that is no setting of the loop.
    pub fn source(&self, input: &'static str) -> Source {
        match self.given.contains(&input) {
            true => Source::Input(input),
            false => Source::Action(""),
        }
    }
}

/// Reads the inputs. An empty one is one that was not given. All problems are told at once.
pub fn read_inputs(environment: &BTreeMap<String, String>) -> Result<Inputs, Error> {
    let mut reader = Reader::new(environment);
    let layers = reader.layers();
    let target = reader.target();
    let inputs = Inputs {
        context: reader
            .text("context")
            .map(str::to_owned)
            .into_iter()
            .collect(),
        layers,
        agent_version: reader.read("agent-version", version),
        setup: reader.text("setup").map(str::to_owned),
        working_directory: reader.word("working-directory"),
        config: reader.word("config"),
        agent_env: reader.read("agent-env", names).unwrap_or_default(),
        run_as: reader.read("run-as", RunAs::read).unwrap_or_default(),
        sandbox: reader.read("sandbox", Sandbox::read).unwrap_or_default(),
        token: reader.word("token"),
        fail_on: reader.read("fail-on", FailOn::read).unwrap_or_default(),
        dry_run: reader.switch("dry-run").unwrap_or_default(),
        target: target.unwrap_or_else(|| Target::Task(String::new())),
        given: reader.given.keys().copied().collect(),
    };
    Error::join(reader.problems)?;
    Ok(inputs)
}

/// Asks for one input after the other, and notes what is wrong with them.
struct Reader<'a> {
    given: BTreeMap<&'static str, &'a str>,
    problems: Vec<Error>,
}

impl<'a> Reader<'a> {
    fn new(environment: &'a BTreeMap<String, String>) -> Self {
        let mut reader = Reader {
            given: BTreeMap::new(),
            problems: Vec::new(),
        };
        for (variable, value) in environment {
            let Some(written) = variable.strip_prefix(PREFIX) else {
                continue;
            };
            // The runner keeps hyphens, other programs that run actions do not.
            let name = written.to_ascii_lowercase().replace('_', "-");
            match INPUTS.into_iter().find(|input| **input == name) {
                Some(input) => reader.take(input, value),
                None if OF_THE_RUNNER.contains(&name.as_str()) => {}
                None => reader.problems.push(unknown(&name)),
            }
        }
        reader
    }

    fn take(&mut self, input: &'static str, value: &'a str) {
        if value.trim().is_empty() {
            return;
        }
        if value.contains('\u{fffd}') {
            self.wrong(input, "it is not UTF-8 text");
            return;
        }
        match self.given.insert(input, value) {
            Some(other) if other != value => {
                let message = "it is given twice, with a hyphen and with an underscore in its name";
                self.wrong(input, message);
            }
            _ => {}
        }
    }

    fn wrong(&mut self, input: &str, message: impl std::fmt::Display) {
        let message = format!("input {input}: {message}");
        self.problems.push(Error::new(ErrorKind::Usage, message));
    }

    /// The text as it was given.
    fn text(&self, input: &'static str) -> Option<&'a str> {
        debug_assert!(INPUTS.contains(&input));
        self.given.get(input).copied()
    }

    /// The text without white space around it: a block of YAML ends with a new line that nobody means.
    fn word(&self, input: &'static str) -> Option<String> {
        self.text(input).map(|text| text.trim().to_owned())
    }

    fn read<T>(
        &mut self,
        input: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(input)?.trim();
        match read(text) {
            Ok(value) => Some(value),
            Err(expected) => {
                // A long text in the wrong input would fill the error.
                let shown: String = text.chars().take(60).collect();
                self.wrong(input, format_args!("{expected}, found {shown:?}"));
                None
            }
        }
    }

    /// A switch. A workflow may pass on a boolean of its own, which can be spelt in several ways.
    fn switch(&mut self, input: &'static str) -> Option<bool> {
        self.read(input, |text| read_text::<bool>(&text.to_ascii_lowercase()))
    }

    fn layer<T: Setting>(
        &mut self,
        input: &'static str,
        set: impl FnOnce(&mut LoopSettings, T),
    ) -> Option<Layer> {
        let value = self.read(input, read_text::<T>)?;
        Some(Layer::of(Source::Input(input), |settings| {
            set(settings, value)
        }))
    }

    fn switch_layer(
        &mut self,
        input: &'static str,
        set: impl FnOnce(&mut LoopSettings, bool),
    ) -> Option<Layer> {
        let value = self.switch(input)?;
        Some(Layer::of(Source::Input(input), |settings| {
            set(settings, value)
        }))
    }

    /// The inputs that are settings of the loop.
    fn layers(&mut self) -> Vec<Layer> {
        let number = self.text("max-iterations").map(str::trim);
        let is_unlimited = self
            .text("unlimited")
            .is_some_and(|text| text.trim().eq_ignore_ascii_case("true"));
        if number.is_some() && is_unlimited {
            self.wrong("unlimited", "it cannot be `true` beside max-iterations");
        }
        let layers = [
            self.layer("ai-cmd", |s, v| s.ai_cmd = Some(v)),
            self.layer("agent", |s, v| s.ai_cmd_alias = Some(v)),
            self.layer("max-iterations", |s, v| s.default_max_iterations = Some(v)),
            // `false` is what a workflow passes on for "as it is".
            self.switch_layer("unlimited", |s, v| {
                s.iteration_mode = Some(IterationMode::Unlimited).filter(|_| v);
            }),
            self.layer("iteration-timeout", |s, v| s.iteration_timeout = Some(v)),
            self.layer("idle-timeout", |s, v| s.idle_timeout = Some(v)),
            self.layer("run-timeout", |s, v| s.run_timeout = Some(v)),
            self.layer("max-cost-usd", |s, v| s.max_cost_usd = Some(v)),
            self.layer("max-tokens", |s, v| s.max_tokens = Some(v)),
            self.switch_layer("budget-required", |s, v| s.budget_required = Some(v)),
            self.layer("rate-limit-patience", |s, v| {
                s.rate_limit_patience = Some(v);
            }),
            self.layer("failure-threshold", |s, v| s.failure_threshold = Some(v)),
            self.layer("completion-promise", |s, v| s.completion_promise = Some(v)),
            self.switch_layer("verbose", |s, v| s.show_ai_output = Some(v)),
            self.layer("log-level", |s, v| s.log_level = Some(v)),
        ];
        if number == Some("0") {
            self.problems = std::mem::take(&mut self.problems)
                .into_iter()
                .map(advise_unlimited)
                .collect();
        }
        layers.into_iter().flatten().collect()
    }

    fn target(&mut self) -> Option<Target> {
        match (self.word("procedure"), self.text("prompt")) {
            (Some(name), None) => Some(Target::Procedure(name)),
            (None, Some(prompt)) => Some(Target::Task(prompt.to_owned())),
            (Some(_), Some(_)) => {
                self.wrong("prompt", "it cannot stand beside `procedure`");
                self.advise("a procedure has its own prompt; what it should know besides goes into `context`");
                None
            }
            (None, None) => {
                self.wrong("procedure", "it is missing, and so is `prompt`");
                self.advise(
                    "say what shall be done: `procedure: build`, or a task of your own in `prompt`",
                );
                None
            }
        }
    }

    fn advise(&mut self, hint: &str) {
        if let Some(error) = self.problems.pop() {
            self.problems.push(error.hint(hint));
        }
    }
}

fn advise_unlimited(error: Error) -> Error {
    let is_meant = error
        .problems
        .iter()
        .any(|problem| problem.message.starts_with("input max-iterations:"));
    match is_meant {
        true => error.hint("for any number of iterations: `unlimited: true` and a `run-timeout`"),
        false => error,
    }
}

fn unknown(name: &str) -> Error {
    let error = Error::new(
        ErrorKind::Usage,
        format_args!("input {name}: there is no such input"),
    );
    match did_you_mean(name, INPUTS) {
        Some(hint) => error.hint(hint),
        None => error.hint(format_args!("the inputs are: {}", INPUTS.join(", "))),
    }
}

/// A version as npm understands it, and nothing that npm could take for anything else.
fn version(text: &str) -> Result<String, String> {
    let is_version = !text.starts_with('-')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-+^~".contains(c));
    match is_version {
        true => Ok(text.to_owned()),
        false => Err("expected a version or a tag, such as 2.1.325 or latest".to_owned()),
    }
}

/// Names of environment variables that may be passed to an agent.
fn names(text: &str) -> Result<Vec<String>, String> {
    words(text).map(read_variable_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(inputs: &[(&str, &str)]) -> Result<Inputs, Error> {
        let environment = inputs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        read_inputs(&environment)
    }

    fn told(inputs: &[(&str, &str)]) -> String {
        match read(inputs) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn hyphens_underscores_and_empty_values() {
        let given = |name, value| {
            let inputs =
                read(&[("INPUT_PROCEDURE", "build\n"), (name, value)]).expect("all is well");
            let sources: Vec<String> = inputs.layers.iter().map(|l| l.source.to_string()).collect();
            sources.join(" ")
        };
        assert_eq!(given("INPUT_MAX-ITERATIONS", "3"), "input: max-iterations");
        assert_eq!(
            given("INPUT_MAX_ITERATIONS", " 3\n"),
            "input: max-iterations"
        );
        assert_eq!(given("INPUT_MAX-ITERATIONS", ""), "");
        assert_eq!(given("INPUT_MAX-ITERATIONS", " \n"), "");
    }

    #[test]
    fn every_wrong_value_is_told_by_the_name_of_its_input() {
        for (input, value) in [
            ("max-iterations", "0"),
            ("unlimited", "maybe"),
            ("iteration-timeout", "soon"),
            ("idle-timeout", "0"),
            ("run-timeout", "-1h"),
            ("max-cost-usd", "0"),
            ("max-tokens", "lots"),
            ("budget-required", "perhaps"),
            ("rate-limit-patience", "0"),
            ("failure-threshold", "many"),
            ("completion-promise", "FAILURE"),
            ("verbose", "ja"),
            ("log-level", "loud"),
            ("ai-cmd", "agent 'open"),
            ("agent-version", "--prefix=/"),
            ("agent-env", "A=b"),
            ("agent-env", "GITHUB_TOKEN"),
            ("run-as", "runner"),
            ("sandbox", "on"),
            ("fail-on", "success"),
            ("dry-run", "yes"),
        ] {
            let variable = format!("INPUT_{}", input.to_ascii_uppercase());
            let told = told(&[("INPUT_PROCEDURE", "build"), (&variable, value)]);
            let expected = format!("Error: input {input}: expected");
            assert!(told.starts_with(&expected), "{input}: {told}");
            assert!(told.contains(&format!("found {value:?}")), "{told}");
        }
        let told = told(&[("INPUT_PROCEDURE", "build"), ("INPUT_MAX-ITERATIONS", "0")]);
        assert!(told.contains("`unlimited: true`"), "{told}");
    }

    #[test]
    fn nothing_that_was_typed_is_ignored() {
        let both = told(&[("INPUT_PROCEDURE", "build"), ("INPUT_PROMPT", "x")]);
        assert!(
            both.contains("input prompt: it cannot stand beside `procedure`"),
            "{both}"
        );
        assert!(told(&[]).contains("input procedure: it is missing, and so is `prompt`"));
        let unknown = told(&[("INPUT_PROCEDURE", "build"), ("INPUT_MAX-ITERATION", "")]);
        assert!(
            unknown.contains("did you mean `max-iterations`?"),
            "{unknown}"
        );
        let twice = told(&[
            ("INPUT_PROCEDURE", "build"),
            ("INPUT_DRY-RUN", "true"),
            ("INPUT_DRY_RUN", "false"),
        ]);
        assert!(twice.contains("given twice"), "{twice}");
        let limits = told(&[
            ("INPUT_PROCEDURE", "build"),
            ("INPUT_MAX-ITERATIONS", "3"),
            ("INPUT_UNLIMITED", "true"),
        ]);
        assert!(limits.contains("input unlimited: it cannot be `true` beside max-iterations"));
        assert_eq!(
            told(&[("INPUT_PROCEDURE", "build"), ("INPUT_ARGS", "--verbose")]),
            ""
        );
    }

    #[test]
    fn texts_are_taken_as_they_are() {
        let inputs = read(&[
            ("INPUT_PROMPT", "  do\n"),
            ("INPUT_CONTEXT", "@notes\n"),
            ("INPUT_SETUP", "a\nb\n"),
        ]);
        let inputs = inputs.expect("all is well");
        assert!(matches!(inputs.target, Target::Task(task) if task == "  do\n"));
        assert_eq!(inputs.context, ["@notes\n"]);
        assert_eq!(inputs.setup.as_deref(), Some("a\nb\n"));
    }
}
