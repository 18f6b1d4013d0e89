//! The fragments that are part of the program.

use include_dir::{Dir, include_dir};

static PROMPTS: Dir = include_dir!("$CARGO_MANIFEST_DIR/prompts");

/// An embedded file by its path below `prompts/`.
pub fn builtin_text(path: &str) -> Option<&'static str> {
    PROMPTS.get_file(path)?.contents_utf8()
}

/// Every embedded fragment, `act/build.md` and so on.
pub fn builtin_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = PROMPTS
        .dirs()
        .flat_map(Dir::files)
        .filter_map(|file| file.path().to_str())
        .collect();
    names.sort_unstable();
    names
}
