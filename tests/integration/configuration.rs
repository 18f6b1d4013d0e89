//! Configuration: what is refused and how, which layer wins, and where a value says it comes from.

use std::fmt::Write;
use std::fs;

use rooda::config::{KEYS, Source, read_layer};
use rooda::error::ErrorKind;

use crate::harness::{Ran, Rooda, Sandbox};

/// What is said of each of these configuration files.
fn refused<const N: usize>(documents: [&str; N]) -> String {
    documents
        .map(|document| {
            let source = Source::Workspace("./rooda-config.yml".to_owned());
            let error = read_layer(source, "rooda-config.yml", document)
                .err()
                .unwrap_or_else(|| panic!("accepted: {document}"));
            assert_eq!(error.kind, ErrorKind::Config, "{document}");
            format!("{}\n-----\n{error}\n", document.trim_end())
        })
        .concat()
}

#[test]
fn unknown_keys_at_each_level() {
    insta::assert_snapshot!(refused([
        "lop: {}",
        "verify: {test: make test}",
        "loop:\n  iteration_timout: 5m",
        "loop:\n  max_iterations: 5",
        "loop:\n  Failure_Threshold: 5",
        "ai_cmd_aliases:\n  mine:\n    comand: my-agent",
        "procedures:\n  build:\n    observ: x.md",
        "procedures:\n  build:\n    timeout: 5m",
        "procedures:\n  mine:\n    act:\n      - file: x.md",
        "procedures:\n  mine:\n    act:\n      - path: x.md\n        parameter: {a: 1}",
        "? [a, list]\n: 1",
        "1: 2",
    ]));
}

#[test]
fn values_of_the_wrong_kind() {
    insta::assert_snapshot!(refused([
        "loop: 5",
        "loop: [a]",
        "loop:\n  default_max_iterations: many",
        "loop:\n  default_max_iterations: '3'",
        "loop:\n  default_max_iterations: 1.5",
        "loop:\n  default_max_iterations: none",
        "loop:\n  default_max_iterations: [3]",
        "loop:\n  iteration_timeout: soon",
        "loop:\n  iteration_timeout: 1h30",
        "loop:\n  iteration_timeout: true",
        "loop:\n  kill_grace: none",
        "loop:\n  max_output_buffer: 1.5MB",
        "loop:\n  max_output_buffer: none",
        "loop:\n  show_ai_output: yes",
        "loop:\n  show_ai_output: 1",
        "loop:\n  log_level: loud",
        "loop:\n  log_level: WARN",
        "loop:\n  iteration_mode: forever",
        "loop:\n  completion_promise: FAILURE",
        "loop:\n  completion_promise: ''",
        "loop:\n  completion_promise: 1",
        "loop:\n  completion_promise:",
        "loop:\n  ai_cmd: 5",
        "loop:\n  ai_cmd: [claude, -p]",
        "loop:\n  ai_cmd: claude -p 'oops",
        "loop:\n  ai_cmd_alias: ''",
        "procedures: [build]",
        "procedures:\n  build: 5",
        "procedures:\n  build:\n    summary: 5",
        "procedures:\n  build:\n    observe: 5",
        "procedures:\n  build:\n    observe:",
        "procedures:\n  build:\n    failure_threshold: no",
    ]));
}

#[test]
fn zero_is_no_bound() {
    insta::assert_snapshot!(refused([
        "loop:\n  default_max_iterations: 0",
        "loop:\n  default_max_iterations: -1",
        "loop:\n  failure_threshold: 0",
        "loop:\n  iteration_timeout: 0",
        "loop:\n  idle_timeout: 0s",
        "loop:\n  run_timeout: -5",
        "loop:\n  kill_grace: 0",
        "loop:\n  max_output_buffer: 0",
        "loop:\n  max_output_buffer: 0MB",
        "loop:\n  default_max_iterations: 99999999999999999999",
        "procedures:\n  build:\n    default_max_iterations: 0",
    ]));
}

