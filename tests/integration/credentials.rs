//! The tokens of actions/checkout, taken out of real repositories by the real helper, and put back or not.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use rooda::host::{Helper, TakenCredentials, checkout_tokens, put_back_credentials};
use rooda::redact::Secrets;

use crate::helper::{Workspace, helper, is_root};
use crate::programs::write_script;

const TOKEN: &str = "ghs_0123456789abcdefABCDEF";
/// `x-access-token:` and the token above.
const BASIC: &str = "eC1hY2Nlc3MtdG9rZW46Z2hzXzAxMjM0NTY3ODlhYmNkZWZBQkNERUY=";

fn take_credentials(helper: &Helper, root: &Path) -> anyhow::Result<TakenCredentials> {
    rooda::host::take_credentials(helper, root, &Secrets::default())
}

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
    assert!(taken.count() == 0 && taken.missed.is_none() && taken.secrets.is_empty());
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
    assert_eq!(taken.missed, None);
    assert_eq!((taken.count(), taken.looked_at), (8, 9));
    assert_eq!(with_token(), Vec::<String>::new());
    assert_eq!(
        put_back_credentials(&helper(), &taken).unwrap(),
        Vec::<String>::new()
    );
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
            ".git/config cannot be used: a link or a file stands in its path; \
             .git/config.worktree cannot be used: a link or a file stands in its path; \
             the agent put a link at .git",
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
            "the agent changed .git/config (extensions.worktreeconfig); \
             the agent changed .git/config.worktree (core.fsmonitor)",
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
        format!("{error:#}")
            .contains("a secret of the job stands in .git/config, and cannot be taken out there"),
        "{error:#}"
    );
    assert_eq!(workspace.read(".git/config"), before);
}

/// A setting like the one that checkout makes, of a token that is known otherwise too.
fn known() -> Secrets {
    Secrets::new([TOKEN.to_owned(), "short".to_owned()])
}

fn refusal(workspace: &Workspace) -> String {
    let error = rooda::host::take_credentials(&helper(), workspace.path(), &known()).unwrap_err();
    format!("{error:#}")
}

#[test]
fn nothing_in_the_tree_hides_a_repository() {
    for decoy in [
        "echo x > HEAD; echo nowhere > commondir",
        "echo x > HEAD; : > config; mkdir objects; : > objects/x",
        "echo x > HEAD; mkdir config objects refs modules worktrees",
        // It is no configuration, and none that git would read.
        "echo x > HEAD; echo '[broken' > config; mkdir objects",
        "rm .git/HEAD",
        "mkdir sub; git init -q sub/inner; cp .git/config sub/inner/.git/; cd sub; \
         echo x > HEAD; : > config; mkdir objects",
        "mv .git real; ln -s real .git; rm real/HEAD",
    ] {
        let workspace = checked_out();
        workspace.run(decoy);
        let taken = take_credentials(&helper(), workspace.path()).unwrap();
        assert_eq!(taken.missed, None, "{decoy}");
        let left = workspace.run(&format!("grep -rlE '{BASIC}|{TOKEN}' . || true"));
        assert_eq!(left, "", "{decoy}");
        let warnings = put_back_credentials(&helper(), &taken).unwrap();
        assert_eq!(warnings, Vec::<String>::new(), "{decoy}");
        let back = workspace.run(&format!("grep -rlE '{BASIC}|{TOKEN}' ."));
        assert_ne!(back, "", "{decoy}");
    }
}

#[test]
fn what_could_not_be_searched_is_told() {
    for (place, told) in [
        (
            "head -c 2000000 /dev/zero > .git/config.worktree",
            ".git/config.worktree: it is too large",
        ),
        (
            "mkdir -p deep/er; chmod 000 deep/er",
            "deep/er: Permission denied",
        ),
        (
            "git init -q other; chmod 000 other/.git/config",
            "other/.git/config: Permission denied",
        ),
    ] {
        let workspace = checked_out();
        workspace.run(place);
        if place.contains("chmod") && !is_root() {
            continue;
        }
        let taken = take_credentials(&helper(), workspace.path()).unwrap();
        let missed = taken.missed.clone().unwrap_or_default();
        assert!(missed.ends_with(told), "{place}: {missed:?}");
        assert_eq!(taken.count(), 1);
    }
}

