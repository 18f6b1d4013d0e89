//! The fragments that are part of the program.

use include_dir::{Dir, include_dir};

use crate::error::{Error, ErrorKind, nearest};

static PROMPTS: Dir = include_dir!("$CARGO_MANIFEST_DIR/prompts");

/// An embedded file by its path below `prompts/`.
pub fn builtin_text(path: &str) -> Option<&'static str> {
    PROMPTS.get_file(path)?.contents_utf8()
}

/// An embedded fragment that a user named.
pub fn builtin_prompt(name: &str) -> Result<&'static str, Error> {
    let names = builtin_names();
    let found = names.contains(&name).then(|| builtin_text(name)).flatten();
    found.ok_or_else(|| {
        let message = format!("there is no built-in prompt `builtin:{name}`");
        let error = Error::new(ErrorKind::NoInput, message);
        match nearest(name, names) {
            Some(near) => error.hint(format_args!("did you mean `builtin:{near}`?")),
            None => error.hint("`rooda info <PROCEDURE>` shows which ones are in use"),
        }
    })
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
