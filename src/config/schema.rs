//! The JSON Schema of `rooda-config.yml`, made from the same tables that read it.

use serde_json::{Map, Value, json};

use super::choice::Format;
use super::name::{NAME_PATTERN, Package, VARIABLE_PATTERN};
use super::settings::{KEYS, PHASES};
use super::value::{CommandLine, NOT_BLANK, Setting};
use crate::cli::SUBCOMMANDS;

/// A schema that editors can use, and that accepts what rooda accepts.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://raw.githubusercontent.com/org/rooda-action/main/rooda-config.schema.json",
        "title": "rooda-config.yml",
        "description": "Configuration of rooda, which runs AI coding CLIs in OODA loops.",
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "loop": {
                "description": "Defaults for every procedure.",
                "type": ["object", "null"],
                "additionalProperties": false,
                "properties": loop_keys(),
            },
            "ai_cmd_aliases": {
                "description": "Names for AI command lines, for `ai_cmd_alias` and `--ai-cmd-alias`.",
                "type": ["object", "null"],
                "propertyNames": {"pattern": format!("^{NAME_PATTERN}$")},
                "additionalProperties": {"anyOf": [
                    CommandLine::schema(),
                    {
                        "type": "object",
                        "required": ["command"],
                        "additionalProperties": false,
                        "properties": {
                            "command": described("The command line; it gets the prompt on standard input.", CommandLine::schema()),
                            "format": described("How its output is read [default: that of the built-in alias with the same command, else auto].", Format::schema()),
                            "npm": described("The npm package that has the program; the action installs it [default: that of the built-in alias for the same program].", Package::schema()),
                            "env": {
                                "description": "The variables that hold its keys; the action passes them to it [default: those of the built-in alias for the same program].",
                                "type": "array",
                                "minItems": 1,
                                "items": {"type": "string", "pattern": VARIABLE_PATTERN},
                            },
                        },
                    },
                ]},
            },
            "procedures": {
                "description": "Procedures, new ones or changes to the built-in ones, key by key.",
                "type": ["object", "null"],
                "propertyNames": {
                    "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
                    "not": {"enum": SUBCOMMANDS},
                },
                "additionalProperties": {
                    "type": ["object", "null"],
                    "additionalProperties": false,
                    "properties": procedure_keys(),
                },
            },
        },
        "$defs": {
            "path": {
                "description": "A prompt file, relative to this file, or a built-in one: `builtin:act/build.md`.",
                "type": "string",
                "pattern": format!(r"^(?![\s\S]*\x00)[\s\S]*{NOT_BLANK}"),
            },
            "fragment": {"anyOf": [
                {"$ref": "#/$defs/path"},
                {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "path": {"$ref": "#/$defs/path"},
                        "content": {"description": "The text itself.", "type": "string"},
                        "parameters": {
                            "description": "Makes the fragment a template with these variables.",
                            "type": ["object", "null"],
                            "additionalProperties": {"anyOf": [
                                {"type": ["string", "boolean"]},
                                {"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX},
                            ]},
                        },
                    },
                    "oneOf": [{"required": ["path"]}, {"required": ["content"]}],
                },
            ]},
            "phase": {"anyOf": [
                {"$ref": "#/$defs/path"},
                {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/fragment"}},
            ]},
        },
    })
}

fn loop_keys() -> Map<String, Value> {
    KEYS.iter()
        .map(|key| {
            let schema = described(key.about.trim(), (key.schema)());
            (key.name.to_owned(), schema)
        })
        .collect()
}

fn described(about: &str, schema: Value) -> Value {
    let mut described = json!({"description": about});
    if let (Value::Object(all), Value::Object(own)) = (&mut described, schema) {
        all.extend(own);
    }
    described
}

fn procedure_keys() -> Map<String, Value> {
    let texts = [
        ("display", "The name as people read it."),
        ("summary", "One line, for `rooda list`."),
        ("description", "A few sentences, for `rooda info`."),
    ]
    .map(|(key, about)| {
        (
            key.to_owned(),
            json!({"description": about, "type": "string"}),
        )
    });
    let phases = PHASES.map(|phase| {
        let about = format!("The prompt of the phase {}.", phase.heading());
        let schema = json!({"description": about, "$ref": "#/$defs/phase"});
        (phase.key().to_owned(), schema)
    });
    texts.into_iter().chain(phases).chain(loop_keys()).collect()
}
