//! Layers and a request in, a plan out.

use std::collections::BTreeSet;

use super::agents::{agents, plain};
use super::choice::{IterationMode, Tells};
use super::settings::{FragmentSource, LoopSettings, PHASES, Phase};
use super::value::Positive;
use super::{Layer, Place, Source, Sourced};
use crate::cli::SUBCOMMANDS;
use crate::error::{Error, ErrorKind, did_you_mean};
use crate::plan::{Agent, Limit, Plan, Work};

/// What the command line asks for, apart from the settings, which are layers.
#[derive(Debug, Clone)]
pub struct Request {
    pub target: Target,
    /// Phases given on the command line; they replace the procedure's.
    pub phases: Vec<(Phase, Vec<FragmentSource>)>,
    pub context: Vec<String>,
    pub task_id: Option<String>,
    /// Whether the run happens under GitHub Actions, where nobody can stop an endless one.
    pub in_actions: bool,
}

#[derive(Debug, Clone)]
pub enum Target {
    Procedure(String),
    Task(String),
}

/// A plan, and the agents that run it, if they could be found: the first, and those that take over from it, in their
/// order. They are apart because a dry run shows the one when the other is missing.
#[derive(Debug)]
pub struct Resolved {
    pub plan: Plan,
    pub agents: Result<Vec<Agent>, Error>,
    pub warnings: Vec<String>,
}

/// Where a setting can be decided. The first level that says anything decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Flags,
    /// The inputs of the action.
    Inputs,
    /// The procedure's own keys.
    Procedure,
    /// The section `loop` of the files, and the variables that stand for it.
    Loop,
}

pub(super) const LEVELS: [Level; 4] = [Level::Flags, Level::Inputs, Level::Procedure, Level::Loop];

/// The layers, and what can be asked of all of them together.
#[derive(Debug)]
pub struct Catalogue<'a> {
    pub(super) layers: &'a [Layer],
}

/// A procedure as all layers together describe it.
#[derive(Debug)]
pub struct ProcedureInfo {
    pub name: String,
    pub display: Option<String>,
    pub summary: Option<String>,
    pub description: Option<String>,
    pub phases: Vec<(Phase, Option<Sourced<Vec<FragmentSource>>>)>,
    /// The layer that says most about where it is from: the highest one that mentions it.
    pub source: Source,
}

impl<'a> Catalogue<'a> {
    /// Sorts the layers by precedence; those of equal rank keep their order.
    pub fn new(layers: &'a mut Vec<Layer>) -> Self {
        layers.sort_by_key(|layer| layer.source.rank());
        Catalogue { layers }
    }

    pub(super) fn top_down(&self) -> impl Iterator<Item = &'a Layer> {
        self.layers.iter().rev()
    }

    pub fn names(&self) -> BTreeSet<&'a str> {
        self.layers
            .iter()
            .flat_map(|layer| layer.settings.procedures.keys())
            .map(String::as_str)
            .collect()
    }

    pub fn alias_names(&self) -> BTreeSet<&'a str> {
        self.layers
            .iter()
            .flat_map(|layer| layer.settings.aliases.keys())
            .map(String::as_str)
            .collect()
    }

    pub fn procedures(&self) -> Vec<ProcedureInfo> {
        let names = self.names();
        names
            .into_iter()
            .filter_map(|name| self.describe(name))
            .collect()
    }

    /// A procedure by its name. Not to know it is a mistake on the command line.
    pub fn procedure(&self, name: &str) -> Result<ProcedureInfo, Error> {
        self.describe(name).ok_or_else(|| {
            let error = Error::new(
                ErrorKind::Usage,
                format_args!("there is no procedure `{name}`"),
            );
            if SUBCOMMANDS.contains(&name) {
                return error.hint(format_args!(
                    "that is a command of its own: `rooda {name}`, with its flags after it"
                ));
            }
            let candidates = self.names().into_iter().chain(SUBCOMMANDS.iter().copied());
            let error = match did_you_mean(name, candidates) {
                Some(hint) => error.hint(hint),
                None => error,
            };
            error.hint("`rooda list` shows the procedures, `rooda --help` the commands")
        })
    }

    fn describe(&self, name: &str) -> Option<ProcedureInfo> {
        let said: Vec<_> = self
            .top_down()
            .filter_map(|layer| Some((layer, layer.settings.procedures.get(name)?)))
            .collect();
        let source = said.first()?.0.source.clone();
        let text = |get: fn(&super::ProcedureSettings) -> Option<&String>| {
            said.iter()
                .find_map(|(_, procedure)| get(procedure))
                .cloned()
        };
        let phase = |phase| {
            said.iter().find_map(|(layer, procedure)| {
                Some(Sourced {
                    value: procedure.phase(phase)?.clone(),
                    source: layer.source.clone(),
                })
            })
        };
        Some(ProcedureInfo {
            name: name.to_owned(),
            display: text(|procedure| procedure.display.as_ref()),
            summary: text(|procedure| procedure.summary.as_ref()),
            description: text(|procedure| procedure.description.as_ref()),
            phases: PHASES.into_iter().map(|key| (key, phase(key))).collect(),
            source,
        })
    }

    /// What is said of a setting of `loop` at one level.
    pub(super) fn at<T>(
        &self,
        level: Level,
        procedure: &str,
        get: &impl Fn(&LoopSettings) -> Option<T>,
    ) -> Option<Sourced<T>> {
        let said = self.top_down().filter_map(|layer| {
            let is_flag = layer.source.rank() >= Source::Flag("").rank();
            let is_given = layer.source.outranks_procedures();
            let settings = match level {
                Level::Flags => is_flag.then_some(&layer.settings.defaults),
                Level::Inputs => (is_given && !is_flag).then_some(&layer.settings.defaults),
                Level::Procedure => {
                    let own = layer.settings.procedures.get(procedure);
                    own.map(|procedure| &procedure.overrides)
                }
                Level::Loop => (!is_given).then_some(&layer.settings.defaults),
            };
            Some((layer, settings?))
        });
        pick(said, get)
    }

    /// A setting in force. The built-in layer has them all.
    fn setting<T>(
        &self,
        procedure: &str,
        get: impl Fn(&LoopSettings) -> Option<T>,
    ) -> Result<Sourced<T>, Error> {
        LEVELS
            .into_iter()
            .find_map(|level| self.at(level, procedure, &get))
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a built-in default is missing"))
    }

    pub(super) fn place(&self, source: &Source, key: &str) -> Option<&'a Place> {
        self.layers
            .iter()
            .find(|layer| layer.source == *source && layer.settings.places.contains_key(key))
            .and_then(|layer| layer.settings.places.get(key))
    }
}

