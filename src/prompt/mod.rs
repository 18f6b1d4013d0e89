//! Prompts: the embedded fragments, templates, and the composition of a whole prompt.

mod builtin;
mod compose;
mod template;

pub use builtin::{builtin_names, builtin_prompt, builtin_text};
pub use compose::{Text, compose, fill_in};
pub use template::Template;
