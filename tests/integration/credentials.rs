//! The tokens of actions/checkout, taken out of real repositories by the real helper, and put back or not.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use rooda::host::{checkout_tokens, put_back_credentials, take_credentials};

use crate::helper::{Workspace, helper, is_root};

const TOKEN: &str = "ghs_0123456789abcdefABCDEF";
/// `x-access-token:` and the token above.
const BASIC: &str = "eC1hY2Nlc3MtdG9rZW46Z2hzXzAxMjM0NTY3ODlhYmNkZWZBQkNERUY=";

/// A workspace in which something like actions/checkout has been.
fn checked_out() -> Workspace {
    let workspace = Workspace::new();
    workspace.run(&format!(
        "git init -q . && git remote add origin https://github.com/o/r && \
         git config http.https://github.com/.extraheader 'AUTHORIZATION: basic {BASIC}' && \
         git config gc.auto 0"
    ));
    workspace
}

#[test]
fn a_folder_without_a_repository_has_no_tokens() {
    let workspace = Workspace::new();
    let taken = take_credentials(&helper(), workspace.path()).unwrap();
    assert!(taken.count() == 0 && taken.complete && taken.secrets.is_empty());
    assert_eq!(
        put_back_credentials(&helper(), &taken).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn what_nobody_touched_comes_back_byte_for_byte() {
    let workspace = checked_out();
    let original = workspace.read(".git/config");
    let before = fs::metadata(workspace.file(".git/config")).unwrap();
    let taken = take_credentials(&helper(), workspace.path()).unwrap();
    assert_eq!(taken.secrets, [BASIC, TOKEN]);
    assert!(!format!("{taken:?}").contains(TOKEN));
    let told = workspace.run("git config --list; cat .git/config");
    assert!(
        !told.contains(BASIC) && told.contains("gc.auto=0"),
        "{told}"
    );
    assert_eq!(
        put_back_credentials(&helper(), &taken).unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(workspace.read(".git/config"), original);
    let after = fs::metadata(workspace.file(".git/config")).unwrap();
    assert_eq!(
        (after.ino(), after.mode(), after.uid()),
        (before.ino(), before.mode(), before.uid())
    );
}

#[test]
fn submodules_worktrees_and_other_checkouts_are_searched_too() {
    let workspace = checked_out();
    let elsewhere = Workspace::new();
    let header =
        format!("git config http.https://github.com/.extraheader 'AUTHORIZATION: basic {BASIC}'");
    let commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x";
    workspace.run(&format!(
        "{commit}; git init -q inner; (cd inner; {commit}; {header}); \
         git init -q sub; (cd sub; {commit}); \
         git -c protocol.file.allow=always submodule --quiet add $PWD/sub nested/sub; (cd nested/sub; {header}); \
         git config extensions.worktreeConfig true; git worktree add -q {elsewhere}/tree; \
         (cd {elsewhere}/tree; git config --worktree http.x.extraheader 'X: {TOKEN}'); \
         git clone -q --bare . bare.git; (cd bare.git; {header}); \
         git init -q --separate-git-dir={elsewhere}/away.git apart; (cd apart; {header}); \
         git init -q {elsewhere}/main; (cd {elsewhere}/main; {header}; {commit}; git worktree add -q {workspace}/of-main); \
         mkdir -p deep/er/and/deeper; git init -q deep/er/and/deeper/repo; (cd deep/er/and/deeper/repo; {header})",
        elsewhere = elsewhere.path().display(),
        workspace = workspace.path().display(),
    ));
    let grep = format!(
        "(cd {}; grep -rlE '{BASIC}|{TOKEN}' . || true); grep -rlE '{BASIC}|{TOKEN}' . || true",
        elsewhere.path().display()
    );
    let with_token = || {
        let mut files: Vec<String> = workspace.run(&grep).lines().map(str::to_owned).collect();
        files.sort();
        files
    };
    let before = with_token();
    assert_eq!(
        before,
        [
            "./.git/config",
            "./.git/modules/nested/sub/config",
            "./.git/worktrees/tree/config.worktree",
            "./away.git/config",
            "./bare.git/config",
            "./deep/er/and/deeper/repo/.git/config",
            "./inner/.git/config",
            "./main/.git/config",
        ]
    );
    let taken = take_credentials(&helper(), workspace.path()).unwrap();
    assert!(taken.complete);
    assert_eq!(with_token(), Vec::<String>::new());
    assert_eq!(
        put_back_credentials(&helper(), &taken).unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(with_token(), before);
    // The agent can go up from where it works.
    let taken = take_credentials(&helper(), &workspace.file("deep/er")).unwrap();
    let left = with_token();
    assert!(
        !left.iter().any(|path| path.starts_with("./.git/")),
        "{left:?}"
    );
    put_back_credentials(&helper(), &taken).unwrap();
    assert_eq!(with_token(), before);
}

#[test]
fn git_works_without_the_token_file_that_the_jail_hides() {
    let workspace = checked_out();
    let temp = tempfile::tempdir().unwrap();
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let name = "git-credentials-0f7d2b1e-aaaa-bbbb-cccc-0123456789ab.config";
    let file = temp.path().join(name);
    fs::write(
        &file,
        format!("[http \"https://github.com/\"]\n\textraheader = AUTHORIZATION: basic {BASIC}\n"),
    )
    .unwrap();
    symlink("/etc/passwd", temp.path().join("git-credentials-1.config")).unwrap();
    assert_eq!(checkout_tokens(temp.path()), [BASIC, TOKEN]);
    workspace.run(&format!(
        "git config --unset-all http.https://github.com/.extraheader; \
         git config includeIf.gitdir:$PWD/.git.path {}",
        file.display()
    ));
    let original = workspace.read(".git/config");
    if is_root() {
        let told = workspace.run("git status 2>&1 || true");
        assert!(told.contains("Permission denied"), "{told}");
    }
    let taken = take_credentials(&helper(), workspace.path()).unwrap();
    assert!(taken.count() > 0);
    if is_root() {
        // The folder is closed to the agent, and git would give up.
        workspace.run("git status");
    }
    assert_eq!(
        put_back_credentials(&helper(), &taken).unwrap(),
        Vec::<String>::new()
    );
    assert_eq!(workspace.read(".git/config"), original);
}

#[test]
fn a_repository_that_an_agent_worked_in_gets_its_token_back() {
    let workspace = checked_out();
    let taken = take_credentials(&helper(), workspace.path()).unwrap();
    workspace.run(
        "git config user.name Agent; git config user.email a@b; git commit -q --allow-empty -m x; \
         git checkout -q -b work/1; git config branch.work/1.remote origin; git config branch.work/1.merge refs/heads/x; \
         echo '# a comment' >> .git/config",
    );
    assert_eq!(
        put_back_credentials(&helper(), &taken).unwrap(),
        Vec::<String>::new()
    );
    let told = workspace.run("git config --get-all http.https://github.com/.extraheader; git config user.name; tail -n 3 .git/config");
    assert_eq!(
        told,
        format!(
            "AUTHORIZATION: basic {BASIC}\nAgent\n# a comment\n[http \"https://github.com/\"]\n\textraheader = AUTHORIZATION: basic {BASIC}\n"
        )
    );
}

#[test]
fn no_token_comes_back_to_where_an_agent_could_use_it() {
    for (attack, told) in [
        (
            "git config core.hooksPath /tmp/evil",
            "the agent changed .git/config (core.hookspath)",
        ),
        ("rm -rf .git", ".git/config is gone"),
        (
            "mv .git/config x; ln -s ../x .git/config",
            ".git/config cannot be used: a link or a file stands in its path",
        ),
        (
            "mkdir out; mv .git out/; ln -s out/.git .git",
            ".git/config cannot be used: a link or a file stands in its path",
        ),
        (
            "ln .git/config published",
            ".git/config cannot be used: it has a second name",
        ),
        (
            "rm .git/config; mkfifo .git/config",
            ".git/config cannot be used: it is not a regular file",
        ),
        (
            "rm .git/config; mkdir .git/config",
            ".git/config cannot be used: it is not a regular file",
        ),
        (
            "chmod 0000 .git/config",
            ".git/config cannot be used: Permission denied",
        ),
        (
            "head -c 2000000 /dev/zero > .git/config",
            ".git/config cannot be used: it is too large",
        ),
        (
            "echo '[broken' >> .git/config",
            "the agent changed .git/config (it cannot be read any more)",
        ),
        (
            "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor evil",
            "the agent changed .git/config (extensions.worktreeconfig)",
        ),
        (
            "printf '[core]\\n\\tsshCommand = evil\\n' > .git/config.worktree",
            "the agent changed .git/config.worktree (core.sshcommand)",
        ),
        (
            "mkfifo .git/config.worktree",
            ".git/config.worktree cannot be used: it is not a regular file",
        ),
    ] {
        let workspace = checked_out();
        let taken = take_credentials(&helper(), workspace.path()).unwrap();
        workspace.run(attack);
        if attack.starts_with("chmod") && !is_root() {
            continue;
        }
        let warnings = put_back_credentials(&helper(), &taken).unwrap();
        let canonical = workspace.path().canonicalize().unwrap();
        let warnings: Vec<_> = warnings
            .iter()
            .map(|warning| warning.replace(&format!("{}/", canonical.display()), ""))
            .collect();
        assert_eq!(warnings, [told], "{attack}");
        let left = workspace.run(&format!("chmod 644 .git/config 2>/dev/null || true; grep -rlE '{BASIC}|{TOKEN}' --devices=skip . || true"));
        assert_eq!(left, "", "{attack}");
    }
}

#[test]
fn a_token_that_cannot_be_taken_out_everywhere_stays_everywhere() {
    let workspace = checked_out();
    workspace.run(&format!(
        "git init -q other; cd other; git config http.https://github.com/.extraheader 'AUTHORIZATION: basic {BASIC}'; chmod 444 .git/config"
    ));
    if !is_root() {
        return;
    }
    chown(workspace.file("other/.git/config"), Some(0), Some(0)).unwrap();
    let before = workspace.read(".git/config");
    let error = take_credentials(&helper(), workspace.path()).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "cannot take the tokens out of git's configuration: other/.git/config: Permission denied"
    );
    assert_eq!(workspace.read(".git/config"), before);
    workspace.run(&format!("rm -rf other; echo '# {TOKEN}' >> .git/config"));
    let before = workspace.read(".git/config");
    let error = take_credentials(&helper(), workspace.path()).unwrap_err();
    assert!(
        format!("{error:#}").contains("stands in .git/config a second time"),
        "{error:#}"
    );
    assert_eq!(workspace.read(".git/config"), before);
}
