//! What the agent is told: the composition of prompts, and the built-in ones.

use std::fs;
use std::time::Duration;

use rooda::config::{Origin, PHASES, builtin_layers};
use rooda::prompt::builtin_names;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::harness::{Ran, Rooda, Sandbox};

/// A procedure `mine` whose phases are these YAML values.
fn procedure(phases: [&str; 4]) -> String {
    let [observe, orient, decide, act] = phases;
    format!(
        "procedures:\n  mine:\n    observe: {observe}\n    orient: {orient}\n    decide: {decide}\n    act: {act}\n"
    )
}

/// A sandbox with the procedure `mine` and a prompt file for each phase, `o.md`, `r.md`, `d.md` and `a.md`.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.config(&procedure(["o.md", "r.md", "d.md", "a.md"]));
    for (file, text) in [
        ("o.md", "Look.\n"),
        ("r.md", "Think.\n"),
        ("d.md", "Choose.\n"),
        ("a.md", "Do.\n"),
    ] {
        sandbox.file(file, text);
    }
    sandbox
}

/// The prompt that the agent gets, for each of its iterations.
fn prompt_of(sandbox: &Sandbox, rooda: Rooda) -> String {
    let agent = sandbox.agent("save prompt");
    let ran = rooda.args(["--ai-cmd", &agent, "-n", "1"]).run();
    assert_eq!(ran.code, Some(2), "{ran}");
    sandbox.read("prompt")
}

fn prompt<const N: usize>(sandbox: &Sandbox, arguments: [&str; N]) -> String {
    prompt_of(sandbox, sandbox.rooda(["mine"]).args(arguments))
}

#[test]
fn sections_come_in_their_order() {
    assert_eq!(
        prompt(&sandbox(), []),
        "# OODA Loop Iteration\n\n\
         ## OBSERVE\nLook.\n\n\
         ## ORIENT\nThink.\n\n\
         ## DECIDE\nChoose.\n\n\
         ## ACT\nDo.\n"
    );
}

#[test]
fn contexts_come_first_in_the_order_given() {
    let sandbox = sandbox();
    sandbox.file("notes/a.md", "From a file.\nTwo lines.\n\n");
    assert_eq!(
        prompt(
            &sandbox,
            [
                "-c",
                "the auth module",
                "--context",
                "@notes/a.md",
                "-c",
                " @here, this is no file",
                "--context={{ literal }} ${HOME} \"quotes\"",
            ]
        ),
        "# OODA Loop Iteration\n\n\
         ## CONTEXT\nthe auth module\n\n\
         From a file.\nTwo lines.\n\n \
         @here, this is no file\n\n\
         {{ literal }} ${HOME} \"quotes\"\n\n\
         ## OBSERVE\nLook.\n\n\
         ## ORIENT\nThink.\n\n\
         ## DECIDE\nChoose.\n\n\
         ## ACT\nDo.\n"
    );
}

#[test]
fn a_context_may_come_from_a_pipe() {
    let sandbox = sandbox();
    let rooda = sandbox.rooda(["mine", "-c", "@/dev/stdin"]);
    let prompt = prompt_of(&sandbox, rooda.stdin("piped in\n"));
    assert!(prompt.contains("## CONTEXT\npiped in\n\n## OBSERVE\n"));
}

#[test]
fn a_phase_is_a_file_a_text_or_a_list_of_both() {
    let sandbox = sandbox();
    sandbox.file(
        "t.md",
        "Mind {{ what }}, {{ times }} times{% if loud %}!{% endif %}\n",
    );
    sandbox.file("literal.md", "In Rust: {{ not.filled }} {% raw\n");
    sandbox.config(&procedure([
        "[o.md, {path: r.md}, {content: 'Inline {{ text }}.'}]",
        "[{path: t.md, parameters: {what: tests, times: 2, loud: true}}]",
        "literal.md",
        "[{content: '<promise>{{ completion_promise }}</promise>', parameters: {}}, builtin:act/commit.md]",
    ]));
    let commit = rooda::prompt::builtin_text("act/commit.md").unwrap();
    let told = prompt(&sandbox, ["--completion-promise", "ALL DONE"]);
    assert_eq!(
        told,
        format!(
            "# OODA Loop Iteration\n\n\
             ## OBSERVE\nLook.\n\nThink.\n\nInline {{{{ text }}}}.\n\n\
             ## ORIENT\nMind tests, 2 times!\n\n\
             ## DECIDE\nIn Rust: {{{{ not.filled }}}} {{% raw\n\n\
             ## ACT\n<promise>ALL DONE</promise>\n\n{commit}"
        )
    );
}

