use super::*;
use proptest::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

type NameAndValue = (Vec<u8>, Option<Vec<u8>>);

/// Older versions of git read any white space within a value as blanks.
fn blanks(value: &[u8]) -> Vec<u8> {
    let blank = |byte: &u8| {
        if matches!(byte, b'\t' | b'\r') {
            b' '
        } else {
            *byte
        }
    };
    value.iter().map(blank).collect()
}

/// What git itself reads, or `None` where it complains.
fn read_by_git(text: &[u8]) -> Option<Vec<NameAndValue>> {
    let mut git = Command::new("git")
        .args(["config", "--file", "-", "--null", "--list"])
        .current_dir("/")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    git.stdin.take().unwrap().write_all(text).unwrap();
    let output = git.wait_with_output().unwrap();
    if !output.status.success() {
        return None;
    }
    let entries = output.stdout.split(|byte| *byte == 0);
    let mut read: Vec<_> = entries
        .map(|entry| match entry.iter().position(|byte| *byte == b'\n') {
            Some(at) => (entry[..at].to_vec(), Some(blanks(&entry[at + 1..]))),
            None => (entry.to_vec(), None),
        })
        .collect();
    read.pop();
    Some(read)
}

fn read_by_us(text: &[u8]) -> Option<Vec<NameAndValue>> {
    let items = read(text)?;
    let variables = items.into_iter().filter_map(|item| match item {
        Item::Header(_) => None,
        Item::Variable(variable) => Some((variable.name, variable.value.as_deref().map(blanks))),
    });
    Some(variables.collect())
}

#[test]
fn odd_configurations_are_read_as_git_reads_them() {
    for text in [
        "",
        "\u{feff}[a]b=c",
        "[core] bare = false\n\trepositoryFormatVersion=0\r\n# x\n;y\n[a.B]\nc",
        "[http \"https://github.com/\"]\n\textraheader = AUTHORIZATION: basic eDp5 # not this\n",
        "[x \"a\\\"b\\\\c\\d]\"]\n  key-1 = \"  a ; b \" c  ;d\n",
        "[x]\n a = one \\\n   two\\\n\n b = t\\tn\\nq\\\"\\\\\n",
        "[x]\n a = one\ttwo  \t three \t\n",
        "[x]\n a = \"open\n",
        "[x]\n a = bad \\q\n",
        "[x]\n a b\n",
        "[x]\n a # comment\n",
        "[x",
        "[x \"y\" ]\n",
        "[x  \t \"y\"]z",
        "[x\n\"y\"]",
        "1 = 2",
        "[x]\n1 = 2",
        "[x] a = 1 [y] b = 2\n",
        "[x]\na = \\\r\n  b\r\n",
        "[x]\na = b\r",
        "[x]\na\r",
        "[x]\na = # only a comment \\\n b = c",
        "[x]a=\\",
        "[.]\na=1\n[ \"x\"]\nb=2",
        "[]\nb=2",
        "b=2",
        "[x]\na = \\b\n",
        "[x]\na = \"b\" \"c\" \n",
    ] {
        assert_eq!(
            read_by_us(text.as_bytes()),
            read_by_git(text.as_bytes()),
            "{text:?}"
        );
    }
}

#[test]
fn every_item_is_where_it_is_said_to_be() {
    let text = b"# top\n[a \"b\"] c = d\r\n  e = f \\\n  g # h\n[i]\nj";
    let items = read(text).unwrap();
    let found: Vec<_> = items
        .iter()
        .map(|item| match item {
            Item::Header(place) => &place.range,
            Item::Variable(variable) => &variable.range,
        })
        .map(|range| String::from_utf8_lossy(&text[range.clone()]))
        .collect();
    assert_eq!(
        found,
        ["[a \"b\"]", "c = d", "e = f \\\n  g # h", "[i]", "j"]
    );
}

/// What may stand next to each other in a configuration, for better or worse.
const PIECES: [&str; 24] = [
    "[a]",
    "[b \"C\"]",
    "[b.C]",
    "[",
    "]",
    "\"",
    "\\\"",
    "\\\\",
    "\\n",
    "\\",
    "\n",
    "\r\n",
    "\r",
    "\n",
    " ",
    "\t",
    "=",
    " = ",
    "#",
    ";",
    "key",
    "k-1",
    "x y",
    "1",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_stands_there_is_read_as_git_reads_it(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..12),
    ) {
        let text = format!("[x]\n{}", pieces.concat());
        prop_assert_eq!(read_by_us(text.as_bytes()), read_by_git(text.as_bytes()));
    }

    #[test]
    fn a_quoted_value_is_read_back(
        value in prop::collection::vec(prop::sample::select(&b"a\n\x08\"\\#; "[..]), 0..12),
    ) {
        let text = [b"[x]\na = ", &quoted(&value)[..]].concat();
        let read = read_by_us(&text).unwrap();
        prop_assert_eq!(read[0].1.as_deref(), Some(&value[..]));
    }
}
