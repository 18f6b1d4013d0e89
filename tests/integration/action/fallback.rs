//! Several agents: who takes over, what each of them sees, and what is asked of their programs.

use std::time::Duration;

use super::PROMISE;
use super::agents::{fixture, job};
use super::registry::{Registry, Released};
use crate::runner::{Job, Kind, StepResult, TOKEN};

const CLAUDE_KEY: &str = "sk-ant-key-of-claude";
const CODEX_KEY: &str = "sk-key-of-codex";

/// Both agents from npm. Each writes down what it sees, and so does npm when it installs them.
fn both(claude: &str, codex: &str) -> Registry {
    let script = |name: &str, script: &str| {
        format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && {{ env >version-{name}; echo {name} 1.2.3; exit; }}\n\
             cat >/dev/null; env >seen-{name}\n\
             n=$(cat $HOME/n-{name} 2>/dev/null || echo 0); n=$((n+1)); echo $n >$HOME/n-{name}\n{script}\n"
        )
    };
    let (claude, codex) = (script("claude", claude), script("codex", codex));
    Registry::with(&[
        Released {
            package: "@anthropic-ai/claude-code",
            program: "claude",
            version: "2.1.0",
            script: &claude,
            postinstall: "env >/github/workspace/npm-claude",
        },
        Released {
            package: "@openai/codex",
            program: "codex",
            version: "0.1.0",
            script: &codex,
            postinstall: "env >/github/workspace/npm-codex",
        },
    ])
}

fn job_of_both(registry: &Registry) -> Option<Job> {
    let mut job = Job::new()?
        .input("prompt", "Do it")
        .input("agent", "claude, codex")
        .env("ANTHROPIC_API_KEY", CLAUDE_KEY)
        .env("OPENAI_API_KEY", CODEX_KEY)
        .env("npm_config_registry", &registry.url);
    for name in [
        "claude-err401-stream.jsonl",
        "claude-success-stream.jsonl",
        "codex-edit-json.jsonl",
    ] {
        job = job.file(name, &fixture(name));
    }
    Some(job)
}

#[test]
fn an_agent_takes_over_from_a_broken_one_and_sees_nothing_of_its_keys() {
    let registry = both(
        "cat claude-err401-stream.jsonl; exit 1",
        "cat codex-edit-json.jsonl",
    );
    let Some(job) = job_of_both(&registry) else {
        return;
    };
    let outcome = job.run();
    assert_eq!(outcome.result, StepResult::Succeeded, "{outcome}");
    assert_eq!(outcome.output("iterations"), Some("1"), "{outcome}");
    assert_eq!(outcome.output("failure-class"), Some(""), "{outcome}");
    assert_eq!(outcome.output("input-tokens"), Some("24000"), "{outcome}");
    for (file, sees) in [
        ("seen-claude", Some(CLAUDE_KEY)),
        ("seen-codex", Some(CODEX_KEY)),
        ("npm-claude", None),
        ("npm-codex", None),
        ("version-claude", None),
        ("version-codex", None),
    ] {
        let seen = job.read(file);
        for key in [CLAUDE_KEY, CODEX_KEY] {
            assert_eq!(seen.contains(key), sees == Some(key), "{file}: {seen}");
        }
        assert!(!seen.contains(TOKEN), "{file}: {seen}");
    }
    let log = outcome.log_text();
    for told in [
        "claude: claude 1.2.3",
        "codex: codex 1.2.3",
        "permanent: claude: the provider does not accept the key (Invalid API key · Fix external API key); \
         codex takes over",
    ] {
        assert!(log.contains(told), "{told}: {log}");
    }
    let summary = outcome.summary.unwrap_or_default();
    for told in [
        "- In iteration 1 codex took over from claude: permanent, the provider does not accept the key",
        "--output-format stream-json --verbose (claude 1.2.3)`",
        "--dangerously-bypass-approvals-and-sandbox - (codex 1.2.3)`",
    ] {
        assert!(summary.contains(told), "{told}: {summary}");
    }
    let kept = |name: &str| {
        job.temp()
            .join(outcome.outputs["run-dir"].clone())
            .join(name)
    };
    let raw = |name: &str| std::fs::read_to_string(kept(name)).unwrap();
    assert_eq!(
        raw("iteration-1.log"),
        fixture("claude-err401-stream.jsonl")
    );
    assert_eq!(raw("iteration-1-2.log"), fixture("codex-edit-json.jsonl"));
}

#[test]
fn the_summary_tells_which_agent_did_what() {
    let registry = both(
        "case $n in 1) cat claude-success-stream.jsonl;; *) cat claude-err401-stream.jsonl; exit 1;; esac",
        "cat codex-edit-json.jsonl",
    );
    let Some(job) = job_of_both(&registry) else {
        return;
    };
    let job = job.input("completion-promise", "NEVER");
    let outcome = job.input("max-iterations", "3").run();
    assert_eq!(outcome.output("status"), Some("max-iters"), "{outcome}");
    let summary = outcome.summary.unwrap_or_default();
    let work = "verbose`, then `codex exec --json";
    assert!(summary.contains(work), "{summary}");
    assert!(
        summary.contains("| duration | agent | tokens |"),
        "{summary}"
    );
    let rows = summary.lines().filter(|line| line.contains("✅ success"));
    let agents: Vec<&str> = rows.filter_map(|row| row.split(" | ").nth(3)).collect();
    assert_eq!(agents, ["claude", "codex", "codex"], "{summary}");
}

