//! A job with one action in it: what a workflow says about it, and what the runner makes of that.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::command_files::{self, Reader};
use super::engine::{Container, Engine, Mount, Process};
use super::environment::Variables;
use super::masks::Masks;
use super::outcome::Outcome;
use super::record::Record;
pub(crate) use super::site::Checkout;
use super::site::{self, Ground, Site};
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
    pub(super) engine: Engine,
    pub(super) manifest: String,
    pub(super) inputs: Vec<(String, String)>,
    pub(super) env: Variables,
    pub(super) secrets: Vec<String>,
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) extra: Vec<Mount>,
    pub(super) entrypoint: Option<Vec<String>>,
    pub(super) script: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) checkout: Checkout,
    pub(super) branch: Option<String>,
    pub(super) event: (String, Value),
    pub(super) proxy: Variables,
    pub(super) owner: (u32, u32),
    pub(super) debug: bool,
    pub(super) old_runner: bool,
    pub(super) hosted: bool,
    pub(super) job_container: bool,
    pub(super) always: bool,
    pub(super) continue_on_error: bool,
    pub(super) scale: f64,
    pub(super) patience: Duration,
    pub(super) site: OnceCell<Site>,
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
    pub(super) steps: Vec<String>,
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
            agent: None,
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

    /// A variable of the step: `env:`.
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

    /// Performs a script of the fake agent (see `tests/bin/fake_agent.rs`) as the AI command. Paths in it are relative to
    /// the folder in which the agent works. Git does not see its files.
    pub(crate) fn agent(mut self, script: &str) -> Self {
        let lines = script.trim_start_matches('\n').lines();
        let script: String = lines.map(|line| format!("{}\n", line.trim())).collect();
        self.agent = Some(script);
        self.input("ai-cmd", "/opt/test/fake_agent /github/workspace/.agent")
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
        self.site().plant(name, text, self.owner);
    }

    /// How often the fake agent was started.
    pub(crate) fn invocations(&self) -> usize {
        let count = fs::read_to_string(self.workspace().join(".agent.count"));
        count.map_or(0, |count| count.trim().parse().unwrap())
    }

    /// Runs a shell script in the workspace as a step of the runner's own user would, and gives all it printed: a failure
    /// is what a workflow would see after the action.
    pub(crate) fn host_step(&self, script: &str) -> Result<String, String> {
        let script = format!("exec 2>&1; {script}");
        let output = Command::new("timeout")
            .args(["60", "/bin/sh", "-c", &script])
            .current_dir(self.workspace())
            .env("HOME", self.temp())
            .uid(self.owner.0)
            .gid(self.owner.1)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(text)
        } else {
            Err(text)
        }
    }

    /// A command file of the step that was started last: `output`, `env`, `path`, `state` or `step_summary`.
    pub(crate) fn command_file(&self, key: &str) -> PathBuf {
        let steps = &self.state.borrow().steps;
        let files = self.command_files(steps.last().unwrap());
        let index = command_files::FILES
            .iter()
            .position(|(_, known)| *known == key);
        files[index.unwrap()].clone()
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

    pub(super) fn site(&self) -> &Site {
        self.site.get_or_init(|| {
            let site = Site::new(&Ground {
                uid: self.owner.0,
                gid: self.owner.1,
                docker_gid: DOCKER_GID,
                checkout: self.checkout,
                branch: self.branch.as_deref(),
                files: &self.files,
                token: TOKEN,
            });
            if let Some(script) = &self.agent {
                site.plant(".agent", script, self.owner);
            }
            site
        })
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
