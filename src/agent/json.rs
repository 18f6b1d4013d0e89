//! JSON that others wrote, read leniently: what is missing or of another type is simply nothing.
//!
//! An agent decides what it prints. So the texts of a line are borrowed from it where they can be, and only so many
//! values are kept: a line of ten megabytes full of zeros costs no more memory than its bytes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// How many values an event can have. One with more is none.
const MOST_VALUES: u32 = 1 << 16;

/// A value of a line.
#[derive(Debug, PartialEq)]
pub(super) enum Json<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Map(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// What stands below these keys. Of two equal keys the last counts, as everywhere.
    pub(super) fn at(&self, keys: &[&str]) -> &Json<'a> {
        keys.iter().fold(self, |json, key| {
            let mut pairs = json.pairs().iter().rev();
            pairs
                .find(|(name, _)| name == key)
                .map_or(&Json::Null, |(_, value)| value)
        })
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text at a key. Without one, the empty text: no event tells anything by it.
    pub(super) fn word(&self, key: &str) -> &str {
        self.at(&[key]).text().unwrap_or_default()
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Json::Number(number) if number.is_finite() && *number >= 0.0 => Some(*number),
            _ => None,
        }
    }

    /// How many there are of something.
    pub(super) fn count(&self) -> Option<u64> {
        self.number().map(|number| number as u64)
    }

    /// The count at a key, or none of them.
    pub(super) fn many(&self, key: &str) -> u64 {
        self.at(&[key]).count().unwrap_or(0)
    }

    pub(super) fn is_true(&self) -> bool {
        *self == Json::Bool(true)
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self, Json::Map(_))
    }

    pub(super) fn list(&self) -> &[Json<'a>] {
        match self {
            Json::List(list) => list,
            _ => &[],
        }
    }

    pub(super) fn pairs(&self) -> &[(Cow<'a, str>, Json<'a>)] {
        match self {
            Json::Map(pairs) => pairs,
            _ => &[],
        }
    }
}

/// Gives the value on a line, or, if that is a list, each value in it as soon as it is read. Answers whether the line
/// was JSON to its end.
pub(super) fn each(line: &[u8], take: &mut dyn FnMut(&Json)) -> bool {
    let text = String::from_utf8_lossy(line);
    let mut taken = 0;
    let is_whole = read(&text, &mut |json| {
        taken += 1;
        take(json);
    });
    if is_whole {
        return true;
    }
    let Some(text) = mended(&text) else {
        return false;
    };
    // What was taken before the fault must not be taken again.
    let mut again = 0;
    read(&text, &mut |json| {
        again += 1;
        if again > taken {
            take(json);
        }
    })
}

fn read(text: &str, take: &mut dyn FnMut(&Json)) -> bool {
    let mut reader = serde_json::Deserializer::from_str(text);
    if text.starts_with('[') {
        return reader.deserialize_seq(Elements(take)).is_ok() && reader.end().is_ok();
    }
    let mut left = MOST_VALUES;
    match Values(&mut left).deserialize(&mut reader) {
        // Of an event that is not whole nobody knows what it means: who speaks may be told at its end.
        Ok(json) if left > 0 && reader.end().is_ok() => {
            take(&json);
            true
        }
        Ok(_) | Err(_) => false,
    }
}

/// The value that a text holds, as some CLIs put JSON into their messages.
pub(super) fn within(text: &str) -> Option<Json<'_>> {
    let mut reader = serde_json::Deserializer::from_str(text);
    Values(&mut { MOST_VALUES }).deserialize(&mut reader).ok()
}

/// JavaScript writes half of a character, as it comes from a text that was cut, as an escape that Rust has no character
/// for. The text with a replacement for it, if there is one.
fn mended(text: &str) -> Option<String> {
    let escape = |text: &str| -> Option<u32> {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut whole = String::new();
    let mut rest = text;
    let mut is_mended = false;
    while let Some(at) = rest.find('\\') {
        let (before, after) = rest.split_at(at);
        whole.push_str(before);
        let length = match escape(after) {
            Some(0xd800..=0xdbff)
                if matches!(after.get(6..).and_then(&escape), Some(0xdc00..=0xdfff)) =>
            {
                12
            }
            Some(0xd800..=0xdfff) => {
                whole.push_str("\\ufffd");
                rest = &after[6..];
                is_mended = true;
                continue;
            }
            Some(_) => 6,
            // The escaped character is none that begins an escape.
            None => 1 + after[1..].chars().next().map_or(0, char::len_utf8),
        };
        whole.push_str(&after[..length]);
        rest = &after[length..];
    }
    whole.push_str(rest);
    is_mended.then_some(whole)
}

/// Reads a list without keeping it.
struct Elements<'t>(&'t mut dyn FnMut(&Json));

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut left = MOST_VALUES;
        while let Some(json) = list.next_element_seed(Values(&mut left))? {
            if left > 0 {
                (self.0)(&json);
            }
            left = MOST_VALUES;
        }
        Ok(())
    }
}

