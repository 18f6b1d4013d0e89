//! What keeps the agent where it belongs, as it is told to people.

/// One protection: its name, whether it is in force, and a few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    pub name: &'static str,
    pub in_force: bool,
    pub detail: String,
}