#[test]
fn yaml_that_is_none() {
    insta::assert_snapshot!(refused([
        "loop:\n  ai_cmd: \"claude -p",
        "loop:\n\tai_cmd: claude",
        "loop:\n  log_level: info\n  log_level: warn",
        "loop: {}\nloop: {}",
        "loop: {}\n---\nloop: {}",
        "- loop",
        "just text",
        "loop: {log_level: info",
        "loop:\n  log_level: *nothing",
        "loop:\n    log_level: info\n  log_format: text",
        "loop:\n  ai_cmd: claude: -p",
    ]));
}

#[test]
fn procedures_aliases_and_fragments() {
    insta::assert_snapshot!(refused([
        "procedures:\n  list: {}",
        "procedures:\n  help: {}",
        "procedures:\n  my procedure: {}",
        "procedures:\n  -x: {}",
        "procedures:\n  \"\": {}",
        "ai_cmd_aliases:\n  mine: {}",
        "ai_cmd_aliases:\n  mine:",
        "ai_cmd_aliases:\n  mine: ''",
        "ai_cmd_aliases:\n  mine: [my-agent]",
        "ai_cmd_aliases:\n  mine: {command: 5}",
        "ai_cmd_aliases:\n  mine: {command: 'a \"b'}",
        "ai_cmd_aliases:\n  '': my-agent",
        "ai_cmd_aliases:\n  'a, b': my-agent",
        "ai_cmd_aliases:\n  mine: {command: my-agent, format: xml}",
        "ai_cmd_aliases:\n  mine: {command: my-agent, npm: '-g evil'}",
        "ai_cmd_aliases:\n  mine: {command: my-agent, env: MY_KEY}",
        "ai_cmd_aliases:\n  mine: {command: my-agent, env: [MY-KEY]}",
        "ai_cmd_aliases:\n  mine: {command: my-agent, env: [GITHUB_TOKEN]}",
        "ai_cmd_aliases:\n  mine: {command: my-agent, env: [GH_TOKEN]}",
        "procedures:\n  mine:\n    act:\n      - path: x.md\n        content: y",
        "procedures:\n  mine:\n    act:\n      - parameters: {a: 1}",
        "procedures:\n  mine:\n    act: []",
        "procedures:\n  mine:\n    act: ''",
        "procedures:\n  mine:\n    act: {path: x.md}",
        "procedures:\n  mine:\n    act: [5]",
        "procedures:\n  mine:\n    act: ['']",
        "procedures:\n  mine:\n    act:\n      - path: 5",
        "procedures:\n  mine:\n    act:\n      - content: 5",
        "procedures:\n  mine:\n    act:\n      - path: x.md\n        parameters: [a]",
        "procedures:\n  mine:\n    act:\n      - path: x.md\n        parameters: {a: [1]}",
        "procedures:\n  mine:\n    act:\n      - path: x.md\n        parameters: {a: 1.5}",
    ]));
}

#[test]
fn a_procedure_without_all_four_phases_cannot_run() {
    let sandbox = Sandbox::new();
    sandbox.config("procedures: {mine: {observe: x.md, act: x.md}}");
    insta::assert_snapshot!(sandbox.rooda(["mine", "--ai-cmd", "true"]).run());
}

#[test]
fn all_problems_of_all_files_and_variables_at_once() {
    let sandbox = Sandbox::new();
    sandbox.config(
        "loop:\n  log_levle: info\n  failure_threshold: 0\nprocedures:\n  run: {}\n  x: {act: []}\n",
    );
    sandbox.global_config("loops: {}\n");
    let ran = sandbox
        .rooda(["build"])
        .env("ROODA_LOOP_KILL_GRACE", "no")
        .run();
    insta::assert_snapshot!(ran);
}