/// The first answer, with the name of who gave it.
fn pick<'a, T>(
    said: impl Iterator<Item = (&'a Layer, &'a LoopSettings)>,
    get: &impl Fn(&LoopSettings) -> Option<T>,
) -> Option<Sourced<T>> {
    said.into_iter().find_map(|(layer, settings)| {
        get(settings).map(|value| Sourced {
            value,
            source: layer.source.clone(),
        })
    })
}

/// Decides everything that one run needs to know.
pub fn resolve(catalogue: &Catalogue, request: Request) -> Result<Resolved, Error> {
    let (procedure, work) = match request.target {
        Target::Task(task) => ("loop".to_owned(), Work::Task(task)),
        Target::Procedure(name) => {
            let info = catalogue.procedure(&name)?;
            (
                name,
                Work::Phases(phases(catalogue, &info, &request.phases)?),
            )
        }
    };
    let name = procedure.as_str();
    let limit = limit(catalogue, name)?;
    let run_timeout = catalogue.setting(name, |s| s.run_timeout)?;
    let max_cost_usd = catalogue.setting(name, |s| s.max_cost_usd)?;
    let max_tokens = catalogue.setting(name, |s| s.max_tokens)?;
    let agents = agents(catalogue, name);
    // A budget bounds only those who tell what they use up.
    let all_tell = |tells: fn(Tells) -> bool| {
        let known = agents.as_deref().unwrap_or_default();
        known.iter().all(|agent| tells(agent.format.tells()))
    };
    let is_bounded = (run_timeout.source.is_given() && run_timeout.value.at().is_some())
        || (max_cost_usd.value.at().is_some() && all_tell(|tells| tells.cost))
        || (max_tokens.value.at().is_some() && all_tell(|tells| tells.tokens));
    if request.in_actions && limit.value == Limit::Unlimited && !is_bounded {
        let message = "an unlimited number of iterations needs another bound under GitHub Actions";
        return Err(Error::new(ErrorKind::Config, message).hint(
            "set a run timeout (`--run-timeout 5h`, the input `run-timeout`, `loop.run_timeout`), a budget (`max-cost-usd`, `max-tokens`) that the agent can be held to, or a number of iterations",
        ));
    }
    let plan = Plan {
        task_id: request.task_id.unwrap_or_else(|| procedure.clone()),
        work,
        context: request.context,
        limit,
        iteration_timeout: catalogue.setting(name, |s| s.iteration_timeout)?,
        idle_timeout: catalogue.setting(name, |s| s.idle_timeout)?,
        run_timeout,
        max_cost_usd,
        max_tokens,
        budget_required: catalogue.setting(name, |s| s.budget_required)?,
        rate_limit_patience: catalogue.setting(name, |s| s.rate_limit_patience)?,
        kill_grace: catalogue.setting(name, |s| s.kill_grace)?,
        max_output_buffer: catalogue.setting(name, |s| s.max_output_buffer)?,
        failure_threshold: catalogue.setting(name, |s| s.failure_threshold)?,
        completion_promise: catalogue.setting(name, |s| s.completion_promise.clone())?,
        promise_match: catalogue.setting(name, |s| s.promise_match)?,
        show_ai_output: catalogue.setting(name, |s| s.show_ai_output)?,
        log_level: catalogue.setting(name, |s| s.log_level)?,
        log_format: catalogue.setting(name, |s| s.log_format)?,
        log_timestamp_format: catalogue.setting(name, |s| s.log_timestamp_format)?,
        procedure,
    };
    let mut warnings = warnings(catalogue, &plan.procedure);
    let known = agents.as_deref().unwrap_or_default();
    warnings.extend(known.iter().filter_map(|agent| plain(catalogue, agent)));
    Ok(Resolved {
        agents,
        plan,
        warnings,
    })
}

