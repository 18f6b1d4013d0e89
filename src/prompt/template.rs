//! Fragments with parameters.

use std::collections::BTreeMap;
use std::io;

use minijinja::{Environment, UndefinedBehavior, Value};
use serde::{Deserialize, Serialize};

/// What every template may use beside its own parameters.
const COMPLETION_PROMISE: &str = "completion_promise";

/// Templates are small and quick. One that is not has gone wrong, or was written by an agent to stop the loop.
const FUEL: u64 = 1_000_000;
const LARGEST: usize = 16 << 20;
const LONGEST_TAG: usize = 4096;

/// A text with what is to be filled in. Who renders it is for the caller to say: a template that an agent wrote can cost
/// whatever time and memory there is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    pub text: String,
    pub parameters: BTreeMap<String, serde_json::Value>,
    pub completion_promise: String,
}

impl Template {
    /// Fills it in, here and now. The error says what is wrong, not where.
    pub fn render(&self) -> Result<String, String> {
        render(&self.text, &self.parameters, &self.completion_promise)
    }
}

/// Fills in a template. A variable without a value is an error, and so is a parameter that nothing uses: both are
/// most likely a slip of the pen. The error says what is wrong, not where; the caller knows that.
pub(super) fn render(
    text: &str,
    parameters: &BTreeMap<String, serde_json::Value>,
    completion_promise: &str,
) -> Result<String, String> {
    check_size(text)?;
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    let template = environment
        .template_from_str(text)
        .map_err(|error| explain(&error))?;
    let used = template.undeclared_variables(false);
    if let Some(name) = parameters.keys().find(|name| !used.contains(*name)) {
        return Err(format!("the parameter `{name}` is not used in it"));
    }
    let mut missing: Vec<&String> = used
        .iter()
        .filter(|name| *name != COMPLETION_PROMISE && !parameters.contains_key(*name))
        .filter(|name| environment.globals().all(|(global, _)| global != *name))
        .collect();
    missing.sort_unstable();
    if let Some(name) = missing.first() {
        return Err(format!("the parameter `{name}` is missing"));
    }
    let given = parameters
        .iter()
        .map(|(name, value)| (name.as_str(), template_value(value)));
    // A parameter of that name wins: the later one of two pairs counts.
    let promise = [(COMPLETION_PROMISE, Value::from(completion_promise))];
    let mut rendered = Rendered::default();
    let values = Value::from_pairs(promise.into_iter().chain(given));
    match template.render_captured_to(values, &mut rendered) {
        Ok(_) => String::from_utf8(rendered.0).map_err(|error| error.to_string()),
        Err(_) if rendered.0.len() >= LARGEST => {
            Err("the text that comes out is larger than 16 MB".to_owned())
        }
        Err(error) => Err(explain(&error)),
    }
}

/// A long chain of operators exhausts the stack of the template engine, and an agent may have written the file.
fn check_size(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some(start) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
        rest = &rest[start..];
        let end = rest.find("}}").into_iter().chain(rest.find("%}")).min();
        let length = end.unwrap_or(rest.len());
        if length > LONGEST_TAG {
            return Err(format!("a tag in it is longer than {LONGEST_TAG} bytes"));
        }
        rest = &rest[length.max(2)..];
    }
    Ok(())
}

/// What comes out of a template, up to a limit.
#[derive(Default)]
struct Rendered(Vec<u8>);

impl io::Write for Rendered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        if self.0.len() >= LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn template_value(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::String(text) => text.as_str().into(),
        serde_json::Value::Bool(flag) => (*flag).into(),
        serde_json::Value::Number(number) => number.as_i64().unwrap_or_default().into(),
        // Configuration files cannot hold others here.
        other => other.to_string().into(),
    }
}

fn explain(error: &minijinja::Error) -> String {
    let what = match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    };
    match error.line() {
        Some(line) => format!("template error in line {line}: {what}"),
        None => format!("template error: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_with(text: &str, parameters: &[(&str, &str)]) -> Result<String, String> {
        let parameters = parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        render(text, &parameters, "DONE")
    }

    #[test]
    fn parameters_are_filled_in() {
        assert_eq!(
            render_with(
                "{{ a }}: <promise>{{ completion_promise }}</promise>",
                &[("a", "x")]
            ),
            Ok("x: <promise>DONE</promise>".to_owned())
        );
        assert_eq!(
            render_with("{% if a %}yes{% endif %}", &[("a", "1")]),
            Ok("yes".to_owned())
        );
        assert_eq!(
            render_with("{% for i in range(2) %}{{ i }}{% endfor %}", &[]),
            Ok("01".to_owned())
        );
    }

    #[test]
    fn slips_are_errors() {
        assert_eq!(
            render_with("{{ b }}", &[]),
            Err("the parameter `b` is missing".to_owned())
        );
        assert_eq!(
            render_with("text", &[("a", "1")]),
            Err("the parameter `a` is not used in it".to_owned())
        );
        assert!(
            render_with("one\n{{ a", &[])
                .is_err_and(|told| told.starts_with("template error in line 2: syntax error"))
        );
    }

    #[test]
    fn a_hostile_template_is_refused_in_time() {
        let endless = "{% for a in range(10000) %}".repeat(3) + "x" + &"{% endfor %}".repeat(3);
        assert!(render_with(&endless, &[]).is_err_and(|told| told.contains("fuel")));
        let chain = format!(
            "{{{{ completion_promise{} }}}}",
            "~completion_promise".repeat(20_000)
        );
        assert!(render_with(&chain, &[]).is_err_and(|told| told.contains("longer than 4096")));
        let large = format!(
            "{{% for a in range(9999) %}}{}{{% endfor %}}",
            "x".repeat(2000)
        );
        assert!(render_with(&large, &[]).is_err_and(|told| told.contains("larger than 16 MB")));
    }

    #[test]
    fn the_promise_of_a_parameter_wins() {
        assert_eq!(
            render_with(
                "{{ completion_promise }}",
                &[("completion_promise", "MINE")]
            ),
            Ok("MINE".to_owned())
        );
    }
}
