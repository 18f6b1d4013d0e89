//! `rooda <procedure>`, `rooda run` and `rooda loop`: from the command line to an exit code.

use std::iter::repeat;
use std::path::Path;
use std::time::Duration;

use super::check::{check, check_prompts, find_agent, oddities, unmeasured};
use super::doctor::{AS_ANOTHER_USER, refuses_root};
use super::keeper::{Keeper, own_secrets};
use super::{World, finish, read_place};
use crate::cli::{Colour, CommonArgs, LoopArgs, RunArgs, without_dry_run};
use crate::config::{
    Catalogue, FragmentSource, LogFormat, LogLevel, Phase, Request, Resolved, Target, resolve,
};
use crate::error::{Error, ErrorKind};
use crate::event::{Event, What};
use crate::host::{self, Clock, Console, Reader, SecondSignal, Signals, Supervisor};
use crate::plan::{Agent, Plan};
use crate::report::{Check, LineStyle, Terminal, dry_run, redacted, say};
use crate::runner::{self, Host};
use crate::status::Status;

/// How long a reader of what was said may take in nothing before a run ends without it.
const PATIENCE: Duration = Duration::from_secs(10);
const LAST_WORDS: Duration = Duration::from_millis(500);

pub fn procedure(world: &World, arguments: &RunArgs) -> Result<u8, Error> {
    let name = arguments.procedure.clone().unwrap_or_default();
    let phases = arguments.phases.phases();
    start(world, Target::Procedure(name), phases, &arguments.common)
}

pub fn task(world: &World, arguments: &LoopArgs) -> Result<u8, Error> {
    let task = match read_task(arguments) {
        Ok(task) => task,
        Err(error) => return unready(world, &arguments.common, error),
    };
    // It was entered already.
    let mut common = arguments.common.clone();
    common.place.directory = None;
    start(world, Target::Task(task), Vec::new(), &common)
}

/// The task is read where the user named it, which may be relative to --directory.
fn read_task(arguments: &LoopArgs) -> Result<String, Error> {
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
    Ok(text)
}

fn start(
    world: &World,
    target: Target,
    phases: Vec<(Phase, Vec<FragmentSource>)>,
    common: &CommonArgs,
) -> Result<u8, Error> {
    let resolved = match resolve_all(world, target, phases, common) {
        Ok(resolved) => resolved,
        Err(error) => return unready(world, common, error),
    };
    if common.dry_run {
        return show(world, &resolved);
    }
    let agents = resolved.agents.clone()?;
    let mut resolved = resolved;
    resolved.warnings.extend(check(
        &Reader::Direct,
        world.path(),
        &resolved.plan,
        &agents,
    )?);
    for agent in agents.iter().filter(|agent| refuses_root(world, agent)) {
        let name = &agent.name;
        let warning = format!("{name} refuses to run as root: {AS_ANOTHER_USER}");
        resolved.warnings.push(warning);
    }
    Ok(execute(world, &resolved, &agents, common.color)?.exit_code())
}

/// What an error means before there is a plan. A dry run answers one question, whether all is well, and only a mistake
/// on the command line is not an answer to it.
fn unready(world: &World, common: &CommonArgs, error: Error) -> Result<u8, Error> {
    if !common.dry_run || error.kind == ErrorKind::Usage {
        return Err(error);
    }
    world.console.err(error.to_string().into_bytes());
    Ok(not_ready(world))
}

fn resolve_all(
    world: &World,
    target: Target,
    phases: Vec<(Phase, Vec<FragmentSource>)>,
    common: &CommonArgs,
) -> Result<Resolved, Error> {
    let mut layers = read_place(world, &common.place)?;
    layers.extend(common.settings.layers());
    let request = Request {
        target,
        phases,
        context: context(&common.context)?,
        task_id: common.task_id.clone(),
        in_actions: world.is_in_actions(),
    };
    resolve(&Catalogue::new(&mut layers), request)
}

/// Texts are taken as they are; `@file` stands for what is in the file. An empty text is none: scripts pass it for a
/// value that was left out.
fn context(given: &[String]) -> Result<Vec<String>, Error> {
    let advise = |error: Error| {
        error
            .hint("`--context @FILE` reads a file; text that begins with @ needs a space before it")
    };
    let read = |text: &String| match text.strip_prefix('@') {
        Some("") => {
            let message = "--context @: the name of the file is missing";
            Err(advise(Error::new(ErrorKind::Usage, message)))
        }
        Some(path) => host::read_any(Path::new(path))
            .map_err(|error| advise(Error::caused(ErrorKind::NoInput, &error))),
        None => Ok(text.clone()),
    };
    let said = |text: &&String| !text.trim().is_empty();
    given.iter().filter(said).map(read).collect()
}

/// What a dry run found out.
#[derive(Debug)]
pub(super) struct Rehearsal {
    pub text: String,
    pub warnings: Vec<String>,
    pub is_ready: bool,
}

