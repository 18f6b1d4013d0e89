//! The values that must appear nowhere: what to tell the runner to mask, and what rooda itself takes out of all that it
//! writes.
//!
//! Text is redacted first, and escaped, cut or made inert after that: half of a secret, or a secret with escapes in it,
//! is not recognised any more.

mod environment;
mod finder;
mod forms;
mod stream;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

pub use self::environment::secret_values;
use self::finder::Finder;
use self::forms::forms;
pub use self::stream::RedactedStream;

/// What stands in place of a secret.
const MASK: &str = "***";

/// Values with fewer characters are no secrets: to hide `e` would hide every `e`.
const SHORTEST: usize = 4;

/// Secret values. A value without the white space around it is as secret as with it, so that is left off.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Whole values, each followed by its lines if it has many.
    values: Vec<String>,
    search: Search,
}

#[derive(Clone, Default)]
enum Search {
    #[default]
    Nothing,
    Forms(Arc<Finder>),
    /// The secrets are too large to be searched for, far larger than an environment can be: nothing is shown at all.
    Everything,
}

impl Secrets {
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut secrets = Secrets::default();
        for value in values {
            secrets.keep(&value);
        }
        secrets.prepare();
        secrets
    }

    pub fn add(&mut self, value: String) {
        self.keep(&value);
        self.prepare();
    }

    fn keep(&mut self, value: &str) {
        let whole = value.trim();
        for part in std::iter::once(whole).chain(lines(whole)) {
            if is_long_enough(part) && !self.values.iter().any(|value| value == part) {
                self.values.push(part.to_owned());
            }
        }
    }

    fn prepare(&mut self) {
        if self.values.is_empty() {
            return;
        }
        let forms: Vec<String> = self.values.iter().flat_map(|value| forms(value)).collect();
        self.search = match Finder::new(&forms) {
            Some(finder) => Search::Forms(Arc::new(finder)),
            None => Search::Everything,
        };
    }

    /// What the runner is to mask. It masks each line of a value too, however short: a value with a line such as `}` is
    /// given to it by its longer lines alone.
    pub fn masks(&self) -> impl Iterator<Item = &str> {
        let is_safe = |value: &&str| {
            let mut lines = value.split(['\n', '\r']);
            lines.all(|line| line.is_empty() || is_long_enough(line.trim()))
        };
        self.values.iter().map(String::as_str).filter(is_safe)
    }

    /// The text without the secrets. Where secrets overlap, all of them are covered by one mask.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let finder = match &self.search {
            Search::Nothing => return Cow::Borrowed(text),
            Search::Forms(finder) => finder,
            Search::Everything => return Cow::Borrowed(MASK),
        };
        let mut hidden = Vec::new();
        finder.scan(finder.start, text.as_bytes(), 0, &mut hidden);
        if hidden.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut shown = String::with_capacity(text.len());
        let mut at = 0;
        for range in hidden {
            shown.push_str(&text[at..range.start]);
            shown.push_str(MASK);
            at = range.end;
        }
        shown.push_str(&text[at..]);
        Cow::Owned(shown)
    }

    /// For what comes in pieces. One stream for all that is printed to the same place, in the order of printing.
    pub fn stream(&self) -> RedactedStream {
        RedactedStream::new(self.search.clone())
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

fn lines(value: &str) -> impl Iterator<Item = &str> {
    value.split(['\n', '\r']).map(str::trim)
}

fn is_long_enough(value: &str) -> bool {
    value.chars().nth(SHORTEST - 1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secrets(values: &[&str]) -> Secrets {
        Secrets::new(values.iter().map(|value| (*value).to_owned()))
    }

    #[test]
    fn a_secret_is_hidden_however_it_is_written() {
        let secrets = secrets(&["  open \"sesame\"/2\n"]);
        for (text, shown) in [
            ("it is open \"sesame\"/2.", "it is ***."),
            ("{\"key\": \"open \\\"sesame\\\"/2\"}", "{\"key\": \"***\"}"),
            ("?key=open%20%22sesame%22%2F2&x", "?key=***&x"),
            // base64 of `open "sesame"/2`, `x:open "sesame"/2` and `xy:open "sesame"/2!`
            ("b3BlbiAic2VzYW1lIi8y", "***"),
            ("eDpvcGVuICJzZXNhbWUiLzI=", "eDp***I="),
            ("eHk6b3BlbiAic2VzYW1lIi8yIQ==", "eHk6***IQ=="),
            ("open sesame", "open sesame"),
        ] {
            assert_eq!(secrets.redact(text), shown, "{text}");
        }
    }

    #[test]
    fn overlapping_secrets_are_covered_whole() {
        let secrets = secrets(&["abcd", "bcde", "abcdef", "fghi"]);
        for (text, shown) in [
            ("abcd", "***"),
            ("xabcdex", "x***x"),
            ("abcdefghi", "***"),
            ("abcdeghi", "***ghi"),
            ("abcdabcd", "******"),
        ] {
            assert_eq!(secrets.redact(text), shown);
        }
    }

    #[test]
    fn what_is_short_is_no_secret() {
        let secrets = secrets(&["", "  \n", "abc", " äöü ", "\nx\n"]);
        assert_eq!(secrets.masks().count(), 0);
        assert_eq!(secrets.redact("abc äöü"), "abc äöü");
        assert!(matches!(secrets.search, Search::Nothing));
    }

    #[test]
    fn each_line_is_a_secret_too_but_for_short_ones() {
        let mut secrets = secrets(&[
            "first line\r\nsecond line\n",
            "{\n  \"key\": 1\n}",
            "long\n  \nlines",
        ]);
        secrets.add("token".to_owned());
        secrets.add("token ".to_owned());
        let masks: Vec<&str> = secrets.masks().collect();
        assert_eq!(
            masks,
            [
                "first line\r\nsecond line",
                "first line",
                "second line",
                "\"key\": 1",
                "long",
                "lines",
                "token"
            ]
        );
        assert_eq!(secrets.redact("{ \"key\": 1 } token"), "{ *** } ***");
        assert_eq!(secrets.redact("{\n  \"key\": 1\n}"), "***");
    }

    #[test]
    fn nothing_tells_the_values() {
        let secrets = secrets(&["sesame"]);
        let mut stream = secrets.stream();
        stream.feed(b"sesam");
        let told = format!("{secrets:?} {stream:?}");
        assert_eq!(told, "Secrets(1) RedactedStream { .. }");
    }

    #[test]
    fn without_secrets_nothing_is_copied() {
        let text = "some text";
        let secrets = Secrets::default();
        assert!(matches!(secrets.redact(text), Cow::Borrowed(_)));
        assert!(matches!(
            secrets.stream().feed(text.as_bytes()),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn a_line_end_is_never_swallowed_at_the_end() {
        let secrets = secrets(&["sesame\n"]);
        assert_eq!(secrets.redact("sesame\n"), "***\n");
    }

    /// The same, done slowly.
    fn redacted(values: &[String], text: &str) -> String {
        let mut begins = vec![false; text.len() + 1];
        let mut is_within = begins.clone();
        let secrets = Secrets::new(values.to_vec());
        for form in secrets.values.iter().flat_map(|value| forms(value)) {
            for at in 0..text.len() {
                if text.as_bytes()[at..].starts_with(form.as_bytes()) {
                    begins[at] = true;
                    is_within[at + 1..at + form.len()].fill(true);
                }
            }
        }
        let mut shown = String::new();
        for (at, c) in text.char_indices() {
            match (begins[at], is_within[at]) {
                (_, true) => {}
                (true, false) => shown.push_str(MASK),
                (false, false) => shown.push(c),
            }
        }
        shown
    }

    fn in_pieces(secrets: &Secrets, text: &[u8], sizes: &[usize]) -> Vec<u8> {
        let mut stream = secrets.stream();
        let mut shown = Vec::new();
        let mut rest = text;
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, next) = rest.split_at(rest.len().min(*size));
            shown.extend_from_slice(&stream.feed(chunk));
            rest = next;
        }
        shown.extend(stream.finish());
        shown
    }

    /// Few letters, so that secrets are met, overlap and repeat themselves.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ab]{4,9}",
            "[ab]{4,6}\n[ab]{4,6}",
            "[ab+/\" \n]{4,9}",
            "[^*]{4,20}"
        ]
    }

    /// Text with secrets in it, whole, in part and in their forms.
    fn text(values: Vec<String>) -> impl Strategy<Value = String> {
        let mut parts: Vec<String> = values
            .iter()
            .flat_map(|value| forms(value.trim()))
            .collect();
        parts.extend(values);
        let part = (prop::sample::select(parts), any::<prop::sample::Index>()).prop_map(
            |(part, index)| {
                let cut = index.index(part.len() * 2 + 1).min(part.len());
                part.get(..cut).unwrap_or(&part).to_owned()
            },
        );
        let part = prop_oneof![3 => part, 1 => "[ab\n]{0,5}", 1 => any::<String>()];
        prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    pub(super) fn case() -> impl Strategy<Value = (Vec<String>, String)> {
        prop::collection::vec(value(), 1..4)
            .prop_flat_map(|values| (Just(values.clone()), text(values)))
    }

    proptest! {
        #[test]
        fn no_secret_is_ever_shown_and_nothing_else_is_touched(
            (values, text) in case(),
            sizes in prop::collection::vec(1_usize..12, 1..5),
        ) {
            let secrets = Secrets::new(values.clone());
            let shown = secrets.redact(&text);
            for value in &secrets.values {
                for form in forms(value) {
                    prop_assert!(!shown.contains(&form), "{form:?} in {shown:?}");
                }
            }
            prop_assert_eq!(&shown, &redacted(&values, &text));
            let pieces = in_pieces(&secrets, text.as_bytes(), &sizes);
            prop_assert_eq!(String::from_utf8_lossy(&pieces), shown);
        }

        #[test]
        fn bytes_that_are_no_text_come_out_as_they_went_in(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            sizes in prop::collection::vec(1_usize..50, 1..5),
        ) {
            let secrets = secrets(&["a rather long secret", "and another one"]);
            prop_assert_eq!(in_pieces(&secrets, &bytes, &sizes), bytes);
        }
    }
}
