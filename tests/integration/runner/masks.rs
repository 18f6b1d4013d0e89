//! What the runner hides: every secret, in the forms in which it may come to light.

use std::collections::BTreeSet;
use std::fmt::Write;

#[derive(Clone, Debug, Default)]
pub(super) struct Masks {
    values: Vec<String>,
    forms: BTreeSet<String>,
}

impl Masks {
    /// Hides a value and each of its lines. There is no minimum length.
    pub(super) fn add(&mut self, value: &str) {
        for part in std::iter::once(value).chain(value.split(['\r', '\n'])) {
            if !part.is_empty() && !self.values.iter().any(|known| known == part) {
                self.values.push(part.to_owned());
                self.forms.extend(forms(part));
            }
        }
    }

    /// What was registered, without the derived forms.
    pub(super) fn values(&self) -> &[String] {
        &self.values
    }

    /// The text with `***` for every secret. Ranges that touch become one.
    pub(super) fn hide(&self, text: &str) -> String {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for form in &self.forms {
            let mut from = 0;
            while let Some(at) = text[from..].find(form.as_str()) {
                ranges.push((from + at, from + at + form.len()));
                let step = text[from + at..].chars().next().map_or(1, char::len_utf8);
                from += at + step;
            }
        }
        ranges.sort_unstable();
        let mut hidden = String::new();
        let mut shown = 0;
        let mut ranges = ranges.into_iter().peekable();
        while let Some((start, mut end)) = ranges.next() {
            while let Some(next) = ranges.next_if(|next| next.0 <= end) {
                end = end.max(next.1);
            }
            hidden.push_str(&text[shown..start]);
            hidden.push_str("***");
            shown = end;
        }
        hidden.push_str(&text[shown..]);
        hidden
    }
}

fn forms(value: &str) -> Vec<String> {
    let json = serde_json::to_string(value).unwrap();
    let bytes = value.as_bytes();
    let shifted = |by: usize| bytes.get(by..).filter(|rest| !rest.is_empty());
    let mut forms = vec![
        value.to_owned(),
        base64(bytes),
        base64(shifted(1).unwrap_or(bytes)),
        base64(shifted(2).unwrap_or(bytes)),
        value.replace('"', "\\\""),
        value.replace('\'', "''"),
        json[1..json.len() - 1].to_owned(),
        uri(value),
        xml(value),
    ];
    let quoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    forms.extend(quoted.filter(|_| value.len() > 8).map(str::to_owned));
    forms.extend(ampersand_parts(value).into_iter().map(str::to_owned));
    forms
}

/// PowerShell prints a command line with `&` in two pieces.
fn ampersand_parts(value: &str) -> Vec<&str> {
    let cut = match (value.find("&+"), value.rfind('&')) {
        (Some(at), _) => at + 2,
        (None, Some(at)) => at + 1,
        (None, None) => return Vec::new(),
    };
    let (before, after) = value.split_at(cut);
    let long = |part: &&str| part.chars().count() >= 6;
    [before, after].into_iter().filter(long).collect()
}

pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            if letter <= chunk.len() {
                let index = bits >> (18 - 6 * letter) & 63;
                text.push(char::from(LETTERS[usize::try_from(index).unwrap()]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

fn uri(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").unwrap();
        }
        text
    })
}

fn xml(value: &str) -> String {
    value
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&apos;")
}

#[test]
fn base64_is_as_everywhere() {
    let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")];
    for (text, expected) in cases {
        assert_eq!(base64(text.as_bytes()), expected);
    }
}

#[test]
fn a_secret_is_hidden_in_each_of_its_forms() {
    let mut masks = Masks::default();
    masks.add("p<a \"ss/'wörd");
    let cases = [
        ("it is p<a \"ss/'wörd!", "it is ***!"),
        ("p&lt;a &quot;ss/&apos;wörd", "***"),
        ("p%3Ca%20%22ss%2F%27w%C3%B6rd", "***"),
        (r#"{"a": "p<a \"ss/'wörd"}"#, r#"{"a": "***"}"#),
        ("p<a \"ss/''wörd", "***"),
        ("harmless", "harmless"),
    ];
    for (text, expected) in cases {
        assert_eq!(masks.hide(text), expected);
    }
}

#[test]
fn base64_hides_a_secret_at_each_of_the_three_offsets() {
    let mut masks = Masks::default();
    masks.add("secret-token");
    for before in ["", "x", "xy", "xyz", "x-access-token:"] {
        let text = base64(format!("{before}secret-token").as_bytes());
        assert!(masks.hide(&text).contains("***"), "{before}: {text}");
    }
}

#[test]
fn lines_quotes_and_ampersands_are_hidden_by_themselves() {
    let mut masks = Masks::default();
    masks.add("first line\r\nsecond line");
    masks.add("\"quoted-one\"");
    masks.add("left-part&right-part");
    assert_eq!(masks.hide("a second line"), "a ***");
    assert_eq!(masks.hide("quoted-one"), "***");
    assert_eq!(masks.hide("only right-part here"), "only *** here");
}

#[test]
fn a_short_secret_wrecks_the_text_and_neighbours_melt_together() {
    let mut masks = Masks::default();
    masks.add("e");
    assert_eq!(masks.hide("see the tree"), "s*** th*** tr***");
    masks.add("");
    assert_eq!(masks.values(), ["e"]);
}
