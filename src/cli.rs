//! The command line. The comments are the help; the flags become configuration layers. Nothing in here is looked up
//! anywhere else.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::config::{
    AliasNames, Bound, CommandLine, Dollars, FragmentSource, IterationMode, Layer, LogFormat,
    LogLevel, LoopSettings, Origin, Phase, Positive, Promise, Source, Span, Tokens, read_text,
};

mod words;

pub use words::{left_over_word, without_doctor, without_dry_run};

/// The names that no procedure can have.
pub const SUBCOMMANDS: &[&str] = &[
    "action",
    "run",
    "loop",
    "list",
    "info",
    "agents",
    "doctor",
    "demo",
    "demo-agent",
    "helper",
    "probe",
    "schema",
    "completions",
    "version",
    "help",
];

const EXAMPLES: &str = "\
Examples:
  rooda demo                                        See the whole thing work, without any AI
  rooda list                                        Which procedures there are
  rooda agents                                      Which agents are installed
  rooda doctor build --ai-cmd-alias claude          Whether all is there that a run needs
  rooda bootstrap --ai-cmd-alias claude             First of all: describe the repository
  rooda build --ai-cmd-alias claude -n 5            At most five iterations
  rooda build --ai-cmd \"my-agent --yes\" --dry-run   Check everything, run nothing
  rooda build -c \"only the auth module\" -c @notes.md
  rooda loop \"Make the tests pass\" -n 10            The same task every iteration

Settings, the first one counts:
  flags, the procedure's own keys, ROODA_LOOP_* variables (ROODA_LOOP_AI_CMD_ALIAS=claude),
  ./rooda-config.yml, ~/.config/rooda/rooda-config.yml, the built-in defaults
  (`rooda schema` lists every key, also those without a flag)

Exit codes:
  0 success, 1 aborted, 2 max-iters, 4 exhausted, 130 interrupted
  64 usage, 66 file not readable, 69 AI command or directory not found, 70 internal,
  78 configuration
  --dry-run: 0 ready, 1 not ready";

const LOOP_EXAMPLES: &str = "\
Examples:
  rooda loop \"Make the tests pass\" --ai-cmd-alias claude -n 10
  rooda loop --file TASK.md --run-timeout 2h --unlimited
  git log -5 | rooda loop - --dry-run

The exit codes are those of `rooda run --help`.";

const ACTION_EXAMPLES: &str = "\
The image of the action starts this. It reads the inputs of action.yml from INPUT_* variables; flags given with
`args:` win over them.

Exit codes:
  0 also for a status that `fail-on` does not list; else those of `rooda run --help`";

const LIST_EXAMPLES: &str = "\
Examples:
  rooda list
  rooda list --json | jq -r '.[].name'";

const INFO_EXAMPLES: &str = "\
Examples:
  rooda info build
  rooda info build --json | jq .settings";

const AGENTS_EXAMPLES: &str = "\
Examples:
  rooda agents
  rooda agents --json | jq -r '.[] | select(.version) | .name'";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  rooda doctor build --ai-cmd-alias claude
  rooda doctor                                      All but the prompts

Exit codes:
  0 nothing is wrong, 1 something is, 64 usage";

