//! The prompt of an iteration, from the texts of its fragments.

use std::collections::BTreeMap;

use super::builtin_text;
use super::template::{Template, render};
use crate::config::{FragmentSource, Origin};
use crate::error::{Error, ErrorKind};
use crate::plan::{Plan, Work};

/// A fragment with the text that was read for it.
#[derive(Debug)]
pub struct Text<'a> {
    pub fragment: &'a FragmentSource,
    pub text: String,
}

/// Composes the prompt of a plan. `texts` are those of its fragments, in their order; `render_foreign` fills in templates
/// that are not our own.
pub fn compose(
    plan: &Plan,
    texts: Vec<Text>,
    render_foreign: impl Fn(&Template) -> Result<String, String>,
) -> Result<String, Error> {
    let mut problems = Vec::new();
    let mut rendered = texts.into_iter().filter_map(|text| {
        fill_in(text, plan, &render_foreign)
            .map_err(|error| problems.push(error))
            .ok()
    });
    let mut prompt = String::new();
    match &plan.work {
        Work::Task(task) => {
            prompt.push_str(task.trim_end());
            prompt.push('\n');
            context(&mut prompt, &plan.context);
            let rules = builtin_text("loop/promise.md").unwrap_or_default();
            let promise = &plan.completion_promise.value.0;
            let rules = render(rules, &Default::default(), promise)
                .map_err(|told| Error::new(ErrorKind::Internal, told))?;
            section(&mut prompt, "PROMISE", [rules.as_str()]);
        }
        Work::Phases(phases) => {
            prompt.push_str("# OODA Loop Iteration\n");
            context(&mut prompt, &plan.context);
            for (phase, fragments) in phases {
                let texts: Vec<String> = rendered.by_ref().take(fragments.len()).collect();
                section(
                    &mut prompt,
                    phase.heading(),
                    texts.iter().map(String::as_str),
                );
            }
        }
    }
    drop(rendered);
    Error::join(problems)?;
    Ok(prompt)
}

/// The text of a fragment as it goes into the prompt. Only one with parameters is a template.
pub fn fill_in(
    text: Text,
    plan: &Plan,
    render_foreign: impl Fn(&Template) -> Result<String, String>,
) -> Result<String, Error> {
    let is_ours = matches!(text.fragment.origin, Origin::BuiltIn(_));
    let parameters = match &text.fragment.parameters {
        Some(parameters) => parameters.clone(),
        // A built-in template is one also where nobody thought of its parameters.
        None if is_ours && text.text.contains("{{") => BTreeMap::new(),
        None => return Ok(text.text),
    };
    let template = Template {
        text: text.text,
        parameters,
        completion_promise: plan.completion_promise.value.0.clone(),
    };
    let rendered = match is_ours {
        true => template.render(),
        false => render_foreign(&template),
    };
    rendered.map_err(|told| {
        let origin = &text.fragment.origin;
        let place = match &text.fragment.place {
            Some(place) => format!("{place}: "),
            None => String::new(),
        };
        Error::new(ErrorKind::Config, format_args!("{place}{origin}: {told}"))
    })
}

fn context(prompt: &mut String, context: &[String]) {
    if !context.is_empty() {
        section(prompt, "CONTEXT", context.iter().map(String::as_str));
    }
}

/// A heading and texts, with exactly one blank line between them. The texts themselves are not touched otherwise.
fn section<'a>(prompt: &mut String, heading: &str, texts: impl IntoIterator<Item = &'a str>) {
    prompt.push_str("\n## ");
    prompt.push_str(heading);
    for (index, text) in texts.into_iter().enumerate() {
        prompt.push_str(if index == 0 { "\n" } else { "\n\n" });
        prompt.push_str(text.trim_end_matches(['\n', '\r']));
    }
    prompt.push('\n');
}
