//! From a workflow's words to a container that can be started.

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;

use super::arguments;
use super::command_files;
use super::console::{Allowances, Console};
use super::docker;
use super::engine::{Launch, Mount};
use super::environment::{self, Paths, Variables};
use super::job::{Job, TOKEN};
use super::manifest::{self, Manifest};
use super::masks::{Masks, base64};
use super::record::Record;

/// A step that is ready to be started.
pub(super) struct Prepared {
    pub(super) launch: Launch,
    pub(super) console: Console,
    /// The suffix of its command files.
    pub(super) id: String,
    pub(super) header: Vec<String>,
}

impl Job {
    pub(super) fn prepare(&self) -> Prepared {
        let site = self.site();
        let id = random();
        self.write_event();
        self.make_command_files(&id);
        let paths = Paths::new(&site.workspace(), &site.temp(), !self.old_runner);
        let env = self.workflow_env();
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
        let runtime = self.service().remove("ACTIONS_RUNTIME_TOKEN");
        let token = base64(format!("x-access-token:{TOKEN}").as_bytes());
        for secret in self.secrets.iter().cloned().chain(runtime).chain([token]) {
            state.masks.add(&secret);
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
    pub(super) fn command_files(&self, id: &str) -> [PathBuf; 7] {
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

    /// The entry point and the arguments, as the runner appends them.
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
        for name in [
            "runner_temp",
            "home",
            "workflow",
            "file_commands",
            "workspace",
        ] {
            mounts.extend(of_runner(&format!("/github/{name}")));
        }
        let agent = env!("CARGO_BIN_EXE_fake_agent").into();
        mounts.push(mount(agent, "/opt/test/fake_agent", true));
        if let Some(script) = &self.script {
            let file = site.path(&format!("script-{}", random()));
            fs::write(&file, script).unwrap();
            mounts.push(mount(file, "/opt/test/script", true));
        }
        mounts.extend(self.extra.iter().cloned());
        mounts
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
    let line = |(name, value): (&String, &String)| format!("  {name}: {value}");
    let given = inputs.iter().map(|(name, value)| (name, value));
    let given: Vec<String> = given.filter(|pair| !pair.1.is_empty()).map(line).collect();
    let env: Vec<String> = env.iter().map(line).collect();
    let mut lines = vec!["##[group]Run octo-org/rooda-action@v1".to_owned()];
    for (title, part) in [("with:", given), ("env:", env)] {
        if !part.is_empty() {
            lines.push(title.to_owned());
            lines.extend(part);
        }
    }
    lines.push("##[endgroup]".to_owned());
    let command = docker::command_line(launch, "rooda-action:test", "");
    lines.push(format!("##[command]/usr/bin/docker {command}"));
    lines.iter().map(|line| masks.hide(line)).collect()
}
