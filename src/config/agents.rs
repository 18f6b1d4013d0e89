//! Which agents run: the commands and aliases of all layers, and what is known of their programs.

use super::Source;
use super::choice::Format;
use super::name::AliasNames;
use super::resolve::{Catalogue, LEVELS, Level};
use super::settings::{Alias, LoopSettings};
use super::value::CommandLine;
use crate::error::{Error, ErrorKind, did_you_mean};
use crate::plan::Agent;

impl<'a> Catalogue<'a> {
    /// Every alias with what is known of it.
    pub fn agents(&self) -> Vec<Agent> {
        let names = self.alias_names();
        let find = |name: &str| {
            self.alias(name)
                .map(|(alias, source)| (alias, source.clone()))
        };
        names
            .into_iter()
            .filter_map(|name| Some((name, find(name)?)))
            .map(|(name, (alias, source))| self.agent(name, alias, format!("{source} alias")))
            .collect()
    }

    /// What the highest layer says of an alias.
    fn alias(&self, name: &str) -> Option<(&'a Alias, &'a Source)> {
        self.top_down().find_map(|layer| {
            let alias = layer.settings.aliases.get(name)?;
            Some((alias, &layer.source))
        })
    }

    /// Whether a command is one of the built-in programs, found in the PATH. What a path leads to may be anything.
    pub fn knows(&self, command: &CommandLine) -> bool {
        let program = command.program();
        !program.contains('/') && self.known(program).is_some()
    }

    /// The built-in alias for a program, whatever its folder.
    fn known(&self, program: &str) -> Option<&'a Alias> {
        self.layers
            .iter()
            .filter(|layer| layer.source == Source::BuiltIn)
            .flat_map(|layer| layer.settings.aliases.values())
            .find(|alias| alias.command.program_name() == program)
    }

    /// An alias as an agent. What it leaves out is known of its program.
    fn agent(&self, name: &str, alias: &Alias, provenance: String) -> Agent {
        let known = self.known(alias.command.program_name());
        let same_command = known.filter(|known| known.command == alias.command);
        Agent {
            name: name.to_owned(),
            command: alias.command.clone(),
            // With other flags it may print something else.
            format: alias
                .format
                .or(same_command.and_then(|known| known.format))
                .unwrap_or(Format::Auto),
            npm: alias
                .npm
                .clone()
                .or_else(|| known.and_then(|known| known.npm.clone())),
            keys: alias
                .env
                .clone()
                .or_else(|| known.and_then(|known| known.env.clone()))
                .unwrap_or_default(),
            provenance,
        }
    }
}

/// What a user gives up with a command line of their own for a CLI that could print events.
pub(super) fn plain(catalogue: &Catalogue, agent: &Agent) -> Option<String> {
    let known = catalogue.known(agent.command.program_name())?;
    let flags = known.format?.flags();
    // `--flag=value` is two words in one.
    let words = agent.command.words.iter().flat_map(|word| word.split('='));
    let has_json = words.into_iter().any(|word| word.contains("json"));
    (agent.format == Format::Auto && !flags.is_empty() && !has_json).then(|| {
        format!(
            "{} prints plain text: what its tools print may count as a promise, and errors, tokens and cost are not \
             known; add `{}` to its command line, or say `format: text` in an alias",
            agent.name,
            flags.join(" ")
        )
    })
}

/// `--ai-cmd`, `--ai-cmd-alias`, the inputs, the procedure's command, the procedure's alias, the loop's command, the loop's alias.
pub(super) fn agents(catalogue: &Catalogue, procedure: &str) -> Result<Vec<Agent>, Error> {
    fn command(settings: &LoopSettings) -> Option<CommandLine> {
        settings.ai_cmd.clone()
    }
    fn alias(settings: &LoopSettings) -> Option<AliasNames> {
        settings.ai_cmd_alias.clone()
    }
    for level in LEVELS {
        if let Some(command) = catalogue.at(level, procedure, &command) {
            let alias = Alias {
                command: command.value,
                format: None,
                npm: None,
                env: None,
            };
            let name = alias.command.program_name().to_owned();
            let provenance = command.source.to_string();
            return Ok(vec![catalogue.agent(&name, &alias, provenance)]);
        }
        if let Some(names) = catalogue.at(level, procedure, &alias) {
            let key = match level {
                Level::Flags | Level::Inputs => String::new(),
                Level::Procedure => format!("procedures.{procedure}.ai_cmd_alias"),
                Level::Loop => "loop.ai_cmd_alias".to_owned(),
            };
            let (AliasNames(names), source) = (names.value, names.source);
            for (index, name) in names.iter().enumerate() {
                if names[..index].contains(name) {
                    let at = place_of(catalogue, &source, &key);
                    let message = format!("{at}: the alias `{name}` is named twice");
                    return Err(Error::new(mistake_of(&source), message)
                        .hint("an agent that cannot go on is not tried again"));
                }
            }
            return names
                .iter()
                .map(|name| aliased(catalogue, name, &source, &key))
                .collect();
        }
    }
    Err(no_agent(catalogue, procedure))
}

fn aliased(
    catalogue: &Catalogue,
    name: &str,
    named_by: &Source,
    key: &str,
) -> Result<Agent, Error> {
    if let Some((alias, source)) = catalogue.alias(name) {
        let provenance = format!("{named_by} \"{name}\" → {source} alias");
        return Ok(catalogue.agent(name, alias, provenance));
    }
    let at = place_of(catalogue, named_by, key);
    let error = Error::new(
        mistake_of(named_by),
        format_args!("{at}: there is no AI command alias `{name}`"),
    );
    let names = catalogue.alias_names();
    let error = match did_you_mean(name, names.iter().copied()) {
        Some(hint) => error.hint(hint),
        None => error,
    };
    let names: Vec<&str> = names.into_iter().collect();
    Err(error.hint(format_args!("the aliases are: {}", names.join(", "))))
}

/// Whose mistake it is, by who wrote it.
fn mistake_of(source: &Source) -> ErrorKind {
    match source {
        Source::Flag(_) | Source::Input(_) => ErrorKind::Usage,
        _ => ErrorKind::Config,
    }
}

fn place_of(catalogue: &Catalogue, source: &Source, key: &str) -> String {
    match catalogue.place(source, key) {
        Some(place) => format!("{place}: {key}"),
        None => source.to_string(),
    }
}

fn no_agent(catalogue: &Catalogue, procedure: &str) -> Error {
    let names: Vec<&str> = catalogue.alias_names().into_iter().collect();
    let keys = match procedure {
        "loop" => String::new(),
        name => format!(", `procedures.{name}.ai_cmd_alias` or `procedures.{name}.ai_cmd`"),
    };
    Error::new(ErrorKind::Config, "no AI command is configured")
        .hint(format_args!(
            "name an alias: --ai-cmd-alias claude (there are: {})",
            names.join(", ")
        ))
        .hint("or give a command line that reads the prompt on standard input: --ai-cmd \"my-agent --yes\"")
        .hint("in a workflow: `agent: claude` or `ai-cmd: my-agent --yes` under `with:`")
        .hint("or set ROODA_LOOP_AI_CMD_ALIAS or ROODA_LOOP_AI_CMD in the environment")
        .hint(format_args!(
            "or set it in rooda-config.yml, in the workspace or the global one: `loop.ai_cmd_alias`, `loop.ai_cmd`{keys}"
        ))
}
