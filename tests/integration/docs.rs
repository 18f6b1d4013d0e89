//! README.md, docs/reference.md, action.yml and the examples agree with the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::{CommandFactory, Parser};
use rooda::cli::{Cli, SUBCOMMANDS};
use rooda::config::{KEYS, Source, builtin_layers, read_layer};
use rooda::error::ErrorKind;
use rooda::status::Status;

/// Flags in the README that belong to other programs, beside those of the built-in aliases.
const OTHERS: [&str; 8] = [
    "--bare",
    "--bin",
    "--locked",
    "--model",
    "--no-install-recommends",
    "--no-local",
    "--path",
    "--release",
];

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All that is told to users.
fn readme() -> String {
    format!("{}\n{}", read("README.md"), read("docs/reference.md"))
}

fn action_yml() -> serde_json::Value {
    serde_saphyr::from_str(&read("action.yml")).expect("action.yml is YAML")
}

/// The names and descriptions of a section of action.yml, in their order.
fn described(section: &str) -> Vec<(String, String)> {
    let action = action_yml();
    let entries = action[section].as_object().expect(section);
    let text = |entry: &serde_json::Value| entry["description"].as_str().expect("text").to_owned();
    entries
        .iter()
        .map(|(name, entry)| (name.clone(), text(entry)))
        .collect()
}

/// The rows of the table with this heading.
fn table<'a>(rows: &'a [Vec<&'a str>], heading: &str) -> &'a [Vec<&'a str>] {
    let header = rows.iter().position(|row| row[0] == heading);
    let start = header.expect(heading) + 2;
    let rest = &rows[start..];
    let end = rest.iter().position(|row| !row[0].starts_with('`'));
    &rest[..end.unwrap_or(rest.len())]
}

#[test]
fn the_inputs_of_action_yml_the_readme_and_the_program_are_the_same() {
    let described = described("inputs");
    let names: Vec<&str> = described.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, rooda::action::INPUTS);
    let readme = readme();
    let rows = rows(&readme);
    let told = table(&rows, "input");
    assert_eq!(told.len(), described.len());
    for (row, (name, description)) in told.iter().zip(&described) {
        let sentence = match row[2] {
            "" => row[1].to_owned(),
            default => format!("{} Default: {default}.", row[1]),
        };
        assert_eq!(
            (row[0], sentence),
            (format!("`{name}`").as_str(), description.clone())
        );
    }
    // The runner passes an empty text for what is not given; a default in action.yml would hide the configuration file.
    let action = action_yml();
    for name in names {
        let default = &action["inputs"][name]["default"];
        assert_eq!(default.is_null(), name != "token", "{name}: {default}");
    }
}

#[test]
fn the_outputs_of_action_yml_the_readme_and_the_program_are_the_same() {
    let described = described("outputs");
    let names: Vec<&str> = described.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, rooda::report::OUTPUTS);
    let readme = readme();
    let rows = rows(&readme);
    let told = table(&rows, "output");
    let told: Vec<_> = told
        .iter()
        .map(|row| (row[0].trim_matches('`'), row[1]))
        .collect();
    let described: Vec<_> = described
        .iter()
        .map(|(a, b)| (a.as_str(), b.as_str()))
        .collect();
    assert_eq!(told, described);
    for status in Status::ALL {
        assert!(described[0].1.contains(status.name()), "{status}");
    }
}

#[test]
fn action_yml_starts_the_image_and_passes_text_through_inputs_alone() {
    let runs = &action_yml()["runs"];
    assert_eq!(runs["using"], "docker");
    assert_eq!(runs["image"], "Dockerfile");
    for key in ["args", "entrypoint", "env"] {
        assert!(runs[key].is_null(), "{key}");
    }
}

/// The cells of every row of every table.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect()
}

/// The row whose first cell is this word as code.
fn row<'a>(rows: &'a [Vec<&'a str>], word: &str) -> &'a [&'a str] {
    let code = format!("`{word}`");
    rows.iter()
        .find(|row| row[0] == code)
        .unwrap_or_else(|| panic!("no table of the README has a row for {code}"))
}

/// The code blocks in a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    text.split(&format!("\n```{language}\n"))
        .skip(1)
        .map(|rest| rest.split("\n```").next().unwrap_or_default())
        .collect()
}

