//! `rooda doctor`: all that a run needs, and what to mend.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use rustix::process::geteuid;
use serde_json::Value;

use crate::harness::{Ran, Rooda, Sandbox};

const SECRET: &str = "sk-never-to-be-shown";

/// A repository where nothing is wrong: an agent, its key, git with a name.
fn healthy() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.program("claude", "echo '2.1.325 (Claude Code)'");
    let path = std::env::var("PATH").unwrap();
    let git = std::env::split_paths(&path)
        .map(|folder| folder.join("git"))
        .find(|git| git.is_file());
    std::os::unix::fs::symlink(git.expect("git"), sandbox.path("bin/git")).unwrap();
    fs::write(
        sandbox.home(".gitconfig"),
        "[user]\nname = Ada\nemail = ada@example.org\n",
    )
    .unwrap();
    let made = Command::new("git")
        .args(["init", "-q"])
        .current_dir(sandbox.work())
        .status();
    assert!(made.unwrap().success());
    sandbox
}

/// `rooda doctor` with these arguments, in an environment where nothing is wrong.
fn doctor<'a, const N: usize>(sandbox: &'a Sandbox, arguments: [&str; N]) -> Rooda<'a> {
    sandbox
        .rooda(["doctor"])
        .args(arguments)
        .env("PATH", sandbox.path("bin").to_str().unwrap())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("ANTHROPIC_API_KEY", SECRET)
        .env("IS_SANDBOX", "1")
}

/// A PATH with what every system has, too.
fn with_system(sandbox: &Sandbox) -> String {
    format!("{}:/usr/bin:/bin", sandbox.path("bin").display())
}

/// The lines with a sign, each with its hints.
fn findings(ran: &Ran, sign: &str) -> Vec<String> {
    let mut findings: Vec<String> = Vec::new();
    for line in ran.stdout.lines().take_while(|line| !line.is_empty()) {
        match (line.strip_prefix("    "), findings.last_mut()) {
            (Some(hint), Some(finding)) => {
                finding.push('\n');
                finding.push_str(hint);
            }
            _ => findings.push(line.to_owned()),
        }
    }
    findings.retain(|finding| finding.starts_with(sign));
    findings
}

/// What is wrong, which must be one thing.
fn only_wrong(ran: &Ran) -> String {
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stdout.ends_with("\n\n1 problem\n"), "{ran}");
    let mut wrong = findings(ran, "✗");
    assert_eq!(wrong.len(), 1, "{ran}");
    wrong.remove(0)
}

fn snapshot(name: &str, ran: &Ran) {
    let filters = [
        (r"build, [0-9]+ prompts", "build, [N] prompts"),
        (r"Git: [^ ]+", "Git: [VERSION]"),
        (r"\(this kernel has [^)]*\)", "([KERNEL])"),
    ];
    insta::with_settings!({filters => filters}, {
        insta::assert_snapshot!(name, ran);
    });
    assert!(!ran.to_string().contains(SECRET), "{ran}");
}

#[test]
fn all_is_well() {
    let sandbox = healthy();
    sandbox.config("loop: {ai_cmd_alias: claude}");
    let ran = doctor(&sandbox, ["build"]).run();
    snapshot("all_is_well", &ran);
    let ran = doctor(&sandbox, ["build", "--json"]).run();
    snapshot("all_is_well_as_json", &ran);
}

#[test]
fn without_a_procedure_all_but_the_prompts_is_checked() {
    let sandbox = healthy();
    let ran = doctor(&sandbox, ["--ai-cmd-alias", "claude"]).run();
    snapshot("without_a_procedure", &ran);
    let ran = doctor(&sandbox, []).run();
    let wrong = only_wrong(&ran);
    assert!(
        wrong.starts_with("✗ no AI command is configured\nname an alias: "),
        "{ran}"
    );
}

