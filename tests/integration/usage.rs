//! Mistakes on the command line: what is wrong, and what to do about it.

use std::io::Read;
use std::process::Stdio;

use crate::harness::Sandbox;

/// What happens for each of these command lines, one after the other, with nothing configured.
fn transcripts<const N: usize>(lines: [&str; N]) -> String {
    let sandbox = Sandbox::new();
    lines
        .map(|line| {
            let words = shell_words::split(line).unwrap();
            sandbox.rooda(words).transcript()
        })
        .concat()
}

#[test]
fn unknown_procedures_and_commands() {
    insta::assert_snapshot!(transcripts([
        "biuld",
        "run biuld",
        "lst",
        "deploy",
        "boot",
        "run list",
        "info lst",
        "info biuld",
        "''",
        "Build",
    ]));
}

#[test]
fn unknown_flags_and_left_over_words() {
    insta::assert_snapshot!(transcripts([
        "build --max-iteration 3",
        "build --wat",
        "build -x",
        "build only the tests",
        "run build only",
        "build list",
        "list build",
        "build --observe",
        "run",
        "info",
        "--json",
        "-n 3",
        "--version build",
        "completions tcsh",
    ]));
}

#[test]
fn unknown_aliases_are_compared_with_all_there_are() {
    let sandbox = Sandbox::new();
    sandbox.config("ai_cmd_aliases: {mine: my-agent}\n");
    let told = ["cluade", "nobody", "min", ""]
        .map(|alias| {
            sandbox
                .rooda(["build", "--ai-cmd-alias", alias])
                .transcript()
        })
        .concat();
    insta::assert_snapshot!(told);
}

#[test]
fn numbers_of_iterations() {
    insta::assert_snapshot!(transcripts([
        "build -n 0",
        "build --max-iterations=0",
        "build -n 00",
        "build -n -1",
        "build --max-iterations -1",
        "build -n abc",
        "build -n 1.5",
        "build -n ''",
        "build -n 4294967296",
        "build -n 3 --unlimited",
        "build -n 3 -n 4",
        "build --failure-threshold 0",
        "build --failure-threshold -2",
    ]));
}

#[test]
fn durations_name_their_flag() {
    insta::assert_snapshot!(transcripts([
        "build --iteration-timeout 0",
        "build --iteration-timeout soon",
        "build --idle-timeout 1h30",
        "build --idle-timeout ''",
        "build --run-timeout -5",
        "build --run-timeout '5 m'",
        "build --run-timeout 99999999h",
        "build --run-timeout 0.0001",
    ]));
}

#[test]
fn words_that_must_be_one_of_a_few() {
    insta::assert_snapshot!(transcripts([
        "build --log-level loud",
        "build --log-format xml",
        "build --color sometimes",
    ]));
}

#[test]
fn ai_commands_that_cannot_be_read() {
    insta::assert_snapshot!(transcripts([
        r#"build --ai-cmd "claude -p 'oops""#,
        "build --ai-cmd ''",
        "build --ai-cmd '  '",
        r#"build --ai-cmd '"" -p'"#,
    ]));
}

#[test]
fn completion_promises() {
    insta::assert_snapshot!(transcripts([
        "build --completion-promise ''",
        "build --completion-promise FAILURE",
        "build --completion-promise ' DONE'",
        "build --completion-promise '<promise>DONE</promise>'",
        "build --completion-promise \"two\nlines\"",
    ]));
}

#[test]
fn tasks() {
    insta::assert_snapshot!(transcripts([
        "loop",
        "loop ''",
        "loop '  \n '",
        "loop -",
        "loop --file nowhere.md",
        "loop --file .",
        "loop 'a task' --file task.md",
        "loop two words",
        "loop 'a task' --observe x.md",
    ]));
}

#[test]
fn files_and_folders_that_are_missing() {
    let sandbox = Sandbox::new();
    sandbox
        .file("folder/x", "")
        .file("not-a-folder", "")
        .file("latin1.md", "");
    std::fs::write(sandbox.path("latin1.md"), b"gr\xfc\xdfe").unwrap();
    let told = [
        "build --context @notes.md",
        "build --context @folder",
        "build --context @latin1.md",
        "build --context @",
        "build --config nowhere.yml",
        "build --config folder",
        "list --config nowhere.yml",
        "build -C nowhere",
        "build -C not-a-folder",
        "loop task -C nowhere",
        "list -C nowhere",
        "build --ai-cmd nonexistent-cli",
        "build --ai-cmd ./nonexistent-cli",
        "build --ai-cmd ./not-a-folder",
        "build --ai-cmd true --observe nowhere.md --act builtin:act/biuld.md",
    ]
    .map(|line| {
        let words = shell_words::split(line).unwrap();
        sandbox
            .rooda(words)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .transcript()
    })
    .concat();
    insta::assert_snapshot!(told);
}

#[test]
fn quiet_and_verbose_contradict_each_other() {
    insta::assert_snapshot!(transcripts(["build --quiet --verbose", "build -qv"]));
}

#[test]
fn an_explicit_log_level_wins_over_quiet() {
    let sandbox = Sandbox::new();
    for (arguments, level, source) in [
        (["--quiet", "--log-level=debug"], "debug", "--log-level"),
        (["--log-level=debug", "--quiet"], "debug", "--log-level"),
        (["--quiet", "--log-format=text"], "warn", "--quiet"),
    ] {
        let ran = sandbox
            .rooda(["build", "--ai-cmd", "true", "--dry-run"])
            .args(arguments)
            .run();
        let line = format!("  Log Level: {level} (cli: {source})\n");
        assert!(ran.stdout.contains(&line), "{arguments:?}: {ran}");
    }
    let log = |arguments: [&str; 2]| {
        let ran = sandbox.build("", ["-n", "1"]).args(arguments).run();
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.stderr
    };
    assert!(!log(["-q", "--color=never"]).contains("Iteration"));
    assert!(log(["-q", "--log-level=info"]).contains("Iteration 1/1 completed"));
}

