//! What `rooda agents` shows.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::iteration::inert;
use crate::plan::Agent;

/// Wider than any version of an agent that was ever seen.
const WIDEST_VERSION: usize = 28;

/// An agent, and what there is of it on this machine.
#[derive(Debug)]
pub struct Inspected {
    pub agent: Agent,
    pub program: Presence,
    /// Its key variables, and whether each is set. Their values are nobody's business.
    pub keys: Vec<(String, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    Missing,
    /// It is there, but does not start.
    Broken {
        path: PathBuf,
        why: String,
    },
    Found {
        path: PathBuf,
        version: Version,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    Told(String),
    /// What the program does with the question is not known.
    NotAsked,
    /// Why it is not known.
    Untold(String),
}

impl Inspected {
    /// The key variables that are set.
    pub fn set_keys(&self) -> Vec<&str> {
        let set = self.keys.iter().filter(|(_, is_set)| *is_set);
        set.map(|(name, _)| name.as_str()).collect()
    }

    /// The key variables of an agent that has none of them.
    pub fn missing_keys(&self) -> Option<String> {
        if self.keys.is_empty() || !self.set_keys().is_empty() {
            return None;
        }
        let names: Vec<&str> = self.keys.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(", ");
        Some(match self.agent.command.program_name() {
            "copilot" => format!("{names}, or a token of its own (COPILOT_GITHUB_TOKEN, GH_TOKEN)"),
            _ => names,
        })
    }

    pub fn path(&self) -> Option<&PathBuf> {
        match &self.program {
            Presence::Missing => None,
            Presence::Broken { path, .. } | Presence::Found { path, .. } => Some(path),
        }
    }

    pub fn version(&self) -> Option<&str> {
        match &self.program {
            Presence::Found {
                version: Version::Told(version),
                ..
            } => Some(version),
            Presence::Found { .. } | Presence::Missing | Presence::Broken { .. } => None,
        }
    }

    /// How to get the program, as far as that is known.
    pub fn installation(&self) -> Option<String> {
        let package = self.agent.npm.as_ref()?;
        Some(format!("npm install -g {package}"))
    }

    /// The command line. A key that is written into it is left out.
    fn command(&self) -> String {
        let command = &self.agent.command;
        let key_of = |word: &str| {
            let (name, _) = word.split_once('=')?;
            self.agent.keys.iter().find(|key| *key == name)
        };
        if !command.words.iter().any(|word| key_of(word).is_some()) {
            return command.text.clone();
        }
        let masked = |word: &String| match key_of(word) {
            Some(name) => format!("{name}=***"),
            None => shell_words::quote(word).into_owned(),
        };
        let words: Vec<String> = command.words.iter().map(masked).collect();
        words.join(" ")
    }

    fn source(&self) -> &str {
        let provenance = &self.agent.provenance;
        provenance.strip_suffix(" alias").unwrap_or(provenance)
    }

    fn cells(&self) -> [String; 4] {
        let version = match &self.program {
            Presence::Missing => "not found",
            Presence::Broken { .. } => "does not start",
            Presence::Found { version, .. } => match version {
                Version::Told(version) => version,
                Version::NotAsked | Version::Untold(_) => "found",
            },
        };
        let version = match version.char_indices().nth(WIDEST_VERSION) {
            Some((end, _)) => format!("{}…", &version[..end]),
            None => version.to_owned(),
        };
        let key = match self.set_keys()[..] {
            [] if self.keys.is_empty() => String::new(),
            [] => "no key".to_owned(),
            [key] => key.to_owned(),
            [key, ref others @ ..] => format!("{key} +{}", others.len()),
        };
        let place = match self.path() {
            Some(path) => path.display().to_string(),
            None => self.installation().unwrap_or_default(),
        };
        [self.agent.name.clone(), version, key, place].map(|cell| inert(&cell).into_owned())
    }

    /// What stands below the row.
    fn details(&self) -> Vec<String> {
        let origin = match self.source() {
            "built-in" => None,
            source => Some(format!("{source}, format {}", self.agent.format)),
        };
        let trouble = match &self.program {
            Presence::Broken { why, .. } => Some(why.clone()),
            Presence::Found {
                version: Version::Untold(why),
                ..
            } => Some(format!("its version is not known: {why}")),
            Presence::Found { .. } | Presence::Missing => None,
        };
        let lines = [self.command()].into_iter().chain(origin).chain(trouble);
        lines.map(|line| inert(&line).into_owned()).collect()
    }
}

/// One row for each, its command line below it, and at the end which keys are missing.
pub fn agents_text(agents: &[Inspected]) -> String {
    let rows: Vec<[String; 4]> = agents.iter().map(Inspected::cells).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths = [0, 1, 2].map(width);
    let mut text = String::new();
    for (row, inspected) in rows.iter().zip(agents) {
        let [name, version, key, place] = row;
        let [a, b, c] = widths;
        let line = format!("{name:a$}  {version:b$}  {key:c$}  {place}");
        // Writing to a string cannot fail.
        writeln!(text, "{}", line.trim_end()).ok();
        for detail in inspected.details() {
            writeln!(text, "{:a$}  {detail}", "").ok();
        }
    }
    let keyless: Vec<_> = agents
        .iter()
        .filter_map(|inspected| Some((&inspected.agent.name, inspected.missing_keys()?)))
        .collect();
    if !keyless.is_empty() {
        text.push_str(
            "\nNo key in the environment (a CLI that you are logged in to needs none):\n",
        );
    }
    for (name, keys) in keyless {
        writeln!(text, "  {}: {keys}", inert(name)).ok();
    }
    text
}

pub fn agents_json(agents: &[Inspected]) -> Value {
    let entry = |inspected: &Inspected| {
        let agent = &inspected.agent;
        let keys: serde_json::Map<String, Value> = inspected
            .keys
            .iter()
            .map(|(name, is_set)| (name.clone(), json!(is_set)))
            .collect();
        json!({
            "name": agent.name,
            "program": agent.command.program(),
            "path": inspected.path().map(|path| path.display().to_string()),
            "version": inspected.version(),
            "command": inspected.command(),
            "format": agent.format.to_string(),
            "keys": keys,
            "npm": agent.npm,
            "source": inspected.source(),
        })
    };
    agents.iter().map(entry).collect()
}