#[test]
fn phases_given_on_the_command_line_replace_those_of_the_procedure() {
    let sandbox = sandbox();
    sandbox.file("one.md", "One {{ literal }}.\n");
    sandbox.file("two.md", "Two.");
    let task = rooda::prompt::builtin_text("decide/task.md").unwrap();
    let told = prompt(
        &sandbox,
        [
            "--observe=one.md",
            "--observe=two.md",
            "--decide",
            "builtin:decide/task.md",
        ],
    );
    assert_eq!(
        told,
        format!(
            "# OODA Loop Iteration\n\n\
             ## OBSERVE\nOne {{{{ literal }}}}.\n\nTwo.\n\n\
             ## ORIENT\nThink.\n\n\
             ## DECIDE\n{task}\n\
             ## ACT\nDo.\n"
        )
    );
    let told = prompt(&sandbox, ["--orient=two.md", "--act=two.md"]);
    assert!(told.contains("## ORIENT\nTwo.\n\n## DECIDE\nChoose.\n\n## ACT\nTwo.\n"));
    // A procedure that lacks phases can be completed in this way.
    sandbox.config("procedures: {mine: {act: a.md}}");
    let told = prompt(
        &sandbox,
        ["--observe=o.md", "--orient=r.md", "--decide=d.md"],
    );
    assert!(told.ends_with("## ACT\nDo.\n"), "{told}");
}

#[test]
fn prompt_files_are_read_anew_for_each_iteration() {
    let sandbox = sandbox();
    let agent = sandbox.agent(
        "save first
        write o.md Look closer.
        ---
        save second",
    );
    let ran = sandbox.rooda(["mine", "-n", "2", "--ai-cmd", &agent]).run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(sandbox.read("first").contains("## OBSERVE\nLook.\n"));
    assert!(
        sandbox
            .read("second")
            .contains("## OBSERVE\nLook closer.\n")
    );
}

#[test]
fn a_prompt_file_that_goes_away_aborts_the_run() {
    let sandbox = sandbox();
    let agent = sandbox.agent("spawn rm o.md\nawait gone");
    let running = sandbox
        .rooda(["mine", "-n", "3", "--ai-cmd", &agent])
        .start();
    crate::harness::wait_until("o.md to go away", || {
        (!sandbox.path("o.md").exists()).then_some(())
    });
    sandbox.file("gone", "");
    insta::assert_snapshot!(running.finish().log());
    assert_eq!(sandbox.invocations(), 1);
}

fn refused_at_once(ran: Ran, code: i32, expected: &str) {
    assert_eq!(ran.code, Some(code), "{ran}");
    assert!(ran.stderr.contains(expected), "{ran}");
    assert!(ran.elapsed < Duration::from_secs(10), "{ran}");
}

#[test]
fn what_is_no_file_is_refused_and_never_waited_for() {
    let sandbox = sandbox();
    mknodat(
        CWD,
        sandbox.path("pipe"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    fs::create_dir(sandbox.path("folder")).unwrap();
    fs::write(sandbox.path("binary"), b"\xff\xfe").unwrap();
    for (name, expected) in [
        ("pipe", "cannot read pipe: it is a pipe, not a regular file"),
        ("folder", "cannot read folder: it is a folder"),
        (
            "/dev/zero",
            "cannot read /dev/zero: it is a device or socket",
        ),
        (
            "binary",
            "cannot read binary: it is not UTF-8 text (byte 0)",
        ),
    ] {
        let run = |arguments: [&str; 2]| {
            sandbox
                .rooda(["mine", "--ai-cmd", "true"])
                .args(arguments)
                .run()
        };
        refused_at_once(run(["--observe", name]), 66, expected);
        let dry = run(["-d", &format!("--observe={name}")]);
        assert_eq!(dry.code, Some(1), "{dry}");
        assert!(dry.stdout.contains(&format!("✗ Prompt file: {expected}")));
        sandbox.config(&procedure([name, "r.md", "d.md", "a.md"]));
        refused_at_once(run(["-n", "1"]), 66, expected);
        sandbox.config(&procedure(["o.md", "r.md", "d.md", "a.md"]));
    }
    // The configuration itself likewise.
    refused_at_once(
        sandbox.rooda(["list", "--config", "pipe"]).run(),
        66,
        "cannot read pipe: it is a pipe, not a regular file",
    );
}

/// What stands between two headings.
fn section<'a>(prompt: &'a str, from: &str, to: &str) -> &'a str {
    let start = prompt.find(from).unwrap() + from.len();
    let end = prompt[start..]
        .find(to)
        .map_or(prompt.len(), |at| start + at);
    &prompt[start..end]
}

