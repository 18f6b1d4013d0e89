//! A job with one action in it: what a workflow says about it, and what the runner makes of that.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::arguments;
use super::command_files::{self, Reader};
use super::console::{Allowances, Console};
use super::engine::{Container, Engine, Launch, Mount, Process};
use super::environment::{self, Paths, Sources, Variables};
use super::manifest::{self, Manifest};
use super::masks::{Masks, base64};
use super::outcome::Outcome;
use super::record::Record;
pub(crate) use super::site::Checkout;
use super::site::{self, Ground, REPOSITORY, Site};
use super::step::Step;

/// The user of hosted runners.
pub(crate) const RUNNER_UID: u32 = 1001;
/// The group of the socket of docker, and on hosted runners of the workspace too.
pub(crate) const DOCKER_GID: u32 = 127;
/// What the job's own token looks like.
pub(crate) const TOKEN: &str = "ghs_0123456789abcdefghijklmnopqrstuvwxyz";

/// Longer than any step of a test takes.
const PATIENCE: Duration = Duration::from_secs(60);

#[must_use = "nothing happens until it is run or started"]
pub(crate) struct Job {
    engine: Engine,
    manifest: String,
    inputs: Vec<(String, String)>,
    env: Variables,
    secrets: Vec<String>,
    files: BTreeMap<String, Vec<u8>>,
    extra: Vec<Mount>,
    entrypoint: Option<Vec<String>>,
    script: Option<String>,
    checkout: Checkout,
    branch: Option<String>,
    event: (String, Value),
    proxy: Variables,
    owner: (u32, u32),
    debug: bool,
    old_runner: bool,
    hosted: bool,
    job_container: bool,
    pub(super) always: bool,
    pub(super) continue_on_error: bool,
    pub(super) scale: f64,
    pub(super) patience: Duration,
    site: OnceCell<Site>,
    pub(super) state: RefCell<State>,
    pub(super) containers: RefCell<Vec<Container>>,
}

/// What one step hands to the next.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) env: Variables,
    pub(super) path: Vec<String>,
    pub(super) masks: Masks,
    pub(super) matchers: Vec<String>,
    pub(super) annotations: usize,
    /// The suffixes of the command files of all steps.
    steps: Vec<String>,
}

impl State {
    pub(super) fn take_over(&mut self, record: &Record) {
        self.masks = record.masks.clone();
        self.matchers = record.matchers.clone();
        self.annotations += record.annotations.iter().filter(|one| one.kept).count();
        self.env.extend(record.env.clone());
        self.path.retain(|path| !record.path.contains(path));
        self.path.extend(record.path.clone());
    }
}

/// A step that is ready to be started.
pub(super) struct Prepared {
    pub(super) launch: Launch,
    pub(super) console: Console,
    /// The suffix of its command files.
    pub(super) id: String,
    pub(super) header: Vec<String>,
}