#[test]
fn variables_that_are_wrong() {
    let sandbox = Sandbox::new();
    let told = [
        ("ROODA_LOOP_FAILURE_TRESHOLD", "3"),
        ("ROODA_LOOP_WHATEVER", "3"),
        ("ROODA_LOOP_FAILURE_THRESHOLD", "0"),
        ("ROODA_LOOP_FAILURE_THRESHOLD", "three"),
        ("ROODA_LOOP_ITERATION_TIMEOUT", "1h30"),
        ("ROODA_LOOP_ITERATION_MODE", "forever"),
        ("ROODA_LOOP_AI_CMD", "claude 'oops"),
        ("ROODA_LOOP_COMPLETION_PROMISE", "FAILURE"),
        ("ROODA_LOG_LEVEL", "loud"),
        ("ROODA_SHOW_AI_OUTPUT", "perhaps"),
    ]
    .map(|(name, value)| {
        let ran = sandbox.rooda(["build"]).env(name, value).run();
        assert_eq!(ran.code, Some(78), "{name}={value}: {ran}");
        format!("{name}={value}\n{}\n", ran.stderr)
    })
    .concat();
    insta::assert_snapshot!(told);
    let ran = sandbox
        .rooda(["build"])
        .env("ROODA_LOG_LEVEL", "info")
        .env("ROODA_LOOP_LOG_LEVEL", "warn")
        .run();
    insta::assert_snapshot!("two_variables_for_one_setting", ran);
}

/// One line of the section "Configuration" of a dry run, without its name.
fn shown(ran: &Ran, name: &str) -> String {
    let start = format!("  {name}: ");
    ran.stdout
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap_or_else(|| panic!("no {name} in {ran}"))
        .to_owned()
}

/// What a dry run of `build` says of a setting.
fn setting(rooda: Rooda, name: &str) -> String {
    shown(&rooda.run(), name)
}

fn build(sandbox: &Sandbox) -> Rooda<'_> {
    sandbox.rooda(["build", "--dry-run"])
}

#[test]
fn each_layer_wins_over_those_below() {
    let sandbox = Sandbox::new();
    let name = "Failure Threshold";
    assert_eq!(setting(build(&sandbox), name), "3 (built-in)");

    sandbox.global_config("loop: {failure_threshold: 11}");
    let global = sandbox.home(".config/rooda/rooda-config.yml");
    let from_global = format!("11 (global: {})", global.display());
    assert_eq!(setting(build(&sandbox), name), from_global);

    sandbox.config("loop: {failure_threshold: 12}");
    let from_workspace = "12 (workspace: ./rooda-config.yml)";
    assert_eq!(setting(build(&sandbox), name), from_workspace);

    let with_variable = || build(&sandbox).env("ROODA_LOOP_FAILURE_THRESHOLD", "13");
    let from_variable = "13 (env: ROODA_LOOP_FAILURE_THRESHOLD)";
    assert_eq!(setting(with_variable(), name), from_variable);

    // A procedure's own value is more special than any default, wherever that is from.
    sandbox.global_config("procedures: {build: {failure_threshold: 14}}");
    let from_global = format!("14 (global: {})", global.display());
    assert_eq!(setting(with_variable(), name), from_global);
    sandbox.config("{loop: {failure_threshold: 12}, procedures: {build: {failure_threshold: 15}}}");
    assert_eq!(
        setting(with_variable(), name),
        "15 (workspace: ./rooda-config.yml)"
    );

    let with_flag = with_variable().args(["--failure-threshold", "16"]);
    assert_eq!(setting(with_flag, name), "16 (cli: --failure-threshold)");

    // Other procedures do not care.
    let other = sandbox.rooda(["bootstrap", "--dry-run"]);
    assert_eq!(setting(other, name), "12 (workspace: ./rooda-config.yml)");
}

