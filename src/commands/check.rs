//! What can be found out before the first iteration: programs, prompts, budgets.

use crate::config::{Format, FragmentSource, Origin};
use crate::error::{Error, ErrorKind, Problem};
use crate::host::Reader;
use crate::iteration::holds_bare_tag;
use crate::plan::{Agent, Plan};
use crate::prompt::{Text, fill_in};
use crate::report::Check;
use crate::runner;

/// Finds out, before the first iteration, whatever can be found out then. Answers with what is merely odd.
pub(super) fn check(
    reader: &Reader,
    path: &str,
    plan: &Plan,
    agents: &[Agent],
) -> Result<Vec<String>, Error> {
    let problems: Vec<Problem> = agents
        .iter()
        .filter_map(|agent| find_agent(reader, path, agent).err())
        .collect();
    if !problems.is_empty() {
        return Err(Error {
            kind: ErrorKind::Unavailable,
            problems,
        });
    }
    let prompt = runner::assemble(plan, reader)?;
    let mut odd = oddities(plan, agents, &prompt);
    odd.extend(unmeasured(plan, agents)?);
    Ok(odd)
}

/// Budgets that an agent cannot be held to, because it does not tell what it uses up.
pub(super) fn unmeasured(plan: &Plan, agents: &[Agent]) -> Result<Vec<String>, Error> {
    let mut odd = Vec::new();
    for agent in agents {
        let tells = agent.format.tells();
        let unmeasured = [
            (
                "max_cost_usd",
                "cost",
                plan.max_cost_usd.value.at().is_some() && !tells.cost,
            ),
            (
                "max_tokens",
                "tokens",
                plan.max_tokens.value.at().is_some() && !tells.tokens,
            ),
        ];
        for (budget, what, _) in unmeasured.into_iter().filter(|(.., is_lost)| *is_lost) {
            let (held, tell) = match agent.format {
                Format::Auto => ("perhaps cannot be held", "may not tell"),
                _ => ("cannot be held", "does not tell"),
            };
            odd.push(format!(
                "{budget} {held}: {} {tell} its {what} (format `{}`)",
                agent.name, agent.format
            ));
        }
    }
    if plan.budget_required.value && !odd.is_empty() {
        let problems = odd.into_iter().map(|message| {
            Error::new(ErrorKind::Config, message).hint(
                "use an agent that tells (claude and opencode: cost and tokens; codex and gemini: tokens), or leave `budget_required` out",
            )
        });
        return Err(Error::join(problems)
            .err()
            .unwrap_or_else(|| Error::new(ErrorKind::Internal, "a problem was lost")));
    }
    Ok(odd)
}

/// What is allowed, but hardly meant.
pub(super) fn oddities(plan: &Plan, agents: &[Agent], prompt: &str) -> Vec<String> {
    let mut odd = Vec::new();
    let tag = format!("<promise>{}</promise>", plan.completion_promise.value.0);
    if !prompt.contains(&tag) {
        odd.push(format!(
            "the prompt never mentions {tag}: without it this run cannot end with success \
             (`builtin:act/promise.md` has the rules)"
        ));
    }
    if holds_bare_tag(prompt, &plan.completion_promise.value.0) {
        odd.push(format!(
            "the prompt holds {tag} bare: an agent that repeats a part of it may seem to promise \
             success (write the tag in a code span in the middle of a sentence)"
        ));
    }
    for sign in agents.iter().filter_map(|agent| agent.command.shell_sign()) {
        odd.push(format!(
            "no shell reads the AI command: `{sign}` is passed on as it is (use: sh -c '…')"
        ));
    }
    odd
}

/// Finds the program of the AI command, and what it needs itself.
pub(super) fn find_agent(reader: &Reader, path: &str, agent: &Agent) -> Result<String, Problem> {
    let mut found = String::new();
    for name in agent.command.programs() {
        let install = agent.npm.as_ref().filter(|_| !name.contains('/'));
        let install = install.map(|package| format!("npm install -g {package}"));
        let not_found = |hint: String| Problem {
            message: format!("AI command binary not found: {name}"),
            hints: [hint].into_iter().chain(install.clone()).collect(),
        };
        let program = reader.find_program(name, path).map_err(|problem| {
            not_found(if name.contains('=') {
                let text = &agent.command.text;
                format!("no shell reads this; to set a variable: env {text}")
            } else if name.starts_with('~') || name.contains('$') {
                "no shell reads this: write the path out".to_owned()
            } else if name.contains('/') {
                problem
            } else {
                format!("Searched PATH: {path}")
            })
        })?;
        if let Some(interpreter) = program.missing_interpreter {
            let program = program.path.display();
            let hint = format!("{program} begins with `#!{interpreter}`, and that is not there");
            return Err(not_found(hint));
        }
        found = format!("AI command binary exists: {}", program.path.display());
    }
    Ok(found)
}

/// Reads every prompt of a plan and fills it in.
pub(super) fn check_prompts(reader: &Reader, plan: &Plan) -> Vec<Check> {
    runner::read_fragments(plan, reader)
        .into_iter()
        .map(|(fragment, read)| check_fragment(reader, plan, fragment, read))
        .collect()
}

fn check_fragment(
    reader: &Reader,
    plan: &Plan,
    fragment: &FragmentSource,
    read: Result<String, Error>,
) -> Check {
    let origin = &fragment.origin;
    let result = match read {
        Err(error) => Err(Problem {
            message: format!("Prompt file: {}", runner::one_line(&error)),
            hints: error.problems.into_iter().flat_map(|p| p.hints).collect(),
        }),
        Ok(text) => match fill_in(Text { fragment, text }, plan, |template| {
            reader.render(template)
        }) {
            Err(error) => Err(Problem {
                message: runner::one_line(&error),
                hints: Vec::new(),
            }),
            Ok(_) => Ok(match origin {
                Origin::Inline(_) => format!("Prompt text: {origin}"),
                Origin::BuiltIn(_) | Origin::File(_) => format!("Prompt file exists: {origin}"),
            }),
        },
    };
    Check { result }
}
