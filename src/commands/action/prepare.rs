//! From the inputs to a loop that may start: the configuration, the jail, what must be installed, the probe.

use std::path::PathBuf;
use std::time::Duration;

use super::super::check::check;
use super::super::run::{rehearse, tell_settings};
use super::super::{ConfigFiles, World, read_layers};
use super::board::{Board, VERSION};
use super::cleanup::Cleanup;
use super::install::{Done, Package, install, setup, version_told};
use super::jail::{HOME, Tenant, confinement, working_directory};
use super::protections::protections;
use crate::action::{
    Inputs, Job, Passed, Sandbox, agent_environment, default_layers, read_inputs,
    setup_environment, step_debug_layer,
};
use crate::cli::ActionArgs;
use crate::config::{Catalogue, Layer, Request, Resolved, resolve};
use crate::error::{Error, ErrorKind};
use crate::host::{
    self, Clock, Jail, LandlockStatus, Reader, SecondSignal, Signals, Supervisor, Workspace,
};
use crate::plan::{Agent, Plan};
use crate::report::{Heading, LineStyle, Protection};
use crate::runner::Host;
use crate::signal::Signal;

pub(super) enum Prepared {
    Ready(Box<Ready>),
    DryRun(u8),
    Interrupted(Signal),
}

/// All that the loop needs.
pub(super) struct Ready {
    pub plan: Plan,
    pub agents: Vec<Agent>,
    pub host: Host,
}

/// The exit code of a dry run that found something wrong.
const NOT_READY: u8 = 1;

/// What is known after the configuration was read.
pub(super) struct Settled {
    pub inputs: Inputs,
    pub tenant: Tenant,
    directory: PathBuf,
    pub landlock: LandlockStatus,
    workspace: Workspace,
    resolved: Resolved,
}

pub(super) async fn prepare(
    world: &World,
    arguments: &ActionArgs,
    job: &Job,
    signals: Signals,
    board: &mut Board<'_>,
    cleanup: &mut Cleanup,
) -> Result<Prepared, Error> {
    let settled = settle(world, arguments, job, board)?;
    let agents = settled.resolved.agents.as_deref().unwrap_or_default();
    board.mask(own_keys(world, agents));
    let plan = &settled.resolved.plan;
    start_log(world, plan);
    for warning in &settled.resolved.warnings {
        board.warn(warning);
    }
    if settled.inputs.dry_run {
        return dry_run(world, &settled, board).map(Prepared::DryRun);
    }
    tell_deadline(plan);
    let internal = |error: std::io::Error| Error::new(ErrorKind::Internal, error);
    let mut host = Host {
        // What comes before the loop is part of the job, which has an end of its own.
        started: Duration::ZERO,
        clock: world.clock,
        console: world.console.clone(),
        signals,
        supervisor: Supervisor::new(SecondSignal::Action).map_err(internal)?,
        reader: Reader::Jailed(settled.workspace.clone()),
        jails: Vec::new(),
    };
    if let Some(signal) = bring_in(world, job, &settled, &mut host, board, cleanup).await? {
        return Ok(Prepared::Interrupted(signal));
    }
    let agents = settled.resolved.agents?;
    let plan = settled.resolved.plan;
    Ok(Prepared::Ready(Box::new(Ready { plan, agents, host })))
}

/// Reads inputs and configuration, and decides what is to be done, and who does it.
fn settle(
    world: &World,
    arguments: &ActionArgs,
    job: &Job,
    board: &mut Board,
) -> Result<Settled, Error> {
    let inputs = read_inputs(&world.environment)?;
    board.set_fail_on(inputs.fail_on.clone());
    let tenant = Tenant::choose(job, inputs.run_as)?;
    let directory = working_directory(job, &inputs)?;
    let wants_landlock = inputs.sandbox != Sandbox::Off;
    let confinement = confinement(world, job, tenant, directory.clone(), wants_landlock);
    let (jail, landlock) =
        Jail::build(&confinement).map_err(|error| Error::caused(ErrorKind::Unavailable, &error))?;
    let workspace = Workspace {
        jail,
        directory: directory.clone(),
        root: job.workspace.clone(),
    };
    let mut layers = layers(world, arguments, job, &inputs, &workspace)?;
    let request = Request {
        target: inputs.target.clone(),
        phases: Vec::new(),
        context: inputs.context.clone(),
        task_id: None,
        in_actions: true,
    };
    let resolved = resolve(&Catalogue::new(&mut layers), request)?;
    Ok(Settled {
        inputs,
        tenant,
        directory,
        landlock,
        workspace,
        resolved,
    })
}