/// Runs AI coding CLIs in OODA loops: each iteration is a fresh process with a freshly composed prompt.
///
/// `rooda <PROCEDURE>` is short for `rooda run <PROCEDURE>`.
#[derive(Debug, Parser)]
#[command(
    name = "rooda",
    version,
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    max_term_width = 100
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Print the version
    #[arg(short = 'V', long, exclusive = true)]
    pub version: bool,

    #[command(flatten)]
    pub run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a procedure
    #[command(after_help = EXAMPLES)]
    Run(RunArgs),
    /// Run the same task in every iteration, without phases
    #[command(after_help = LOOP_EXAMPLES)]
    Loop(LoopArgs),
    /// Run as a step of a GitHub workflow, inside the container of the action
    #[command(after_help = ACTION_EXAMPLES)]
    Action(ActionArgs),
    /// List the procedures, built-in and your own
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Tell what a procedure does and with which settings it would run
    #[command(after_help = INFO_EXAMPLES)]
    Info(InfoArgs),
    /// List the AI commands: which are installed, and whether a key is set
    #[command(after_help = AGENTS_EXAMPLES)]
    Agents(ListArgs),
    /// Check all that a run needs, and tell what to mend
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// See the whole thing work: a throw-away repository, a scripted agent, the real loop
    Demo,
    /// The scripted agent of the demo
    #[command(hide = true)]
    DemoAgent,
    /// What rooda starts as another user, to work where an agent has been
    #[command(hide = true)]
    Helper,
    /// Try what the agent must not be able to do; started by rooda in the agent's jail
    #[command(hide = true)]
    Probe,
    /// Print the JSON Schema of rooda-config.yml
    Schema,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the version
    Version,
}

#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// The procedure to run; `rooda list` shows them
    #[arg(required = true)]
    pub procedure: Option<String>,

    #[command(flatten)]
    pub phases: PhaseArgs,

    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
pub struct LoopArgs {
    /// What the agent shall do; `-` reads it from standard input
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub task: Option<String>,

    /// Read the task from a file
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub common: CommonArgs,
}

#[derive(Debug, Clone, Args)]
pub struct ActionArgs {
    #[command(flatten)]
    pub settings: SettingsArgs,
}

#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: PlaceArgs,
}

#[derive(Debug, Clone, Args)]
pub struct InfoArgs {
    /// The procedure; `rooda list` shows them
    pub procedure: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub place: PlaceArgs,
}

#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// The procedure; `rooda list` shows them
    pub procedure: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub settings: SettingsArgs,

    #[command(flatten)]
    pub place: PlaceArgs,
}

/// Where to look.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where")]
pub struct PlaceArgs {
    /// Work as if started in this directory
    #[arg(short = 'C', long, value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// Read this file in place of ./rooda-config.yml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What the agent is told")]
pub struct PhaseArgs {
    /// Replace the phase OBSERVE with a prompt file, or a built-in one (`builtin:observe/specs.md`); repeatable
    #[arg(long, value_name = "PROMPT", value_parser = NonEmptyStringValueParser::new())]
    pub observe: Vec<String>,

    /// Replace the phase ORIENT likewise; repeatable
    #[arg(long, value_name = "PROMPT", value_parser = NonEmptyStringValueParser::new())]
    pub orient: Vec<String>,

    /// Replace the phase DECIDE likewise; repeatable
    #[arg(long, value_name = "PROMPT", value_parser = NonEmptyStringValueParser::new())]
    pub decide: Vec<String>,

    /// Replace the phase ACT likewise; repeatable
    #[arg(long, value_name = "PROMPT", value_parser = NonEmptyStringValueParser::new())]
    pub act: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// Add text to the prompt as it is, or the content of a file (`@FILE`); repeatable
    #[arg(
        short,
        long,
        value_name = "TEXT",
        help_heading = "What the agent is told"
    )]
    pub context: Vec<String>,

    /// Name the task in the log [default: the name of the procedure]
    #[arg(long, value_name = "ID", help_heading = "What the agent is told")]
    pub task_id: Option<String>,

    #[command(flatten)]
    pub settings: SettingsArgs,

    /// Show configuration, checks and prompt, and run nothing
    #[arg(short, long, help_heading = "What you see")]
    pub dry_run: bool,

    /// Whether the log is coloured
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "What you see"
    )]
    pub color: Colour,

    #[command(flatten)]
    pub place: PlaceArgs,
}

