use super::*;

fn strip(text: &[u8]) -> Option<Stripped> {
    super::strip(text, &|_| false)
}

const TOKEN: &str = "ghs_0123456789abcdefABCDEF";
/// `x-access-token:` and the token above.
const BASIC: &str = "eC1hY2Nlc3MtdG9rZW46Z2hzXzAxMjM0NTY3ODlhYmNkZWZBQkNERUY=";

/// What checkout leaves behind, up to its fifth version.
fn of_checkout() -> String {
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\
         [remote \"origin\"]\n\turl = https://github.com/owner/repo\n\
         \tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [gc]\n\tauto = 0\n\
         [http \"https://github.com/\"]\n\textraheader = AUTHORIZATION: basic {BASIC}\n\
         [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
    )
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_header_of_checkout_is_taken_out_and_its_token_found() {
    let original = of_checkout();
    let stripped = strip(original.as_bytes()).unwrap();
    let line = format!("\textraheader = AUTHORIZATION: basic {BASIC}\n");
    assert_eq!(text(&stripped.text), original.replace(&line, ""));
    assert_eq!(stripped.secrets, [BASIC, TOKEN]);
}

#[test]
fn what_leads_to_the_token_file_of_newer_checkouts_is_taken_out() {
    let include = |place: &str, temp: &str| {
        format!(
            "[includeIf \"gitdir:{place}/.git\"]\n\
             \tpath = {temp}/git-credentials-0f7d2b1e-aaaa-bbbb-cccc-0123456789ab.config\n"
        )
    };
    let original = format!(
        "[core]\n\tbare = false\n{}{}[include]\n\tpath = ../shared\n\tpath = /github/home/x\n\tpath = /github/workspace/x\n",
        include("/home/runner/work/repo/repo", "/home/runner/work/_temp"),
        include("/github/workspace", "/github/runner_temp"),
    );
    let stripped = strip(original.as_bytes()).unwrap();
    assert_eq!(
        text(&stripped.text),
        "[core]\n\tbare = false\n\
         [includeIf \"gitdir:/home/runner/work/repo/repo/.git\"]\n\
         [includeIf \"gitdir:/github/workspace/.git\"]\n\
         [include]\n\tpath = ../shared\n\tpath = /github/workspace/x\n"
    );
    assert_eq!(stripped.removed.len(), 3);
}

#[test]
fn names_and_passwords_are_taken_out_of_addresses() {
    let original = format!(
        "[remote \"origin\"]\n\turl = https://x-access-token:{TOKEN}@github.com/o/r # mine\n\tfetch = x\n\
         [url \"https://{TOKEN}:x-oauth-basic@github.com/\"]\n\t; a comment\n\tinsteadOf = https://github.com/\n\
         [submodule \"a\"] url = \"HTTPS://a-long-name-of-a-user:p%40ssword@host:8080/a@b\"\n\
         [http]\n\tproxy = http://me:password@proxy:3128\n\
         [remote \"ssh\"]\n\turl = ssh://git@github.com/o/r\n\turl = https://github.com/@me\n"
    );
    let stripped = strip(original.as_bytes()).unwrap();
    assert_eq!(
        text(&stripped.text),
        "[remote \"origin\"]\n\turl = \"https://github.com/o/r\"\n\tfetch = x\n\
         \t; a comment\n\
         [submodule \"a\"] url = \"HTTPS://host:8080/a@b\"\n\
         [http]\n\tproxy = http://me:password@proxy:3128\n\
         [remote \"ssh\"]\n\turl = ssh://git@github.com/o/r\n\turl = https://github.com/@me\n"
    );
    assert_eq!(stripped.secrets, [TOKEN, "p%40ssword", "p@ssword"]);
}

#[test]
fn comments_and_odd_spacing_stay_as_they_are() {
    let original = format!(
        "\u{feff}; top\r\n[http \"https://github.com/\"]extraHeader=\"AUTHORIZATION: \\\n basic {BASIC}\" ; gone\n\
         [HTTP]   EXTRAHEADER    = Authorization: Bearer {TOKEN}\r\n\
         \n\n   # between\n[a]b=c[d]\n  \t [http \"x\"] extraheader =\n\textraheader = X-Api-Key: {TOKEN}"
    );
    let stripped = strip(original.as_bytes()).unwrap();
    assert_eq!(
        text(&stripped.text),
        "\u{feff}; top\r\n[http \"https://github.com/\"]\n\
         [HTTP]   \r\n\
         \n\n   # between\n[a]b=c[d]\n  \t [http \"x\"] extraheader =\n"
    );
    assert_eq!(stripped.secrets, [BASIC, TOKEN]);
}

#[test]
fn a_configuration_without_tokens_is_left_alone() {
    for original in ["", "[core]\n\tbare = false\n", "[http]\n\textraheader\n"] {
        let stripped = strip(original.as_bytes()).unwrap();
        assert_eq!(text(&stripped.text), original);
        assert!(stripped.removed.is_empty() && stripped.secrets.is_empty());
    }
}

#[test]
fn what_cannot_be_read_is_not_taken_for_one_without_tokens() {
    assert_eq!(strip(b"[broken"), None);
}

#[test]
fn a_variable_with_a_known_secret_goes_whatever_it_is() {
    let original = format!(
        "[credential]\n\thelper = \"!f() {{ echo password=\\\n{TOKEN}; }}; f\"\n\tusername = me\n"
    );
    let known = |text: &[u8]| memchr::memmem::find(text, TOKEN.as_bytes()).is_some();
    let stripped = super::strip(original.as_bytes(), &known).unwrap();
    assert_eq!(text(&stripped.text), "[credential]\n\tusername = me\n");
    let back = put_into(
        &[&stripped.text[..], b"[user]\n\tname = x\n"].concat(),
        original.as_bytes(),
        &stripped.text,
        &stripped.removed,
    );
    let back = back.unwrap();
    let line = format!("{TOKEN}; }}; f\"\n");
    assert!(text(&back).ends_with(&line), "{}", text(&back));
}

#[test]
fn a_section_that_is_nothing_but_a_name_with_a_token_goes_too() {
    let original = format!("[core]\n[url \"https://me:{TOKEN}@github.com/\"]\n");
    let stripped = strip(original.as_bytes()).unwrap();
    assert_eq!(text(&stripped.text), "[core]\n");
    assert_eq!(stripped.secrets, [TOKEN]);
}

#[test]
fn harmless_changes_stay_and_the_tokens_come_back_beside_them() {
    let original = of_checkout().replace(
        "https://github.com/owner/repo",
        &format!("https://me:{TOKEN}@github.com/owner/repo"),
    );
    let stripped = strip(original.as_bytes()).unwrap();
    let now = text(&stripped.text)
        .replace("\tauto = 0\n", "")
        .replace("[branch \"main\"]\n", "# by the agent\n[branch \"main\"]\n")
        + "[user]\n\tname = Agent\n\temail = a@b\n[branch \"x/y\"]\n\tremote = origin\n\tmerge = refs/heads/x/y";
    let back = put_into(
        now.as_bytes(),
        original.as_bytes(),
        &stripped.text,
        &stripped.removed,
    )
    .unwrap();
    let expected = now.replace(
        "url = \"https://github.com/owner/repo\"",
        &format!("url = https://me:{TOKEN}@github.com/owner/repo"),
    ) + &format!(
        "\n[http \"https://github.com/\"]\n\textraheader = AUTHORIZATION: basic {BASIC}\n"
    );
    assert_eq!(text(&back), expected);
}

#[test]
fn no_token_comes_back_beside_a_change_that_could_misuse_it() {
    let original = of_checkout();
    let stripped = strip(original.as_bytes()).unwrap();
    let clean = text(&stripped.text);
    let added = |line: &str| format!("{clean}{line}\n");
    for (now, told) in [
        (added("[core]\n\thooksPath = /tmp/evil"), "core.hookspath"),
        (added("[core]\n\tfsmonitor = /tmp/evil"), "core.fsmonitor"),
        (added("[core]\n\tbare"), "core.bare"),
        (added("[credential]\n\thelper = !evil"), "credential.helper"),
        (added("[http]\n\tproxy = http://evil"), "http.proxy"),
        (
            added("[url \"https://evil/\"]\n\tinsteadOf = https://github.com/"),
            "url.https://evil/.insteadof",
        ),
        (
            added("[branch \"main\"]\n\tremote = https://evil/"),
            "branch.main.remote",
        ),
        (
            added("[branch \"main\"]\n\tmergeOptions = -s evil"),
            "branch.main.mergeoptions",
        ),
        (
            added("[gc]\n\trecentObjectsHook = evil"),
            "gc.recentobjectshook",
        ),
        (added("[include]\n\tpath = /tmp/evil"), "include.path"),
        (added("[alias]\n\tpush = !evil"), "alias.push"),
        (added("[user]\n\tsigningKey = x"), "user.signingkey"),
        (
            clean.replace("https://github.com/owner/repo", "https://evil/"),
            "remote.origin.url",
        ),
        (
            clean.replace("\tfilemode = true\n", ""),
            "remote.origin.url",
        ),
        (
            clean.replace("\tfetch = +refs/heads/*:refs/remotes/origin/*\n", ""),
            "remote.origin.fetch",
        ),
        (added("[broken"), "it cannot be read any more"),
        // The line would swallow what is put after it.
        (
            format!("{clean}[user]\n\tname = x\\"),
            "it cannot be put together again",
        ),
    ] {
        let back = put_into(
            now.as_bytes(),
            original.as_bytes(),
            &stripped.text,
            &stripped.removed,
        );
        assert_eq!(
            back.as_deref().map_err(|told| &told[..]),
            Err(told),
            "{now}"
        );
    }
}

#[test]
fn only_the_files_that_checkout_makes_are_taken_for_them() {
    for (name, is) in [
        (
            "git-credentials-0f7d2b1e-aaaa-bbbb-cccc-0123456789ab.config",
            true,
        ),
        ("git-credentials-../../x.config", false),
        ("git-credentials-x.conf", false),
        ("credentials-x.config", false),
    ] {
        assert_eq!(is_credentials_file(name.as_bytes()), is, "{name}");
    }
}
