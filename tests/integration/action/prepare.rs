//! What happens before the loop: setup, the agent's program, its user and its jail.

use super::registry::{Registry, Released};
use super::{PROMISE, job};
use crate::runner::{Job, Kind, StepResult};

#[test]
fn setup_runs_once_as_root_and_its_services_go_on() {
    let script = format!(
        "cat >/dev/null; id -u >who; cat /opt/from-setup >what; [ -e /tmp/beat ] && {PROMISE}"
    );
    let Some(job) = job(&script) else { return };
    let setup = "id -u; echo hello >/opt/from-setup; mkdir made; touch made/by-root\n\
                 setsid sh -c 'while :; do touch /tmp/beat; echo talking; echo more >&2; sleep 0.05; done' &\n\
                 env | grep -E 'TOKEN|INPUT_|ACTIONS_' && exit 9 || true\n";
    let job = job.input("setup", setup);
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert_eq!(outcome.groups().first(), Some(&"Setup"), "{outcome}");
    assert!(outcome.group("Setup").contains(&"0"), "{outcome}");
    assert_eq!(job.read("who"), "1001\n");
    assert_eq!(job.read("what"), "hello\n");
    assert!(job.workspace().join("made/by-root").exists());
    assert!(job.root_owned().is_empty(), "{:?}", job.root_owned());
}

#[test]
fn a_setup_that_fails_is_told_and_nothing_is_run() {
    let Some(job) = job("touch ran") else { return };
    let job = job.input(
        "setup",
        "echo one\necho 'E: no such package' >&2; false; echo never",
    );
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("error"), "{outcome}");
    assert_eq!(outcome.exit_code, Some(69));
    let errors = outcome.kept(Kind::Error);
    assert_eq!(errors.len(), 1, "{outcome}");
    assert!(
        errors[0].contains("the setup script ended with exit code 1: E: no such package"),
        "{errors:?}"
    );
    assert!(!job.workspace().join("ran").exists());
    assert!(!outcome.log_text().contains("never"));
}

#[test]
fn a_cancelled_setup_is_interrupted() {
    let Some(job) = job(PROMISE) else { return };
    let job = job.input("setup", "echo ready; sleep 60");
    let step = job.start();
    step.wait_for_log("ready");
    let outcome = step.cancel();
    assert_eq!(outcome.output("status"), Some("interrupted"), "{outcome}");
    assert_eq!(outcome.exit_code, Some(130));
    assert!(!job.is_running());
}

#[test]
fn the_agent_is_somebody_with_a_home_a_name_and_a_commit() {
    let script = format!(
        "cat >/dev/null; whoami >who; git log -1 --format=%H >head; echo x >x; git add x; git commit -qm x; \
         git log -1 --format='%an %cn' >author; touch $HOME/a && mv $HOME/a ./a && mv ./a /tmp/a; echo y >/dev/stderr; {PROMISE}"
    );
    let Some(job) = job(&script) else { return };
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert_eq!(job.read("who"), "agent\n");
    assert_eq!(
        job.read("author"),
        "github-actions[bot] github-actions[bot]\n"
    );
    assert!(job.foreign_files().is_empty());
}

#[test]
fn a_workspace_of_root_is_refused_unless_somebody_says_root() {
    let script = format!("id -u >who; echo $IS_SANDBOX >sandbox; {PROMISE}");
    let Some(job) = job(&script) else { return };
    let job = job.workspace_owner(0);
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("error"), "{outcome}");
    let errors = outcome.kept(Kind::Error);
    assert!(
        errors[0].contains("belongs to root") && errors[0].contains("`run-as: root`"),
        "{errors:?}"
    );
    // Root can reach the socket of docker, so not everything that is required holds.
    let job = job.input("run-as", "root");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("error"), "{outcome}");
    assert!(
        outcome.kept(Kind::Error)[0].contains("`sandbox: auto`"),
        "{outcome}"
    );
    let job = job.input("sandbox", "auto");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert_eq!(job.read("who"), "0\n");
    assert_eq!(job.read("sandbox"), "1\n");
    assert!(
        outcome
            .log_text()
            .contains("not protected: a user of its own"),
        "{outcome}"
    );
}

#[test]
fn an_agent_that_is_not_there_is_told_with_the_remedy() {
    let Some(job) = Job::new() else { return };
    let job = job.input("prompt", "x").input("ai-cmd", "no-such-agent -p");
    let outcome = job.run();
    assert_eq!(outcome.exit_code, Some(69), "{outcome}");
    assert!(outcome.kept(Kind::Error)[0].contains("AI command binary not found: no-such-agent"));
}

#[test]
fn an_agent_from_npm_that_cannot_be_installed_is_told() {
    let Some(job) = Job::new() else { return };
    // Nobody listens there.
    let job = job
        .input("prompt", "x")
        .input("agent", "gemini")
        .input("agent-version", "0.0.0-no-such-version")
        .env("npm_config_registry", "http://127.0.0.1:9")
        .env("npm_config_fetch_retries", "0");
    let outcome = job.run();
    assert_eq!(outcome.result, StepResult::Failed, "{outcome}");
    let errors = outcome.kept(Kind::Error);
    assert!(
        errors[0].contains("cannot install @google/gemini-cli@0.0.0-no-such-version"),
        "{errors:?}"
    );
    assert!(errors[0].contains("registry"), "{errors:?}");
}

#[test]
fn an_agent_from_npm_is_installed_as_the_agents_user() {
    let Some(job) = Job::new() else { return };
    let script = format!(
        "#!/bin/sh\ncat >/dev/null; echo $0 \"$@\" >called; stat -Lc %u $0 >>called; echo $GEMINI_API_KEY >>called; {PROMISE}\n"
    );
    let registry = Registry::with(&[Released {
        package: "@google/gemini-cli",
        program: "gemini",
        version: "1.2.3",
        script: &script,
        postinstall: "",
    }]);
    let job = job
        .input("prompt", "x")
        .input("agent", "gemini")
        .input("agent-version", "1.2.3")
        .env("GEMINI_API_KEY", "key-of-gemini")
        .env("npm_config_registry", &registry.url);
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert!(
        outcome
            .groups()
            .contains(&"Install @google/gemini-cli@1.2.3"),
        "{outcome}"
    );
    assert_eq!(
        job.read("called"),
        "/home/agent/.local/bin/gemini --skip-trust --approval-mode yolo -o stream-json\n1001\nkey-of-gemini\n"
    );
    assert!(
        registry.asked().contains(&"/gemini.tgz".to_owned()),
        "{:?}",
        registry.asked()
    );
    // What is there already is not installed again.
    let job = job.input("agent-version", "").input(
        "setup",
        "printf '#!/bin/sh\\necho \"<promise>SUCCESS</promise>\"\\n' >/usr/local/bin/gemini; chmod 755 /usr/local/bin/gemini",
    );
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert_eq!(outcome.groups(), ["Setup", "Iteration 1/5"], "{outcome}");
}

#[test]
fn an_older_runner_without_a_folder_for_temporary_files() {
    let Some(job) = job(PROMISE) else { return };
    let job = job.old_runner(true);
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    let run_dir = outcome.output("run-dir").unwrap_or_default();
    assert!(
        job.temp().join("_github_home/rooda").exists() && !run_dir.is_empty(),
        "{outcome}"
    );
}
