//! What an agent itself says it did.

/// The summary in an agent's last message.
pub fn summary(_message: &str) -> Option<String> {
    None
}

/// The section of that name in plain text.
pub fn summary_section(_text: &str) -> Option<String> {
    None
}
