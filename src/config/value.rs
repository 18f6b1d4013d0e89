//! The types of single settings: how each is read, from YAML, a variable or a flag, and how a schema describes it.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::{Value, json};

use crate::units::{DURATION_PATTERN, Exactly, SIZE_PATTERN, Size, read_duration, read_size};

/// One value as it was written, before anybody knows what it should mean.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    /// From a variable or a flag, where everything is text.
    Untyped(String),
    /// A list of texts.
    List(Vec<String>),
}

impl Scalar {
    /// The text of anything that was written as text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Scalar::Text(text) | Scalar::Untyped(text) => Some(text),
            Scalar::Null
            | Scalar::Bool(_)
            | Scalar::Int(_)
            | Scalar::Float(_)
            | Scalar::List(_) => None,
        }
    }

    /// A whole number. `3.0` is one too, as it is for a JSON Schema.
    fn int(&self) -> Option<i64> {
        match self {
            Scalar::Int(number) => Some(*number),
            Scalar::Float(number) if number.fract() == 0.0 && number.abs() < i64::MAX as f64 => {
                Some(*number as i64)
            }
            Scalar::Untyped(text) => text.parse().ok(),
            Scalar::Null
            | Scalar::Bool(_)
            | Scalar::Float(_)
            | Scalar::Text(_)
            | Scalar::List(_) => None,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Scalar::Int(number) => Some(*number as f64),
            Scalar::Float(number) => Some(*number),
            Scalar::Untyped(text) => text.parse().ok(),
            Scalar::Null | Scalar::Bool(_) | Scalar::Text(_) | Scalar::List(_) => None,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Scalar::Null => f.write_str("nothing"),
            Scalar::Bool(value) => write!(f, "{value}"),
            Scalar::Int(value) => write!(f, "{value}"),
            Scalar::Float(value) => write!(f, "{value}"),
            Scalar::Text(text) | Scalar::Untyped(text) => write!(f, "{text:?}"),
            Scalar::List(_) => f.write_str("a list"),
        }
    }
}

/// A type of setting. `read` answers with what was expected when it cannot read the value.
pub trait Setting: Sized {
    fn read(scalar: &Scalar) -> Result<Self, String>;
    fn schema() -> Value;
}

/// Reads a setting from plain text: the value parser of the flags.
pub fn read_text<T: Setting>(text: &str) -> Result<T, String> {
    T::read(&Scalar::Untyped(text.to_owned()))
}

/// White space, and the byte order mark, which is invisible too: patterns count it as white space.
pub(super) fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// A pattern for one character that is not blank: dialects differ on what else is `\s`.
pub(super) const NOT_BLANK: &str = r"[^\s\x85\uFEFF]";

impl Setting for bool {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        match scalar {
            Scalar::Bool(value) => Ok(*value),
            Scalar::Untyped(text) if text == "true" || text == "1" => Ok(true),
            Scalar::Untyped(text) if text == "false" || text == "0" => Ok(false),
            _ => Err("expected `true` or `false`".to_owned()),
        }
    }

    fn schema() -> Value {
        json!({"type": "boolean"})
    }
}

/// A whole number of at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positive(pub NonZeroU32);

impl Setting for Positive {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        match scalar.int() {
            Some(number) if number > u32::MAX.into() => {
                Err(format!("expected a whole number of at most {}", u32::MAX))
            }
            number => number
                .and_then(|number| u32::try_from(number).ok())
                .and_then(NonZeroU32::new)
                .map(Positive)
                .ok_or_else(|| "expected a whole number of at least 1".to_owned()),
        }
    }

    fn schema() -> Value {
        json!({"type": "integer", "minimum": 1, "maximum": u32::MAX})
    }
}

/// A stretch of time that cannot be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Setting for Span {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        match scalar {
            Scalar::Int(number) => read_duration(&number.to_string()),
            Scalar::Float(number) => read_duration(&number.to_string()),
            _ => read_duration(scalar.text().unwrap_or_default()),
        }
        .map(Span)
    }

    fn schema() -> Value {
        json!({"anyOf": [
            {"type": "number", "minimum": 0.001, "maximum": 3_153_600_000_u64},
            {"type": "string", "pattern": DURATION_PATTERN},
        ]})
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        Exactly(self.0).fmt(f)
    }
}

/// A bound that `none` (or an empty value) switches off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound<T> {
    Off,
    At(T),
}

impl<T> Bound<T> {
    pub fn at(self) -> Option<T> {
        match self {
            Bound::Off => None,
            Bound::At(value) => Some(value),
        }
    }
}

impl<T: Setting> Setting for Bound<T> {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        match scalar {
            Scalar::Null => Ok(Bound::Off),
            Scalar::Text(text) | Scalar::Untyped(text) if text == "none" => Ok(Bound::Off),
            _ => T::read(scalar)
                .map(Bound::At)
                .map_err(|expected| format!("{expected}, or `none` for no bound")),
        }
    }

    fn schema() -> Value {
        let mut schema = T::schema();
        if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
            choices.insert(0, json!({"enum": ["none", null]}));
        }
        schema
    }
}

impl<T: fmt::Display> fmt::Display for Bound<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Bound::Off => f.write_str("none"),
            Bound::At(value) => value.fmt(f),
        }
    }
}

impl Setting for Size {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        match (scalar, scalar.int()) {
            (Scalar::Int(_) | Scalar::Float(_), Some(number)) => read_size(&number.to_string()),
            _ => read_size(scalar.text().unwrap_or_default()),
        }
        .map(|bytes| Size(bytes as u64))
    }

    fn schema() -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": 1, "maximum": i64::MAX},
            {"type": "string", "pattern": SIZE_PATTERN},
        ]})
    }
}