fn layers(
    world: &World,
    arguments: &ActionArgs,
    job: &Job,
    inputs: &Inputs,
    workspace: &Workspace,
) -> Result<Vec<Layer>, Error> {
    let home = world.environment.get(crate::config::CONFIG_HOME);
    let files = ConfigFiles {
        // The home of a job is not the home of anybody: only an image that says so has a global configuration.
        global: home
            .filter(|home| !home.is_empty())
            .map(|home| PathBuf::from(home).join("rooda-config.yml")),
        named: inputs
            .config
            .as_ref()
            .map(|path| (path.into(), "the input `config`")),
    };
    let mut layers = read_layers(world, &files, &Reader::Jailed(workspace.clone()))?;
    layers.extend(default_layers(job));
    layers.extend(inputs.layers.iter().cloned());
    layers.extend(arguments.settings.layers());
    layers.extend(step_debug_layer(job));
    Ok(layers)
}

fn start_log(world: &World, plan: &Plan) {
    let style = LineStyle {
        format: plan.log_format.value,
        timestamps: plan.log_timestamp_format.value,
        colour: false,
        for_runner: true,
        zone: Clock::zone(),
    };
    host::start_log(&world.console, world.clock, plan.log_level.value, style);
}

/// The job's own timeout cannot be seen from here, so whoever set one must be able to see ours.
fn tell_deadline(plan: &Plan) {
    let timeout = &plan.run_timeout;
    if !timeout.source.is_given() {
        tracing::info!(
            "The run ends after {} at the latest ({}); set `run-timeout` below the job's timeout-minutes",
            timeout.value,
            timeout.source
        );
    }
}

fn dry_run(world: &World, settled: &Settled, board: &mut Board) -> Result<u8, Error> {
    let agents = settled.resolved.agents.as_deref().unwrap_or_default();
    let installable = agents
        .iter()
        .map(|agent| {
            let package = Package::wanted(agent, version_of(settled, agent), false)?;
            Ok(package.map(|package| package.spec()))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let reader = Reader::Jailed(settled.workspace.clone());
    let rehearsal = rehearse(
        &reader,
        &agent_path(world),
        &settled.resolved,
        &installable,
        "the same step without `dry-run`",
    )?;
    let code = match rehearsal.is_ready {
        true => 0,
        false => NOT_READY,
    };
    board.rehearsed(&rehearsal.text, code);
    let passed = environments(world, settled)?;
    let passed = passed.iter().flat_map(|passed| &passed.warnings);
    for warning in rehearsal.warnings.iter().chain(passed) {
        board.warn(warning);
    }
    Ok(code)
}

/// What each agent sees of the job.
fn environments(world: &World, settled: &Settled) -> Result<Vec<Passed>, Error> {
    let agents = settled.resolved.agents.as_deref().unwrap_or_default();
    let is_root = settled.tenant.is_root();
    let mut all: Vec<Passed> = Vec::new();
    for agent in agents {
        let environment = &world.environment;
        let mut passed = agent_environment(environment, &settled.inputs, agent, HOME, is_root)?;
        // What is odd about the step is odd once.
        passed
            .warnings
            .retain(|warning| !all.iter().any(|told| told.warnings.contains(warning)));
        all.push(passed);
    }
    Ok(all)
}

/// The version of an agent's package. The input is meant for the agent that begins.
fn version_of<'a>(settled: &'a Settled, agent: &Agent) -> Option<&'a String> {
    let agents = settled.resolved.agents.as_deref().unwrap_or_default();
    let is_first = agents.first() == Some(agent);
    settled.inputs.agent_version.as_ref().filter(|_| is_first)
}