#[test]
fn the_ai_command_is_found_in_exactly_this_order() {
    let sandbox = Sandbox::new();
    let flags = ["--ai-cmd", "one", "--ai-cmd-alias", "two"];
    let levels = [
        (3, "procedures", "ai_cmd: three"),
        (4, "procedures", "ai_cmd_alias: four"),
        (5, "loop", "ai_cmd: five"),
        (6, "loop", "ai_cmd_alias: six"),
    ];
    // Each time the highest of them is taken away.
    let mut told = String::new();
    for highest in 1..=7 {
        let keys = |section| {
            let lines = levels
                .iter()
                .filter(|(level, place, _)| *level >= highest && *place == section);
            let keys: Vec<&str> = lines.map(|(_, _, key)| *key).collect();
            keys.join(", ")
        };
        sandbox.config(&format!(
            "ai_cmd_aliases: {{two: run-two, four: run-four, six: run-six}}\n\
             loop: {{{}}}\nprocedures: {{build: {{{}}}}}\n",
            keys("loop"),
            keys("procedures")
        ));
        let from = (2 * (highest - 1)).min(flags.len());
        let ran = build(&sandbox).args(flags[from..].iter().copied()).run();
        writeln!(told, "{}", shown(&ran, "AI Command")).unwrap();
    }
    insta::assert_snapshot!(told);
}

#[test]
fn within_the_loop_section_variables_win_over_files() {
    let sandbox = Sandbox::new();
    let told = |rooda: Rooda| setting(rooda, "AI Command");
    sandbox.global_config("loop: {ai_cmd: from-global}");
    sandbox.config("loop: {ai_cmd_alias: claude}");
    // 001: a command of the loop, wherever it is from, comes before an alias of the loop.
    let global = sandbox.home(".config/rooda/rooda-config.yml");
    let from_global = format!("from-global (global: {})", global.display());
    assert_eq!(told(build(&sandbox)), from_global);
    let variable = build(&sandbox).env("ROODA_LOOP_AI_CMD", "from env");
    assert_eq!(told(variable), "from env (env: ROODA_LOOP_AI_CMD)");
}

#[test]
fn an_alias_says_who_named_it_and_who_defines_it() {
    let sandbox = Sandbox::new();
    let told = |rooda: Rooda| setting(rooda, "AI Command");
    let by_flag = |alias| build(&sandbox).args(["--ai-cmd-alias", alias]);
    assert_eq!(
        told(by_flag("claude")),
        "claude -p --dangerously-skip-permissions --output-format stream-json --verbose (cli: --ai-cmd-alias \"claude\" → built-in alias)"
    );
    sandbox.config("ai_cmd_aliases: {claude: mine, other: {command: theirs --yes}}");
    assert_eq!(
        told(by_flag("claude")),
        "mine (cli: --ai-cmd-alias \"claude\" → workspace: ./rooda-config.yml alias)"
    );
    assert_eq!(
        told(build(&sandbox).env("ROODA_LOOP_AI_CMD_ALIAS", "other")),
        "theirs --yes (env: ROODA_LOOP_AI_CMD_ALIAS \"other\" → workspace: ./rooda-config.yml alias)"
    );
    sandbox.config("procedures: {build: {ai_cmd_alias: codex}}");
    assert_eq!(
        told(build(&sandbox)),
        "codex exec --json --dangerously-bypass-approvals-and-sandbox - \
         (workspace: ./rooda-config.yml \"codex\" → built-in alias)"
    );
}

#[test]
fn unknown_aliases_in_the_configuration_are_shown_where_they_stand() {
    let sandbox = Sandbox::new();
    let told = [
        ("loop:\n  ai_cmd_alias: cluade\n", None),
        ("procedures:\n  build:\n    ai_cmd_alias: cluade\n", None),
        ("", Some("cluade")),
    ]
    .map(|(document, variable)| {
        let rooda = sandbox.config(document).rooda(["build"]);
        let rooda = match variable {
            Some(alias) => rooda.env("ROODA_LOOP_AI_CMD_ALIAS", alias),
            None => rooda,
        };
        rooda.transcript()
    })
    .concat();
    insta::assert_snapshot!(told);
}

