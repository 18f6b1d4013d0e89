//! `action.yml` as the runner reads it.

use serde_json::Value;

/// What the runner takes from it. `required` and `outputs` are documentation to it.
#[derive(Debug)]
pub(super) struct Manifest {
    /// Name and default.
    pub(super) inputs: Vec<(String, String)>,
    pub(super) image: String,
    pub(super) entrypoint: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Vec<(String, String)>,
}

impl Manifest {
    pub(super) fn parse(text: &str) -> Self {
        let all: Value = serde_saphyr::from_str(text).expect("action.yml");
        let runs = &all["runs"];
        assert_eq!(runs["using"], "docker", "it is no docker action");
        let image = scalar(&runs["image"]);
        assert!(
            is_image(&image),
            "{image} is no Dockerfile and no docker://"
        );
        let pairs = |of: &Value| -> Vec<(String, Value)> {
            let pairs = of.as_object().into_iter().flatten();
            pairs
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let default = |(name, input): (String, Value)| (name, scalar(&input["default"]));
        let variable = |(name, value): (String, Value)| (name, scalar(&value));
        Manifest {
            inputs: pairs(&all["inputs"]).into_iter().map(default).collect(),
            image,
            entrypoint: runs["entrypoint"].as_str().map(str::to_owned),
            args: runs["args"]
                .as_array()
                .map(|items| items.iter().map(scalar).collect()),
            env: pairs(&runs["env"]).into_iter().map(variable).collect(),
        }
    }

    /// The value of every declared input, then those that nobody declared, with a warning about these. Names do not heed
    /// case.
    pub(super) fn inputs(
        &self,
        given: &[(String, String)],
    ) -> (Vec<(String, String)>, Option<String>) {
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        let value = |(name, default): &(String, String)| {
            let given = given.iter().rfind(|(key, _)| same(key, name));
            (
                name.clone(),
                given.map_or(default.clone(), |(_, value)| value.clone()),
            )
        };
        let mut inputs: Vec<(String, String)> = self.inputs.iter().map(value).collect();
        let declared = |name: &str| {
            same(name, "args")
                || same(name, "entrypoint")
                || self.inputs.iter().any(|(known, _)| same(known, name))
        };
        let unexpected = given.iter().filter(|(name, _)| !declared(name));
        let names: Vec<String> = unexpected.map(|(name, _)| format!("'{name}'")).collect();
        let known = inputs.clone();
        let is_new =
            |(name, _): &&(String, String)| !known.iter().any(|(other, _)| same(other, name));
        inputs.extend(given.iter().filter(is_new).cloned());
        let valid = self.inputs.iter().map(|(name, _)| format!("'{name}'"));
        let valid: Vec<String> = ["'entryPoint'".to_owned(), "'args'".to_owned()]
            .into_iter()
            .chain(valid)
            .collect();
        let warning = (!names.is_empty()).then(|| {
            format!(
                "Unexpected input(s) {}, valid inputs are [{}]",
                names.join(", "),
                valid.join(", ")
            )
        });
        (inputs, warning)
    }
}

fn is_image(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default().to_lowercase();
    let is_dockerfile = name.starts_with("dockerfile.") || name.ends_with("dockerfile");
    image.to_lowercase().starts_with("docker://") || is_dockerfile
}

/// A scalar of YAML as text.
fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Replaces every `${{ … }}`. `lookup` knows the contexts that are allowed here.
pub(super) fn evaluate(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut value = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${{") {
        let (expression, after) = after.split_once("}}").expect("an expression has an end");
        value.push_str(before);
        let expression = expression.trim();
        value.push_str(
            &lookup(expression).unwrap_or_else(|| panic!("{expression} is not known here")),
        );
        rest = after;
    }
    value + rest
}

#[cfg(test)]
const EXAMPLE: &str = "
name: Example
inputs:
  first: {description: one, default: 5, required: true}
  Second: {description: two}
  token: {default: '${{ github.token }}'}
runs:
  using: docker
  image: Dockerfile
  entrypoint: /main
  args: ['${{ inputs.first }}', '', 7]
  env: {A: true}
";

#[test]
fn a_manifest_is_read_as_the_runner_does_it() {
    let manifest = Manifest::parse(EXAMPLE);
    assert_eq!(manifest.image, "Dockerfile");
    assert_eq!(manifest.entrypoint.as_deref(), Some("/main"));
    let args = manifest.args.as_deref().unwrap();
    assert_eq!(args, ["${{ inputs.first }}", "", "7"]);
    assert_eq!(manifest.env, [("A".to_owned(), "true".to_owned())]);
}

#[test]
fn every_declared_input_has_a_value_and_unexpected_ones_are_passed_with_a_warning() {
    let manifest = Manifest::parse(EXAMPLE);
    let given = [("SECOND", "b"), ("third", "c"), ("args", "x")];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (inputs, warning) = manifest.inputs(&given);
    let shown: Vec<String> = inputs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let expected = [
        "first=5",
        "Second=b",
        "token=${{ github.token }}",
        "third=c",
        "args=x",
    ];
    assert_eq!(shown, expected);
    let expected = "Unexpected input(s) 'third', valid inputs are ['entryPoint', 'args', 'first', 'Second', 'token']";
    assert_eq!(warning.as_deref(), Some(expected));
    assert_eq!(manifest.inputs(&[]).1, None);
}

#[test]
fn images_are_dockerfiles_or_references() {
    for image in [
        "Dockerfile",
        "a/my.Dockerfile",
        "dockerfile.alpine",
        "docker://debian",
        "Docker://x",
    ] {
        assert!(is_image(image), "{image}");
    }
    for image in ["debian:12", "a/Dockerfile/b", ""] {
        assert!(!is_image(image), "{image}");
    }
}

#[test]
fn expressions_are_replaced_wherever_they_stand() {
    let lookup = |name: &str| (name == "a.b").then(|| "<>".to_owned());
    assert_eq!(evaluate("x ${{ a.b }}y${{a.b}}", lookup), "x <>y<>");
    assert_eq!(evaluate("plain", lookup), "plain");
}