/// The flags that are settings.
#[derive(Debug, Clone, Args)]
pub struct SettingsArgs {
    /// The text between `<promise>` tags by which the agent says that all is done [default: SUCCESS]
    #[arg(
        long,
        value_name = "TEXT",
        value_parser = read_text::<Promise>,
        help_heading = "What the agent is told"
    )]
    pub completion_promise: Option<Promise>,

    /// The AI command line; it reads the prompt on standard input
    #[arg(
        long,
        value_name = "COMMAND",
        value_parser = read_text::<CommandLine>,
        help_heading = "Which agent"
    )]
    pub ai_cmd: Option<CommandLine>,

    /// An AI command by its name: claude, codex, gemini, opencode, copilot, kiro-cli, cursor-agent or one of yours;
    /// several with commas: the next takes over when one is rate-limited for long or permanently broken
    #[arg(
        long,
        value_name = "NAME",
        value_parser = read_text::<AliasNames>,
        help_heading = "Which agent"
    )]
    pub ai_cmd_alias: Option<AliasNames>,

    /// End after this many iterations [default: 5, or the procedure's own number]
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        value_parser = max_iterations,
        allow_negative_numbers = true,
        conflicts_with = "unlimited",
        help_heading = "When it ends"
    )]
    pub max_iterations: Option<Positive>,

    /// Set no limit to the number of iterations
    #[arg(short, long, help_heading = "When it ends")]
    pub unlimited: bool,

    /// End an iteration after this time (`90` seconds, `90s`, `5m`, `1h30m`, `none`) [default: none]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = read_text::<Bound<Span>>,
        allow_negative_numbers = true,
        help_heading = "When it ends"
    )]
    pub iteration_timeout: Option<Bound<Span>>,

    /// End an iteration when the agent has printed nothing for this time [default: none]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = read_text::<Bound<Span>>,
        allow_negative_numbers = true,
        help_heading = "When it ends"
    )]
    pub idle_timeout: Option<Bound<Span>>,

    /// End the whole run after this time [default: none]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = read_text::<Bound<Span>>,
        allow_negative_numbers = true,
        help_heading = "When it ends"
    )]
    pub run_timeout: Option<Bound<Span>>,

    /// End the run when the agents have told of this cost, in US dollars [default: none]
    #[arg(
        long,
        value_name = "USD",
        value_parser = read_text::<Bound<Dollars>>,
        allow_negative_numbers = true,
        help_heading = "When it ends"
    )]
    pub max_cost_usd: Option<Bound<Dollars>>,

    /// End the run when the agents have told of this many tokens, read and written (`500k`, `2M`) [default: none]
    #[arg(
        long,
        value_name = "N",
        value_parser = read_text::<Bound<Tokens>>,
        allow_negative_numbers = true,
        help_heading = "When it ends"
    )]
    pub max_tokens: Option<Bound<Tokens>>,

    /// Refuse a budget that an agent cannot be held to, instead of warning
    #[arg(long, help_heading = "When it ends")]
    pub budget_required: bool,

    /// Wait this long, all in all, for a provider that limits the rate or is overloaded [default: 1h]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = read_text::<Bound<Span>>,
        allow_negative_numbers = true,
        help_heading = "When it ends"
    )]
    pub rate_limit_patience: Option<Bound<Span>>,

    /// Abort after this many failures in a row [default: 3]
    #[arg(
        long,
        value_name = "N",
        value_parser = read_text::<Positive>,
        allow_negative_numbers = true,
        help_heading = "When it ends"
    )]
    pub failure_threshold: Option<Positive>,

    /// Show the agent's output while it runs, on standard output
    #[arg(short, long, conflicts_with = "quiet", help_heading = "What you see")]
    pub verbose: bool,

    /// Log only failures and warnings (the log level `warn`)
    #[arg(short, long, help_heading = "What you see")]
    pub quiet: bool,

    /// How much is logged [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = "What you see")]
    pub log_level: Option<LogLevel>,

    /// How log lines are written [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "What you see")]
    pub log_format: Option<LogFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