#[test]
fn without_an_ai_command_every_way_to_set_one_is_told() {
    let sandbox = Sandbox::new();
    let told = [&["build"][..], &["loop", "do it"]]
        .map(|arguments| sandbox.rooda(arguments.iter().copied()).transcript())
        .concat();
    insta::assert_snapshot!(told);
}

#[test]
fn a_procedure_is_merged_field_by_field() {
    let sandbox = Sandbox::new();
    sandbox.global_config("procedures: {build: {failure_threshold: 7, display: Global}}");
    sandbox.config(
        "ai_cmd_aliases: {cat: cat}\nprocedures: {build: {ai_cmd_alias: cat, summary: Mine}}",
    );
    let ran = build(&sandbox).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(shown(&ran, "AI Command").starts_with("cat ("), "{ran}");
    assert!(shown(&ran, "Failure Threshold").starts_with("7 (global: "));
    assert!(
        ran.stdout
            .contains("✓ Prompt file exists: builtin:act/build.md")
    );
    let info = sandbox.rooda(["info", "build"]).run().stdout;
    assert!(
        info.starts_with("build (Global), workspace: ./rooda-config.yml\nMine\n"),
        "{info}"
    );
    assert!(info.contains("\nReads AGENTS.md"), "{info}");
}

#[test]
fn what_is_set_can_be_unset() {
    let sandbox = Sandbox::new();
    sandbox.global_config("loop: {show_ai_output: true, iteration_timeout: 5m, run_timeout: 1h}");
    sandbox.config("loop: {show_ai_output: false, iteration_timeout: none, run_timeout: }");
    let ran = build(&sandbox).run();
    let workspace = "(workspace: ./rooda-config.yml)";
    assert_eq!(shown(&ran, "Show AI Output"), format!("false {workspace}"));
    assert_eq!(
        shown(&ran, "Iteration Timeout"),
        format!("none {workspace}")
    );
    assert_eq!(shown(&ran, "Run Timeout"), format!("none {workspace}"));
    let ran = build(&sandbox)
        .env("ROODA_LOOP_ITERATION_TIMEOUT", "90")
        .env("ROODA_LOOP_RUN_TIMEOUT", "")
        .args(["--iteration-timeout", "none", "--verbose"])
        .run();
    assert_eq!(
        shown(&ran, "Iteration Timeout"),
        "none (cli: --iteration-timeout)"
    );
    assert_eq!(shown(&ran, "Run Timeout"), format!("none {workspace}"));
    assert_eq!(shown(&ran, "Show AI Output"), "true (cli: --verbose)");
}

#[test]
fn the_number_of_iterations() {
    let loop_unlimited = "loop: {iteration_mode: unlimited, default_max_iterations: 8}";
    let limited = |own: &str| format!("procedures: {{build: {{{own}}}}}");
    let both = |own: &str| format!("{loop_unlimited}\n{}", limited(own));
    let mode = "iteration_mode: max-iterations";
    let unlimited = "iteration_mode: unlimited";
    let number = "default_max_iterations: 9";
    let workspace = "workspace: ./rooda-config.yml";
    let none: &[&str] = &[];
    for (document, arguments, expected, source) in [
        (String::new(), none, "5", "built-in"),
        (
            "loop: {default_max_iterations: 8}".into(),
            none,
            "8",
            workspace,
        ),
        (loop_unlimited.into(), none, "unlimited", workspace),
        (
            format!("loop: {{{unlimited}}}"),
            none,
            "unlimited",
            workspace,
        ),
        (limited(number), none, "9", workspace),
        (limited(unlimited), none, "unlimited", workspace),
        (
            limited(&format!("{unlimited}, {number}")),
            none,
            "unlimited",
            workspace,
        ),
        (limited(mode), none, "5", "built-in"),
        // A number without a mode means that the number counts, whatever the loop's mode.
        (both(number), none, "9", workspace),
        (both(mode), none, "8", workspace),
        (both(unlimited), none, "unlimited", workspace),
        (both(&format!("{mode}, {number}")), none, "9", workspace),
        (both(unlimited), &["-n", "2"], "2", "cli: --max-iterations"),
        (both(number), &["-u"], "unlimited", "cli: --unlimited"),
        (both(number), &["-n2"], "2", "cli: --max-iterations"),
        (
            loop_unlimited.into(),
            &["-n2"],
            "2",
            "cli: --max-iterations",
        ),
    ] {
        let sandbox = Sandbox::new();
        let rooda = sandbox.config(&document).rooda(["build", "--dry-run"]);
        let told = setting(rooda.args(arguments.iter().copied()), "Max Iterations");
        assert_eq!(
            told,
            format!("{expected} ({source})"),
            "{document} {arguments:?}"
        );
    }
}

