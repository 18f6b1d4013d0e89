//! The JSON Schema and the program accept the same documents.

use std::fs;
use std::path::Path;

use jsonschema::Validator;
use proptest::prelude::*;
use rooda::config::{KEYS, Source, read_layer, schema};
use serde_json::{Value, json};

use crate::harness::Sandbox;

fn validator() -> Validator {
    jsonschema::validator_for(&schema()).expect("a valid schema")
}

/// What the program says of a document. JSON is YAML too, if all that is invisible is escaped.
fn read(document: &Value) -> Result<(), String> {
    let yaml: String = document
        .to_string()
        .chars()
        .map(|c| match c {
            '\u{7f}'..='\u{9f}' | '\u{feff}' => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    let source = Source::Workspace("./rooda-config.yml".to_owned());
    read_layer(source, "rooda-config.yml", &yaml)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn assert_same(validator: &Validator, document: &Value) -> bool {
    let read = read(document);
    assert_eq!(
        validator.is_valid(document),
        read.is_ok(),
        "the schema (left) and the program (right, {read:?}) disagree on {document}"
    );
    read.is_ok()
}

#[test]
fn the_committed_schema_is_the_programs() {
    let printed = Sandbox::new().rooda(["schema"]).run();
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("rooda-config.schema.json");
    let committed = fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == printed.stdout,
        "rooda-config.schema.json is outdated: cargo run -- schema > rooda-config.schema.json"
    );
}

#[test]
fn the_schema_is_valid_itself() {
    let schema = schema();
    jsonschema::meta::validate(&schema).unwrap();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    // Editors show the descriptions: each key has one.
    for key in KEYS {
        for place in [
            &schema["properties"]["loop"]["properties"],
            &schema["properties"]["procedures"]["additionalProperties"]["properties"],
        ] {
            let about = place[key.name]["description"].as_str().unwrap();
            assert!(!about.is_empty(), "{}", key.name);
        }
    }
}

/// Values of every kind, right for some keys and wrong for others.
fn values() -> Vec<Value> {
    let mut values = vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(-0.0),
        json!(1),
        json!(-1),
        json!(3.0),
        json!(1.5),
        json!(0.5),
        json!(-1.5),
        json!(90),
        json!(u32::MAX),
        json!(u64::from(u32::MAX) + 1),
        json!(3_153_600_000_u64),
        json!(3_153_600_001_u64),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e16),
        json!(1e300),
        json!([]),
        json!([1]),
        json!(["info"]),
        json!({}),
        json!({"a": 1}),
    ];
    let texts = [
        "",
        " ",
        "\n",
        "\t",
        "\0",
        "none",
        "None",
        "NONE",
        "null",
        "~",
        "true",
        "false",
        "yes",
        "0",
        "00",
        "1",
        "01",
        "3",
        "-1",
        "+1",
        "1.5",
        "1.0",
        "0.5",
        ".5",
        "5.",
        ".",
        "0.0",
        "..",
        "1e3",
        "inf",
        "0s",
        "00s",
        "0h0m",
        "1s",
        "90s",
        "5m",
        "1h30m",
        "1h30",
        "30m1h",
        "1h1h",
        "1h ",
        " 1h",
        "5 m",
        "1d2h3m4s5ms",
        "250ms",
        "1.5h",
        ".5h",
        "1.h",
        "0.0m",
        "1M",
        "1H",
        "m",
        "1w",
        "5ms5s",
        "0MB",
        "00KB",
        "1B",
        "10MB",
        "10MiB",
        "10mb",
        "1.5MB",
        "10 MB",
        "010MB",
        "KB",
        "1TB",
        "512KB",
        "1GiB",
        "2GB",
        "debug",
        "info",
        "warn",
        "error",
        "INFO",
        "text",
        "json",
        "time",
        "time-ms",
        "relative",
        "iso",
        "anywhere",
        "own-line",
        "max-iterations",
        "unlimited",
        "SUCCESS",
        "FAILURE",
        "failure",
        "ALL DONE",
        " DONE",
        "DONE ",
        "<b>",
        "a\nb",
        "\u{a0}x",
        "x\u{2003}",
        "\u{85}",
        "\u{feff}",
        "\u{7f}",
        "ünï",
        "claude -p",
        "a 'b",
        "a 'b'",
        "\"\"",
        "'' x",
        "# x",
        "a # don't",
        "a#'",
        "\\",
        "a\\",
        "\\\n",
        "a \"\\\"\"",
        "\"a",
        "x\0y",
    ];
    values.extend(texts.map(Value::from));
    values
}

#[test]
fn every_key_takes_the_same_values() {
    let validator = validator();
    for key in KEYS {
        let mut accepted = 0;
        let mut refused = 0;
        for value in values() {
            for document in [
                json!({"loop": {key.name: value}}),
                json!({"procedures": {"build": {key.name: value}}}),
            ] {
                if assert_same(&validator, &document) {
                    accepted += 1;
                } else {
                    refused += 1;
                }
            }
        }
        assert!(accepted > 1 && refused > 1, "{}", key.name);
    }
}