/// Sets everything up for the agent, ending with the proof that it cannot get out. Answers with a signal that came
/// meanwhile.
async fn bring_in(
    world: &World,
    job: &Job,
    settled: &Settled,
    host: &mut Host,
    board: &mut Board<'_>,
    cleanup: &mut Cleanup,
) -> Result<Option<Signal>, Error> {
    let Settled {
        inputs,
        tenant,
        directory,
        workspace,
        resolved,
        ..
    } = settled;
    let agents = resolved.agents.as_ref().map_err(Error::clone)?;
    tell_settings(&resolved.plan, agents);
    let is_root = tenant.is_root();
    let passed = environments(world, settled)?;
    for warning in passed.iter().flat_map(|passed| &passed.warnings) {
        board.warn(warning);
    }
    if !is_root && tenant.uid != tenant.owner.0 {
        board.warn(&format!(
            "the agent's user {} does not own the workspace, which belongs to {}: it may not be able to write there",
            tenant.uid, tenant.owner.0
        ));
    }
    if inputs.setup.is_some() || is_root {
        cleanup.give_back(&job.workspace, tenant.owner);
    }
    if let Some(script) = &inputs.setup {
        let environment = setup_environment(&world.environment, inputs);
        let timeout = resolved.plan.run_timeout.value.at().map(|span| span.0);
        let done = setup(script, environment, directory, timeout, host, board).await?;
        if let Done::Interrupted(signal) = done {
            return Ok(Some(signal));
        }
        cleanup.own_everything(board);
        if !is_root {
            // Nothing of root's can come into the workspace any more.
            cleanup.keep_workspace();
        }
    }
    board.note_runner_files(job);
    let taken = cleanup.take_credentials(workspace, job, board)?;
    let mut jails = Vec::new();
    let mut keyless = Vec::new();
    for passed in passed {
        jails.push(workspace.jail.with_environment(passed.environment));
        keyless.push(workspace.jail.with_environment(passed.keyless));
    }
    let protections = protections(world, job, settled, &jails[0], taken)?;
    for protection in protections.iter().filter(|protection| !protection.in_force) {
        // The summary has them all anyway.
        tracing::warn!("not protected: {}: {}", protection.name, protection.detail);
    }
    for (agent, keyless) in agents.iter().zip(&keyless) {
        let version = version_of(settled, agent);
        let is_there = host
            .reader
            .find_program(agent.command.program(), &agent_path(world))
            .is_ok();
        let is_wanted = version.is_some() || !is_there;
        if let Some(package) = Package::wanted(agent, version, !is_wanted)?
            && let Done::Interrupted(signal) = install(&package, keyless, host, board).await?
        {
            return Ok(Some(signal));
        }
    }
    host.jails = jails;
    let odd = check(&host.reader, &agent_path(world), &resolved.plan, agents)?;
    for warning in &odd {
        board.warn(warning);
    }
    for agent in agents {
        let timeout = &resolved.plan.idle_timeout;
        if timeout.value.at().is_some() && resolved.plan.idle_timeout_for(agent).is_none() {
            tracing::info!(
                "{} may print nothing before it has finished: the idle timeout of {} ({}) is not for it",
                agent.name,
                timeout.value,
                timeout.source
            );
        }
    }
    let mut versions = Vec::new();
    for (agent, keyless) in agents.iter().zip(&keyless) {
        match version_told(agent, keyless, host, board).await {
            Ok(version) => versions.push(version),
            Err(signal) => return Ok(Some(signal)),
        }
    }
    let shows_output = resolved.plan.show_ai_output.value;
    board.begin(
        heading(settled, agents, &versions, protections),
        shows_output,
    );
    Ok(host.signals.pending().await)
}

/// Where the agent's programs are looked for.
fn agent_path(world: &World) -> String {
    format!("{HOME}/.local/bin:{}", world.path())
}

/// The values of the keys that the configuration names; the built-in ones are masked already.
fn own_keys(world: &World, agents: &[Agent]) -> Vec<String> {
    let names = agents.iter().flat_map(|agent| &agent.keys);
    names
        .filter_map(|name| world.environment.get(name))
        .filter(|value| !value.trim().is_empty())
        .cloned()
        .collect()
}

fn heading(
    settled: &Settled,
    agents: &[Agent],
    versions: &[Option<String>],
    protections: Vec<Protection>,
) -> Heading {
    let plan = &settled.resolved.plan;
    let inputs = &settled.inputs;
    let own = |name: &str, value: String, input: &'static str| {
        (name.to_owned(), value, inputs.source(input).to_string())
    };
    let agent = |(agent, version): (&Agent, &Option<String>)| {
        let command = &agent.command.text;
        let value = match version {
            Some(version) => format!("{command} ({version})"),
            None if agent.npm.is_some() => format!("{command} (version unknown)"),
            // It was not asked.
            None => command.clone(),
        };
        ("AI Command".to_owned(), value, agent.provenance.clone())
    };
    let settings = agents.iter().zip(versions).map(agent);
    let settings = settings
        .chain(
            plan.settings()
                .into_iter()
                .map(|(name, value, source)| (name.to_owned(), value, source)),
        )
        .chain([
            own(
                "Run As",
                format!("{} (uid {})", inputs.run_as, settled.tenant.uid),
                "run-as",
            ),
            own("Sandbox", inputs.sandbox.to_string(), "sandbox"),
            own("Fail On", inputs.fail_on.to_string(), "fail-on"),
        ]);
    Heading {
        procedure: plan.procedure.clone(),
        commands: agents
            .iter()
            .map(|agent| agent.command.text.clone())
            .collect(),
        version: VERSION,
        settings: settings.collect(),
        protections,
        notes: Vec::new(),
    }
}
