//! Containers of the engine docker, started with exactly the options that the runner uses.

use std::io;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::arguments;
use super::engine::{Client, Container, Launch, Started};

#[derive(Clone, Debug)]
pub(super) struct Docker {
    image: String,
    /// Of `ROODA_TEST_DOCKER_ARGS`, where the runner would name a network.
    options: String,
}

#[derive(Debug)]
pub(super) struct Handle {
    name: String,
    client: Client,
}

impl Handle {
    pub(super) fn init(&self) -> Option<Pid> {
        let format = "{{if .State.Running}}{{.State.Pid}}{{end}}";
        let pid = ask(&["inspect", "--format", format, &self.name])?;
        Pid::from_raw(pid.parse().ok()?)
    }

    /// A client that still lives may be about to start the container: it goes first.
    pub(super) fn remove(&self) {
        if pidfd_send_signal(&self.client.process, Signal::KILL).is_ok() {
            thread::sleep(Duration::from_millis(200));
        }
        ask(&["rm", "--force", &self.name]);
    }
}

fn ask(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("timeout");
    let output = command
        .args(["60", "docker"])
        .args(arguments)
        .output()
        .ok()?;
    let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(answer)
}

impl Docker {
    pub(super) fn find() -> Result<Self, String> {
        let image = std::env::var("ROODA_TEST_IMAGE").unwrap_or_default();
        if image.is_empty() {
            return Err("no docker: ROODA_TEST_IMAGE names no image".to_owned());
        }
        ask(&["image", "inspect", "--format", "{{.Id}}", &image]).ok_or_else(|| {
            format!("no docker: the engine does not answer, or has no image {image}")
        })?;
        Ok(Docker {
            image,
            options: std::env::var("ROODA_TEST_DOCKER_ARGS").unwrap_or_default(),
        })
    }

    pub(super) fn start(&self, launch: &Launch) -> io::Result<Started> {
        // The values are in the environment of the client, which hands them on by name.
        let mut child = Command::new("docker")
            .args(arguments::split(&command_line(
                launch,
                &self.image,
                &self.options,
            )))
            .envs(&launch.environment)
            .current_dir(&launch.workspace)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (sender, ended) = mpsc::channel();
        let client = Client {
            process: Arc::new(pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?),
            is_container: false,
        };
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        thread::spawn(move || sender.send(child.wait().unwrap()).ok());
        Ok(Started {
            client: client.clone(),
            container: Container::Docker(Handle {
                name: launch.name.clone(),
                client,
            }),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            ended,
        })
    }
}

/// Everything after the word `docker`.
pub(super) fn command_line(launch: &Launch, image: &str, options: &str) -> String {
    let mut line = format!(
        "run --name {} --label 5a6b7c --workdir /github/workspace --rm",
        launch.name
    );
    let assigned = ["GITHUB_ACTIONS", "CI"];
    let is_assigned = |name: &str, value: &str| assigned.contains(&name) && value == "true";
    for (name, value) in &launch.environment {
        if !is_assigned(name, value) {
            line.push_str(&format!(" -e \"{name}\""));
        }
    }
    for name in assigned {
        if launch
            .environment
            .get(name)
            .is_some_and(|value| is_assigned(name, value))
        {
            line.push_str(&format!(" -e {name}=true"));
        }
    }
    if let Some(entrypoint) = &launch.entrypoint {
        line.push_str(&format!(" --entrypoint \"{entrypoint}\""));
    }
    if !options.is_empty() {
        line.push_str(&format!(" {options}"));
    }
    for mount in &launch.mounts {
        let mode = if mount.read_only { ":ro" } else { "" };
        line.push_str(&format!(
            " -v \"{}\":\"{}\"{mode}",
            mount.host.display(),
            mount.inside
        ));
    }
    format!("{line} {image} {}", launch.args.trim_start())
}

#[test]
fn the_command_line_has_the_runners_options_in_the_runners_order() {
    use super::engine::Mount;
    let mut launch = Launch {
        entrypoint: Some("/bin/sh".to_owned()),
        args: " \"-c\" \"echo\"".to_owned(),
        environment: [("A-B", "x"), ("CI", "true"), ("GITHUB_ACTIONS", "true")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        mounts: vec![Mount {
            host: "/w/demo/demo".into(),
            inside: "/github/workspace".to_owned(),
            read_only: false,
        }],
        workspace: "/w/demo/demo".into(),
        scratch: "/w/scratch".into(),
        name: "demo_0a1b2c".to_owned(),
    };
    let expected = "run --name demo_0a1b2c --label 5a6b7c --workdir /github/workspace --rm -e \"A-B\" \
                    -e GITHUB_ACTIONS=true -e CI=true --entrypoint \"/bin/sh\" --network host \
                    -v \"/w/demo/demo\":\"/github/workspace\" demo:test \"-c\" \"echo\"";
    assert_eq!(
        command_line(&launch, "demo:test", "--network host"),
        expected
    );
    launch
        .environment
        .insert("CI".to_owned(), "false".to_owned());
    let line = command_line(&launch, "demo:test", "");
    assert!(
        line.contains(" -e \"CI\" -e GITHUB_ACTIONS=true --entrypoint"),
        "{line}"
    );
}
