//! `rooda <procedure>`, `rooda run` and `rooda loop`: from the command line to an exit code.

use std::path::Path;
use std::time::Duration;

use super::read_layers;
use crate::cli::{Colour, CommonArgs, LoopArgs, RunArgs, without_dry_run};
use crate::config::{
    Catalogue, FragmentSource, LogFormat, LogLevel, Origin, Phase, Request, Resolved, Target,
    resolve,
};
use crate::error::{Error, ErrorKind, Problem, did_you_mean};
use crate::host::{self, Clock, Console, Signals, Supervisor};
use crate::plan::{Agent, Plan};
use crate::prompt::builtin_names;
use crate::report::{Check, LineStyle, Terminal, dry_run, say};
use crate::runner::{self, Host};
use crate::status::Status;
use crate::world::World;

/// How long an interrupted run may still take to write what it has said.
const LAST_WORDS: Duration = Duration::from_millis(500);

pub fn procedure(world: &World, arguments: &RunArgs) -> Result<u8, Error> {
    let name = arguments.procedure.clone().unwrap_or_default();
    let phases = arguments.phases.phases();
    start(world, Target::Procedure(name), phases, &arguments.common)
}

pub fn task(world: &World, arguments: &LoopArgs) -> Result<u8, Error> {
    // The task is read where the user named it, which may be relative to --directory.
    if let Some(directory) = &arguments.common.place.directory {
        host::enter(directory).map_err(|error| Error::caused(ErrorKind::Unavailable, &error))?;
    }
    let unreadable = |error: anyhow::Error| Error::caused(ErrorKind::NoInput, &error);
    let text = match (&arguments.task, &arguments.file) {
        (_, Some(file)) => host::read_any(file).map_err(unreadable)?,
        (Some(dash), _) if dash == "-" => host::read_stdin().map_err(unreadable)?,
        (task, None) => task.clone().unwrap_or_default(),
    };
    if text.trim().is_empty() {
        let message = "the task is empty";
        return Err(Error::new(ErrorKind::Usage, message)
            .hint("say what the agent shall do: rooda loop \"Make the tests pass\""));
    }
    let mut common = arguments.common.clone();
    common.place.directory = None;
    start(world, Target::Task(text), Vec::new(), &common)
}

fn start(
    world: &World,
    target: Target,
    phases: Vec<(Phase, Vec<FragmentSource>)>,
    common: &CommonArgs,
) -> Result<u8, Error> {
    let resolved = resolve_all(world, target, phases, common);
    if !common.dry_run {
        let resolved = resolved?;
        let agent = resolved.agent.clone()?;
        check(world, &resolved.plan, &agent)?;
        return Ok(execute(world, &resolved, &agent, common.color)?.exit_code());
    }
    // A dry run answers one question, whether all is well, and a mistake on the command line is not an answer.
    let code = match resolved {
        Ok(resolved) => rehearse(world, &resolved),
        Err(error) if error.kind == ErrorKind::Usage => return Err(error),
        Err(error) => {
            world.console.err(error.to_string().into_bytes());
            not_ready(world)
        }
    };
    world.console.flush_blocking();
    Ok(code)
}

fn resolve_all(
    world: &World,
    target: Target,
    phases: Vec<(Phase, Vec<FragmentSource>)>,
    common: &CommonArgs,
) -> Result<Resolved, Error> {
    let mut layers = read_layers(world, &common.place)?;
    layers.extend(common.layers());
    let request = Request {
        target,
        phases,
        context: context(&common.context)?,
        task_id: common.task_id.clone(),
        in_actions: world
            .environment
            .get("GITHUB_ACTIONS")
            .is_some_and(|v| v == "true"),
    };
    resolve(&Catalogue::new(&mut layers), request)
}

/// Texts are taken as they are; `@file` stands for what is in the file.
fn context(given: &[String]) -> Result<Vec<String>, Error> {
    given
        .iter()
        .map(|text| match text.strip_prefix('@') {
            Some(path) => host::read_any(Path::new(path)).map_err(|error| {
                Error::caused(ErrorKind::NoInput, &error)
                    .hint("`--context @FILE` reads a file; text that begins with @ needs a space before it")
            }),
            None => Ok(text.clone()),
        })
        .collect()
}

/// Finds out, before the first iteration, whatever can be found out then.
fn check(world: &World, plan: &Plan, agent: &Agent) -> Result<(), Error> {
    find_agent(world, agent).map_err(|problem| Error {
        kind: ErrorKind::Unavailable,
        problems: vec![problem],
    })?;
    runner::assemble(plan).map(drop)
}

fn find_agent(world: &World, agent: &Agent) -> Result<String, Problem> {
    let name = agent.command.words.first().map_or("", String::as_str);
    let path = world.environment.get("PATH").map_or("", String::as_str);
    match host::find_program(name, path) {
        Some(found) => Ok(format!("AI command binary exists: {}", found.display())),
        None => {
            let mut hints = Vec::new();
            if name.contains('/') {
                hints.push("there is no such file, or it is not executable".to_owned());
            } else {
                hints.push(format!("Searched PATH: {path}"));
            }
            Err(Problem {
                message: format!("AI command binary not found: {name}"),
                hints,
            })
        }
    }
}