fn long_flags(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
        .filter(|word| word.starts_with("--") && word.len() > 3)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_flags_are_those_of_the_program() {
    let own: BTreeSet<String> = Cli::command()
        .get_subcommands()
        .flat_map(|command| command.get_arguments())
        .filter_map(|flag| Some(format!("--{}", flag.get_long()?)))
        .chain(["--help".to_owned(), "--version".to_owned()])
        .collect();
    assert!(own.len() > 20, "{own:?}");
    let readme = readme();
    let told = long_flags(&readme);
    let missing: Vec<_> = own.difference(&told).collect();
    assert!(missing.is_empty(), "not in the README: {missing:?}");

    let mut others: BTreeSet<String> = OTHERS.map(str::to_owned).into();
    for layer in builtin_layers().unwrap() {
        for alias in layer.settings.aliases.values() {
            others.extend(long_flags(&alias.command.text));
        }
    }
    let unknown: Vec<_> = told
        .difference(&own)
        .filter(|flag| !others.contains(*flag))
        .collect();
    assert!(unknown.is_empty(), "only in the README: {unknown:?}");

    // Short forms stand before the long ones.
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    let rows = rows(&readme);
    for flag in run.get_arguments().filter(|flag| !flag.is_positional()) {
        let long = flag.get_long().unwrap();
        let short = match flag.get_short() {
            Some(short) => format!("`-{short}`, `--{long}"),
            None => format!("`--{long}"),
        };
        let row = rows.iter().find(|row| {
            let rest = row[0].strip_prefix(&short);
            rest.is_some_and(|rest| rest.starts_with([' ', '`']))
        });
        assert!(row.is_some(), "no table has a row that begins with {short}");
    }
}

#[test]
fn the_keys_are_those_of_the_program_with_their_defaults() {
    let readme = readme();
    let rows = rows(&readme);
    let defaults = read("src/config/defaults.yml");
    for key in KEYS {
        let set = format!("  {}: ", key.name);
        let default = defaults
            .lines()
            .find_map(|line| line.strip_prefix(&set))
            .unwrap_or("not set");
        let told = row(&rows, key.name)[1].trim_matches('`');
        assert_eq!(told, default, "{}", key.name);
    }
    for variable in [
        "ROODA_LOG_LEVEL",
        "ROODA_SHOW_AI_OUTPUT",
        "ROODA_CONFIG_HOME",
    ] {
        assert!(readme.contains(variable), "{variable}");
    }
}

#[test]
fn every_way_to_end_is_told() {
    let readme = readme();
    let rows = rows(&readme);
    for status in Status::ALL {
        let told = row(&rows, status.name());
        assert_eq!(told[1], status.exit_code().to_string(), "{status}");
    }
    for kind in [
        ErrorKind::Usage,
        ErrorKind::NoInput,
        ErrorKind::Unavailable,
        ErrorKind::Internal,
        ErrorKind::Config,
    ] {
        let code = kind.exit_code().to_string();
        assert!(rows.iter().any(|row| row[0] == code), "{code}");
    }
    // No table tells of a status that does not exist.
    assert_eq!(table(&rows, "status").len(), Status::ALL.len());
}

#[test]
fn procedures_and_aliases_are_those_of_the_program() {
    let readme = readme();
    let rows = rows(&readme);
    let layers = builtin_layers().unwrap();
    let mut procedures = 0;
    for layer in &layers {
        for name in layer.settings.procedures.keys() {
            row(&rows, name);
            procedures += 1;
        }
        for (name, alias) in &layer.settings.aliases {
            let told = row(table(&rows, "alias"), name)[1];
            assert_eq!(told, format!("`{}`", alias.command.text), "{name}");
        }
    }
    assert_eq!(table(&rows, "procedure").len(), procedures);
    let agents = table(&rows, "agent");
    let aliases: Vec<_> = layers
        .iter()
        .flat_map(|layer| &layer.settings.aliases)
        .collect();
    assert_eq!(agents.len(), aliases.len());
    for (name, alias) in aliases {
        let told = row(agents, name);
        let npm = alias.npm.as_ref().map(|package| format!("`{package}`"));
        assert!(
            told[1].starts_with(npm.as_deref().unwrap_or("no:")),
            "{told:?}"
        );
        let keys = alias.env.iter().flatten().map(|key| format!("`{key}`"));
        let keys: Vec<String> = keys.collect();
        assert!(told[2].starts_with(&keys.join(", ")), "{told:?}");
    }
}

#[test]
fn every_command_is_told() {
    let readme = readme();
    let command = Cli::command();
    let is_hidden = |name: &str| {
        let found = command.find_subcommand(name);
        found.is_none_or(|command| command.is_hide_set())
    };
    for name in SUBCOMMANDS.iter().filter(|name| !is_hidden(name)) {
        assert!(
            readme.contains(&format!("rooda {name}")) || readme.contains(&format!("-- {name}")),
            "{name}"
        );
    }
}

/// The arguments of every `rooda …` in a shell script.
fn command_lines(script: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut pending = String::new();
    for line in script.lines() {
        pending.push_str(line);
        pending.push('\n');
        // Quotes may go on over several lines.
        let Ok(words) = shell_words::split(&pending) else {
            continue;
        };
        pending.clear();
        let is_start = |at: &usize| words[*at] == "rooda" && (*at == 0 || words[at - 1] == "|");
        if let Some(start) = (0..words.len()).find(is_start) {
            let is_end = |word: &String| [">", "|", "2>", "&&"].contains(&word.as_str());
            let end = words[start..].iter().position(is_end);
            let end = end.map_or(words.len(), |length| start + length);
            found.push(words[start..end].to_vec());
        }
    }
    assert_eq!(pending, "", "an open quote");
    found
}

#[test]
fn every_command_line_can_be_typed() {
    let readme = readme();
    let lines: Vec<Vec<String>> = blocks(&readme, "sh")
        .into_iter()
        .flat_map(command_lines)
        .collect();
    assert!(lines.len() > 5, "{lines:?}");
    for line in lines {
        let parsed = Cli::try_parse_from(&line);
        assert!(parsed.is_ok(), "{line:?}: {}", parsed.unwrap_err());
    }
}

#[test]
fn every_configuration_is_accepted() {
    let readme = readme();
    let mut documents: Vec<(String, String)> = blocks(&readme, "yaml")
        .into_iter()
        // The others are pieces of workflows.
        .filter(|block| {
            ["loop:", "procedures:", "ai_cmd_aliases:"]
                .iter()
                .any(|key| block.contains(key))
        })
        .map(|block| ("README.md".to_owned(), block.to_owned()))
        .collect();
    assert!(!documents.is_empty());
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yml") {
            let name = path.to_str().unwrap().to_owned();
            documents.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    for (name, text) in documents {
        if let Err(error) = read_layer(Source::BuiltIn, &name, &text) {
            panic!("{error}in:\n{text}");
        }
    }
}

/// Every procedure of the examples composes: its fragments exist and its parameters fit.
#[test]
fn every_example_can_be_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let sandbox = crate::harness::Sandbox::new();
    for file in files {
        let config = format!("--config={}", file.display());
        let text = fs::read_to_string(&file).unwrap();
        let layer = read_layer(Source::BuiltIn, "example", &text).unwrap();
        let own = layer.settings.procedures.keys().map(String::as_str);
        for name in own.chain(["build"]) {
            let ran = sandbox
                .rooda([name, "--dry-run", "--ai-cmd", "true", &config])
                // `true` does not tell what it uses up.
                .env("ROODA_LOOP_BUDGET_REQUIRED", "false")
                .run();
            assert_eq!(ran.code, Some(0), "{name}: {ran}");
        }
    }
}

/// The scripts in a workflow, wherever they stand in it.
fn scripts(node: &serde_json::Value, found: &mut Vec<String>) {
    match node {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(script) if ["run", "setup"].contains(&key.as_str()) => {
                        found.push(script.to_owned());
                    }
                    _ => scripts(value, found),
                }
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| scripts(value, found)),
        _ => {}
    }
}

#[test]
fn every_script_in_a_workflow_to_copy_is_one() {
    let readme = readme();
    let mut found = Vec::new();
    for block in readme.split("```yaml\n").skip(1) {
        let block = block.split("```").next().unwrap();
        if let Ok(yaml) = serde_saphyr::from_str(block) {
            scripts(&yaml, &mut found);
        }
    }
    assert!(found.len() >= 2, "{found:?}");
    for script in found {
        let checked = std::process::Command::new("bash")
            .args(["-n", "-c", &script])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&checked.stderr);
        assert!(
            checked.status.success() && told.is_empty(),
            "{script}\n{told}"
        );
    }
}
