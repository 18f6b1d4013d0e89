//! Which variables of an environment hold secrets.

use std::collections::BTreeMap;

/// The tokens of a job, the keys of the agents, whose names are `keys`, and what calls itself a secret.
pub fn secret_values<'a>(
    environment: &BTreeMap<String, String>,
    keys: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let tokens = [
        "INPUT_TOKEN",
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "COPILOT_GITHUB_TOKEN",
        "ACTIONS_RUNTIME_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
    ];
    let sounds_secret = |name: &str| {
        let name = name.to_ascii_uppercase();
        ["TOKEN", "SECRET", "PASSWORD", "API_KEY", "PRIVATE_KEY"]
            .iter()
            .any(|word| name.contains(word))
    };
    // A variable that the agent is given by name is masked if its name says what it is; `true` or `1` must not be.
    let named = environment
        .iter()
        .filter(|(name, value)| sounds_secret(name) && value.len() >= 8)
        .map(|(_, value)| value.clone());
    let known = tokens
        .into_iter()
        .chain(keys)
        .filter_map(|name| environment.get(name).cloned());
    let mut all: Vec<String> = known
        .chain(named)
        .filter(|value| !value.trim().is_empty())
        .collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_known_by_its_name() {
        let environment = [
            ("ANTHROPIC_API_KEY", "sk-ant-1234"),
            ("DB_PASSWORD", "correct horse"),
            ("EMPTY_TOKEN", ""),
            ("GITHUB_TOKEN", "ghs_0123456789"),
            ("HOUSE", "key"),
            ("INPUT_TOKEN", "ghs_0123456789"),
            ("MY_TOKEN", "1"),
            ("PATH", "/usr/bin"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(
            secret_values(&environment.into(), ["HOUSE"]),
            ["correct horse", "ghs_0123456789", "key", "sk-ant-1234"]
        );
    }
}
