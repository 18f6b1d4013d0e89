//! `rooda agents`, and what it finds out of an agent on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::{World, read_place};
use crate::agent::version_line;
use crate::cli::ListArgs;
use crate::config::Catalogue;
use crate::error::{Error, ErrorKind, without_number};
use crate::host::{self, Answer, Reader};
use crate::iteration::{Cut, End, inert, plain_text};
use crate::plan::Agent;
use crate::report::{Inspected, Presence, Version, agents_json, agents_text};
use crate::signal::Signal;
use crate::status::Reason;
use crate::units::Exactly;

/// How long the programs may take to say their versions, all together.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How much of a program's own words is told.
const LONGEST_WORDS: usize = 160;

/// The exit codes by which `env` and shells tell that a program could not be started.
const NOT_STARTED: [i32; 2] = [126, 127];

pub fn run(world: &World, arguments: &ListArgs) -> Result<u8, Error> {
    let mut layers = read_place(world, &arguments.place)?;
    let catalogue = Catalogue::new(&mut layers);
    let agents = inspect(world, &catalogue, catalogue.agents())?;
    let text = if arguments.json {
        format!("{:#}\n", agents_json(&agents))
    } else {
        agents_text(&agents)
    };
    world.console.out(text.into_bytes());
    Ok(0)
}

/// Looks for each agent's program and keys, and asks those programs for their versions that are known to tell it.
pub(super) fn inspect(
    world: &World,
    catalogue: &Catalogue,
    agents: Vec<Agent>,
) -> Result<Vec<Inspected>, Error> {
    let found: Vec<_> = agents
        .iter()
        .map(|agent| Reader::Direct.find_program(agent.command.program(), world.path()))
        .collect();
    let wanted = agents.iter().zip(&found).filter_map(|(agent, found)| {
        let found = found.as_ref().ok()?;
        let is_known = found.missing_interpreter.is_none() && catalogue.knows(&agent.command);
        is_known.then(|| found.path.clone())
    });
    let versions = ask_versions(wanted.collect())?;
    let presence = |found: Result<host::Program, String>| match found {
        Err(_) => Presence::Missing,
        Ok(host::Program {
            path,
            missing_interpreter: Some(interpreter),
        }) => Presence::Broken {
            why: format!("it begins with `#!{interpreter}`, and that is not there"),
            path,
        },
        Ok(host::Program { path, .. }) => match versions.get(&path) {
            None => Presence::Found {
                path,
                version: Version::NotAsked,
            },
            Some(Ok(version)) => Presence::Found {
                path,
                version: version.clone(),
            },
            Some(Err(why)) => Presence::Broken {
                path,
                why: why.clone(),
            },
        },
    };
    let programs: Vec<Presence> = found.into_iter().map(presence).collect();
    let inspected = agents
        .into_iter()
        .zip(programs)
        .map(|(agent, program)| Inspected {
            keys: agent
                .keys
                .iter()
                .map(|key| (key.clone(), is_set(world, &agent, key)))
                .collect(),
            agent,
            program,
        });
    Ok(inspected.collect())
}

/// Whether the agent gets a variable: from rooda's own environment, or from its command line (`env NAME=…`).
fn is_set(world: &World, agent: &Agent, name: &str) -> bool {
    let own = world.environment.get(name).map(String::as_str);
    variable(agent, name)
        .or(own)
        .is_some_and(|value| !value.is_empty())
}

/// What a command line sets a variable to, with `env` before its program.
pub(super) fn variable<'a>(agent: &'a Agent, name: &str) -> Option<&'a str> {
    let program = agent.command.program();
    let words = agent.command.words.iter().map(String::as_str);
    words
        .take_while(|word| *word != program)
        .filter_map(|word| word.split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

/// What each program says of itself. An error tells why it does not start.
fn ask_versions(
    programs: Vec<PathBuf>,
) -> Result<BTreeMap<PathBuf, Result<Version, String>>, Error> {
    let mut programs = programs;
    programs.sort();
    programs.dedup();
    let question =
        |path: &PathBuf| vec![path.to_string_lossy().into_owned(), "--version".to_owned()];
    let questions: Vec<_> = programs.iter().map(question).collect();
    let answers = host::ask(&questions, PATIENCE).map_err(interrupted)?;
    let versions = answers.into_iter().map(version);
    Ok(programs.into_iter().zip(versions).collect())
}

pub(super) fn interrupted(signal: Signal) -> Error {
    Error::new(ErrorKind::Interrupted, Reason::Interrupted { signal })
}

fn version(answer: std::io::Result<Answer>) -> Result<Version, String> {
    let answer = answer.map_err(|error| without_number(&error.to_string()).to_owned())?;
    let words = first_words(&answer.stderr);
    let said = |how: String| match words {
        Some(words) => format!("{how}: {words}"),
        None => how,
    };
    Ok(match answer.end {
        End::Exited(0) => {
            let text = plain_text(&answer.stdout);
            match version_line(&String::from_utf8_lossy(&text)) {
                Some(version) => Version::Told(version),
                None => Version::Untold("it did not tell".to_owned()),
            }
        }
        End::Exited(code) if NOT_STARTED.contains(&code) => {
            return Err(said(format!("ended with exit code {code}")));
        }
        End::Exited(code) => Version::Untold(said(format!("ended with exit code {code}"))),
        End::Signaled(signal) => Version::Untold(said(format!("was ended by {signal}"))),
        End::Cut(
            Cut::RunTimeout(_)
            | Cut::IterationTimeout(_)
            | Cut::IdleTimeout(_)
            | Cut::Budget
            | Cut::Interrupted(_),
        ) => Version::Untold(format!("no answer within {}", Exactly(PATIENCE))),
    })
}

/// The first line that a program said, made harmless.
pub(super) fn first_words(bytes: &[u8]) -> Option<String> {
    let text = plain_text(bytes);
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line: String = line.chars().take(LONGEST_WORDS).collect();
    Some(inert(&line).into_owned())
}