#[test]
fn every_built_in_procedure_composes_and_keeps_the_rules() {
    let sandbox = Sandbox::new();
    let layers = builtin_layers().unwrap();
    let names: Vec<&String> = layers
        .iter()
        .flat_map(|layer| layer.settings.procedures.keys())
        .collect();
    assert_eq!(
        names,
        [
            "agents-sync",
            "audit-agents",
            "audit-impl",
            "audit-impl-to-spec",
            "audit-spec",
            "audit-spec-to-impl",
            "bootstrap",
            "build",
            "draft-plan-impl-chore",
            "draft-plan-impl-feat",
            "draft-plan-impl-fix",
            "draft-plan-impl-refactor",
            "draft-plan-spec-chore",
            "draft-plan-spec-feat",
            "draft-plan-spec-fix",
            "draft-plan-spec-refactor",
            "publish-plan",
        ]
    );
    for name in names {
        for promise in ["SUCCESS", "IT IS ALL DONE"] {
            let ran = sandbox
                .rooda([name, "--dry-run", "--ai-cmd", "true"])
                .args(["--completion-promise", promise])
                .run();
            assert_eq!(ran.code, Some(0), "{name}: {ran}");
            let prompt = section(
                &ran.stdout,
                "# OODA Loop Iteration\n",
                "────────────────────",
            );
            for (index, phase) in PHASES.iter().enumerate() {
                let next = PHASES.get(index + 1).map_or("\0", |next| next.heading());
                let text = section(
                    prompt,
                    &format!("\n## {}\n", phase.heading()),
                    &format!("\n## {next}\n"),
                );
                let announcement = format!("printing `Phase: {}`", phase.heading());
                assert!(
                    text.lines().next().unwrap().contains(&announcement),
                    "{name}: {text}"
                );
            }
            let act = section(prompt, "\n## ACT\n", "\0");
            for rule in [
                &format!("print `<promise>{promise}</promise>` alone on the last line"),
                "print `<promise>FAILURE</promise>` on the last line",
                "completely true",
                "document the blocker",
                "Never promise anything to get out early",
            ] {
                assert!(act.contains(rule), "{name}: {rule}: {act}");
            }
            assert_no_bare_tag(name, prompt);
            assert!(!prompt.contains("{{") && !prompt.contains("{%"), "{name}");
        }
    }
}

/// A line that is nothing but a tag, whatever marks are around it, could be taken for a promise when it is echoed.
fn assert_no_bare_tag(name: &str, prompt: &str) {
    for line in prompt.lines() {
        let mark = |c: char| c.is_whitespace() || "`*_-•\"'".contains(c);
        let bare = line
            .trim_start_matches(|c| mark(c) || c == '>')
            .trim_end_matches(mark);
        let is_tag = bare.starts_with("<promise>") && bare.ends_with("</promise>");
        assert!(!is_tag, "{name}: {line}");
    }
}

#[test]
fn every_built_in_fragment_is_used() {
    let layers = builtin_layers().unwrap();
    let used: Vec<String> = layers
        .iter()
        .flat_map(|layer| layer.settings.procedures.values())
        .flat_map(|procedure| PHASES.map(|phase| procedure.phase(phase).unwrap()))
        .flatten()
        .map(|fragment| match &fragment.origin {
            Origin::BuiltIn(name) => name.clone(),
            other => panic!("{other} is not embedded"),
        })
        .collect();
    for name in builtin_names() {
        // The rules that `rooda loop` adds to a task.
        if name != "loop/promise.md" {
            assert!(used.iter().any(|used| used == name), "{name}");
        }
    }
}

#[test]
fn a_task_comes_from_an_argument_a_file_or_standard_input() {
    let sandbox = Sandbox::new();
    sandbox.file("task.md", "Make the {{ tests }} pass.\n");
    sandbox.file("sub/task.md", "Somewhere else.\n");
    let expected = "Make the {{ tests }} pass.\n\n## PROMISE\n";
    let argument = prompt_of(
        &sandbox,
        sandbox.rooda(["loop", "Make the {{ tests }} pass."]),
    );
    assert!(argument.starts_with(expected), "{argument}");
    assert_no_bare_tag("loop", &argument);
    for rule in [
        "print `<promise>SUCCESS</promise>` alone on the last line",
        "print `<promise>FAILURE</promise>` on the last line",
        "completely true",
        "document the blocker",
    ] {
        assert!(argument.contains(rule), "{rule}: {argument}");
    }
    for arguments in [["--file", "task.md"], ["-f", "task.md"]] {
        let rooda = sandbox.rooda(["loop"]).args(arguments);
        assert_eq!(prompt_of(&sandbox, rooda), argument);
    }
    let rooda = sandbox
        .rooda(["loop", "-"])
        .stdin("Make the {{ tests }} pass.\n");
    assert_eq!(prompt_of(&sandbox, rooda), argument);

    let agent = sandbox.agent("save prompt");
    let ran = sandbox
        .rooda(["loop", "-C", "sub", "-f", "task.md", "-n", "1"])
        .args(["--ai-cmd", &agent])
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(sandbox.read("sub/prompt").starts_with("Somewhere else.\n"));
}

