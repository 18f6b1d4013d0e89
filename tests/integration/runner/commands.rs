//! The grammar of workflow commands: `::name key=value,…::data` at the start of a line, and the older
//! `##[name key=value;…]data` anywhere in it.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// As it was written. Names are compared without regard to case.
    pub(super) name: String,
    /// The keys in lower case.
    pub(super) properties: BTreeMap<String, String>,
    pub(super) data: String,
}

impl Command {
    pub(super) fn property(&self, key: &str) -> Option<&str> {
        let value = self.properties.get(&key.to_lowercase())?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }
}

const DATA: &[(&str, &str)] = &[("%0D", "\r"), ("%0A", "\n"), ("%25", "%")];
const PROPERTY: &[(&str, &str)] = &[
    ("%0D", "\r"),
    ("%0A", "\n"),
    ("%3A", ":"),
    ("%2C", ","),
    ("%25", "%"),
];
const LEGACY: &[(&str, &str)] = &[
    ("%3B", ";"),
    ("%0D", "\r"),
    ("%0A", "\n"),
    ("%5D", "]"),
    ("%25", "%"),
];

/// The command in a line, if its name is a known one.
pub(super) fn parse(line: &str, is_known: impl Fn(&str) -> bool) -> Option<Command> {
    current(line, &is_known).or_else(|| legacy(line, &is_known))
}

fn current(line: &str, is_known: &impl Fn(&str) -> bool) -> Option<Command> {
    let (header, data) = line.trim_start().strip_prefix("::")?.split_once("::")?;
    let (name, properties) = header.split_once(' ').unwrap_or((header, ""));
    is_known(name).then(|| Command {
        name: name.to_owned(),
        properties: pairs(properties.trim(), ',', PROPERTY),
        data: unescape(data, DATA),
    })
}

/// Only the first `##[` of a line is looked at, and what stands before it is lost.
fn legacy(line: &str, is_known: &impl Fn(&str) -> bool) -> Option<Command> {
    let (_, rest) = line.split_once("##[")?;
    let (header, data) = rest.split_once(']')?;
    let (name, properties) = header.split_once(' ').unwrap_or((header, ""));
    is_known(name).then(|| Command {
        name: name.to_owned(),
        properties: pairs(properties, ';', LEGACY),
        data: unescape(data, LEGACY),
    })
}

/// Keys are not trimmed: after `, ` a key begins with a space, and is another one.
fn pairs(text: &str, separator: char, escapes: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pair = |part: &str| {
        let (key, value) = part.trim_start_matches('=').split_once('=')?;
        let value = value.trim_start_matches('=');
        let pair = (key.to_lowercase(), unescape(value, escapes));
        (!value.is_empty()).then_some(pair)
    };
    text.split(separator).filter_map(pair).collect()
}

fn unescape(text: &str, escapes: &[(&str, &str)]) -> String {
    escapes.iter().fold(text.to_owned(), |text, (code, sign)| {
        text.replace(code, sign)
    })
}

#[cfg(test)]
fn shown(line: &str) -> Option<String> {
    let known = ["error", "group", "set-output"];
    let is_known = |name: &str| known.iter().any(|one| one.eq_ignore_ascii_case(name));
    let command = parse(line, is_known)?;
    let properties: Vec<String> = command
        .properties
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    Some(format!(
        "{} [{}] {:?}",
        command.name,
        properties.join(" "),
        command.data
    ))
}

#[test]
fn commands_are_recognised_where_the_runner_does_it() {
    let cases = [
        ("::error::bad", Some(r#"error [] "bad""#)),
        ("  \t\u{a0}::error::bad", Some(r#"error [] "bad""#)),
        ("::ERROR::bad", Some(r#"ERROR [] "bad""#)),
        ("x ::error::bad", None),
        ("\u{1b}[31m::error::bad", None),
        ("::unknown::bad", None),
        ("::error bad", None),
        ("::error::", Some(r#"error [] """#)),
        ("text ##[error]bad", Some(r#"error [] "bad""#)),
        ("text ##[Error]bad", Some(r#"Error [] "bad""#)),
        ("##[unknown]then ##[error]bad", None),
        ("##[error bad", None),
        ("::unknown::then ##[error]bad", Some(r#"error [] "bad""#)),
        ("# #[error]bad", None),
    ];
    for (line, expected) in cases {
        assert_eq!(shown(line).as_deref(), expected, "{line:?}");
    }
}

#[test]
fn properties_are_cut_as_the_runner_does_it() {
    let cases = [
        (
            "::error file=a.rs,line=1::m",
            r#"error [file="a.rs" line="1"] "m""#,
        ),
        (
            "::error  file=a.rs, line=1 ::m",
            r#"error [ line="1" file="a.rs"] "m""#,
        ),
        (
            "::error file=,line,=1,title=a=b::m",
            r#"error [title="a=b"] "m""#,
        ),
        ("::error TITLE=A::m", r#"error [title="A"] "m""#),
        ("::error title=a::b::m", r#"error [title="a"] "b::m""#),
        (
            "##[error file=a;line=1]m",
            r#"error [file="a" line="1"] "m""#,
        ),
        ("##[error file=a,line=1]m", r#"error [file="a,line=1"] "m""#),
    ];
    for (line, expected) in cases {
        assert_eq!(shown(line).as_deref(), Some(expected), "{line:?}");
    }
}

#[test]
fn escapes_are_undone_in_order() {
    let cases = [
        ("::error::a%0Ab%0Dc%25d", r#"error [] "a\nb\rc%d""#),
        ("::error::%250A", r#"error [] "%0A""#),
        ("::error::%0a%3A%2C", r#"error [] "%0a%3A%2C""#),
        (
            "::error title=a%3Ab%2Cc%0Ad::m",
            r#"error [title="a:b,c\nd"] "m""#,
        ),
        (
            "##[error title=a%3Bb%5D]m%5D",
            r#"error [title="a;b]"] "m]""#,
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(shown(line).as_deref(), Some(expected), "{line:?}");
    }
}
