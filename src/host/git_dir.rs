//! Where a repository keeps its own data.

use std::fs;
use std::path::{Path, PathBuf};

/// No file that names another place is longer.
const LONGEST: u64 = 4096;

/// The folder `.git` of the repository that a folder is in, or what stands for it in a worktree or a submodule.
pub fn git_dir(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let found = folder.ancestors().map(|folder| folder.join(".git"));
    let git = found.into_iter().find(|git| git.exists())?;
    // It may be a link, which nobody follows from here on.
    let git = git.canonicalize().ok()?;
    if git.is_dir() {
        // Another program may use the name.
        return git.join("HEAD").exists().then_some(git);
    }
    let is_short = fs::metadata(&git).is_ok_and(|file| file.is_file() && file.len() < LONGEST);
    let text = is_short.then(|| fs::read_to_string(&git).ok()).flatten()?;
    let named = git.parent()?.join(text.strip_prefix("gitdir:")?.trim());
    named.is_dir().then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_found_from_within_and_through_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(git_dir(&root), None);
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join("a/.git")).unwrap();
        assert_eq!(git_dir(&root.join("a/b")), None);
        fs::write(root.join("a/.git/HEAD"), "ref: x").unwrap();
        assert_eq!(git_dir(&root.join("a/b")), Some(root.join("a/.git")));
        fs::create_dir(root.join("tree")).unwrap();
        fs::write(root.join("tree/.git"), "gitdir: ../a/.git\n").unwrap();
        assert_eq!(
            git_dir(&root.join("tree")),
            Some(root.join("tree/../a/.git"))
        );
        fs::write(root.join("tree/.git"), "gitdir: ../nowhere\n").unwrap();
        assert_eq!(git_dir(&root.join("tree")), None);
    }
}
