//! A configuration file: YAML text in, a layer or every problem in it out.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};
use std::collections::BTreeMap;
use std::path::Path;

use super::name::{Package, read_variable_name};
use super::settings::{
    Alias, FragmentSource, KEYS, LoopSettings, Origin, PHASES, ProcedureSettings, Settings,
};
use super::value::{CommandLine, Scalar, Setting, is_blank};
use super::{Layer, Place, Source};
use crate::cli::SUBCOMMANDS;
use crate::error::{Error, ErrorKind, did_you_mean};

/// Reads the text of a configuration file. `file` is its name as the user knows it; relative prompt paths are
/// resolved against its folder.
pub fn read_layer(source: Source, file: &str, text: &str) -> Result<Layer, Error> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        duplicate_keys: DuplicateKeyPolicy::Error,
    };
    let root: Spanned<Tree> = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| syntax_error(file, &error))?;
    let mut reader = Reader {
        file,
        places: BTreeMap::new(),
        problems: Vec::new(),
    };
    let mut settings = reader.settings(&root);
    settings.places = reader.places;
    Error::join(reader.problems)?;
    Ok(Layer { source, settings })
}

fn syntax_error(file: &str, error: &serde_saphyr::Error) -> Error {
    let error = error.without_snippet();
    let (line, column) = error
        .location()
        .map_or((1, 1), |at| (at.line(), at.column()));
    let message = error.to_string();
    // The library repeats the place at the end, and advises on options of its own.
    let message = message.split(" at line ").next().unwrap_or_default();
    let message = message.split(", set ").next().unwrap_or_default();
    let (message, hint) = match message {
        m if m.contains("multiple YAML documents") => {
            ("more than one YAML document in the file", None)
        }
        m if m.contains("expected string scalar") || m.contains("cannot deserialize null") => {
            ("expected a key that is text", None)
        }
        m if m.contains("budget breached") => ("the file is too large or too deeply nested", None),
        m if m.contains("recursive references") => ("an anchor refers to itself", None),
        m if m.contains("non-finite float") => ("expected a finite number", None),
        m if m.contains("tabs disallowed") => (m, Some("indent with spaces")),
        m if m.contains("mapping values are not allowed") => {
            (m, Some("text that holds a colon and a space needs quotes"))
        }
        m if m.contains("unknown anchor") => (m, Some("text that begins with * needs quotes")),
        m => (m, None),
    };
    let place = format!("{file}:{line}:{column}");
    let error = Error::new(ErrorKind::Config, format_args!("{place}: {message}"));
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// A YAML value whose parts know where they stand.
enum Tree {
    Scalar(Scalar),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

impl Tree {
    fn found(&self) -> String {
        match self {
            Tree::Scalar(scalar) => format!("found {scalar}"),
            Tree::List(items) if items.is_empty() => "found an empty list".to_owned(),
            Tree::List(_) => "found a list".to_owned(),
            Tree::Map(_) => "found a map".to_owned(),
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Scalar::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(Scalar::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(Scalar::Int(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(match i64::try_from(value) {
            Ok(value) => Scalar::Int(value),
            Err(_) => Scalar::Float(value as f64),
        }))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar(Scalar::Float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(Scalar::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Tree::Map(map))
    }
}

const SECTIONS: [&str; 3] = ["loop", "ai_cmd_aliases", "procedures"];
const PROCEDURE_TEXTS: [&str; 3] = ["display", "summary", "description"];

struct Reader<'a> {
    file: &'a str,
    places: BTreeMap<String, Place>,
    problems: Vec<Error>,
}

impl Reader<'_> {
    fn settings(&mut self, root: &Spanned<Tree>) -> Settings {
        let mut settings = Settings::default();
        if matches!(root.value, Tree::Scalar(Scalar::Null)) {
            return settings;
        }
        for (key, value) in self.entries("", root) {
            match key.value.as_str() {
                "loop" => {
                    for (key, value) in self.entries("loop", value) {
                        if !self.loop_key("loop", &mut settings.defaults, key, value) {
                            let names = KEYS.iter().map(|key| key.name);
                            self.unknown_key("loop", key, names);
                        }
                    }
                }
                "ai_cmd_aliases" => {
                    for (name, value) in self.entries("ai_cmd_aliases", value) {
                        if let Some(command) = self.alias(name, value) {
                            settings.aliases.insert(name.value.clone(), command);
                        }
                    }
                }
                "procedures" => {
                    for (name, value) in self.entries("procedures", value) {
                        self.check_procedure_name(name);
                        let procedure = self.procedure(&name.value, value);
                        settings.procedures.insert(name.value.clone(), procedure);
                    }
                }
                name if KEYS.iter().any(|known| known.name == name) => {
                    self.problem(key, name, "unknown key");
                    self.hint(&format!("it belongs under `loop`: `loop.{name}`"));
                }
                _ => self.unknown_key("", key, SECTIONS),
            }
        }
        settings
    }

    /// The entries of a map. An empty section is as good as none; anything else is a problem.
    fn entries<'t>(
        &mut self,
        path: &str,
        node: &'t Spanned<Tree>,
    ) -> &'t [(Spanned<String>, Spanned<Tree>)] {
        match &node.value {
            Tree::Map(entries) => {
                for (key, _) in entries {
                    let place = self.place(key);
                    self.places.insert(join(path, &key.value), place);
                }
                entries
            }
            Tree::Scalar(Scalar::Null) => &[],
            other => {
                self.problem(node, path, &format!("expected a map, {}", other.found()));
                &[]
            }
        }
    }

    fn loop_key(
        &mut self,
        path: &str,
        settings: &mut LoopSettings,
        key: &Spanned<String>,
        value: &Spanned<Tree>,
    ) -> bool {
        let path = join(path, &key.value);
        let scalar = match &value.value {
            Tree::Scalar(scalar) => scalar.clone(),
            Tree::List(items) => Scalar::List(texts(items).unwrap_or_default()),
            Tree::Map(_) => Scalar::List(Vec::new()),
        };
        match settings.set(&key.value, &scalar) {
            None => false,
            Some(Ok(())) => true,
            Some(Err(expected)) => {
                let found = value.value.found();
                self.problem(value, &path, &format!("{expected}, {found}"));
                true
            }
        }
    }

    fn alias(&mut self, name: &Spanned<String>, value: &Spanned<Tree>) -> Option<Alias> {
        let path = join("ai_cmd_aliases", &name.value);
        if name.value.chars().all(is_blank) {
            self.problem(name, &path, "expected a name for the alias");
        } else if name.value.contains([',', '\n']) {
            // `agent: a, b` names two.
            self.problem(name, &path, "expected a name without commas");
        }
        if !matches!(value.value, Tree::Map(_)) {
            return Some(Alias {
                command: self.setting(&path, value)?,
                format: None,
                npm: None,
                env: None,
            });
        }
        let mut command = None;
        let (mut format, mut npm, mut env) = (None, None, None);
        for (key, value) in self.entries(&path, value) {
            let path = join(&path, &key.value);
            match key.value.as_str() {
                "command" => command = Some(self.setting::<CommandLine>(&path, value)),
                "format" => format = self.setting(&path, value),
                "npm" => {
                    npm = self
                        .setting::<Package>(&path, value)
                        .map(|Package(npm)| npm)
                }
                "env" => env = self.variables(&path, value),
                _ => self.unknown_key(
                    &join("ai_cmd_aliases", &name.value),
                    key,
                    ["command", "format", "npm", "env"],
                ),
            }
        }
        let Some(command) = command else {
            self.problem(value, &path, "the alias has no `command`");
            return None;
        };
        Some(Alias {
            command: command?,
            format,
            npm,
            env,
        })
    }

    fn setting<T: Setting>(&mut self, path: &str, value: &Spanned<Tree>) -> Option<T> {
        let read = match &value.value {
            Tree::Scalar(scalar) => T::read(scalar),
            Tree::List(_) | Tree::Map(_) => T::read(&Scalar::List(Vec::new())),
        };
        read.map_err(|expected| {
            let found = value.value.found();
            self.problem(value, path, &format!("{expected}, {found}"));
        })
        .ok()
    }

    /// Names of variables that an agent is given.
    fn variables(&mut self, path: &str, value: &Spanned<Tree>) -> Option<Vec<String>> {
        let names = match &value.value {
            Tree::List(items) => texts(items),
            Tree::Scalar(_) | Tree::Map(_) => None,
        };
        let Some(names) = names else {
            let found = value.value.found();
            self.problem(
                value,
                path,
                &format!("expected a list of names of variables, {found}"),
            );
            return None;
        };
        for name in &names {
            if let Err(expected) = read_variable_name(name) {
                self.problem(value, path, &expected);
            } else if name == "GH_TOKEN" {
                // Whoever writes the workflow may pass it; what lies in a repository may not ask for it.
                self.problem(value, path, "expected no `GH_TOKEN`, a token for GitHub");
                self.hint("if the agent must have it, name it in the input `agent-env`");
            }
        }
        Some(names)
    }

    fn check_procedure_name(&mut self, name: &Spanned<String>) {
        let path = join("procedures", &name.value);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if SUBCOMMANDS.contains(&name.value.as_str()) {
            let message = "a procedure cannot be named like a command of rooda";
            self.problem(name, &path, message);
        } else if !name.value.starts_with(|c: char| c.is_ascii_alphanumeric())
            || !name.value.chars().all(plain)
        {
            let message = "expected a name of letters, digits, `-`, `_` and `.`";
            self.problem(name, &path, message);
        }
    }

    fn procedure(&mut self, name: &str, node: &Spanned<Tree>) -> ProcedureSettings {
        let path = join("procedures", name);
        let mut procedure = ProcedureSettings::default();
        for (key, value) in self.entries(&path, node) {
            let key_path = join(&path, &key.value);
            if let Some(phase) = PHASES.iter().find(|phase| phase.key() == key.value) {
                let fragments = self.phase(&key_path, value);
                procedure.set_phase(*phase, fragments);
                continue;
            }
            match key.value.as_str() {
                "display" => procedure.display = self.text(&key_path, value),
                "summary" => procedure.summary = self.text(&key_path, value),
                "description" => procedure.description = self.text(&key_path, value),
                _ => {
                    if !self.loop_key(&path, &mut procedure.overrides, key, value) {
                        let names = PROCEDURE_TEXTS
                            .into_iter()
                            .chain(PHASES.map(|phase| phase.key()))
                            .chain(KEYS.iter().map(|key| key.name));
                        self.unknown_key(&path, key, names);
                    }
                }
            }
        }
        procedure
    }

    fn text(&mut self, path: &str, value: &Spanned<Tree>) -> Option<String> {
        match &value.value {
            Tree::Scalar(Scalar::Text(text)) => Some(text.trim_end().to_owned()),
            other => {
                let found = other.found();
                self.problem(value, path, &format!("expected text, {found}"));
                None
            }
        }
    }

    fn phase(&mut self, path: &str, value: &Spanned<Tree>) -> Vec<FragmentSource> {
        match &value.value {
            Tree::Scalar(Scalar::Text(_)) => self.fragment(path, value).into_iter().collect(),
            Tree::List(items) if !items.is_empty() => items
                .iter()
                .enumerate()
                .filter_map(|(index, item)| self.fragment(&format!("{path}[{index}]"), item))
                .collect(),
            other => {
                let expected = "expected a prompt file or a list of fragments";
                let found = other.found();
                self.problem(value, path, &format!("{expected}, {found}"));
                if matches!(other, Tree::Map(_)) {
                    self.hint("make it a list: put `- ` before its first key");
                }
                Vec::new()
            }
        }
    }

    fn fragment(&mut self, path: &str, node: &Spanned<Tree>) -> Option<FragmentSource> {
        if let Tree::Scalar(Scalar::Text(text)) = &node.value {
            return Some(FragmentSource {
                origin: self.origin(path, node, text)?,
                parameters: None,
                place: Some(self.place(node)),
            });
        }
        if !matches!(node.value, Tree::Map(_)) {
            let expected = "expected a prompt file, or a map with `path` or `content`";
            let found = node.value.found();
            self.problem(node, path, &format!("{expected}, {found}"));
            return None;
        }
        // One entry for each key that was given, `None` for a value that cannot be used.
        let mut origins = Vec::new();
        let mut parameters = None;
        for (key, value) in self.entries(path, node) {
            let key_path = join(path, &key.value);
            match key.value.as_str() {
                "path" => {
                    let text = self.text(&key_path, value);
                    origins.push(text.and_then(|text| self.origin(&key_path, value, &text)));
                }
                "content" => origins.push(match &value.value {
                    // Not `text()`: content is kept to the letter.
                    Tree::Scalar(Scalar::Text(text)) => Some(Origin::Inline(text.clone())),
                    other => {
                        let found = other.found();
                        self.problem(value, &key_path, &format!("expected text, {found}"));
                        None
                    }
                }),
                "parameters" => parameters = Some(self.parameters(&key_path, value)),
                _ => self.unknown_key(path, key, ["path", "content", "parameters"]),
            }
        }
        match <[Option<Origin>; 1]>::try_from(origins) {
            Ok([origin]) => Some(FragmentSource {
                origin: origin?,
                parameters,
                place: Some(self.place(node)),
            }),
            Err(_) => {
                self.problem(node, path, "expected exactly one of `path` and `content`");
                None
            }
        }
    }

    fn origin(&mut self, path: &str, node: &Spanned<Tree>, text: &str) -> Option<Origin> {
        if text.chars().all(is_blank) || text.contains('\0') {
            self.problem(node, path, "expected the path of a prompt file");
            return None;
        }
        Some(Origin::named(text, Path::new(self.file).parent()))
    }

    fn parameters(
        &mut self,
        path: &str,
        node: &Spanned<Tree>,
    ) -> BTreeMap<String, serde_json::Value> {
        let mut parameters = BTreeMap::new();
        for (name, value) in self.entries(path, node) {
            let json = match &value.value {
                Tree::Scalar(Scalar::Text(text)) => text.clone().into(),
                Tree::Scalar(Scalar::Int(number)) => (*number).into(),
                Tree::Scalar(Scalar::Bool(flag)) => (*flag).into(),
                other => {
                    let expected = "expected text, a whole number, `true` or `false`";
                    let found = other.found();
                    let path = join(path, &name.value);
                    self.problem(value, &path, &format!("{expected}, {found}"));
                    continue;
                }
            };
            parameters.insert(name.value.clone(), json);
        }
        parameters
    }

    fn place<T>(&self, node: &Spanned<T>) -> Place {
        Place {
            file: self.file.to_owned(),
            line: node.referenced.line(),
            column: node.referenced.column(),
        }
    }

    fn problem<T>(&mut self, node: &Spanned<T>, path: &str, message: &str) {
        let place = self.place(node);
        let path = if path.is_empty() {
            String::new()
        } else {
            format!("{path}: ")
        };
        self.problems.push(Error::new(
            ErrorKind::Config,
            format_args!("{place}: {path}{message}"),
        ));
    }

    fn unknown_key<'k>(
        &mut self,
        path: &str,
        key: &Spanned<String>,
        names: impl IntoIterator<Item = &'k str>,
    ) {
        let names: Vec<&str> = names.into_iter().collect();
        self.problem(key, &join(path, &key.value), "unknown key");
        let hint = did_you_mean(&key.value, names.iter().copied())
            .unwrap_or_else(|| format!("the keys here are: {}", names.join(", ")));
        self.hint(&hint);
    }

    /// Adds advice to the problem that was found last.
    fn hint(&mut self, hint: &str) {
        if let Some(problem) = self.problems.pop() {
            self.problems.push(problem.hint(hint));
        }
    }
}

impl Origin {
    /// What a user means by the name of a prompt, relative to the folder it was written in.
    pub(crate) fn named(name: &str, folder: Option<&Path>) -> Origin {
        match name.strip_prefix("builtin:") {
            Some(builtin) => Origin::BuiltIn(builtin.to_owned()),
            None => {
                let path = folder.unwrap_or(Path::new("")).join(name);
                Origin::File(path.to_string_lossy().into_owned())
            }
        }
    }
}

/// The items of a list, if all of them are texts and there are any.
fn texts(items: &[Spanned<Tree>]) -> Option<Vec<String>> {
    let text = |item: &Spanned<Tree>| match &item.value {
        Tree::Scalar(Scalar::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let texts: Option<Vec<String>> = items.iter().map(text).collect();
    texts.filter(|texts| !texts.is_empty())
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