#[test]
fn only_bootstrap_has_a_limit_of_its_own() {
    let sandbox = Sandbox::new();
    sandbox.config("loop: {iteration_mode: unlimited}");
    let list = sandbox.rooda(["list", "--json"]).run().stdout;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    for procedure in list.as_array().unwrap() {
        let name = procedure["name"].as_str().unwrap();
        let expected = match name {
            "bootstrap" => "1 (built-in)",
            _ => "unlimited (workspace: ./rooda-config.yml)",
        };
        let told = setting(sandbox.rooda([name, "--dry-run"]), "Max Iterations");
        assert_eq!(told, expected, "{name}");
    }
    let task = sandbox.rooda(["loop", "x", "--dry-run", "-n", "3"]);
    assert_eq!(setting(task, "Max Iterations"), "3 (cli: --max-iterations)");
}

#[test]
fn the_global_configuration_is_found_by_variable_or_in_the_home_folder() {
    let sandbox = Sandbox::new();
    let write = |folder: &str, threshold: u32| {
        let path = sandbox.home(folder).join("rooda-config.yml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = format!("loop: {{failure_threshold: {threshold}}}");
        fs::write(path, text).unwrap();
        sandbox.home(folder).to_str().unwrap().to_owned()
    };
    let own = write("own", 21);
    write("xdg/rooda", 22);
    write(".config/rooda", 23);
    let xdg = sandbox.home("xdg").to_str().unwrap().to_owned();
    let threshold = |variables: &[(&str, &str)]| {
        let rooda = variables
            .iter()
            .fold(build(&sandbox), |rooda, (name, value)| {
                rooda.env(name, value)
            });
        let told = setting(rooda, "Failure Threshold");
        told.split_once(' ').unwrap().0.to_owned()
    };
    let both = [("ROODA_CONFIG_HOME", &*own), ("XDG_CONFIG_HOME", &*xdg)];
    assert_eq!(threshold(&both), "21");
    assert_eq!(threshold(&both[1..]), "22");
    assert_eq!(threshold(&[]), "23");
    assert_eq!(
        threshold(&[("ROODA_CONFIG_HOME", ""), ("XDG_CONFIG_HOME", "")]),
        "23"
    );
    // A folder without a file in it means that there is none.
    assert_eq!(threshold(&[("ROODA_CONFIG_HOME", "/nonexistent")]), "3");
    assert_eq!(threshold(&[("HOME", "")]), "3");
}

#[test]
fn a_named_file_takes_the_place_of_the_workspaces() {
    let sandbox = Sandbox::new();
    sandbox.global_config("loop: {kill_grace: 7s}");
    sandbox.config("loop: {failure_threshold: 12, log_level: debug}");
    sandbox.file("other/ci.yml", "loop: {failure_threshold: 13}");
    let ran = build(&sandbox).args(["--config", "other/ci.yml"]).run();
    assert_eq!(
        shown(&ran, "Failure Threshold"),
        "13 (config: other/ci.yml)"
    );
    assert_eq!(shown(&ran, "Log Level"), "info (built-in)");
    assert!(shown(&ran, "Kill Grace").starts_with("7s (global: "));
    // Mistakes in the file that is not read do not matter.
    sandbox.config("nonsense: true");
    let ran = sandbox.rooda(["list", "--config", "other/ci.yml"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

/// A procedure whose four phases are this prompt file.
fn procedure(path: &str) -> String {
    format!(
        "procedures: {{mine: {{observe: {path}, orient: {path}, decide: {path}, act: {path}}}}}"
    )
}

#[test]
fn prompt_paths_are_relative_to_the_file_that_names_them() {
    let sandbox = Sandbox::new();
    let prompt = |arguments: &[&str]| {
        let ran = sandbox
            .rooda(["mine", "--dry-run", "--ai-cmd", "true"])
            .args(arguments.iter().copied())
            .run();
        assert_eq!(ran.code, Some(0), "{ran}");
        ran.stdout
    };
    sandbox.global_config(&procedure("prompts/p.md"));
    let folder = sandbox.home(".config/rooda/prompts");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("p.md"), "from the home folder").unwrap();
    sandbox.file("prompts/p.md", "from the workspace");
    sandbox.file("sub/prompts/p.md", "from the subfolder");
    sandbox.file("sub/rooda-config.yml", &procedure("prompts/p.md"));
    assert!(prompt(&[]).contains("## ACT\nfrom the home folder\n"));
    assert!(prompt(&["--config", "sub/rooda-config.yml"]).contains("## ACT\nfrom the subfolder\n"));
    assert!(prompt(&["-C", "sub"]).contains("## ACT\nfrom the subfolder\n"));
    // Flags name files where they are given, or below -C.
    assert!(prompt(&["--act", "prompts/p.md"]).contains("## ACT\nfrom the workspace\n"));
    let told = prompt(&["-C", "sub", "--act", "../prompts/p.md"]);
    assert!(told.contains("## ACT\nfrom the workspace\n"), "{told}");
    sandbox.config(&procedure("prompts/p.md"));
    assert!(prompt(&[]).contains("## ACT\nfrom the workspace\n"));
}

#[test]
fn the_directory_is_where_everything_happens() {
    let sandbox = Sandbox::new();
    sandbox.file("sub/rooda-config.yml", "loop: {failure_threshold: 12}");
    sandbox.file("sub/notes.md", "a note");
    let agent = sandbox.agent("touch here");
    let ran = sandbox
        .rooda(["build", "-C", "sub", "-c", "@notes.md", "-n", "1"])
        .args(["--ai-cmd", &agent])
        .run();
    assert_eq!(ran.code, Some(2), "{ran}");
    assert!(sandbox.path("sub/here").exists());
    let dry = build(&sandbox).args(["-C", "sub"]);
    assert_eq!(
        setting(dry, "Failure Threshold"),
        "12 (workspace: ./rooda-config.yml)"
    );
}

#[test]
fn unlimited_needs_another_bound_under_github_actions() {
    let sandbox = Sandbox::new();
    let agent = sandbox.agent("print <promise>SUCCESS</promise>");
    let run = |flags: &[&str]| {
        sandbox
            .rooda(["build", "--unlimited", "--ai-cmd", &agent])
            .args(flags.iter().copied())
            .env("GITHUB_ACTIONS", "true")
            .run()
    };
    insta::assert_snapshot!(run(&[]));
    assert_eq!(run(&["--iteration-timeout", "5m"]).code, Some(78));
    assert_eq!(run(&["--dry-run"]).code, Some(1));
    assert_eq!(sandbox.invocations(), 0);
    assert_eq!(run(&["--run-timeout", "1h"]).code, Some(0));
    let ran = sandbox.rooda(["build", "--unlimited", "--ai-cmd", &agent]);
    assert_eq!(ran.run().code, Some(0));
    // To look at a procedure is no run.
    sandbox.config("loop: {iteration_mode: unlimited}");
    let info = sandbox
        .rooda(["info", "build"])
        .env("GITHUB_ACTIONS", "true");
    assert_eq!(info.run().code, Some(0));
}

#[test]
fn every_key_can_be_set_in_every_place_and_says_so() {
    let other = [
        ("iteration_mode", "unlimited"),
        ("default_max_iterations", "44"),
        ("iteration_timeout", "44s"),
        ("idle_timeout", "44s"),
        ("run_timeout", "44s"),
        ("max_cost_usd", "44.5"),
        ("max_tokens", "44"),
        ("budget_required", "true"),
        ("rate_limit_patience", "44s"),
        ("kill_grace", "44s"),
        ("max_output_buffer", "44MB"),
        ("failure_threshold", "44"),
        ("log_level", "error"),
        ("log_format", "json"),
        ("log_timestamp_format", "iso"),
        ("show_ai_output", "true"),
        ("ai_cmd", "mine"),
        ("ai_cmd_alias", "codex"),
        ("completion_promise", "DONE"),
        ("promise_match", "own-line"),
    ];
    let keys: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(keys, other.map(|(key, _)| key));
    let sandbox = Sandbox::new();
    for (key, value) in other {
        let name = match key {
            "iteration_mode" | "default_max_iterations" => "Max Iterations",
            "ai_cmd" | "ai_cmd_alias" => "AI Command",
            "show_ai_output" => "Show AI Output",
            "max_cost_usd" => "Max Cost USD",
            key => &key
                .split('_')
                .map(|word| word[..1].to_uppercase() + &word[1..])
                .collect::<Vec<_>>()
                .join(" "),
        };
        let check = |rooda: Rooda, source: &str| {
            let told = setting(rooda, name);
            assert!(
                told.contains(value) && told.contains(source),
                "{key}: {told}"
            );
        };
        sandbox.config(&format!("loop: {{{key}: {value}}}"));
        check(build(&sandbox), "(workspace: ./rooda-config.yml");
        sandbox.config(&format!("procedures: {{build: {{{key}: {value}}}}}"));
        check(build(&sandbox), "(workspace: ./rooda-config.yml");
        sandbox.config("");
        let variable = format!("ROODA_LOOP_{}", key.to_uppercase());
        check(
            build(&sandbox).env(&variable, value),
            &format!("(env: {variable}"),
        );
    }
    for (variable, value, name) in [
        ("ROODA_LOG_LEVEL", "error", "Log Level"),
        ("ROODA_SHOW_AI_OUTPUT", "true", "Show AI Output"),
    ] {
        let told = setting(build(&sandbox).env(variable, value), name);
        assert_eq!(told, format!("{value} (env: {variable})"));
    }
}

#[test]
fn a_file_with_the_wrong_ending_is_not_passed_over() {
    let sandbox = Sandbox::new();
    sandbox.file("rooda-config.yaml", "loop: {ai_cmd: cat}");
    let ran = sandbox.rooda(["list"]).run();
    assert_eq!(ran.code, Some(78), "{ran}");
    assert_eq!(
        ran.stderr,
        "Error: rooda-config.yaml: a file of this name is not read\n\
         Hint: rename it to rooda-config.yml, or name it with --config\n"
    );
    let ran = sandbox
        .rooda(["list", "--config", "rooda-config.yaml"])
        .run();
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn a_command_of_a_lower_layer_wins_over_an_alias_with_a_warning() {
    let sandbox = Sandbox::new();
    sandbox.global_config("loop: {ai_cmd: 'true'}");
    sandbox.config("loop: {ai_cmd_alias: claude}");
    let ran = sandbox.rooda(["build", "-n1", "-q"]).run();
    assert!(ran.stderr.contains("which has no effect"), "{ran}");
    // The other way round it is what one expects.
    sandbox.global_config("loop: {ai_cmd_alias: claude}");
    sandbox.config("loop: {ai_cmd: 'true'}");
    let ran = sandbox.rooda(["build", "-n1", "-q"]).run();
    assert!(!ran.stderr.contains("which has no effect"), "{ran}");
}
