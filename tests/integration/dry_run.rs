//! `--dry-run`: everything is checked and shown, nothing is run.

use std::process::Command;

use crate::harness::Sandbox;

/// A sandbox with a procedure of one small prompt file per phase, so that the whole prompt fits into a snapshot.
fn with_small_prompts() -> Sandbox {
    let sandbox = Sandbox::new();
    for phase in ["observe", "orient", "decide", "act"] {
        sandbox.file(&format!("prompts/{phase}.md"), &format!("Do {phase}.\n"));
    }
    sandbox.config(
        "loop: {default_max_iterations: 10}
ai_cmd_aliases: {mine: 'my-agent --yes'}
procedures:
  mine:
    observe: prompts/observe.md
    orient: prompts/orient.md
    decide: prompts/decide.md
    act: prompts/act.md
",
    );
    sandbox
}

/// Puts a program of this name into the folder `bin`, to be found in the PATH.
fn program(sandbox: &Sandbox, name: &str) -> String {
    let path = sandbox.path("bin").join(name);
    sandbox.file(&format!("bin/{name}"), "");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fake_agent"), path).unwrap();
    sandbox.path("bin").to_str().unwrap().to_owned()
}

#[test]
fn all_is_well() {
    let sandbox = with_small_prompts();
    let path = program(&sandbox, "my-agent");
    let ran = sandbox
        .rooda(["mine", "--dry-run", "--ai-cmd-alias", "mine"])
        .env("PATH", &path)
        .run();
    insta::assert_snapshot!(ran);
}

#[test]
fn the_built_in_procedure_with_a_built_in_alias() {
    let sandbox = Sandbox::new();
    let path = program(&sandbox, "claude");
    let ran = sandbox
        .rooda(["build", "--dry-run", "--ai-cmd-alias", "claude"])
        .env("PATH", &path)
        .run();
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran}");
    for line in [
        "=== Dry-Run: build ===",
        "  AI Command: claude -p --dangerously-skip-permissions --output-format stream-json --verbose (cli: --ai-cmd-alias \"claude\" → built-in alias)",
        "  Max Iterations: 5 (built-in)",
        "  Iteration Timeout: none (built-in)",
        "  Max Output Buffer: 10MB (built-in)",
        "  Failure Threshold: 3 (built-in)",
        "  ✓ Prompt file exists: builtin:act/build.md",
        "# OODA Loop Iteration",
        "## OBSERVE",
        "## ORIENT",
        "## DECIDE",
        "## ACT",
        "Dry-run complete. Ready to execute: rooda build --ai-cmd-alias claude",
    ] {
        assert!(ran.stdout.lines().any(|l| l == line), "{line}: {ran}");
    }
    // The number of bytes is that of what stands between the rules.
    let rule = "────────────────────────────────────────\n";
    let parts: Vec<&str> = ran.stdout.split(rule).collect();
    let [before, prompt, _] = parts[..] else {
        panic!("{ran}")
    };
    let bytes = before.rsplit_once("Assembled Prompt (").unwrap().1;
    let bytes = bytes.split_once(" bytes").unwrap().0.replace(',', "");
    assert_eq!(bytes.parse(), Ok(prompt.len()));
}

#[test]
fn the_ai_command_is_missing() {
    let sandbox = with_small_prompts();
    let ran = sandbox
        .rooda(["mine", "--dry-run", "--ai-cmd", "nonexistent-cli"])
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .run();
    insta::assert_snapshot!(ran);
}

#[test]
fn no_ai_command_is_configured() {
    let ran = with_small_prompts().rooda(["mine", "--dry-run"]).run();
    insta::assert_snapshot!(ran);
}

#[test]
fn all_problems_in_one_go() {
    let sandbox = Sandbox::new();
    sandbox.config(
        "procedures:
  mine:
    observe: missing.md
    orient: [prompts/also-missing.md, {content: fine}]
    decide: builtin:decide/tsak.md
    act: builtin:act/commit.md
",
    );
    let ran = sandbox
        .rooda(["mine", "-d", "--ai-cmd", "./nonexistent-cli"])
        .run();
    insta::assert_snapshot!(ran);
}

#[test]
fn templates_are_tried_out() {
    let sandbox = Sandbox::new();
    sandbox.file("broken.md", "one\n{{ a");
    sandbox.file("later.md", "one\n\n{{ a | nofilter }}");
    sandbox.config(
        "procedures:
  mine:
    observe:
      - content: 'look at {{ what }}'
        parameters: {}
    orient:
      - content: 'nothing to fill in'
        parameters: {what: the code}
    decide:
      - path: broken.md
        parameters: {a: 1}
    act:
      - path: later.md
        parameters: {a: 1}
",
    );
    // Also when something else is wrong, too.
    let dry = sandbox.rooda(["mine", "-d"]).run();
    insta::assert_snapshot!(dry);
    let real = sandbox.rooda(["mine", "--ai-cmd", "true"]).run();
    assert_eq!(real.code, Some(78), "{real}");
    insta::assert_snapshot!("templates_are_tried_out_before_the_first_iteration", real);
}

