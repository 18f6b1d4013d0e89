//! Settings that name something: aliases, packages, variables.

use serde_json::{Value, json};

use super::value::{NOT_BLANK, Scalar, Setting, is_blank};

/// The name of an npm package, without a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package(pub String);

const PACKAGE_PATTERN: &str = r"^(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*$";

impl Setting for Package {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        let text = scalar.text().unwrap_or_default();
        let is_part = |part: &str| {
            let plain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '~' | '-');
            part.starts_with(|c| plain(c) && !matches!(c, '.' | '_' | '-'))
                && part.chars().all(plain)
        };
        let is_package = match text.strip_prefix('@') {
            Some(scoped) => scoped
                .split_once('/')
                .is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
            None => is_part(text),
        };
        match is_package {
            true => Ok(Package(text.to_owned())),
            false => Err("expected the name of an npm package, without a version".to_owned()),
        }
    }

    fn schema() -> Value {
        json!({"type": "string", "pattern": PACKAGE_PATTERN})
    }
}

/// What no agent is given, whoever asks for it: the tokens of the job, and what belongs to the runner.
fn is_forbidden_variable(name: &str) -> bool {
    let prefixes = ["INPUT_", "ACTIONS_", "STATE_"];
    // The command files; with their names alone an agent would only do harm.
    let names = [
        "GITHUB_TOKEN",
        "GITHUB_OUTPUT",
        "GITHUB_ENV",
        "GITHUB_PATH",
        "GITHUB_STATE",
        "GITHUB_STEP_SUMMARY",
        "GITHUB_ARTIFACTS",
        "GITHUB_ARTIFACTS_LIST",
    ];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) || names.contains(&name)
}

/// A pattern for the JSON Schema that accepts what an alias may name in `env`.
pub(super) const VARIABLE_PATTERN: &str = "^(?!(INPUT|ACTIONS|STATE)_)\
    (?!(GH_TOKEN|GITHUB_(TOKEN|OUTPUT|ENV|PATH|STATE|STEP_SUMMARY|ARTIFACTS|ARTIFACTS_LIST))$)\
    [A-Za-z_][A-Za-z0-9_]*$";

/// Reads the name of a variable that an agent may be given.
pub fn read_variable_name(word: &str) -> Result<String, String> {
    let is_name = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !word.is_empty()
        && !word.starts_with(|c: char| c.is_ascii_digit());
    if !is_name {
        return Err(format!(
            "expected names of variables, not `{word}` (values go under `env:`)"
        ));
    }
    match is_forbidden_variable(word) {
        true => Err(format!("expected no `{word}`, which no agent may see")),
        false => Ok(word.to_owned()),
    }
}

/// The names of aliases in `ai_cmd_aliases`: the agent, and those that take over when it cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasNames(pub Vec<String>);

/// A pattern for the name of an alias: not blank, on one line, and without commas.
pub(super) const NAME_PATTERN: &str = r"[^,\n]*[^\s\x85\uFEFF,][^,\n]*";

impl Setting for AliasNames {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        let names: Vec<String> = match scalar {
            Scalar::List(names) => names.clone(),
            _ => scalar
                .text()
                .unwrap_or_default()
                .split([',', '\n'])
                .map(|name| name.trim_matches(is_blank).to_owned())
                .collect(),
        };
        let is_name = |name: &String| !name.chars().all(is_blank);
        if names.is_empty() || !names.iter().all(is_name) {
            return Err("expected the name of an AI command alias, or a list of names".to_owned());
        }
        Ok(AliasNames(names))
    }

    fn schema() -> Value {
        json!({"anyOf": [
            {"type": "string", "pattern": format!("^{NAME_PATTERN}([,\n]{NAME_PATTERN})*$")},
            {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "pattern": NOT_BLANK},
            },
        ]})
    }
}
