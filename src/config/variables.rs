//! Environment variables: each one that is set becomes a layer of its own.

use std::collections::BTreeMap;

use super::settings::{KEYS, Settings};
use super::value::Scalar;
use super::{Layer, Source};
use crate::error::{Error, ErrorKind, nearest};

const PREFIX: &str = "ROODA_LOOP_";

/// The two short names that rooda has had from the beginning.
const SHORT: [(&str, &str); 2] = [
    ("ROODA_LOG_LEVEL", "log_level"),
    ("ROODA_SHOW_AI_OUTPUT", "show_ai_output"),
];

/// Where the global configuration is.
pub const CONFIG_HOME: &str = "ROODA_CONFIG_HOME";

/// Reads `ROODA_LOOP_<KEY>` for every key of `loop`, and the short names. An empty variable counts as not set, because
/// that is what workflows pass for a value that was left out; every other value must be right.
pub fn variable_layers(environment: &BTreeMap<String, String>) -> Result<Vec<Layer>, Error> {
    let mut layers = Vec::new();
    let mut problems = Vec::new();
    for (name, value) in environment {
        let short = SHORT.iter().find(|(short, _)| short == name);
        let key = match (short, name.strip_prefix(PREFIX)) {
            (Some((_, key)), _) => (*key).to_owned(),
            (None, Some(rest)) => rest.to_ascii_lowercase(),
            (None, None) => {
                if name.starts_with("ROODA_") && name != CONFIG_HOME {
                    problems.push(unknown_variable(name));
                }
                continue;
            }
        };
        if value.contains('\u{fffd}') {
            let message = format!("environment variable {name}: it is not UTF-8 text");
            problems.push(Error::new(ErrorKind::Config, message));
            continue;
        }
        let mut settings = Settings::default();
        match settings.defaults.set(&key, &Scalar::Untyped(value.clone())) {
            None => problems.push(unknown_variable(name)),
            Some(_) if value.is_empty() => {}
            Some(Ok(())) => layers.push(Layer {
                source: Source::Variable(name.clone()),
                settings,
            }),
            Some(Err(expected)) => problems.push(Error::new(
                ErrorKind::Config,
                format_args!("environment variable {name}: {expected}, found {value:?}"),
            )),
        }
    }
    for (short, key) in SHORT {
        let long = format!("{PREFIX}{}", key.to_ascii_uppercase());
        match (environment.get(short), environment.get(&long)) {
            (Some(a), Some(b)) if a != b && !a.is_empty() && !b.is_empty() => {
                let message = format!("environment variables {short} and {long} disagree");
                problems.push(Error::new(ErrorKind::Config, message).hint("set only one of them"));
            }
            _ => {}
        }
    }
    Error::join(problems)?;
    Ok(layers)
}

/// Every variable of ours begins with `ROODA_`, and none that does is ignored: it was meant for us.
fn unknown_variable(name: &str) -> Error {
    let error = Error::new(
        ErrorKind::Config,
        format_args!("environment variable {name}: there is no such setting"),
    );
    // What all have in common must not make them look alike.
    let bare = |name: &str| {
        let rest = name.strip_prefix(PREFIX).or(name.strip_prefix("ROODA_"));
        rest.unwrap_or(name).to_ascii_lowercase()
    };
    let known: Vec<String> = KEYS
        .iter()
        .map(|key| format!("{PREFIX}{}", key.name.to_ascii_uppercase()))
        .chain([CONFIG_HOME.to_owned()])
        .collect();
    let bare_known: Vec<String> = known.iter().map(|name| bare(name)).collect();
    let near = nearest(&bare(name), bare_known.iter().map(String::as_str));
    match known.iter().find(|name| near == Some(&bare(name))) {
        Some(name) => error.hint(format_args!("did you mean `{name}`?")),
        None => error.hint(format_args!("the variables are: {}", known.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(variables: &[(&str, &str)]) -> Result<Vec<Layer>, Error> {
        let environment = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        variable_layers(&environment)
    }

    #[test]
    fn every_key_has_a_variable() {
        for key in KEYS {
            let name = format!("{PREFIX}{}", key.name.to_ascii_uppercase());
            let error = layers(&[(&name, "\u{1}<bad>\u{1}\"")]);
            let told = match error {
                Err(error) => error.to_string(),
                Ok(_) => String::new(),
            };
            // An alias may have any name: whether it exists is found when the run is resolved.
            assert!(
                told.starts_with(&format!("Error: environment variable {name}: expected"))
                    || key.name == "ai_cmd_alias",
                "{name}: {told}"
            );
        }
    }

    #[test]
    fn an_empty_variable_is_not_set_and_others_are_not_ours() {
        let layers = layers(&[("ROODA_LOG_LEVEL", ""), ("HOME", "/root"), ("ROODAX", "1")]);
        assert!(layers.is_ok_and(|layers| layers.is_empty()));
    }

    #[test]
    fn an_unknown_variable_is_an_error_even_when_empty() {
        let error = layers(&[("ROODA_LOOP_FAILURE_TRESHOLD", "")]).err();
        let told = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            told.contains("did you mean `ROODA_LOOP_FAILURE_THRESHOLD`?"),
            "{told}"
        );
    }

    #[test]
    fn no_variable_that_looks_like_ours_is_ignored() {
        let told = |name| match layers(&[(name, "debug")]) {
            Err(error) => error.to_string(),
            Ok(_) => String::new(),
        };
        for (name, meant) in [
            ("ROODA_LOG_LEVLE", "ROODA_LOOP_LOG_LEVEL"),
            ("ROODA_LOG_FORMAT", "ROODA_LOOP_LOG_FORMAT"),
            ("ROODA_AI_CMD", "ROODA_LOOP_AI_CMD"),
            ("ROODA_CONFIGHOME", "ROODA_CONFIG_HOME"),
        ] {
            assert!(
                told(name).contains(&format!("did you mean `{meant}`?")),
                "{name}"
            );
        }
        assert!(told("ROODA_SOMETHING_ELSE").contains("the variables are: ROODA_LOOP_"));
        assert_eq!(told("ROODA_CONFIG_HOME"), "");
    }

    #[test]
    fn two_names_for_one_setting_must_agree() {
        let both = |a, b| layers(&[("ROODA_LOG_LEVEL", a), ("ROODA_LOOP_LOG_LEVEL", b)]);
        assert!(both("debug", "debug").is_ok());
        assert!(both("debug", "").is_ok());
        assert!(both("debug", "info").is_err_and(|e| e.to_string().contains("disagree")));
    }
}
