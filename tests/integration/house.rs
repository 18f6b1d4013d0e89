//! The walls of the house that clippy cannot hold.

use std::fs;
use std::path::{Path, PathBuf};

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn only_the_runner_the_commands_and_the_root_use_the_host() {
    let source = root().join("src");
    let may = |path: &Path| {
        let path = path.strip_prefix(&source).unwrap();
        path.starts_with("host")
            || path.starts_with("commands")
            || path == Path::new("runner.rs")
            || path.starts_with("runner")
            || path == Path::new("lib.rs")
    };
    let offenders: Vec<PathBuf> = files_below(&source)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter(|path| !may(path))
        .filter(|path| fs::read_to_string(path).unwrap().contains("crate::host"))
        .collect();
    assert_eq!(offenders, Vec::<PathBuf>::new());
}

#[test]
fn no_test_file_is_forgotten() {
    for path in files_below(&root().join("tests/integration")) {
        let mut name = path.file_stem().unwrap().to_str().unwrap();
        let mut folder = path.parent().unwrap();
        if path.extension().is_none_or(|extension| extension != "rs") || name == "main" {
            continue;
        }
        if name == "mod" {
            name = folder.file_name().unwrap().to_str().unwrap();
            folder = folder.parent().unwrap();
        }
        let head = ["main.rs", "mod.rs"].map(|head| folder.join(head));
        let head = head.iter().find(|head| head.exists()).unwrap();
        let modules = fs::read_to_string(head).unwrap();
        assert!(
            modules.contains(&format!("mod {name};")),
            "{name} is not in {}",
            head.display()
        );
    }
}
