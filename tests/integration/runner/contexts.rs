//! What the runner knows about a job: the contexts `github` and `runner`, and what becomes of them in the environment.

use std::path::{Path, PathBuf};

use super::command_files;
use super::environment::{Sources, Variables};
use super::job::{Job, TOKEN};
use super::manifest::{self, Manifest};
use super::site::REPOSITORY;

impl Job {
    /// The value of an expression of the workflow, as far as tests need them.
    pub(super) fn context(&self, expression: &str) -> Option<String> {
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        match expression {
            "github.token" | "secrets.GITHUB_TOKEN" => Some(TOKEN.to_owned()),
            "github.workspace" if self.job_container => Some("/__w/demo/demo".to_owned()),
            "github.workspace" => Some(path(self.workspace())),
            "runner.temp" if self.job_container => Some("/__w/_temp".to_owned()),
            "runner.temp" => Some(path(self.temp())),
            "github.sha" => Some(self.commit()),
            "github.repository" => Some(REPOSITORY.to_owned()),
            _ => None,
        }
    }

    /// What earlier steps wrote to `GITHUB_ENV`, and over it what this step sets.
    pub(super) fn workflow_env(&self) -> Variables {
        let mut env = self.state.borrow().env.clone();
        env.extend(self.env.clone());
        env
    }

    /// What the runner's own programs talk to.
    pub(super) fn service(&self) -> Variables {
        let service = [
            ("ACTIONS_RUNTIME_URL", "https://pipelines.example/"),
            ("ACTIONS_RUNTIME_TOKEN", "eyJ0eXAi.runtime-token"),
            ("ACTIONS_CACHE_URL", "https://cache.example/"),
            ("ACTIONS_RESULTS_URL", "https://results.example/"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        service.into_iter().map(owned).collect()
    }

    pub(super) fn sources(
        &self,
        id: &str,
        manifest: &Manifest,
        inputs: &[(String, String)],
    ) -> Sources {
        let input = |expression: &str| {
            let name = expression.strip_prefix("inputs.")?;
            let found = inputs
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        let variable =
            |(name, value): &(String, String)| (name.clone(), manifest::evaluate(value, input));
        let home = self.temp().join("_github_home");
        Sources {
            proxy: self.proxy.clone(),
            env: self.workflow_env(),
            // Of an earlier stage of the action, of which there is none.
            state: Variables::new(),
            inputs: inputs.to_vec(),
            action: manifest.env.iter().map(variable).collect(),
            home: home.to_str().unwrap().to_owned(),
            github: self.github(id),
            runner: self.runner(),
            service: self.service(),
        }
    }

    fn github(&self, id: &str) -> Vec<(String, String)> {
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        let mut all: Vec<(&str, String)> = [
            ("action", "__octo-org_rooda-action"),
            ("action_ref", "v1"),
            ("action_repository", "octo-org/rooda-action"),
            ("actor", "mona"),
            ("actor_id", "583231"),
            ("api_url", "https://api.github.com"),
            ("base_ref", ""),
            ("graphql_url", "https://api.github.com/graphql"),
            ("head_ref", ""),
            ("job", "loop"),
            ("ref", "refs/heads/main"),
            ("ref_name", "main"),
            ("ref_protected", "false"),
            ("ref_type", "branch"),
            ("repository", REPOSITORY),
            ("repository_id", "1296269"),
            ("repository_owner", "octo-org"),
            ("repository_owner_id", "6811672"),
            ("retention_days", "90"),
            ("run_attempt", "1"),
            ("run_id", "1658821493"),
            ("run_number", "3"),
            ("server_url", "https://github.com"),
            ("triggering_actor", "mona"),
            ("workflow", "Loop"),
            (
                "workflow_ref",
                "octo-org/demo/.github/workflows/loop.yml@refs/heads/main",
            ),
        ]
        .map(|(key, value)| (key, value.to_owned()))
        .to_vec();
        all.extend([
            ("event_name", self.event.0.clone()),
            (
                "event_path",
                path(self.temp().join("_github_workflow/event.json")),
            ),
            ("sha", self.commit()),
            ("workflow_sha", self.commit()),
            ("workspace", path(self.workspace())),
        ]);
        let keys = command_files::FILES.map(|(_, key)| key);
        let files = self.command_files(id).map(path);
        all.extend(keys.into_iter().zip(files));
        all.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    fn runner(&self) -> Vec<(String, String)> {
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        let hosted = ["self-hosted", "github-hosted"][usize::from(self.hosted)];
        let arch = ["X64", "ARM64"][usize::from(cfg!(target_arch = "aarch64"))];
        let workspace = self.workspace();
        let mut all = vec![
            ("os", "Linux".to_owned()),
            ("arch", arch.to_owned()),
            ("name", "GitHub Actions 2".to_owned()),
            ("environment", hosted.to_owned()),
            ("tool_cache", "/opt/hostedtoolcache".to_owned()),
            ("temp", path(&self.temp())),
            ("workspace", path(workspace.parent().unwrap())),
        ];
        if self.debug {
            all.push(("debug", "1".to_owned()));
        }
        all.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }
}
