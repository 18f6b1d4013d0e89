//! What is asked of the helper, and what it answers: one JSON text each way.

use std::path::PathBuf;

use serde::de::Error as _;

use crate::prompt::Template;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// Where to work. The helper enters it itself: it may go nowhere that the agent may not.
    pub(super) directory: PathBuf,
    pub(super) task: Task,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Task {
    Read(Vec<PathBuf>),
    Render(Template),
    FindProgram { name: String, path: String },
    GitConfigs,
    Replace(Vec<Replacement>),
    Survey(Vec<PathBuf>),
}

/// Lets a file hold something else, if it holds exactly what we think.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::host) struct Replacement {
    pub(in crate::host) path: PathBuf,
    pub(in crate::host) from: Bytes,
    /// `None`: only have a look.
    pub(in crate::host) to: Option<Bytes>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    Read(Vec<TextRead>),
    Render(Result<String, String>),
    FindProgram(ProgramFound),
    GitConfigs(GitConfigs),
    Replace(Vec<Replaced>),
    Survey(Vec<Surveyed>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TextRead {
    Text(String),
    Missing,
    Failed(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ProgramFound {
    Found {
        path: PathBuf,
        missing_interpreter: Option<String>,
    },
    NotFound(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::host) struct GitConfigs {
    pub(in crate::host) files: Vec<ConfigFile>,
    /// The folders to which git itself leads.
    pub(in crate::host) directories: Vec<PathBuf>,
    /// In words, what was too much or too large to look at.
    pub(in crate::host) missed: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::host) struct ConfigFile {
    pub(in crate::host) path: PathBuf,
    pub(in crate::host) content: Bytes,
    pub(in crate::host) kind: FileKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::host) enum FileKind {
    /// Git itself leads to it.
    Config,
    /// It lies in a folder of the tree that looks like a repository.
    LookAlike,
    /// Another file in a repository. Git does not read it, but an agent can.
    Beside,
}

/// One file or folder around a git configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::host) struct Surveyed {
    pub(in crate::host) path: PathBuf,
    /// Where it leads, if it is a link.
    pub(in crate::host) link: Option<PathBuf>,
    pub(in crate::host) is_executable: bool,
    pub(in crate::host) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::host) enum Content {
    Text(Bytes),
    /// It is no file.
    None,
    /// It cannot be read, or is too large.
    Unknown,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::host) enum Replaced {
    Done,
    /// It holds something else, namely this.
    Differs(Bytes),
    Missing,
    Failed(String),
}

/// Bytes in a JSON string: each is the character of its number, so that plain text stays readable and short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::host) struct Bytes(pub(in crate::host) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.iter().copied().map(char::from).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        bytes
            .map(Bytes)
            .map_err(|_| D::Error::custom("a character that is no byte"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_go_through_and_nothing_else_does() {
        let bytes = Bytes((0..=255).collect());
        let text = serde_json::to_string(&bytes).unwrap();
        assert_eq!(serde_json::from_str::<Bytes>(&text).unwrap(), bytes);
        assert!(serde_json::from_str::<Bytes>("\"\u{100}\"").is_err());
    }

    #[test]
    fn an_answer_with_more_in_it_than_expected_is_none() {
        let answer = |text: &str| serde_json::from_str::<Answer>(text);
        assert!(
            answer(r#"{"git_configs": {"files": [], "directories": [], "missed": null}}"#).is_ok()
        );
        for text in [
            r#"{"git_configs": {"files": [], "directories": [], "missed": null, "more": 1}}"#,
            r#"{"git_configs": {"files": [], "directories": [], "missed": null}, "read": []}"#,
            r#"{"git_configs": {"files": [], "directories": [], "missed": null}} {}"#,
            r#"{"git_configs": {"files": []}}"#,
            r#"{"surprise": []}"#,
            "[]",
            "",
        ] {
            assert!(answer(text).is_err(), "{text}");
        }
    }
}
