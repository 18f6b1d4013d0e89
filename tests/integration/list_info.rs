//! `rooda list` and `rooda info`.

use serde_json::Value;

use crate::harness::{Ran, Sandbox};

fn with_own_procedures() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.config(
        "loop: {failure_threshold: 4}
ai_cmd_aliases: {mine: my-agent --yes}
procedures:
  build: {ai_cmd_alias: mine}
  release-notes:
    display: Release notes
    summary: Write the notes of the next release
    description: |
      Reads the history since the last tag.
      Writes CHANGELOG.md.
    observe: builtin:observe/situation.md
    orient:
      - content: Think about what users notice.
      - path: prompts/orient.md
        parameters: {depth: 2}
    decide: prompts/decide.md
    act: [prompts/act.md, builtin:act/commit.md]
  unfinished:
    act: prompts/act.md
",
    );
    sandbox
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
}

#[test]
fn list_shows_built_in_and_own_procedures() {
    insta::assert_snapshot!(Sandbox::new().rooda(["list"]).run());
    insta::assert_snapshot!(
        "list_with_own_procedures",
        with_own_procedures().rooda(["list"]).run()
    );
}

#[test]
fn list_as_json() {
    let ran = with_own_procedures().rooda(["list", "--json"]).run();
    insta::assert_snapshot!(ran);
    let text = with_own_procedures().rooda(["list"]).run().stdout;
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let list = json(&ran);
    let in_json: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|procedure| procedure["name"].as_str().unwrap())
        .collect();
    assert_eq!(in_json, names);
}

#[test]
fn info_of_a_built_in_procedure() {
    insta::assert_snapshot!(Sandbox::new().rooda(["info", "build"]).run());
}

#[test]
fn info_as_json() {
    let ran = Sandbox::new().rooda(["info", "build", "--json"]).run();
    json(&ran);
    insta::assert_snapshot!(ran);
}

#[test]
fn info_of_an_own_procedure() {
    let sandbox = with_own_procedures();
    insta::assert_snapshot!(sandbox.rooda(["info", "release-notes"]).run());
    insta::assert_snapshot!(
        "info_of_an_own_procedure_as_json",
        sandbox.rooda(["info", "release-notes", "--json"]).run()
    );
}

#[test]
fn info_of_a_built_in_procedure_that_was_changed() {
    let ran = with_own_procedures().rooda(["info", "build"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    for line in [
        "  AI Command: my-agent --yes (workspace: ./rooda-config.yml \"mine\" → workspace: ./rooda-config.yml alias)",
        "  Failure Threshold: 4 (workspace: ./rooda-config.yml)",
        "  act (built-in):",
    ] {
        assert!(ran.stdout.lines().any(|l| l == line), "{line}: {ran}");
    }
}

#[test]
fn info_of_an_unfinished_procedure_says_what_it_lacks() {
    let ran = with_own_procedures().rooda(["info", "unfinished"]).run();
    insta::assert_snapshot!(ran);
}

#[test]
fn every_built_in_procedure_has_an_info() {
    let sandbox = Sandbox::new();
    for procedure in json(&sandbox.rooda(["list", "--json"]).run())
        .as_array()
        .unwrap()
    {
        let name = procedure["name"].as_str().unwrap();
        let info = json(&sandbox.rooda(["info", name, "--json"]).run());
        for key in ["display", "summary", "description"] {
            let text = info[key].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{name}: {key}");
            assert!(!text.contains("  "), "{name}: {key}: {text}");
        }
        assert!(procedure["summary"].as_str().unwrap().len() <= 70, "{name}");
        assert_eq!(info["source"], "built-in", "{name}");
        assert_eq!(info["phases"].as_object().unwrap().len(), 4, "{name}");
    }
}