#[test]
fn the_keys_of_an_alias_are_masked_and_no_token_is_one() {
    let Some(job) = job("text", &format!("echo it is $MINE_KEY; {PROMISE}")) else {
        return;
    };
    let job = job
        .env("MINE_KEY", "no name for a secret")
        .input("verbose", "true");
    let outcome = job.run();
    assert_eq!(outcome.output("status"), Some("success"), "{outcome}");
    assert!(outcome.masks.contains(&"no name for a secret".to_owned()));
    assert!(outcome.log.contains(&"it is ***".to_owned()), "{outcome}");
    // The runner learns it before the first line of the run.
    assert!(!outcome.log_text().contains("no name"), "{outcome}");
    for (names, told) in [
        ("GH_TOKEN", "expected no `GH_TOKEN`, a token for GitHub"),
        (
            "GITHUB_TOKEN",
            "expected no `GITHUB_TOKEN`, which no agent may see",
        ),
    ] {
        let Some(job) = self::job("text", PROMISE) else {
            return;
        };
        let config =
            format!("ai_cmd_aliases: {{mine: {{command: sh agent.sh, env: [{names}]}}}}\n");
        let outcome = job.file("rooda-config.yml", &config).run();
        assert_eq!(outcome.exit_code, Some(78), "{outcome}");
        let errors = outcome.kept(Kind::Error);
        assert!(errors[0].contains(told), "{errors:?}");
    }
    let Some(job) = self::job("text", "touch ran") else {
        return;
    };
    let job = job.env("MINE_KEY", &format!("Bearer {TOKEN}"));
    let outcome = job.run();
    assert_eq!(outcome.exit_code, Some(78), "{outcome}");
    let errors = outcome.kept(Kind::Error);
    let told = "the variable MINE_KEY holds the token of the job, which no agent may see";
    assert!(errors[0].contains(told), "{errors:?}");
    assert!(!job.workspace().join("ran").exists());
}

/// A job whose agent is a known one that is there already.
fn job_of_gemini(script: &str) -> Option<Job> {
    let script = format!("#!/bin/sh\n{script}\n");
    let setup = "cp gemini.sh /usr/local/bin/gemini; chmod 755 /usr/local/bin/gemini";
    let job = Job::new()?
        .file("gemini.sh", &script)
        .input("prompt", "Do it")
        .input("agent", "gemini")
        .input("setup", setup)
        .env("GEMINI_API_KEY", "key-of-gemini");
    Some(job)
}

#[test]
fn whatever_a_program_does_when_it_is_asked_for_its_version_is_no_harm() {
    for (answer, told) in [
        ("exec sleep 600", "(version unknown)"),
        ("exit 9", "(version unknown)"),
        ("setsid sleep 600 & echo 1.2.3", "(1.2.3)"),
        (
            "yes '::error::1 @octocat ##[error]1 `x` | <img>' | head -c 1048576",
            "@octocat",
        ),
    ] {
        let script = format!("[ \"$1\" != --version ] || {{ {answer}; exit; }}\n{PROMISE}");
        let Some(job) = job_of_gemini(&script) else {
            return;
        };
        let outcome = job.run();
        assert_eq!(outcome.result, StepResult::Succeeded, "{answer}: {outcome}");
        assert!(outcome.kept(Kind::Error).is_empty(), "{outcome}");
        assert!(outcome.log_text().len() < 10_000, "{answer}");
        let summary = outcome.summary.unwrap_or_default();
        let row = summary
            .lines()
            .find(|line| line.starts_with("| AI Command |"));
        let row = row.unwrap_or_default();
        assert!(row.contains(told) && row.len() < 300, "{answer}: {summary}");
        assert!(outcome.elapsed < Duration::from_secs(30), "{answer}");
    }
}

#[test]
fn a_cancel_while_a_program_is_asked_for_its_version_is_not_lost() {
    let script =
        format!("[ \"$1\" != --version ] || {{ touch asked; sleep 600; }}\ntouch ran; {PROMISE}");
    let Some(job) = job_of_gemini(&script) else {
        return;
    };
    let step = job.start();
    crate::harness::wait_until("the question", || {
        job.workspace().join("asked").exists().then_some(())
    });
    let outcome = step.cancel();
    assert_eq!(outcome.exit_code, Some(130), "{outcome}");
    assert_eq!(outcome.output("status"), Some("interrupted"), "{outcome}");
    assert!(!job.workspace().join("ran").exists(), "{outcome}");
}