#[test]
fn the_command_that_is_ready_can_be_pasted() {
    let sandbox = healthy();
    let promise = "--completion-promise=it's done";
    let ran = doctor(&sandbox, ["--ai-cmd-alias", "claude", "build", promise]).run();
    let ready = r"Ready: rooda --ai-cmd-alias claude build '--completion-promise=it'\''s done'";
    assert_eq!(ran.stdout.lines().last(), Some(ready), "{ran}");
}

#[test]
fn the_files_and_variables_that_were_read_are_named() {
    let sandbox = healthy();
    sandbox.global_config("loop: {failure_threshold: 2}");
    sandbox.file("sub/mine.yml", "loop: {ai_cmd_alias: claude}");
    let ran = doctor(&sandbox, ["build", "-C", "sub", "--config", "mine.yml"])
        .env("ROODA_LOOP_KILL_GRACE", "2s")
        .run();
    assert_eq!(ran.code, Some(0), "{ran}");
    let read = "Configuration: global: [ROOT]/home/.config/rooda/rooda-config.yml, \
                config: mine.yml, env: ROODA_LOOP_KILL_GRACE\n";
    assert!(ran.to_string().contains(read), "{ran}");
}

#[test]
fn every_mistake_in_the_configuration_is_told_with_its_place() {
    let sandbox = healthy();
    sandbox.config("loop:\n  log_levle: info\n  failure_threshold: 0\n");
    let ran = doctor(&sandbox, ["build"]).env("ROODA_LOOP_X", "1").run();
    snapshot("mistakes_in_the_configuration", &ran);
    sandbox.config("procedures: {mine: {act: x.md}}");
    let ran = doctor(&sandbox, ["mine", "--ai-cmd", "claude"]).run();
    assert_eq!((ran.code, findings(&ran, "✗").len()), (Some(1), 3), "{ran}");
    sandbox.config("loop: {ai_cmd_alias: cluade}");
    let wrong = only_wrong(&doctor(&sandbox, ["build"]).run());
    assert!(
        wrong.starts_with("✗ rooda-config.yml:1:8: loop.ai_cmd_alias: there is no AI command alias `cluade`\ndid you mean `claude`?"),
        "{wrong}"
    );
    let ran = doctor(&sandbox, ["-C", "nowhere"]).run();
    assert_eq!(
        only_wrong(&ran),
        "✗ cannot use the directory nowhere: No such file or directory"
    );
}

#[test]
fn a_mistake_on_the_command_line_is_a_usage_error() {
    let sandbox = healthy();
    for arguments in [
        ["biuld", "--ai-cmd=claude"],
        ["build", "--ai-cmd-alias=cluade"],
        ["build", "--nonsense"],
        ["build", "audit-spec"],
    ] {
        let ran = doctor(&sandbox, arguments).run();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(64), ""), "{ran}");
    }
}

