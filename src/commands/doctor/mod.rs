//! `rooda doctor`: all that a run needs, looked at one by one, and what to mend.

mod surroundings;

use super::agents::{inspect, variable};
use super::check::{check_prompts, find_agent, oddities, unmeasured};
use super::{World, read_place};
use crate::cli::{DoctorArgs, PlaceArgs, without_doctor};
use crate::config::{Catalogue, Layer, Request, Resolved, Source, Target, resolve};
use crate::error::{Error, ErrorKind};
use crate::host::{self, Reader};
use crate::plan::{Agent, Plan};
use crate::report::{Finding, Inspected, Presence, Version, doctor_json, doctor_text, is_ready};
use crate::runner;
use crate::units::Count;

pub fn run(world: &World, arguments: &DoctorArgs) -> Result<u8, Error> {
    let findings = examine(world, arguments)?;
    let text = if arguments.json {
        format!("{:#}\n", doctor_json(&findings))
    } else {
        let ready = match &arguments.procedure {
            Some(_) => without_doctor(&world.arguments),
            None => "`rooda list` shows the procedures".to_owned(),
        };
        doctor_text(&findings, &ready)
    };
    world.console.out(text.into_bytes());
    Ok(match is_ready(&findings) {
        true => 0,
        false => 1,
    })
}

/// An error is a mistake on the command line. All else is something found.
fn examine(world: &World, arguments: &DoctorArgs) -> Result<Vec<Finding>, Error> {
    if let Some(directory) = &arguments.place.directory
        && let Err(error) = host::enter(directory)
    {
        return Ok(wrong(Error::caused(ErrorKind::Unavailable, &error)));
    }
    // It was entered already.
    let place = PlaceArgs {
        directory: None,
        ..arguments.place.clone()
    };
    let mut findings = Vec::new();
    match read_place(world, &place) {
        Err(error) => findings.extend(wrong(error)),
        Ok(mut layers) => {
            findings.push(configuration(&layers));
            layers.extend(arguments.settings.layers());
            let catalogue = Catalogue::new(&mut layers);
            findings.extend(plan(world, &catalogue, arguments.procedure.as_deref())?);
        }
    }
    findings.extend(surroundings::git(world)?);
    findings.push(surroundings::directory());
    findings.push(surroundings::sandbox());
    Ok(findings)
}

/// Every problem of an error, with its hints.
fn wrong(error: Error) -> Vec<Finding> {
    error.problems.into_iter().map(Finding::from).collect()
}

/// What was read, the lowest layer first.
fn configuration(layers: &[Layer]) -> Finding {
    let mut read: Vec<String> = layers
        .iter()
        .filter(|layer| layer.source != Source::BuiltIn)
        .map(|layer| layer.source.to_string())
        .collect();
    read.dedup();
    match read.is_empty() {
        true => Finding::well("Configuration: built-in alone, there is no file"),
        false => Finding::well(format_args!("Configuration: {}", read.join(", "))),
    }
}

/// The procedure, or without one all that any run would need.
fn plan(
    world: &World,
    catalogue: &Catalogue,
    procedure: Option<&str>,
) -> Result<Vec<Finding>, Error> {
    let target = match procedure {
        Some(name) => Target::Procedure(name.to_owned()),
        None => Target::Task(String::new()),
    };
    let request = Request {
        target,
        phases: Vec::new(),
        context: Vec::new(),
        task_id: None,
        in_actions: world.is_in_actions(),
    };
    let resolved = match resolve(catalogue, request) {
        Err(error) if error.kind == ErrorKind::Usage => return Err(error),
        Err(error) => return Ok(wrong(error)),
        Ok(resolved) => resolved,
    };
    let Resolved { plan, agents, .. } = resolved;
    let mut findings: Vec<Finding> = resolved.warnings.iter().map(Finding::odd).collect();
    let agents = match agents {
        Err(error) if error.kind == ErrorKind::Usage => return Err(error),
        Err(error) => {
            findings.extend(wrong(error));
            Vec::new()
        }
        Ok(agents) => agents,
    };
    findings.extend(prompts(&plan, &agents));
    match unmeasured(&plan, &agents) {
        Ok(odd) => findings.extend(odd.into_iter().map(Finding::odd)),
        Err(error) => findings.extend(wrong(error)),
    }
    for inspected in inspect(world, catalogue, agents)? {
        findings.push(program(world, &inspected));
        if refuses_root(world, &inspected.agent) {
            let name = &inspected.agent.name;
            let finding = Finding::wrong(format_args!("{name} refuses to run as root"));
            findings.push(finding.hint(AS_ANOTHER_USER));
        }
        findings.extend(key(&inspected));
    }
    Ok(findings)
}