fn max_iterations(text: &str) -> Result<Positive, String> {
    read_text(text).map_err(|expected| match text.parse() {
        Ok(0) => format!("{expected}; for any number of iterations use --unlimited"),
        _ => expected,
    })
}

impl SettingsArgs {
    /// Each flag that was given, as a layer of its own.
    pub fn layers(&self) -> Vec<Layer> {
        fn layer<T: Clone>(
            flag: &'static str,
            value: &Option<T>,
            set: impl FnOnce(&mut LoopSettings, T),
        ) -> Option<Layer> {
            let value = value.clone()?;
            Some(Layer::of(Source::Flag(flag), |settings| {
                set(settings, value)
            }))
        }
        let unlimited = self.unlimited.then_some(IterationMode::Unlimited);
        let budget_required = self.budget_required.then_some(true);
        let verbose = self.verbose.then_some(true);
        let quiet = self.quiet.then_some(LogLevel::Warn);
        [
            layer("--ai-cmd", &self.ai_cmd, |s, v| s.ai_cmd = Some(v)),
            layer("--ai-cmd-alias", &self.ai_cmd_alias, |s, v| {
                s.ai_cmd_alias = Some(v)
            }),
            layer("--max-iterations", &self.max_iterations, |s, v| {
                s.default_max_iterations = Some(v);
            }),
            layer("--unlimited", &unlimited, |s, v| s.iteration_mode = Some(v)),
            layer("--iteration-timeout", &self.iteration_timeout, |s, v| {
                s.iteration_timeout = Some(v);
            }),
            layer("--idle-timeout", &self.idle_timeout, |s, v| {
                s.idle_timeout = Some(v)
            }),
            layer("--run-timeout", &self.run_timeout, |s, v| {
                s.run_timeout = Some(v)
            }),
            layer("--max-cost-usd", &self.max_cost_usd, |s, v| {
                s.max_cost_usd = Some(v)
            }),
            layer("--max-tokens", &self.max_tokens, |s, v| {
                s.max_tokens = Some(v)
            }),
            layer("--budget-required", &budget_required, |s, v| {
                s.budget_required = Some(v)
            }),
            layer(
                "--rate-limit-patience",
                &self.rate_limit_patience,
                |s, v| s.rate_limit_patience = Some(v),
            ),
            layer("--failure-threshold", &self.failure_threshold, |s, v| {
                s.failure_threshold = Some(v);
            }),
            layer("--completion-promise", &self.completion_promise, |s, v| {
                s.completion_promise = Some(v);
            }),
            layer("--verbose", &verbose, |s, v| s.show_ai_output = Some(v)),
            // An explicit level wins over the short form, so it comes later.
            layer("--quiet", &quiet, |s, v| s.log_level = Some(v)),
            layer("--log-level", &self.log_level, |s, v| s.log_level = Some(v)),
            layer("--log-format", &self.log_format, |s, v| {
                s.log_format = Some(v)
            }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl PhaseArgs {
    /// The phases that were given, with their fragments.
    pub fn phases(&self) -> Vec<(Phase, Vec<FragmentSource>)> {
        [
            (Phase::Observe, &self.observe),
            (Phase::Orient, &self.orient),
            (Phase::Decide, &self.decide),
            (Phase::Act, &self.act),
        ]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(phase, names)| {
            let fragment = |name: &String| FragmentSource {
                origin: Origin::named(name, None),
                parameters: None,
                place: None,
            };
            (phase, names.iter().map(fragment).collect())
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_subcommand_is_missing_among_the_reserved_names() {
        let mut command = Cli::command();
        command.build();
        let mut names: Vec<&str> = command
            .get_subcommands()
            .map(|sub| sub.get_name())
            .collect();
        let mut reserved = SUBCOMMANDS.to_vec();
        names.sort_unstable();
        reserved.sort_unstable();
        assert_eq!(names, reserved);
    }
}