#[test]
fn a_known_secret_is_found_in_any_form_and_place() {
    let workspace = checked_out();
    workspace.run(&format!(
        "git config credential.helper '!f() {{ echo password={TOKEN}; }}; f'; git config x.short short"
    ));
    let original = workspace.read(".git/config");
    let taken = rooda::host::take_credentials(&helper(), workspace.path(), &known()).unwrap();
    assert_eq!(taken.count(), 2);
    let clean = workspace.read(".git/config");
    assert!(
        !clean.contains(TOKEN) && clean.contains("short = short"),
        "{clean}"
    );
    let warnings = put_back_credentials(&helper(), &taken).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(workspace.read(".git/config"), original);
    for (copy, place) in [
        ("cp .git/config .git/config.bak", ".git/config.bak"),
        (
            "echo https://x:$TOKEN@github.com >.git/credentials",
            ".git/credentials",
        ),
        ("printf me:$TOKEN | base64 >.git/note", ".git/note"),
        (
            "git config --add x.y z; echo \"# $TOKEN\" >>.git/config",
            ".git/config",
        ),
        (
            "git config \"includeIf.gitdir:$TOKEN.path\" x",
            ".git/config",
        ),
    ] {
        let workspace = checked_out();
        workspace.run(&format!("TOKEN={TOKEN}; {copy}"));
        let before = workspace.read(".git/config");
        assert_eq!(
            refusal(&workspace),
            format!(
                "cannot take the tokens out of git's configuration: a secret of the job stands in {place}, \
                 and cannot be taken out there; remove it, or set `persist-credentials: false` for the checkout"
            ),
            "{copy}"
        );
        assert_eq!(workspace.read(".git/config"), before);
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_refused() {
    let workspace = checked_out();
    workspace.run("echo '[broken' >> .git/config");
    assert_eq!(
        refusal(&workspace),
        "cannot take the tokens out of git's configuration: .git/config is not a configuration that git could read; \
         mend or remove it"
    );
}

#[test]
fn a_file_that_is_included_loses_its_token_too() {
    let workspace = checked_out();
    workspace.run(&format!(
        "git config include.path ../outer; git config -f outer include.path in/ner; mkdir in; \
         git config -f in/ner http.extraheader 'X: {TOKEN}'; git config includeIf.onbranch:x.path ../missing"
    ));
    let original = workspace.read("in/ner");
    let taken = take_credentials(&helper(), workspace.path()).unwrap();
    assert_eq!((taken.count(), taken.looked_at), (2, 3));
    assert_eq!(workspace.read("in/ner"), "[http]\n");
    let warnings = put_back_credentials(&helper(), &taken).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(workspace.read("in/ner"), original);
}

/// A repository with a hook, an included file, a folder of hooks in the tree and a submodule.
const SURROUNDED: &str = "git config include.path ../included; git config -f included alias.x status; \
    git config includeIf.onbranch:x.path ../missing/one; \
    printf '#!/bin/sh\n' > .git/hooks/pre-commit; \
    mkdir githooks; : > githooks/pre-push; git config core.hooksPath githooks; \
    git init -q -b main lib; cd lib; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; cd ..; \
    git -c protocol.file.allow=always submodule --quiet add $PWD/lib nested/lib";

#[test]
fn no_token_comes_back_beside_what_would_run_or_lead_elsewhere() {
    for (attack, told) in [
        (
            "echo evil > .git/hooks/pre-push",
            "the agent added .git/hooks/pre-push",
        ),
        (
            "echo evil >> .git/hooks/pre-commit",
            "the agent changed .git/hooks/pre-commit",
        ),
        (
            "chmod +x .git/hooks/pre-commit",
            "the agent changed .git/hooks/pre-commit",
        ),
        (
            "ln -s /home/runner/work/r/r/evil .git/hooks/pre-push",
            "the agent put a link at .git/hooks/pre-push",
        ),
        (
            "rm -rf .git/hooks; ln -s /home/runner/work/r/r/evil .git/hooks",
            "the agent put a link at .git/hooks",
        ),
        (
            "head -c 2000000 /dev/zero > .git/hooks/pre-push",
            ".git/hooks/pre-push cannot be looked at",
        ),
        (
            "chmod +x githooks/pre-push",
            "the agent changed githooks/pre-push",
        ),
        (
            "echo ../evil > .git/commondir",
            "the agent added .git/commondir",
        ),
        (
            "git config -f included http.proxy http://evil",
            "the agent changed included",
        ),
        ("rm included", "the agent removed included"),
        (
            "mkdir missing; git config -f missing/one core.fsmonitor evil",
            "the agent added missing/one",
        ),
        (
            "ln -s /home/runner/work/r/r/evil missing",
            "the agent put a link at missing",
        ),
        (
            "echo evil > .git/modules/nested/lib/hooks/post-checkout",
            "the agent added .git/modules/nested/lib/hooks/post-checkout",
        ),
        (
            "git config -f .git/modules/nested/lib/config core.fsmonitor evil",
            "the agent changed .git/modules/nested/lib/config (core.fsmonitor)",
        ),
        (
            "mkdir .git/modules/nested/evil",
            "the agent added .git/modules/nested/evil",
        ),
        (
            "mkdir .git/modules/evil",
            "the agent added .git/modules/evil",
        ),
        (
            "cd .git/hooks; for n in 1 2 3 4 5; do : > $n; done",
            "the agent added .git/hooks/1; the agent added .git/hooks/2; the agent added .git/hooks/3; and 2 more",
        ),
    ] {
        let workspace = checked_out();
        workspace.run(SURROUNDED);
        let taken = take_credentials(&helper(), workspace.path()).unwrap();
        workspace.run(attack);
        let warnings = put_back_credentials(&helper(), &taken).unwrap();
        assert_eq!(warnings, [told], "{attack}");
        assert!(!workspace.read(".git/config").contains(BASIC), "{attack}");
    }
}

#[test]
fn what_git_does_in_passing_keeps_no_token_away() {
    let workspace = checked_out();
    workspace.run(SURROUNDED);
    let taken = take_credentials(&helper(), workspace.path()).unwrap();
    workspace.run(
        "git config user.name Agent; git config user.email a@b; git -c core.hooksPath=/dev/null commit -q -m x; \
         git init -q; git worktree add -q tree 2>/dev/null; echo x > .git/hooks/pre-push.sample; \
         rm .git/hooks/pre-commit; git gc -q; git submodule --quiet update; git stash list; git status; \
         git init -q made; : > made/.git/hooks/pre-push",
    );
    let warnings = put_back_credentials(&helper(), &taken).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    assert!(workspace.read(".git/config").contains(BASIC));
}

#[test]
fn a_full_disk_leaves_no_half_of_a_configuration() {
    let workspace = checked_out();
    workspace.run("git config x.y $(head -c 330 /dev/zero | tr '\\0' y)");
    let taken = take_credentials(&helper(), workspace.path()).unwrap();
    workspace.run("git config user.name \"$(head -c $((1000 - $(wc -c <.git/config))) /dev/zero | tr '\\0' n)\"");
    let before = workspace.read(".git/config");
    assert!((990..1024).contains(&before.len()), "{}", before.len());
    let program = workspace.file("full");
    // No file can grow beyond 1024 bytes.
    let script = format!(
        "#!/bin/bash\ntrap '' XFSZ; ulimit -f 1; exec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_rooda")
    );
    write_script(&program, &script);
    let full = Helper::of(&program, &crate::helper::confine);
    let warnings = put_back_credentials(&full, &taken).unwrap();
    assert_eq!(
        warnings,
        [".git/config cannot be used: File too large"],
        "{before}"
    );
    assert_eq!(workspace.read(".git/config"), before);
}