#[test]
fn an_ai_command_wins_over_an_alias_with_a_warning() {
    let sandbox = Sandbox::new();
    let agent = sandbox.agent("print I was started");
    let ran = sandbox
        .rooda(["build", "-n", "1", "-q", "--ai-cmd-alias", "claude"])
        .args(["--ai-cmd", &agent])
        .run();
    assert_eq!(sandbox.invocations(), 1, "{ran}");
    insta::assert_snapshot!(ran);
}

#[test]
fn flags_may_stand_before_the_procedure_and_run_before_both() {
    let sandbox = Sandbox::new();
    let agent = sandbox.agent("");
    let log = |arguments: [&str; 5]| {
        let ran = sandbox.rooda(arguments).run();
        assert_eq!(ran.code, Some(2), "{ran}");
        ran.log()
    };
    let usual = log(["build", "-n", "1", "--ai-cmd", &agent]);
    assert!(usual.contains("Starting procedure: build with fake_agent (max 1 iteration)"));
    assert_eq!(log(["-n", "1", "build", "--ai-cmd", &agent]), usual);
    assert_eq!(log(["-n", "1", "--ai-cmd", &agent, "build"]), usual);
    assert_eq!(log(["run", "build", "-n1", "--ai-cmd", &agent]), usual);
    assert_eq!(log(["run", "-n1", "--ai-cmd", &agent, "build"]), usual);
    assert_eq!(sandbox.invocations(), 5);
}

/// As in `rooda list | head -1`: whoever reads may stop when they have seen enough.
#[test]
fn a_pipe_that_is_closed_early_is_no_error() {
    let sandbox = Sandbox::new();
    // More than a pipe holds, so that something is still being written when the reader goes away.
    let long = "x".repeat(300);
    let procedures: String = (0..2000)
        .map(|n| format!("  p{n}: {{summary: {long}}}\n"))
        .collect();
    sandbox.config(&format!("procedures:\n{procedures}"));
    for arguments in [&["list"][..], &["list", "--json"], &["schema"]] {
        let mut child = sandbox
            .rooda(arguments.iter().copied())
            .command()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reader = child.stdout.take().unwrap();
        reader.read_exact(&mut [0; 2]).unwrap();
        drop(reader);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn warnings_are_lines_of_the_log_like_others() {
    let sandbox = Sandbox::new();
    let run = |arguments: [&str; 2]| {
        sandbox
            .build("", ["-n", "1", "--ai-cmd-alias", "claude"])
            .args(arguments)
            .run()
    };
    let json = run(["-q", "--log-format=json"]).stderr;
    let first = json.lines().next().unwrap();
    let line: serde_json::Value = serde_json::from_str(first).unwrap();
    assert_eq!(line["level"], "warn", "{line}");
    assert!(
        line["message"].as_str().unwrap().contains("wins over"),
        "{line}"
    );
    assert_eq!(run(["-q", "--log-level=error"]).stderr, "");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::new();
    for arguments in [
        vec!["schema"],
        vec!["list"],
        vec!["build", "-d", "--ai-cmd=true"],
    ] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = sandbox
            .rooda(arguments.clone())
            .command()
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(70), "{arguments:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            told, "Error: cannot write to standard output: No space left on device\n",
            "{arguments:?}"
        );
    }
}

#[test]
fn an_ai_command_is_looked_at_closely() {
    let sandbox = Sandbox::new();
    sandbox.file("script", "#!/no/such/shell\n");
    let path = sandbox.path("script");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (command, told) in [
        (
            "./script",
            "./script begins with `#!/no/such/shell`, and that is not there",
        ),
        ("env A=1 nosuchagent --yes", "Searched PATH: "),
        (
            "A=1 cat",
            "no shell reads this; to set a variable: env A=1 cat",
        ),
        ("~/agent", "no shell reads this: write the path out"),
        ("/", "it is a folder"),
    ] {
        let ran = sandbox.rooda(["build", "--ai-cmd", command]).run();
        assert_eq!(ran.code, Some(69), "{ran}");
        assert!(ran.stderr.contains(told), "{ran}");
    }
    let ran = sandbox
        .rooda(["build", "-n1", "--ai-cmd", "env A=1 cat | cat"])
        .run();
    assert!(
        ran.stderr
            .contains("no shell reads the AI command: `|` is passed on"),
        "{ran}"
    );
}

#[test]
fn completions_know_what_is_built_in() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = sandbox.rooda(["completions", shell]).run();
        // The generator for fish knows the values of flags only.
        let knows = ran.stdout.contains("audit-spec-to-impl");
        assert!(knows || shell == "fish", "{shell}");
        assert!(ran.stdout.contains("cursor-agent"), "{shell}");
    }
    // They are suggestions: other names still work.
    sandbox.config("procedures: {own: {observe: [{content: x}], orient: [{content: x}], decide: [{content: x}], act: [{content: x}]}}");
    let ran = sandbox.rooda(["own", "-n1", "--ai-cmd=true"]).run();
    assert_eq!(ran.code, Some(2), "{ran}");
}
