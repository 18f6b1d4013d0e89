//! The facts about the job that rooda needs to know.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::{Bound, Layer, LogLevel, Source, Span};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub workspace: PathBuf,
    /// Where files may live as long as the job, as this container sees it.
    pub runner_temp: Option<PathBuf>,
    /// The home that all container steps of the job share.
    pub home: Option<PathBuf>,
    /// Whether the runner is one of GitHub's own.
    pub is_hosted: bool,
    /// Whether somebody asked for step debug logging.
    pub is_debug: bool,
    /// Names this step among all steps of all runs.
    pub step: String,
}

impl Job {
    pub fn read(environment: &BTreeMap<String, String>) -> Self {
        let get = |name: &str| environment.get(name).filter(|value| !value.is_empty());
        let fact = |name: &str| {
            // It becomes the name of a folder.
            let name = get(name).map_or("0", String::as_str);
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            name.chars().filter(|c| plain(*c)).collect::<String>()
        };
        Job {
            workspace: get("GITHUB_WORKSPACE")
                .map_or_else(|| "/github/workspace".into(), PathBuf::from),
            runner_temp: get("RUNNER_TEMP").map(PathBuf::from),
            home: get("HOME").map(PathBuf::from),
            is_hosted: get("RUNNER_ENVIRONMENT").is_some_and(|value| value == "github-hosted"),
            is_debug: get("RUNNER_DEBUG").is_some_and(|value| value == "1"),
            step: format!("{}-{}", fact("GITHUB_RUN_ID"), fact("GITHUB_ACTION")),
        }
    }
}

/// Where the action has other defaults than the command line: nobody watches, and a job has an end of its own.
pub fn default_layers(job: &Job) -> Vec<Layer> {
    const MINUTE: u64 = 60;
    let bound = |minutes: u64| Some(Bound::At(Span(Duration::from_secs(minutes * MINUTE))));
    // A hosted job ends after six hours at the latest, and its token with it; on other runners the token lives for a day.
    let (hours, runner) = match job.is_hosted {
        true => (5 * 60 + 45, " on a GitHub-hosted runner"),
        false => (23 * 60, " on a self-hosted runner"),
    };
    vec![
        Layer::of(Source::Action(""), |settings| {
            settings.iteration_timeout = bound(30);
            settings.idle_timeout = bound(10);
            settings.kill_grace = Some(Span(Duration::from_secs(3)));
        }),
        Layer::of(Source::Action(runner), |settings| {
            settings.run_timeout = bound(hours);
        }),
    ]
}

pub fn step_debug_layer(job: &Job) -> Option<Layer> {
    job.is_debug.then(|| {
        Layer::of(Source::StepDebug, |settings| {
            settings.log_level = Some(LogLevel::Debug);
            settings.show_ai_output = Some(true);
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Catalogue, Request, Target, builtin_layers, resolve};

    #[test]
    fn the_default_for_silence_is_for_agents_that_are_not_silent() {
        let idle = |own: &[Layer]| {
            let mut layers = builtin_layers().expect("ours");
            layers.extend(default_layers(&Job::read(&BTreeMap::new())));
            layers.extend(own.iter().cloned());
            let catalogue = Catalogue::new(&mut layers);
            let request = Request {
                target: Target::Task("x".to_owned()),
                phases: Vec::new(),
                context: Vec::new(),
                task_id: None,
                in_actions: true,
            };
            let plan = resolve(&catalogue, request).expect("a plan").plan;
            let told = catalogue.agents().into_iter().map(|agent| {
                let idle = plan.idle_timeout_for(&agent).map(|idle| idle.as_secs());
                (agent.name, idle)
            });
            BTreeMap::from_iter(told)
        };
        let by_default = idle(&[]);
        assert_eq!(by_default["claude"], Some(600));
        assert_eq!(by_default["cursor-agent"], None);
        let given = Layer::of(Source::Input("idle-timeout"), |settings| {
            settings.idle_timeout = Some(Bound::At(Span(Duration::from_secs(5))));
        });
        assert_eq!(idle(&[given])["cursor-agent"], Some(5));
    }

    #[test]
    fn the_name_of_a_step_is_harmless_as_the_name_of_a_folder() {
        let environment = [
            ("GITHUB_RUN_ID", "42"),
            ("GITHUB_ACTION", "../__org_rooda-action_2"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let job = Job::read(&environment.into());
        assert_eq!(job.step, "42-__org_rooda-action_2");
        assert_eq!(job.workspace, PathBuf::from("/github/workspace"));
        assert!(!job.is_hosted && !job.is_debug);
    }
}
