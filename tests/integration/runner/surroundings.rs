//! What an action finds around it: users, files, variables, processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Checkout, DOCKER_GID, Job, RUNNER_UID, StepResult, TOKEN};
use crate::harness::{processes_with, unique_sleep, wait_until};

/// The environment of the first process, which a shell would have cleaned of names with dashes.
fn environment(job: &Job) -> BTreeMap<String, String> {
    let outcome = job.run();
    assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
    let text = job.read("environment");
    let pairs = text
        .split_terminator('\0')
        .map(|pair| pair.split_once('=').unwrap());
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

const KEEP_ENVIRONMENT: &str = "cat /proc/1/environ >/github/workspace/environment";

#[test]
fn the_environment_is_the_runners_and_nothing_else() {
    let Some(job) = Job::new() else { return };
    let job = job
        .script(KEEP_ENVIRONMENT)
        .input("max-iterations", "5")
        .input("Prompt", "two\nlines")
        .input("nobody-knows", "x")
        .env("MINE", "yes")
        .env("GITHUB_SHA", "forged");
    let variables = environment(&job);
    let expect = |name: &str, value: &str| {
        assert_eq!(
            variables.get(name).map(String::as_str),
            Some(value),
            "{name}"
        );
    };
    expect("INPUT_MAX-ITERATIONS", "5");
    expect("INPUT_PROMPT", "two\nlines");
    expect("INPUT_NOBODY-KNOWS", "x");
    expect("INPUT_TOKEN", TOKEN);
    expect("INPUT_AGENT", "");
    expect("MINE", "yes");
    expect("GITHUB_SHA", &job.commit());
    expect("HOME", "/github/home");
    expect("CI", "true");
    expect("GITHUB_ACTIONS", "true");
    expect("GITHUB_WORKSPACE", "/github/workspace");
    expect("GITHUB_EVENT_PATH", "/github/workflow/event.json");
    expect("RUNNER_TEMP", "/github/runner_temp");
    expect("RUNNER_ENVIRONMENT", "github-hosted");
    let output = &variables["GITHUB_OUTPUT"];
    assert!(
        output.starts_with("/github/file_commands/set_output_"),
        "{output}"
    );
    for absent in [
        "GITHUB_TOKEN",
        "RUNNER_DEBUG",
        "CARGO_MANIFEST_DIR",
        "HTTP_PROXY",
    ] {
        assert_eq!(variables.get(absent), None, "{absent}");
    }
    let workspace = Path::new(&variables["RUNNER_WORKSPACE"]);
    assert_eq!(Some(workspace), job.workspace().parent());
    let outcome = job.run();
    let warnings = outcome.kept(super::Kind::Warning);
    assert!(warnings[0].starts_with("Unexpected input(s) 'nobody-knows', valid inputs are"));
}

#[test]
fn variants_of_runners_show_in_the_environment() {
    let Some(job) = Job::new() else { return };
    let job = job
        .script(KEEP_ENVIRONMENT)
        .debug(true)
        .old_runner(true)
        .hosted(false)
        .proxy("http://proxy.example:3128")
        .env("CI", "false")
        .input("context", "${{ github.workspace }}/a")
        .input("setup", "see ${{ github.workspace }}");
    let variables = environment(&job);
    assert_eq!(variables["RUNNER_DEBUG"], "1");
    assert_eq!(variables["RUNNER_ENVIRONMENT"], "self-hosted");
    assert_eq!(variables["https_proxy"], "http://proxy.example:3128");
    assert_eq!(variables["CI"], "false");
    assert_eq!(variables["INPUT_CONTEXT"], "/github/workspace/a");
    let workspace = job.workspace().display().to_string();
    assert_eq!(variables["INPUT_SETUP"], format!("see {workspace}"));
    assert_eq!(variables["RUNNER_TEMP"], job.temp().display().to_string());

    let job = job.job_container(true);
    assert_eq!(environment(&job)["INPUT_CONTEXT"], "/__w/demo/demo/a");
}

#[test]
fn the_files_belong_to_those_who_own_them_on_a_hosted_runner() {
    let Some(job) = Job::new() else { return };
    let job = job.script(
        "set -e
        id -u; pwd; echo pid $$
        stat -c '%n %u %g %a' . README.md /github/home /github/runner_temp /github/workflow/event.json
        stat -c '%u %g %a %s' \"$GITHUB_OUTPUT\"
        stat -c '%n %u %g %a %F' /var/run/docker.sock
        ls /github/file_commands | wc -l
        cat; echo stdin is empty
        ls /github",
    );
    let outcome = job.run();
    let (uid, gid) = (RUNNER_UID, DOCKER_GID);
    let expected = [
        "0",
        "/github/workspace",
        "pid 1",
        &format!(". {uid} {gid} 755"),
        &format!("README.md {uid} {gid} 644"),
        &format!("/github/home {uid} {gid} 755"),
        &format!("/github/runner_temp {uid} {gid} 755"),
        &format!("/github/workflow/event.json {uid} {gid} 644"),
        &format!("{uid} {gid} 644 0"),
        &format!("/var/run/docker.sock 0 {gid} 660 socket"),
        "7",
        "stdin is empty",
        "file_commands",
        "home",
        "runner_temp",
        "workflow",
        "workspace",
    ];
    assert_eq!(outcome.log, expected, "{outcome}");
}

#[test]
fn an_old_runner_does_not_show_its_temporary_folder() {
    let Some(job) = Job::new() else { return };
    let outcome = job
        .old_runner(true)
        .script("ls /github; ls /github/file_commands | wc -l")
        .run();
    let expected = ["file_commands", "home", "workflow", "workspace", "7"];
    assert_eq!(outcome.log, expected);
}

#[test]
fn a_checkout_is_one_detached_commit_with_credentials_in_one_of_two_places() {
    let Some(_) = Job::new() else { return };
    let script = "
        export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*
        git rev-parse HEAD --abbrev-ref HEAD
        git rev-list --count HEAD
        git status --short
        git config --get-all http.https://github.com/.extraheader
        grep -c extraheader .git/config
        git config remote.origin.url";
    let secret = super::masks::base64(format!("x-access-token:{TOKEN}").as_bytes());
    for (checkout, in_config) in [(Checkout::V5, "1"), (Checkout::V6, "0")] {
        let job = Job::new().unwrap().checkout(checkout).script(script);
        let outcome = job.run();
        let commit = job.commit();
        let expected = [
            commit.as_str(),
            "HEAD",
            "1",
            "AUTHORIZATION: basic ***",
            in_config,
            "https://github.com/octo-org/demo",
        ];
        assert_eq!(outcome.log, expected, "{outcome}");
        assert!(outcome.masks.contains(&secret));
    }
    let job = Job::new()
        .unwrap()
        .checkout(Checkout::None)
        .script("ls -A | wc -l");
    assert_eq!(job.run().log, ["0"]);
    let job = Job::new()
        .unwrap()
        .on_branch("main")
        .script("cat .git/HEAD");
    assert_eq!(job.run().log, ["ref: refs/heads/main"]);
}

#[test]
fn what_is_written_outside_of_the_mounts_is_gone_with_the_container() {
    let Some(job) = Job::new() else { return };
    let job = job.script(
        "echo x >/etc/rooda-was-here; echo x >/usr/rooda-was-here; mkdir -p /github/home/.config; ls /root | wc -l
        touch made-by-root; mkdir -p d; touch d/mine; chown -R 1001 d; echo x >/github/runner_temp/left",
    );
    let outcome = job.run();
    assert_eq!(outcome.log, ["0"], "{outcome}");
    assert!(!Path::new("/etc/rooda-was-here").exists());
    assert!(!Path::new("/usr/rooda-was-here").exists());
    assert_eq!(job.root_owned(), [Path::new("made-by-root")]);
    assert_eq!(job.foreign_files(), [("made-by-root".into(), 0)]);
    let leftovers = ["_github_home/.config", "left"].map(Path::new);
    assert_eq!(job.leftovers(), leftovers);
    assert!(!job.is_running());
}

#[test]
fn another_owner_of_the_workspace_is_another_user_everywhere() {
    let Some(job) = Job::new() else { return };
    let job = job
        .workspace_owner(4321)
        .script("stat -c '%u %g' . README.md $GITHUB_ENV");
    assert_eq!(job.run().log, ["4321 4321"; 3]);
    job.write("a/b", "text");
    assert_eq!(job.foreign_files(), []);
}

#[test]
fn the_program_has_the_rights_of_a_container_and_not_more() {
    let Some(job) = Job::new() else { return };
    let job = job.script(
        "grep CapBnd /proc/self/status
        mount -t tmpfs x /mnt 2>/dev/null || echo cannot mount
        for file in /proc/sys/kernel/panic /proc/sysrq-trigger /sys/power/state; do
            [ -w $file ] && echo can write $file; done
        ls /proc/self/fd | wc -l
        echo x >/dev/null && echo x >/dev/shm/x && head -c 4 /dev/zero | wc -c",
    );
    let outcome = job.run();
    // The fourth descriptor is the one by which the folder is read.
    let expected = ["CapBnd:\t00000000a80425fb", "cannot mount", "4", "4"];
    assert_eq!(outcome.log, expected, "{outcome}");
}

#[test]
fn the_processes_of_a_container_can_be_seen_and_its_socket_is_watched() {
    let Some(job) = Job::new() else { return };
    let sleep = unique_sleep();
    let job = job
        .file("rooda.sh", "#!/bin/sh\necho from the repository\n")
        .script(&format!("./rooda.sh; {sleep} & echo ready; wait"));
    let step = job.start();
    assert_eq!(step.wait_for_log("ready")[0], "from the repository");
    wait_until("the sleep", || {
        let mut processes = step.processes().into_iter();
        processes.find(|one| one.command == sleep)
    });
    assert!(step.processes().iter().all(|one| one.uid == 0));
    assert!(step.is_running());
    drop(step);
    assert!(job.is_running());
    assert_eq!(job.processes().len(), 2);
    assert_eq!(job.docker_connections(), 0);
    std::os::unix::net::UnixStream::connect(job.temp().join("../../docker.sock")).unwrap();
    assert_eq!(job.docker_connections(), 1);
    let temp = job.temp();
    drop(job);
    assert_eq!(processes_with(&sleep), Vec::<String>::new());
    assert!(!temp.exists());
}

#[test]
fn the_fake_agent_and_other_files_can_be_shown_to_the_container() {
    let Some(job) = Job::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("text"), "of the machine").unwrap();
    let job = job
        .agent(
            "
            print hello
            exit 3",
        )
        .mount(folder.path(), "/opt/test/more")
        .script(
            "cat /proc/1/environ | tr '\\0' '\\n' | grep -a ^INPUT_AI-CMD=; cat /opt/test/more/text; echo
            git --no-optional-locks -c safe.directory=* status --short; exec /opt/test/fake_agent .agent",
        );
    let outcome = job.run();
    let expected = [
        "INPUT_AI-CMD=/opt/test/fake_agent /github/workspace/.agent",
        "of the machine",
        "hello",
    ];
    assert_eq!(outcome.log, expected, "{outcome}");
    assert_eq!(outcome.exit_code, Some(3));
    assert_eq!(job.invocations(), 1);
    assert_eq!(job.root_owned(), [Path::new(".agent.count")]);
}

#[test]
fn a_step_on_the_host_meets_what_the_action_left() {
    let Some(job) = Job::new() else { return };
    let job = job.script("echo x >README.md; mkdir roots; touch roots/file");
    assert_eq!(
        job.host_step("id -u; git status --short"),
        Ok(format!("{RUNNER_UID}\n"))
    );
    assert_eq!(job.run().exit_code, Some(0));
    assert_eq!(
        job.host_step("git status --short").unwrap(),
        " M README.md\n?? roots/\n"
    );
    let error = job.host_step("rm roots/file").unwrap_err();
    assert!(error.contains("Permission denied"), "{error}");
    assert_eq!(fs::read_to_string(job.command_file("output")).unwrap(), "");
}