/// Reads a value and those in it, as many as are left to be kept.
struct Values<'n>(&'n mut u32);

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Json<'de>, D::Error> {
        if *self.0 == 0 {
            IgnoredAny::deserialize(reader)?;
            return Ok(Json::Null);
        }
        *self.0 -= 1;
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Json::Number(value))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Json<'de>, A::Error> {
        let mut list = Vec::new();
        while *self.0 > 0 {
            match values.next_element_seed(Values(self.0))? {
                Some(value) => list.push(value),
                None => return Ok(Json::List(list)),
            }
        }
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<Json<'de>, A::Error> {
        let mut pairs = Vec::new();
        while *self.0 > 0 {
            match values.next_key_seed(Key)? {
                Some(key) => pairs.push((key, values.next_value_seed(Values(self.0))?)),
                None => return Ok(Json::Map(pairs)),
            }
        }
        while values.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Json::Map(pairs))
    }
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Cow<'de, str>, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many values a line gives, and the last of them as it is written down for debugging.
    fn seen(line: &str) -> (bool, usize, String) {
        let (mut count, mut last) = (0, String::new());
        let whole = each(line.as_bytes(), &mut |json| {
            count += 1;
            last = format!("{json:?}");
        });
        (whole, count, last)
    }

    #[test]
    fn what_is_missing_or_of_another_type_is_nothing() {
        let line = br#"{"a":{"b":[1,"two",null,true]},"n":-1,"t":"x","t":"y","f":0.5}"#;
        let mut is_read = false;
        each(line, &mut |json| {
            is_read = true;
            let list = json.at(&["a", "b"]).list();
            assert_eq!(list.len(), 4);
            assert_eq!((list[0].count(), list[1].text()), (Some(1), Some("two")));
            assert!(list[3].is_true() && !list[2].is_true());
            assert_eq!(json.at(&["a", "b", "c", "d"]), &Json::Null);
            assert_eq!(json.at(&["n"]).count(), None);
            assert_eq!(json.at(&["f"]).number(), Some(0.5));
            assert_eq!(
                (json.word("t"), json.word("a"), json.many("t")),
                ("y", "", 0)
            );
        });
        assert!(is_read);
    }

    #[test]
    fn only_a_whole_line_is_a_value() {
        for line in ["{\"a\":1", "{\"a\":1} x", "{\"a\":1}{}", "{a:1}", "", "nul"] {
            assert_eq!(seen(line), (false, 0, String::new()), "{line}");
        }
        assert!(seen("{\"a\":1}\r\n").0);
    }

    #[test]
    fn a_list_gives_each_of_its_values_even_if_its_end_is_missing() {
        assert_eq!(seen("[1,{},2]"), (true, 3, "Number(2.0)".to_owned()));
        assert_eq!(seen("[1,{},2"), (false, 3, "Number(2.0)".to_owned()));
        let line = r#"[1,{},"\ud83d",{}]"#;
        assert_eq!(seen(line), (true, 4, "Map([])".to_owned()));
    }

    #[test]
    fn half_a_character_does_not_spoil_the_line() {
        for (line, text) in [
            (r#"{"t":"a\ud83d"}"#, "a\u{fffd}"),
            (r#"{"t":"\ude00b"}"#, "\u{fffd}b"),
            (r#"{"t":"\ud83d\ud83d\ude00"}"#, "\u{fffd}😀"),
            (r#"{"t":"\\ud83d\ud83d\n"}"#, "\\ud83d\u{fffd}\n"),
        ] {
            assert_eq!(
                seen(line),
                (true, 1, format!("Map([(\"t\", Text({text:?}))])")),
                "{line}"
            );
        }
        let mut is_read = false;
        assert!(each(b"{\"t\":\"a\xff\"}", &mut |json| {
            is_read = json.word("t") == "a\u{fffd}";
        }));
        assert!(is_read);
    }

    #[test]
    fn what_has_too_many_values_is_no_event() {
        let zeros = "0,".repeat(MOST_VALUES as usize);
        let keys = "\"k\":0,".repeat(MOST_VALUES as usize);
        for line in [
            format!("{{\"a\":[{zeros}0],\"b\":1}}"),
            format!("{{{keys}\"b\":1}}"),
        ] {
            assert_eq!(seen(&line), (false, 0, String::new()));
        }
        // One of a list is left out, the others are not.
        let list = format!("[{{}},[{zeros}0],3]");
        assert_eq!(seen(&list), (true, 2, "Number(3.0)".to_owned()));
    }

    #[test]
    fn deep_nesting_is_no_json() {
        assert!(!seen(&"[".repeat(1 << 20)).0);
        assert!(!seen(&"{\"a\":".repeat(1 << 20)).0);
    }
}