/// Checks everything and runs nothing. `installable` are the packages that would be installed if an agent is not there,
/// `ready` the command line that would do it in earnest.
pub(super) fn rehearse(
    reader: &Reader,
    path: &str,
    resolved: &Resolved,
    installable: &[Option<String>],
    ready: &str,
) -> Result<Rehearsal, Error> {
    let plan = &resolved.plan;
    let agents = match &resolved.agents {
        // An alias that only the command line names is a mistake there.
        Err(error) if error.kind == ErrorKind::Usage => return Err(error.clone()),
        agents => agents,
    };
    let mut checks = Vec::new();
    match agents {
        Ok(agents) => {
            let packages = installable.iter().map(Option::as_ref).chain(repeat(None));
            checks.extend(agents.iter().zip(packages).map(|(agent, package)| Check {
                result: match (find_agent(reader, path, agent), package) {
                    (Err(_), Some(package)) => {
                        Ok(format!("AI command will be installed: {package}"))
                    }
                    (found, _) => found,
                },
            }));
            if let Err(error) = unmeasured(plan, agents) {
                let problems = error.problems.into_iter();
                checks.extend(problems.map(|problem| Check {
                    result: Err(problem),
                }));
            }
        }
        Err(error) => checks.extend(error.problems.iter().map(|problem| Check {
            result: Err(problem.clone()),
        })),
    }
    let agents = agents.as_deref().unwrap_or_default();
    checks.extend(check_prompts(reader, plan));
    let prompt = match checks.iter().all(Check::is_ok) {
        true => Some(runner::assemble(plan, reader)?),
        false => None,
    };
    let odd = prompt
        .iter()
        .flat_map(|prompt| oddities(plan, agents, prompt));
    let lost = unmeasured(plan, agents).unwrap_or_default();
    Ok(Rehearsal {
        text: dry_run(plan, agents, &checks, prompt.as_deref(), ready),
        warnings: resolved
            .warnings
            .iter()
            .cloned()
            .chain(odd)
            .chain(lost)
            .collect(),
        is_ready: prompt.is_some(),
    })
}

/// Shows everything.
fn show(world: &World, resolved: &Resolved) -> Result<u8, Error> {
    let ready = without_dry_run(&world.arguments);
    let rehearsal = rehearse(&Reader::Direct, world.path(), resolved, &[], &ready)?;
    world.console.out(rehearsal.text.into_bytes());
    for warning in &rehearsal.warnings {
        let line = format!("Warning: {warning}\n");
        world.console.err(line.into_bytes());
    }
    let code = match rehearsal.is_ready {
        true => 0,
        false => not_ready(world),
    };
    finish(world, code)
}

fn not_ready(world: &World) -> u8 {
    world
        .console
        .err(b"Error: Dry-run validation failed\n".to_vec());
    world.console.flush_blocking().ok();
    1
}

/// Runs the loop and tells of it.
pub fn execute(
    world: &World,
    resolved: &Resolved,
    agents: &[Agent],
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
        for_runner: false,
        zone: Clock::zone(),
    };
    host::start_log(&world.console, world.clock, plan.log_level.value, style);
    for warning in &resolved.warnings {
        tracing::warn!("{warning}");
    }
    tell_settings(plan, agents);
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
            started: world.clock.now().since_start,
            clock: world.clock,
            console: world.console.clone(),
            signals: Signals::listen().map_err(internal)?,
            supervisor: Supervisor::new(second_signal()).map_err(internal)?,
            reader: Reader::Direct,
            jails: Vec::new(),
        };
        let secrets = own_secrets(world, agents);
        let mut keeper = Keeper::new(world, secrets.clone());
        let mut emit = |event: &Event| {
            if let What::RawOutput {
                iteration,
                attempt,
                output,
            } = &event.what
            {
                keeper.keep((*iteration, *attempt), output);
            }
            redacted(event, &secrets, |event| {
                let report = terminal.report(event);
                if let Some(status) = report.status {
                    world.console.status(status);
                }
                for line in &report.lines {
                    say(event.at, line);
                }
            });
        };
        let status = runner::run(plan, agents, &mut host, &mut emit).await;
        if status != Status::Success {
            keeper.tell();
        }
        // Whoever reads our output may be slow; whoever interrupts us does not want to wait for them.
        let patience = match status {
            Status::Interrupted => LAST_WORDS,
            _ => PATIENCE,
        };
        tokio::select! {
            () = world.console.flush_while_read(patience) => {}
            _ = host.signals.next() => {}
        }
        Ok(status)
    })
}

fn second_signal() -> SecondSignal {
    match Console::is_interactive() {
        true => SecondSignal::Terminal,
        false => SecondSignal::Script,
    }
}

/// For whoever wants to know everything.
pub(super) fn tell_settings(plan: &Plan, agents: &[Agent]) {
    for agent in agents {
        tracing::debug!("AI Command: {} ({})", agent.command.text, agent.provenance);
    }
    for (name, value, source) in plan.settings() {
        tracing::debug!("{name}: {value} ({source})");
    }
}