/// Checks everything, shows everything, runs nothing.
fn rehearse(world: &World, resolved: &Resolved) -> u8 {
    let plan = &resolved.plan;
    let mut checks = Vec::new();
    match &resolved.agent {
        Ok(agent) => checks.push(Check {
            result: find_agent(world, agent),
        }),
        Err(error) => checks.extend(error.problems.iter().map(|problem| Check {
            result: Err(problem.clone()),
        })),
    }
    checks.extend(plan.work.fragments().map(check_fragment));
    let prompt = if checks.iter().all(Check::is_ok) {
        runner::assemble(plan)
            .map_err(|error| {
                checks.extend(error.problems.into_iter().map(|problem| Check {
                    result: Err(problem),
                }));
            })
            .ok()
    } else {
        None
    };
    let ready = without_dry_run(&world.arguments);
    let agent = resolved.agent.as_ref().ok();
    let text = dry_run(plan, agent, &checks, prompt.as_deref(), &ready);
    world.console.out(text.into_bytes());
    for warning in &resolved.warnings {
        let line = format!("Warning: {warning}\n");
        world.console.err(line.into_bytes());
    }
    match prompt {
        Some(_) => 0,
        None => not_ready(world),
    }
}

fn check_fragment(fragment: &FragmentSource) -> Check {
    let origin = &fragment.origin;
    let wrong = |message: String, hints: Vec<String>| {
        let place = fragment
            .place
            .as_ref()
            .map(|place| format!("named at {place}"));
        Err(Problem {
            message,
            hints: place.into_iter().chain(hints).collect(),
        })
    };
    let result = match origin {
        Origin::Inline(_) => Ok(format!("Prompt text: {origin}")),
        Origin::BuiltIn(name) if builtin_names().contains(&name.as_str()) => {
            Ok(format!("Prompt file exists: {origin}"))
        }
        Origin::BuiltIn(name) => wrong(
            format!("Prompt file not found: {origin}"),
            did_you_mean(name, builtin_names()).into_iter().collect(),
        ),
        Origin::File(path) => match host::read_prompt(Path::new(path)) {
            Ok(_) => Ok(format!("Prompt file exists: {origin}")),
            Err(error) => wrong(format!("Prompt file: {error:#}"), Vec::new()),
        },
    };
    Check { result }
}

fn not_ready(world: &World) -> u8 {
    world
        .console
        .err(b"Error: Dry-run validation failed\n".to_vec());
    1
}

/// Runs the loop and tells of it.
pub fn execute(
    world: &World,
    resolved: &Resolved,
    agent: &Agent,
    colour: Colour,
) -> Result<Status, Error> {
    let plan = &resolved.plan;
    let on_terminal = Console::stderr_is_terminal();
    let dumb = world
        .environment
        .get("TERM")
        .is_some_and(|term| term == "dumb");
    let no_colour = world
        .environment
        .get("NO_COLOR")
        .is_some_and(|v| !v.is_empty());
    let style = LineStyle {
        format: plan.log_format.value,
        timestamps: plan.log_timestamp_format.value,
        colour: match colour {
            Colour::Auto => on_terminal && !dumb && !no_colour,
            Colour::Always => true,
            Colour::Never => false,
        },
        zone: Clock::zone(),
    };
    host::start_log(&world.console, world.clock, plan.log_level.value, style);
    for warning in &resolved.warnings {
        tracing::warn!("{warning}");
    }
    for (name, value, source) in plan.settings() {
        tracing::debug!("{name}: {value} ({source})");
    }
    let has_status_line = on_terminal
        && !dumb
        && plan.log_format.value == LogFormat::Text
        && matches!(plan.log_level.value, LogLevel::Info | LogLevel::Debug);
    let output = plan.show_ai_output.value.then(|| world.console.sink());
    let mut terminal = Terminal::new(output, Console::stdout_is_terminal(), has_status_line);

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let internal = |error: std::io::Error| Error::new(ErrorKind::Internal, error);
    runtime.map_err(internal)?.block_on(async {
        let mut host = Host {
            clock: world.clock,
            console: world.console.clone(),
            signals: Signals::listen().map_err(internal)?,
            supervisor: Supervisor::new(Console::is_interactive()).map_err(internal)?,
        };
        let mut emit = |event: &crate::event::Event| {
            let report = terminal.report(event);
            for line in &report.lines {
                say(event.at, line);
            }
            if let Some(status) = report.status {
                world.console.status(status);
            }
        };
        let status = runner::run(plan, agent, &mut host, &mut emit).await;
        // Whoever reads our output may be slow; whoever interrupts us does not want to wait for them.
        tokio::select! {
            () = world.console.flush(), if status != Status::Interrupted => {}
            () = world.console.flush_for(LAST_WORDS), if status == Status::Interrupted => {}
            _ = host.signals.next() => {}
        }
        Ok(status)
    })
}