#[test]
fn what_only_the_program_can_tell() {
    let validator = validator();
    for (key, value) in [
        // Too short and too long.
        ("iteration_timeout", json!("0.0001")),
        ("iteration_timeout", json!("0.01ms")),
        ("iteration_timeout", json!("36501d")),
        ("kill_grace", json!("3153600001")),
        ("max_output_buffer", json!("99999999999GB")),
        ("max_output_buffer", json!("99999999999999999999")),
    ] {
        let document = json!({"loop": {key: value}});
        assert!(validator.is_valid(&document), "{document}");
        assert!(read(&document).is_err(), "{document}");
    }
    // For a schema 2.0 is the whole number 2. A template would have to show one of them: only the writer knows which.
    let document = phase(json!([{"content": "{{ a }}", "parameters": {"a": 2.0}}]));
    assert!(validator.is_valid(&document));
    assert!(read(&document).is_err());
}

fn phase(value: Value) -> Value {
    json!({"procedures": {"mine": {"act": value}}})
}

#[test]
fn every_shape_is_accepted_by_both_or_by_none() {
    let validator = validator();
    let with_parameters = |value: Value| phase(json!([{"path": "x", "parameters": value}]));
    let mut accepted = 0;
    let mut refused = 0;
    let mut check = |document: Value| {
        if assert_same(&validator, &document) {
            accepted += 1;
        } else {
            refused += 1;
        }
    };
    for value in values() {
        check(value.clone());
        check(json!({"loop": value}));
        check(json!({"ai_cmd_aliases": value}));
        check(json!({"ai_cmd_aliases": {"mine": value}}));
        check(json!({"ai_cmd_aliases": {"mine": {"command": value}}}));
        check(json!({"procedures": value}));
        check(json!({"procedures": {"mine": value}}));
        for key in ["display", "summary", "description", "observe", "act"] {
            check(json!({"procedures": {"mine": {key: value}}}));
        }
        check(phase(json!([value])));
        check(phase(json!(["x.md", value])));
        check(phase(json!([{"path": value}])));
        check(phase(json!([{"content": value}])));
        check(phase(json!([{"path": "x", "content": value}])));
        check(with_parameters(value.clone()));
        // Told apart in `what_only_the_program_can_tell`.
        if !value
            .as_f64()
            .is_some_and(|n| value.is_f64() && n.fract() == 0.0)
        {
            check(with_parameters(json!({"a": value})));
        }
    }
    for name in [
        "",
        " ",
        "a",
        "A-1",
        "a.b",
        "a_b",
        "-a",
        ".a",
        "_a",
        "1",
        "a b",
        "a/b",
        "ä",
        "run",
        "loop",
        "list",
        "help",
        "Run",
        "demo",
        "\u{85}",
        "\u{feff}",
        "demo-agent",
        "schema",
        "version",
        "build",
        "a\n",
    ] {
        check(json!({"procedures": {name: {}}}));
        check(json!({"ai_cmd_aliases": {name: "x"}}));
        check(json!({"loop": {name: 1}}));
        check(json!({name: {}}));
        check(with_parameters(json!({name: "x"})));
    }
    for document in [
        json!({"loop": {}, "ai_cmd_aliases": {}, "procedures": {}}),
        json!({"ai_cmd_aliases": {"mine": {"command": "x", "other": 1}}}),
        json!({"ai_cmd_aliases": {"mine": {"other": "x"}}}),
        json!({"procedures": {"mine": {"verify": {}}}}),
        phase(json!({"path": "x"})),
        phase(json!([{"path": "x", "file": "y"}])),
        phase(json!([{}])),
        phase(json!([["x"]])),
        phase(json!([{"parameters": {}}])),
        phase(json!([{"content": ""}, "builtin:act/build.md"])),
    ] {
        check(document);
    }
    assert!(accepted > 100 && refused > 100, "{accepted} {refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn command_lines(text in r#"[ab'"\\ #\n\t\x00]{0,8}"#) {
        assert_same(validator_once(), &json!({"loop": {"ai_cmd": text}}));
    }

    #[test]
    fn durations(text in r"[0139.dhms]{0,7}") {
        let value = json!({"loop": {"run_timeout": text}});
        // Too short or too long: `what_only_the_program_can_tell`.
        let told = read(&value).err().unwrap_or_default();
        if !told.contains("more than 0") && !told.contains("hundred years") {
            assert_same(validator_once(), &value);
        }
    }

    #[test]
    fn sizes(text in r"[019KMGTiBb.]{0,6}") {
        assert_same(validator_once(), &json!({"loop": {"max_output_buffer": text}}));
    }

    #[test]
    fn promises(text in r"[A \x00\n<>ü\u{a0}\u{85}]{0,5}|FAILURE.?") {
        assert_same(validator_once(), &json!({"loop": {"completion_promise": text}}));
    }
}

fn validator_once() -> &'static Validator {
    static VALIDATOR: std::sync::LazyLock<Validator> = std::sync::LazyLock::new(validator);
    &VALIDATOR
}