/// An amount of money.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dollars(pub f64);

impl Setting for Dollars {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        match scalar.number() {
            Some(number) if number.is_finite() && number > 0.0 => Ok(Dollars(number)),
            _ => Err("expected an amount of US dollars above 0, such as `5` or `0.5`".to_owned()),
        }
    }

    fn schema() -> Value {
        json!({"anyOf": [{"type": "number", "exclusiveMinimum": 0}]})
    }
}

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens(pub u64);

const TOKENS_PATTERN: &str = r"^0*[1-9]\d{0,11}[kM]?$";

impl Setting for Tokens {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        let text = match scalar.int() {
            Some(number) => number.to_string(),
            None => scalar.text().unwrap_or_default().to_owned(),
        };
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'k') => (&text[..text.len() - 1], 1_000),
            Some(b'M') => (&text[..text.len() - 1], 1_000_000),
            _ => (text.as_str(), 1),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse::<u64>().ok().filter(|_| is_number);
        match number.and_then(|number| number.checked_mul(unit)) {
            Some(tokens) if tokens > 0 => Ok(Tokens(tokens)),
            _ => Err(
                "expected a whole number of tokens above 0, such as `500000`, `500k` or `2M`"
                    .to_owned(),
            ),
        }
    }

    fn schema() -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": 1, "maximum": i64::MAX},
            {"type": "string", "pattern": TOKENS_PATTERN},
        ]})
    }
}

impl fmt::Display for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A command line, split as a shell would split it, without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    pub text: String,
    pub words: Vec<String>,
}

/// A pattern for the JSON Schema that accepts what [`CommandLine`] accepts: words with closed quotes, the first of
/// which is not empty. It knows what the shell knows: backslashes, comments and lines that go on.
fn command_line_pattern() -> String {
    let blank = r"(?:[ \t\n]|\\\n)";
    let quoted = r#"'[^']*'|"(?:[^"\\]|\\[\s\S])*""#;
    let word =
        format!(r#"(?:[^ \t\n'"\\#]|\\[^\n]|\\$|{quoted})(?:[^ \t\n'"\\]|\\[\s\S]|\\$|{quoted})*"#);
    let empty_word = r#"(?:''|"(?:\\\n)*"|\\\n)+(?:[ \t\n]|$)"#;
    let more = format!(r"[ \t\n]{blank}*(?:{word}|#[^\n]*)");
    format!(
        r"^(?![\s\S]*\x00)(?:{blank}|#[^\n]*\n)*(?!{empty_word}){word}(?:{more})*(?:[ \t\n]{blank}*)?$"
    )
}

impl CommandLine {
    /// The programs that it names: the first word, and the one that `env` is to start.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        let first = self.words.first().map(String::as_str);
        let is_env = first.is_some_and(|word| word == "env" || word.ends_with("/env"));
        // With flags of its own, `env` may mean anything.
        let next = self.words.iter().skip(1).find(|word| !word.contains('='));
        let second = next.filter(|word| is_env && !word.starts_with('-'));
        first.into_iter().chain(second.map(String::as_str))
    }

    /// The program that does the work: the one that `env` is to start, if it is `env`.
    pub fn program(&self) -> &str {
        self.programs().last().unwrap_or_default()
    }

    /// The name of that program without its folder.
    pub fn program_name(&self) -> &str {
        self.program().rsplit('/').next().unwrap_or_default()
    }

    /// A word that only a shell would understand.
    pub fn shell_sign(&self) -> Option<&str> {
        let signs = ["|", "||", "&", "&&", ";", "<", ">", ">>", "2>&1"];
        let words = self.words.iter().map(String::as_str);
        words.skip(1).find(|word| signs.contains(word))
    }
}

impl Setting for CommandLine {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        let Some(text) = scalar.text() else {
            return Err("expected a command line (put it in quotes)".to_owned());
        };
        let words = shell_words::split(text)
            .map_err(|_| "expected a command line whose quotes are all closed".to_owned())?;
        if text.contains('\0') || words.first().is_none_or(String::is_empty) {
            return Err("expected a command line that begins with a program".to_owned());
        }
        let text = text.trim().to_owned();
        Ok(CommandLine { text, words })
    }

    fn schema() -> Value {
        json!({"type": "string", "pattern": command_line_pattern()})
    }
}

/// The word or phrase between the promise tags that means success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise(pub String);

impl Setting for Promise {
    fn read(scalar: &Scalar) -> Result<Self, String> {
        let text = scalar
            .text()
            .ok_or("expected the text of the completion promise")?;
        if text.is_empty() {
            return Err("expected a completion promise that is not empty".to_owned());
        }
        if text.trim_matches(is_blank) != text || text.contains(['<', '>']) {
            return Err(
                "expected a completion promise without tags or white space around it".to_owned(),
            );
        }
        if text.chars().any(char::is_control) {
            return Err("expected a completion promise of one line".to_owned());
        }
        if text == "FAILURE" {
            return Err("expected another word than FAILURE, which means failure".to_owned());
        }
        Ok(Promise(text.to_owned()))
    }

    fn schema() -> Value {
        json!({
            "type": "string",
            "pattern": r"^[^\s<>\x00-\x1f\x7f-\x9f]([^<>\x00-\x1f\x7f-\x9f]*[^\s<>\x00-\x1f\x7f-\x9f])?$",
            "not": {"const": "FAILURE"},
        })
    }
}