/// What a user wrote and will not get: an alias that stands beside a command, which wins even from a lower layer.
fn warnings(catalogue: &Catalogue, procedure: &str) -> Vec<String> {
    let command = |s: &LoopSettings| s.ai_cmd.clone();
    let alias = |s: &LoopSettings| s.ai_cmd_alias.clone();
    // Only the highest level that says anything decides; what stands below it is overridden, as it should be.
    let deciding = LEVELS
        .into_iter()
        .map(|level| {
            let command = catalogue.at(level, procedure, &command);
            (command, catalogue.at(level, procedure, &alias))
        })
        .find(|(command, alias)| command.is_some() || alias.is_some());
    match deciding {
        Some((Some(command), Some(alias))) if alias.source.rank() >= command.source.rank() => {
            let (command, alias) = (command.source, alias.source);
            vec![format!(
                "the AI command ({command}) wins over the alias ({alias}), which has no effect"
            )]
        }
        _ => Vec::new(),
    }
}

fn phases(
    catalogue: &Catalogue,
    info: &ProcedureInfo,
    given: &[(Phase, Vec<FragmentSource>)],
) -> Result<[(Phase, Vec<FragmentSource>); 4], Error> {
    let mut problems = Vec::new();
    let at = match catalogue.place(&info.source, &format!("procedures.{}", info.name)) {
        Some(place) => place.to_string(),
        None => info.source.to_string(),
    };
    let phases = PHASES.map(|phase| {
        let from_flags = given.iter().find(|(key, _)| *key == phase);
        let from_layers = info.phases.iter().find(|(key, _)| *key == phase);
        let fragments = match (from_flags, from_layers) {
            (Some((_, fragments)), _) => fragments.clone(),
            (None, Some((_, Some(fragments)))) => fragments.value.clone(),
            (None, _) => Vec::new(),
        };
        if fragments.is_empty() {
            let (name, key) = (&info.name, phase.key());
            problems.push(
                Error::new(
                    ErrorKind::Config,
                    format_args!("{at}: procedures.{name}: the phase `{key}` is missing"),
                )
                .hint(format_args!(
                    "set `procedures.{name}.{key}` to a prompt file or a `builtin:` one, or pass --{key}"
                )),
            );
        }
        (phase, fragments)
    });
    Error::join(problems)?;
    Ok(phases)
}

/// `--max-iterations` and `--unlimited`, the inputs of that name, then the procedure's mode and number, then the loop's.
fn limit(catalogue: &Catalogue, procedure: &str) -> Result<Sourced<Limit>, Error> {
    fn mode(settings: &LoopSettings) -> Option<IterationMode> {
        settings.iteration_mode
    }
    fn number(settings: &LoopSettings) -> Option<Limit> {
        settings
            .default_max_iterations
            .map(|Positive(number)| Limit::AtMost(number))
    }
    let unlimited = |mode: Option<Sourced<IterationMode>>| {
        mode.filter(|mode| mode.value == IterationMode::Unlimited)
            .map(|mode| mode.map(|_| Limit::Unlimited))
    };
    for level in [Level::Flags, Level::Inputs] {
        if let Some(limit) = catalogue
            .at(level, procedure, &number)
            .or_else(|| unlimited(catalogue.at(level, procedure, &mode)))
        {
            return Ok(limit);
        }
    }
    let own_mode = catalogue.at(Level::Procedure, procedure, &mode);
    if let Some(limit) = unlimited(own_mode.clone()) {
        return Ok(limit);
    }
    if let Some(limit) = catalogue.at(Level::Procedure, procedure, &number) {
        return Ok(limit);
    }
    // A procedure that asks for a number without giving one gets the loop's number, whatever the loop's mode.
    let loop_mode = match own_mode {
        Some(_) => None,
        None => unlimited(catalogue.at(Level::Loop, procedure, &mode)),
    };
    loop_mode
        .or_else(|| catalogue.at(Level::Loop, procedure, &number))
        .ok_or_else(|| Error::new(ErrorKind::Internal, "a built-in default is missing"))
}