#[test]
fn prompts_are_read_and_filled_in() {
    let sandbox = healthy();
    sandbox.file("later.md", "one\n\n{{ a | nofilter }}");
    sandbox.config(
        "procedures:
  mine:
    observe: missing.md
    orient: [{content: 'look at {{ what }}', parameters: {}}]
    decide: builtin:decide/tsak.md
    act: [{path: later.md, parameters: {a: 1}}]
  silent:
    observe: [{content: a}]
    orient: [{content: b}]
    decide: [{content: c}]
    act: [{content: d}]
",
    );
    let ran = doctor(&sandbox, ["mine", "--ai-cmd-alias", "claude"]).run();
    snapshot("prompts_are_read_and_filled_in", &ran);
    let ran = doctor(&sandbox, ["silent", "--ai-cmd", "claude -p | tee log"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    let odd = findings(&ran, "! ").join("\n");
    for told in [
        "the prompt never mentions <promise>SUCCESS</promise>",
        "`|` is passed on as it is",
    ] {
        assert!(odd.contains(told), "{ran}");
    }
}

#[test]
fn the_ai_command_must_be_there_and_start() {
    let sandbox = healthy();
    sandbox.script("bin/gemini", "#!/nowhere/node", "");
    sandbox.program(
        "copilot",
        "echo 'env: node: No such file or directory' >&2; exit 127",
    );
    sandbox.program("opencode", "echo 'Error: no home' >&2; exit 3");
    let names = "claude,codex,gemini,copilot,opencode";
    let ran = doctor(&sandbox, ["build", "--ai-cmd-alias", names]).run();
    snapshot("ai_commands", &ran);
    let wrong = only_wrong(&doctor(&sandbox, ["build", "--ai-cmd", "./agent"]).run());
    assert_eq!(
        wrong,
        "✗ AI command binary not found: ./agent\nthere is no such file"
    );
}

#[test]
fn an_alias_beside_a_command_has_no_effect() {
    let sandbox = healthy();
    let ran = doctor(
        &sandbox,
        ["--ai-cmd", "claude -p", "--ai-cmd-alias", "codex"],
    )
    .run();
    let odd = findings(&ran, "! the AI command (cli: --ai-cmd) wins over the alias");
    assert_eq!((ran.code, odd.len()), (Some(0), 1), "{ran}");
}

#[test]
fn claude_refuses_to_be_root() {
    if !geteuid().is_root() {
        println!("NOT RUN: this user is not root");
        return;
    }
    let sandbox = healthy();
    sandbox.config(
        "ai_cmd_aliases:
  asking: claude -p
  safe: env IS_SANDBOX=1 claude -p --dangerously-skip-permissions
  allowed: claude -p --allow-dangerously-skip-permissions
  unsafe: env IS_SANDBOX=0 claude -p --permission-mode bypassPermissions
",
    );
    let run = |alias: &str, is_sandbox: &str| {
        doctor(&sandbox, ["--ai-cmd-alias", alias])
            .env("IS_SANDBOX", is_sandbox)
            .env("PATH", &with_system(&sandbox))
            .run()
    };
    for value in ["", "0", "true"] {
        assert_eq!(
            only_wrong(&run("claude", value)),
            "✗ claude refuses to run as root\n\
             run it as another user; or, in a container where nothing is at stake, set IS_SANDBOX=1"
        );
    }
    assert!(only_wrong(&run("allowed", "")).starts_with("✗ allowed refuses"));
    assert!(only_wrong(&run("unsafe", "1")).starts_with("✗ unsafe refuses"));
    for (alias, value) in [("claude", "1"), ("safe", ""), ("asking", "")] {
        let ran = run(alias, value);
        assert_eq!(ran.code, Some(0), "{alias}: {ran}");
    }
}

#[test]
fn a_key_that_is_missing_is_no_obstacle() {
    let sandbox = healthy();
    let ran = doctor(&sandbox, ["--ai-cmd-alias", "claude"])
        .env("ANTHROPIC_API_KEY", "")
        .run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(
        findings(&ran, "! No key"),
        [
            "! No key of claude in the environment: ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, \
          CLAUDE_CODE_OAUTH_TOKEN\nno obstacle if you are logged in to claude"
        ]
    );
}

#[test]
fn a_budget_that_cannot_be_held_is_odd_or_wrong() {
    let sandbox = healthy();
    let budget = ["--ai-cmd", "claude -p", "--max-cost-usd", "5"];
    let ran = doctor(&sandbox, budget).run();
    let lost = "max_cost_usd perhaps cannot be held: claude may not tell";
    assert_eq!(findings(&ran, &format!("! {lost}")).len(), 1, "{ran}");
    assert_eq!(ran.code, Some(0), "{ran}");
    sandbox.config("loop: {budget_required: true}");
    let wrong = only_wrong(&doctor(&sandbox, budget).run());
    assert!(wrong.starts_with(&format!("✗ {lost}")), "{wrong}");
    assert!(wrong.contains("\nuse an agent that tells"), "{wrong}");
}

#[test]
fn an_endless_run_needs_a_bound_in_a_workflow() {
    let sandbox = healthy();
    let ran = doctor(&sandbox, ["build", "--ai-cmd=claude", "--unlimited"])
        .env("GITHUB_ACTIONS", "true")
        .run();
    let wrong = only_wrong(&ran);
    assert!(
        wrong.starts_with("✗ an unlimited number of iterations"),
        "{wrong}"
    );
}

#[test]
fn git_is_needed_to_commit_but_not_to_run() {
    let sandbox = healthy();
    let run = || {
        let ran = doctor(&sandbox, ["--ai-cmd-alias", "claude"]).run();
        assert_eq!(ran.code, Some(0), "{ran}");
        ran
    };
    // Git makes up a name from that of the user, which nobody wants to see in a log.
    fs::write(sandbox.home(".gitconfig"), "[user]\nname = Ada\n").unwrap();
    let ran = run();
    let odd = findings(&ran, "! git");
    assert_eq!(odd.len(), 1, "{ran}");
    assert!(
        odd[0].starts_with("! git has no name and email for commits\ngit config"),
        "{ran}"
    );
    let named = doctor(&sandbox, ["--ai-cmd-alias", "claude"])
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_EMAIL", "c@example.org")
        .run();
    assert_eq!(
        findings(&named, "✓ Commits: by Ada <a@example.org>").len(),
        1,
        "{named}"
    );

    let inside = doctor(&sandbox, ["--ai-cmd-alias", "claude", "-C", ".git"]).run();
    let odd = "! this is in a git repository, but not in a work tree of it";
    assert_eq!(findings(&inside, odd).len(), 1, "{inside}");

    if geteuid().is_root() {
        chown(sandbox.work(), Some(1001), Some(1001)).unwrap();
        let ran = run();
        let odd = findings(
            &ran,
            "! git finds no repository here\nfatal: detected dubious ownership",
        );
        assert_eq!(odd.len(), 1, "{ran}");
    }
    fs::remove_dir_all(sandbox.path(".git")).unwrap();
    let ran = run();
    assert_eq!(
        findings(&ran, "! git finds"),
        ["! git finds no repository here\n\
          fatal: not a git repository (or any of the parent directories): .git\n\
          the agent cannot commit what it did"]
    );
    fs::remove_file(sandbox.path("bin/git")).unwrap();
    let ran = run();
    let odd = findings(&ran, "! git");
    assert_eq!(
        odd,
        ["! git is not there\nthe agent cannot commit what it did"]
    );
}

#[test]
fn the_directory_must_be_writable() {
    let sandbox = healthy();
    let writable = |mode| fs::set_permissions(sandbox.work(), fs::Permissions::from_mode(mode));
    writable(0o555).unwrap();
    // Root may write everywhere, unless that right is taken away.
    let script = match geteuid().is_root() {
        true => "exec setpriv --bounding-set=-dac_override \"$@\"",
        false => "exec \"$@\"",
    };
    let ran = doctor(&sandbox, ["--ai-cmd-alias", "claude"])
        .env("PATH", &with_system(&sandbox))
        .by_shell(script)
        .run();
    writable(0o755).unwrap();
    let wrong = only_wrong(&ran);
    assert!(
        wrong.starts_with("✗ cannot write to the directory /"),
        "{wrong}"
    );
}

#[test]
fn json_tells_the_same() {
    let sandbox = healthy();
    let ran = doctor(&sandbox, ["build", "--json"]).run();
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (ran.code, &told["ready"]),
        (Some(1), &Value::Bool(false)),
        "{ran}"
    );
    let checks = told["checks"].as_array().unwrap();
    let wrong: Vec<_> = checks
        .iter()
        .filter(|check| check["verdict"] == "wrong")
        .collect();
    assert_eq!(wrong.len(), 1, "{ran}");
    assert_eq!(wrong[0]["message"], "no AI command is configured");
    assert!(!wrong[0]["hints"].as_array().unwrap().is_empty(), "{ran}");
}