fn prompts(plan: &Plan, agents: &[Agent]) -> Vec<Finding> {
    let reader = &Reader::Direct;
    let checks = check_prompts(reader, plan);
    let count = checks.len() as u64;
    let mut findings: Vec<Finding> = checks
        .into_iter()
        .filter_map(|check| check.result.err())
        .map(Finding::from)
        .collect();
    if !findings.is_empty() {
        return findings;
    }
    if count > 0 {
        let (name, prompts) = (&plan.procedure, Count(count, "prompt"));
        findings.push(Finding::well(format_args!("Procedure: {name}, {prompts}")));
    }
    match runner::assemble(plan, reader) {
        Err(error) => findings.extend(wrong(error)),
        Ok(prompt) => {
            let odd = oddities(plan, agents, &prompt);
            findings.extend(odd.into_iter().map(Finding::odd));
        }
    }
    findings
}

fn program(world: &World, inspected: &Inspected) -> Finding {
    let (agent, name) = (&inspected.agent, &inspected.agent.name);
    let finding = match find_agent(&Reader::Direct, world.path(), agent) {
        Err(problem) => Finding::from(problem),
        Ok(well) => match &inspected.program {
            Presence::Found { path, version } => {
                let path = path.display();
                return match version {
                    Version::Told(version) => {
                        Finding::well(format_args!("AI command {name}: {version}, {path}"))
                    }
                    Version::NotAsked => Finding::well(format_args!("AI command {name}: {path}")),
                    Version::Untold(why) => Finding::odd(format_args!("AI command {name}: {path}"))
                        .hint(format_args!("its version is not known: {why}")),
                };
            }
            Presence::Broken { path, why } => {
                let path = path.display();
                Finding::wrong(format_args!("AI command {name} does not start: {path}")).hint(why)
            }
            // It has gone just now.
            Presence::Missing => Finding::odd(well),
        },
    };
    match (inspected.installation(), &inspected.program) {
        (Some(installation), Presence::Missing) => finding.hint(installation),
        _ => finding,
    }
}

/// Claude Code does not work without asking when it is root, unless it is told that nothing is at stake.
pub(super) fn refuses_root(world: &World, agent: &Agent) -> bool {
    let is_claude = agent.command.program_name() == "claude";
    let asks_nobody = |word: &String| {
        word.ends_with("dangerously-skip-permissions") || word.contains("bypassPermissions")
    };
    let own = world.environment.get("IS_SANDBOX").map(String::as_str);
    let is_sandbox = variable(agent, "IS_SANDBOX").or(own) == Some("1");
    is_claude && agent.command.words.iter().any(asks_nobody) && host::is_root() && !is_sandbox
}

/// What helps against it.
pub(super) const AS_ANOTHER_USER: &str =
    "run it as another user; or, in a container where nothing is at stake, set IS_SANDBOX=1";

fn key(inspected: &Inspected) -> Option<Finding> {
    let name = &inspected.agent.name;
    if let Some(keys) = inspected.missing_keys() {
        let finding = Finding::odd(format_args!("No key of {name} in the environment: {keys}"));
        return Some(finding.hint(format_args!("no obstacle if you are logged in to {name}")));
    }
    match inspected.set_keys()[..] {
        [] => None,
        ref keys => Some(Finding::well(format_args!(
            "Key of {name}: {}",
            keys.join(", ")
        ))),
    }
}