impl Job {
    /// A job on a hosted runner with everything as usual. `None`: there is no engine here, and it was said aloud.
    pub(crate) fn new() -> Option<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("action.yml");
        Some(Job {
            engine: Engine::find()?,
            manifest: fs::read_to_string(path).unwrap(),
            inputs: Vec::new(),
            env: Variables::new(),
            secrets: vec![TOKEN.to_owned()],
            files: BTreeMap::from([("README.md".to_owned(), b"# Demo\n".to_vec())]),
            extra: Vec::new(),
            entrypoint: None,
            script: None,
            checkout: Checkout::V6,
            branch: None,
            event: ("push".to_owned(), json!({ "ref": "refs/heads/main" })),
            proxy: Variables::new(),
            owner: (RUNNER_UID, DOCKER_GID),
            debug: false,
            old_runner: false,
            hosted: true,
            job_container: false,
            always: false,
            continue_on_error: false,
            scale: 1.0,
            patience: PATIENCE,
            site: OnceCell::new(),
            state: RefCell::default(),
            containers: RefCell::default(),
        })
    }

    /// An input of the action: `with:`. It may contain `${{ github.… }}` and `${{ runner.… }}`.
    pub(crate) fn input(mut self, name: &str, value: &str) -> Self {
        self.inputs.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A variable of the workflow: `env:`.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// A secret of the repository: the runner masks it from the start.
    pub(crate) fn secret(mut self, value: &str) -> Self {
        self.secrets.push(value.to_owned());
        self
    }

    /// A file in the checked-out commit. One that begins with `#!` is executable.
    pub(crate) fn file(mut self, name: &str, text: &str) -> Self {
        assert!(self.site.get().is_none(), "the job has begun");
        self.files.insert(name.to_owned(), text.as_bytes().to_vec());
        self
    }

    /// A file or a folder of this machine, to be read in the container.
    pub(crate) fn mount(mut self, host: &Path, inside: &str) -> Self {
        self.extra.push(Mount {
            host: host.to_owned(),
            inside: inside.to_owned(),
            read_only: true,
        });
        self
    }

    /// Runs something else in place of the action's own entry point. Beware of backslashes before quotes: the runner has
    /// its way with them.
    pub(crate) fn entrypoint(mut self, words: &[&str]) -> Self {
        self.entrypoint = Some(words.iter().map(|&word| word.to_owned()).collect());
        self
    }

    /// Runs a shell script in place of the action.
    pub(crate) fn script(mut self, text: &str) -> Self {
        self.script = Some(text.to_owned());
        self
    }

    /// Another `action.yml` than this repository's own.
    pub(crate) fn manifest(mut self, text: &str) -> Self {
        self.manifest = text.to_owned();
        self
    }

    pub(crate) fn checkout(mut self, checkout: Checkout) -> Self {
        self.checkout = checkout;
        self
    }

    /// A branch in place of a detached commit.
    pub(crate) fn on_branch(mut self, name: &str) -> Self {
        self.branch = Some(name.to_owned());
        self
    }

    pub(crate) fn event(mut self, name: &str, payload: Value) -> Self {
        self.event = (name.to_owned(), payload);
        self
    }

    /// Step debug logging.
    pub(crate) fn debug(mut self, debug: bool) -> Self {
        self.debug = debug;
        self
    }

    /// One that does not mount `RUNNER_TEMP`.
    pub(crate) fn old_runner(mut self, old: bool) -> Self {
        self.old_runner = old;
        self
    }

    /// On a runner of GitHub's, or on one's own.
    pub(crate) fn hosted(mut self, hosted: bool) -> Self {
        self.hosted = hosted;
        self
    }

    /// In a job with `container:` the workflow knows the workspace under another path.
    pub(crate) fn job_container(mut self, job_container: bool) -> Self {
        self.job_container = job_container;
        self
    }

    /// The user of the runner. The group of the workspace becomes the user's own.
    pub(crate) fn workspace_owner(mut self, uid: u32) -> Self {
        self.owner = (uid, uid);
        self
    }

    pub(crate) fn proxy(mut self, url: &str) -> Self {
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            self.proxy.insert(name.to_owned(), url.to_owned());
        }
        self
    }

    /// `if: always()`: cancelling the job does not interrupt this step.
    pub(crate) fn always(mut self, always: bool) -> Self {
        self.always = always;
        self
    }

    pub(crate) fn continue_on_error(mut self, continue_on_error: bool) -> Self {
        self.continue_on_error = continue_on_error;
        self
    }

    /// Makes the delays of a cancellation shorter than 7.5 and 2.5 seconds.
    pub(crate) fn delays_scaled(mut self, scale: f64) -> Self {
        self.scale = scale;
        self
    }

    /// How long a step may take before the test fails.
    pub(crate) fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts the step, to be watched or cancelled.
    pub(crate) fn start(&self) -> Step<'_> {
        let prepared = self.prepare();
        let started = self.engine.start(&prepared.launch).unwrap();
        Step::new(self, prepared, started)
    }

    /// Runs the step to its end.
    pub(crate) fn run(&self) -> Outcome {
        self.start().wait()
    }

    /// The workspace on the host.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.site().workspace()
    }

    /// The folder of `RUNNER_TEMP` on the host.
    pub(crate) fn temp(&self) -> PathBuf {
        self.site().temp()
    }

    /// The checked-out commit.
    pub(crate) fn commit(&self) -> String {
        self.site().commit.clone()
    }

    /// Writes a file that is not in the commit, as a step before would have done.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.workspace().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let (uid, gid) = self.owner;
        let new = path
            .ancestors()
            .take_while(|path| *path != self.workspace());
        for path in new {
            chown(path, Some(uid), Some(gid)).unwrap();
        }
    }

    /// A file of the workspace.
    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.workspace().join(name);
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// What in the workspace does not belong to the runner's user, and to whom it belongs.
    pub(crate) fn foreign_files(&self) -> Vec<(PathBuf, u32)> {
        site::foreign(&self.workspace(), self.owner.0)
    }

    /// What in the workspace belongs to root: the steps that follow cannot write it.
    pub(crate) fn root_owned(&self) -> Vec<PathBuf> {
        let foreign = self.foreign_files().into_iter();
        foreign
            .filter(|(_, uid)| *uid == 0)
            .map(|(path, _)| path)
            .collect()
    }

    /// What is new in `RUNNER_TEMP` since the job began, relative to it; the home of the containers is `_github_home`.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let ids = &self.state.borrow().steps;
        let own = |path: &PathBuf| {
            let mut files = ids.iter().flat_map(|id| self.command_files(id));
            *path == Path::new("_github_workflow/event.json")
                || files.any(|file| file.ends_with(path))
        };
        let mut leftovers = self.site().leftovers();
        leftovers.retain(|path| !own(path));
        leftovers
    }

    /// How often somebody connected to the socket of docker since the last question.
    pub(crate) fn docker_connections(&self) -> usize {
        self.site().connections()
    }

    /// Whether a container of this job still lives, though its step is over.
    pub(crate) fn is_running(&self) -> bool {
        self.containers.borrow().iter().any(Container::is_running)
    }

    /// What still runs in the containers of this job.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let containers = self.containers.borrow();
        containers.iter().flat_map(Container::processes).collect()
    }

    /// What earlier steps put in front of the search path.
    pub(crate) fn path(&self) -> Vec<String> {
        self.state.borrow().path.clone()
    }

    /// Processes the command files of a step.
    pub(super) fn read_command_files(&self, id: &str, record: &mut Record) {
        let folder = self.temp().join("_runner_file_commands");
        let (uid, gid) = self.owner;
        command_files::process(&folder, id, Reader { uid, gid }, record);
    }

    fn site(&self) -> &Site {
        self.site.get_or_init(|| {
            Site::new(&Ground {
                uid: self.owner.0,
                gid: self.owner.1,
                docker_gid: DOCKER_GID,
                checkout: self.checkout,
                branch: self.branch.as_deref(),
                files: &self.files,
                token: TOKEN,
            })
        })
    }

    fn prepare(&self) -> Prepared {
        let site = self.site();
        let id = random();
        self.write_event();
        self.make_command_files(&id);
        let paths = Paths::new(&site.workspace(), &site.temp(), !self.old_runner);
        let mut env = self.env.clone();
        env.extend(self.state.borrow().env.clone());
        let allows = |name: &str| env.get(name).is_some_and(|value| value == "true");
        let allowances = Allowances {
            commands: allows("ACTIONS_ALLOW_UNSECURE_COMMANDS"),
            tokens: allows("ACTIONS_ALLOW_UNSECURE_STOPCOMMAND_TOKENS"),
        };
        let mut console = Console::new(self.record(), paths.clone(), allowances);
        let manifest = Manifest::parse(&self.manifest);
        let (inputs, warning) = self.evaluated_inputs(&manifest);
        let environment = environment::assemble(&self.sources(&id, &manifest, &inputs), &paths);
        let (entrypoint, args) = self.entry(&manifest, &inputs);
        let launch = Launch {
            entrypoint,
            args,
            environment,
            mounts: self.mounts(&paths),
            workspace: site.workspace(),
            scratch: self.scratch(&id),
            name: format!("rooda_{}", &id[..6]),
        };
        let header = header(&launch, &inputs, &env, &console.record.masks);
        if let Some(warning) = warning {
            console.record.warning(&warning);
        }
        Prepared {
            launch,
            console,
            id,
            header,
        }
    }

    fn record(&self) -> Record {
        let mut state = self.state.borrow_mut();
        for secret in &self.secrets {
            state.masks.add(secret);
            state
                .masks
                .add(&base64(format!("x-access-token:{secret}").as_bytes()));
        }
        Record {
            masks: state.masks.clone(),
            matchers: state.matchers.clone(),
            annotations_before: state.annotations,
            debug: self.debug,
            ..Record::default()
        }
    }

    fn write_event(&self) {
        let file = self.temp().join("_github_workflow/event.json");
        let text = serde_json::to_string_pretty(&self.event.1).unwrap();
        fs::write(&file, text).unwrap();
        chown(&file, Some(self.owner.0), Some(self.owner.1)).unwrap();
    }

    fn make_command_files(&self, id: &str) {
        for file in self.command_files(id) {
            fs::write(&file, "").unwrap();
            chown(&file, Some(self.owner.0), Some(self.owner.1)).unwrap();
        }
        self.state.borrow_mut().steps.push(id.to_owned());
    }

    /// The command files of a step, in the order of the runner's list of them.
    fn command_files(&self, id: &str) -> [PathBuf; 7] {
        let folder = self.temp().join("_runner_file_commands");
        command_files::FILES.map(|(prefix, _)| folder.join(format!("{prefix}{id}")))
    }

    fn scratch(&self, id: &str) -> PathBuf {
        let folder = self.site().path(&format!("scratch-{id}"));
        fs::create_dir(&folder).unwrap();
        folder
    }

    fn evaluated_inputs(&self, manifest: &Manifest) -> (Vec<(String, String)>, Option<String>) {
        let (mut inputs, warning) = manifest.inputs(&self.inputs);
        for (_, value) in &mut inputs {
            *value = manifest::evaluate(value, |name| self.context(name));
        }
        (inputs, warning)
    }

    /// The value of an expression of the workflow, as far as tests need them.
    fn context(&self, expression: &str) -> Option<String> {
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

    fn entry(&self, manifest: &Manifest, inputs: &[(String, String)]) -> (Option<String>, String) {
        if self.script.is_some() {
            let args = arguments::join(&["/opt/test/script"]);
            return (Some("/bin/sh".to_owned()), args);
        }
        if let Some(words) = &self.entrypoint {
            return (Some(words[0].clone()), arguments::join(&words[1..]));
        }
        let input = |name: &str| {
            let same = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
            inputs.iter().find(same).map(|(_, value)| value.clone())
        };
        let of_inputs = |expression: &str| input(expression.strip_prefix("inputs.")?);
        let args = match &manifest.args {
            Some(items) => {
                let items = items.iter().map(|item| manifest::evaluate(item, of_inputs));
                arguments::join(&items.collect::<Vec<_>>())
            }
            None => input("args").map_or(String::new(), |args| format!(" {args}")),
        };
        let entrypoint = manifest.entrypoint.clone().or_else(|| input("entrypoint"));
        (entrypoint.filter(|entrypoint| !entrypoint.is_empty()), args)
    }

    fn mounts(&self, paths: &Paths) -> Vec<Mount> {
        let mount = |host: PathBuf, inside: &str, read_only: bool| Mount {
            host,
            inside: inside.to_owned(),
            read_only,
        };
        let of_runner = |inside: &str| {
            let found = paths.mounts().find(|(_, path)| *path == inside);
            found.map(|(host, inside)| mount(host.into(), inside, false))
        };
        let site = self.site();
        let mut mounts = vec![mount(site.socket_path(), "/var/run/docker.sock", false)];
        let order = [
            "runner_temp",
            "home",
            "workflow",
            "file_commands",
            "workspace",
        ];
        mounts.extend(
            order
                .iter()
                .filter_map(|name| of_runner(&format!("/github/{name}"))),
        );
        mounts.push(mount(
            env!("CARGO_BIN_EXE_fake_agent").into(),
            "/opt/test/fake_agent",
            true,
        ));
        if let Some(script) = &self.script {
            let file = site.path(&format!("script-{}", random()));
            fs::write(&file, script).unwrap();
            mounts.push(mount(file, "/opt/test/script", true));
        }
        mounts.extend(self.extra.iter().cloned());
        mounts
    }

    fn sources(&self, id: &str, manifest: &Manifest, inputs: &[(String, String)]) -> Sources {
        let mut env = self.env.clone();
        env.extend(self.state.borrow().env.clone());
        let input = |expression: &str| {
            let name = expression.strip_prefix("inputs.")?;
            let found = inputs
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        let service = [
            ("ACTIONS_RUNTIME_URL", "https://pipelines.example/"),
            ("ACTIONS_RUNTIME_TOKEN", "eyJ0eXAi.runtime-token"),
            ("ACTIONS_CACHE_URL", "https://cache.example/"),
            ("ACTIONS_RESULTS_URL", "https://results.example/"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Sources {
            proxy: self.proxy.clone(),
            env,
            state: Variables::new(),
            inputs: inputs.to_vec(),
            action: manifest
                .env
                .iter()
                .map(|(name, value)| (name.clone(), manifest::evaluate(value, input)))
                .collect(),
            home: self
                .temp()
                .join("_github_home")
                .to_str()
                .unwrap()
                .to_owned(),
            github: self.github(id),
            runner: self.runner(),
            service: service.into_iter().map(owned).collect(),
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
        let environment = if self.hosted {
            "github-hosted"
        } else {
            "self-hosted"
        };
        let workspace = self.workspace();
        let mut all = vec![
            ("os", "Linux".to_owned()),
            (
                "arch",
                if cfg!(target_arch = "aarch64") {
                    "ARM64"
                } else {
                    "X64"
                }
                .to_owned(),
            ),
            ("name", "GitHub Actions 2".to_owned()),
            ("environment", environment.to_owned()),
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

/// A test that fails leaves nothing running.
impl Drop for Job {
    fn drop(&mut self) {
        for container in self.containers.borrow().iter() {
            container.kill();
        }
    }
}

fn random() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    id.trim().to_owned()
}

/// What the log shows before the action says anything.
fn header(
    launch: &Launch,
    inputs: &[(String, String)],
    env: &Variables,
    masks: &Masks,
) -> Vec<String> {
    let mut lines = vec!["##[group]Run octo-org/rooda-action@v1".to_owned()];
    let given: Vec<_> = inputs
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    if !given.is_empty() {
        lines.push("with:".to_owned());
        lines.extend(
            given
                .iter()
                .map(|(name, value)| format!("  {name}: {value}")),
        );
    }
    if !env.is_empty() {
        lines.push("env:".to_owned());
        lines.extend(env.iter().map(|(name, value)| format!("  {name}: {value}")));
    }
    lines.push("##[endgroup]".to_owned());
    let command = super::docker::command_line(launch, "rooda-action:test", "");
    lines.push(format!("##[command]/usr/bin/docker {command}"));
    lines.iter().map(|line| masks.hide(line)).collect()
}