#[test]
fn what_keeps_the_plan_from_being_made_makes_it_invalid() {
    let sandbox = Sandbox::new();
    sandbox.config("loop: {log_levle: info}");
    insta::assert_snapshot!(sandbox.rooda(["build", "-d"]).run());
    sandbox.config("procedures: {mine: {act: x.md}}");
    assert_eq!(sandbox.rooda(["mine", "-d"]).run().code, Some(1));
    sandbox.config("loop: {ai_cmd_alias: cluade}");
    let ran = sandbox.rooda(["build", "-d"]).run();
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stdout.contains(
            "✗ rooda-config.yml:1:8: loop.ai_cmd_alias: there is no AI command alias `cluade`"
        ),
        "{ran}"
    );
    sandbox.config("");
    for (arguments, code) in [
        (&["build", "-d", "-c", "@nowhere.md"][..], 1),
        (&["build", "-d", "--config", "nowhere.yml"], 1),
        (&["build", "-d", "-C", "nowhere"], 1),
        (&["loop", "-d", "--file", "nowhere.md"], 1),
        (&["loop", "-d", "x", "-C", "nowhere"], 1),
        // Mistakes on the command line itself.
        (&["biuld", "-d"], 64),
        (&["build", "-d", "-n", "0"], 64),
        (&["build", "-d", "--ai-cmd-alias", "cluade"], 64),
        (&["loop", "-d", ""], 64),
    ] {
        let ran = sandbox.rooda(arguments.iter().copied()).run();
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran}");
        assert_eq!(
            ran.stderr.contains("Error: Dry-run validation failed\n"),
            code == 1,
            "{arguments:?}: {ran}"
        );
    }
}

#[test]
fn nothing_is_run() {
    let sandbox = Sandbox::new();
    let ran = sandbox.build("touch ran", ["--dry-run"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert_eq!(sandbox.invocations(), 0);
    let mut files: Vec<_> = std::fs::read_dir(sandbox.work())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(files, [".agent"]);
}

#[test]
fn the_context_is_shown_in_order_before_the_phases() {
    let sandbox = with_small_prompts();
    sandbox.file("notes.md", "from the notes\n");
    let ran = sandbox
        .rooda(["mine", "-d", "--ai-cmd", "true", "-c", "first"])
        .args(["-c", "@notes.md", "--context", "third"])
        .run();
    let expected = "# OODA Loop Iteration\n\n\
                    ## CONTEXT\nfirst\n\nfrom the notes\n\nthird\n\n\
                    ## OBSERVE\nDo observe.\n";
    assert!(ran.stdout.contains(expected), "{ran}");
}

/// The last line of a dry run is a command: a shell that runs it runs what was rehearsed.
#[test]
fn the_command_that_is_shown_can_be_pasted() {
    let sandbox = with_small_prompts();
    let agent = sandbox.agent("save seen");
    let ran = sandbox
        .rooda(["-qd", "mine", "-n1", "--ai-cmd", &agent])
        .args(["-c", "it's \"$HOME\" & `more`"])
        .run();
    let ready = "Dry-run complete. Ready to execute: ";
    let line = ran.stdout.lines().last().unwrap();
    let command = line.strip_prefix(ready).unwrap();
    let rooda = env!("CARGO_BIN_EXE_rooda");
    let path = format!("{}:/bin:/usr/bin", rooda.rsplit_once('/').unwrap().0);
    let status = Command::new("sh")
        .args(["-c", command])
        .env_clear()
        .env("PATH", path)
        .current_dir(sandbox.work())
        .status()
        .unwrap();
    assert_eq!((status.code(), sandbox.invocations()), (Some(2), 1));
    let prompt = sandbox.read("seen");
    assert!(prompt.contains("it's \"$HOME\" & `more`\n"), "{prompt}");
    assert!(ran.stdout.contains(&prompt), "{ran}");
}

#[test]
fn a_flag_that_stands_for_a_value_is_kept() {
    let sandbox = with_small_prompts();
    let ran = sandbox
        .rooda(["mine", "--dry-run", "--ai-cmd", "true"])
        .args(["--context=-d", "--task-id=--dry-run"])
        .run();
    let line = "Ready to execute: rooda mine --ai-cmd true '--context=-d' '--task-id=--dry-run'\n";
    assert!(ran.stdout.contains(line), "{ran}");
}

#[test]
fn a_task() {
    let sandbox = Sandbox::new();
    let ran = sandbox
        .rooda(["loop", "Make the tests pass", "--dry-run"])
        .args(["--ai-cmd", "my-agent", "-c", "only the unit tests"])
        .args(["--task-id", "issue-7", "--completion-promise", "ALL GREEN"])
        .env("PATH", &program(&sandbox, "my-agent"))
        .run();
    insta::assert_snapshot!(ran);
}