#[test]
fn a_task_is_the_same_in_every_iteration_with_context_and_rules() {
    let sandbox = Sandbox::new();
    let agent = sandbox.agent(
        "save first
        ---
        save second
        ---
        save third",
    );
    let ran = sandbox
        .rooda(["loop", "-", "-n", "3", "-c", "be quick"])
        .args(["--completion-promise", "YES", "--ai-cmd", &agent])
        .stdin("Line one.\n\nLine two.\n")
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    let first = sandbox.read("first");
    assert!(first.starts_with("Line one.\n\nLine two.\n\n## CONTEXT\nbe quick\n\n## PROMISE\n"));
    assert!(first.contains("`<promise>YES</promise>`"), "{first}");
    assert!(!first.contains("SUCCESS"), "{first}");
    assert_eq!(sandbox.read("second"), first);
    assert_eq!(sandbox.read("third"), first);
}

#[test]
fn a_built_in_template_needs_its_parameters() {
    let sandbox = Sandbox::new();
    let ran = sandbox
        .rooda(["build", "--ai-cmd=true", "--act", "builtin:act/promise.md"])
        .run();
    assert_eq!(ran.code, Some(78), "{ran}");
    assert_eq!(
        ran.stderr,
        "Error: builtin:act/promise.md: the parameter `failure` is missing\n"
    );
    // One that needs nothing but the promise is filled in.
    let ran = sandbox
        .rooda(["build", "--ai-cmd=true", "-d", "--completion-promise=DONE"])
        .args(["--act", "builtin:loop/promise.md"])
        .run();
    assert!(ran.stdout.contains("`<promise>DONE</promise>`"), "{ran}");
}

#[test]
fn a_prompt_without_the_promise_is_odd() {
    let sandbox = Sandbox::new();
    sandbox.file("act.md", "Do it.\n");
    for arguments in [["-n1", "-q"], ["-n1", "-d"]] {
        let ran = sandbox
            .rooda(["build", "--ai-cmd=true", "--act", "act.md"])
            .args(arguments)
            .run();
        assert!(
            ran.stderr
                .contains("never mentions <promise>SUCCESS</promise>"),
            "{ran}"
        );
    }
}

#[test]
fn a_text_that_is_far_too_large_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.file("large.md", &"x".repeat((16 << 20) + 1));
    for arguments in [
        ["--observe", "large.md"],
        ["--context", "@large.md"],
        ["--config", "large.md"],
    ] {
        let ran = sandbox
            .rooda(["build", "--ai-cmd=true"])
            .args(arguments)
            .run();
        assert_eq!(ran.code, Some(66), "{ran}");
        assert!(
            ran.stderr.contains("large.md: it is larger than 16 MB"),
            "{ran}"
        );
    }
}

#[test]
fn an_agent_cannot_stop_the_loop_with_a_prompt_of_its_own() {
    let sandbox = Sandbox::new();
    let text = |text| format!("[{{content: {text}}}]");
    let rest = format!(
        "orient: {}, decide: {}, act: {}",
        text("x"),
        text("x"),
        text("x")
    );
    sandbox.config(&format!(
        "procedures: {{p: {{observe: [{{path: o.md, parameters: {{a: 1}}}}], {rest}}}}}"
    ));
    sandbox.file(
        "endless.md",
        &("{{ a }}".to_owned()
            + &"{% for i in range(10000) %}".repeat(3)
            + &"{% endfor %}".repeat(3)),
    );
    sandbox.file("deep.md", &format!("{{{{ a{} }}}}", "+a".repeat(60_000)));
    for hostile in [
        "cp endless.md o.md",
        "cp deep.md o.md",
        "ln -sf /proc/kmsg o.md",
    ] {
        sandbox.file("o.md", "{{ a }}");
        let ran = sandbox.rooda(["p", "-n", "2", "--ai-cmd", hostile]).run();
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(
            ran.log().contains("the prompt cannot be assembled: "),
            "{ran}"
        );
        fs::remove_file(sandbox.path("o.md")).unwrap();
    }
}
