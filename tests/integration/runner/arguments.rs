//! The command line of the container as .NET takes a string apart: only spaces, tabs, double quotes and backslashes
//! before quotes mean anything. No shell is involved.

/// The items of `args` in `action.yml`, joined as the runner does it. It does not double backslashes: an item that ends in
/// one, or that has one before a quote, breaks all that follows.
pub(super) fn join<S: AsRef<str>>(items: &[S]) -> String {
    items
        .iter()
        .map(|item| format!(" \"{}\"", item.as_ref().replace('"', "\\\"")))
        .collect()
}

pub(super) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\t']);
    while !rest.is_empty() {
        let (word, after) = word(rest);
        words.push(word);
        rest = after.trim_start_matches([' ', '\t']);
    }
    words
}

/// The first word and what stands behind it.
fn word(text: &str) -> (String, &str) {
    let mut word = String::new();
    let mut quoted = false;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let backslashes = rest.len() - rest.trim_start_matches('\\').len();
        let after = &rest[backslashes..];
        if backslashes > 0 && after.starts_with('"') {
            word.push_str(&rest[..backslashes / 2]);
            rest = after;
            if backslashes % 2 == 1 {
                word.push('"');
                rest = &after[1..];
            }
        } else if backslashes > 0 {
            word.push_str(&rest[..backslashes]);
            rest = after;
        } else if quoted && rest.starts_with("\"\"") {
            word.push('"');
            rest = &rest[2..];
        } else if next == '"' {
            quoted = !quoted;
            rest = &rest[1..];
        } else if !quoted && (next == ' ' || next == '\t') {
            break;
        } else {
            word.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    (word, rest)
}

#[test]
fn words_are_split_by_the_rules_of_dot_net() {
    let cases: [(&str, &[&str]); 10] = [
        ("", &[]),
        ("a b\tc", &["a", "b", "c"]),
        ("a\nb", &["a\nb"]),
        ("'a b'", &["'a", "b'"]),
        (r#""a b" """#, &["a b", ""]),
        (r#""a""b""#, &["a\"b"]),
        (r#"a\b \\c"#, &[r"a\b", r"\\c"]),
        (r#"\"a\" \\"b c\\""#, &["\"a\"", "\\b c\\"]),
        ("$HOME *", &["$HOME", "*"]),
        (r#"pre"fix ed""#, &["prefix ed"]),
    ];
    for (text, expected) in cases {
        assert_eq!(split(text), expected, "{text:?}");
    }
}

#[test]
fn items_survive_joining_unless_backslashes_stand_before_quotes() {
    let fine = ["a b", "", "say \"hi\"", "back\\slash", "two\nlines"];
    assert_eq!(split(&join(&fine)), fine);
    assert_eq!(split(&join(&["ends in \\", "next"])), ["ends in \" next"]);
    assert_eq!(split(&join(&["a \\\" b", "c"])), ["a \\", "b c"]);
}
