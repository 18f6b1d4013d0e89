//! The ways in which a value may be written so that everybody can read it again.

/// The value itself, and in base64, in a URI and in JSON. None of them begins or ends with a line end, as long as the
/// value does not.
pub(super) fn forms(value: &str) -> Vec<String> {
    let mut forms = vec![
        value.to_owned(),
        json_escaped(value),
        uri_escaped(value, b"-_.~"),
        // JavaScript leaves more as it is.
        uri_escaped(value, b"-_.~!*'()"),
    ];
    for before in 0..3 {
        let text = base64_inside(value.as_bytes(), before);
        forms.push(text.replace('+', "-").replace('/', "_"));
        forms.push(text);
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn json_escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn uri_escaped(value: &str, kept: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            text.push(byte.into());
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What the bytes look like in the middle of a longer text in base64, with `before` bytes of it in front of them in their
/// group of three. Characters that depend on a neighbour too are left out: `x-access-token:…` is found in any case.
fn base64_inside(bytes: &[u8], before: usize) -> String {
    let mut group = vec![0; before];
    group.extend_from_slice(bytes);
    let first = (before * 8).div_ceil(6);
    let end = group.len() * 8 / 6;
    (first..end)
        .map(|index| {
            let (byte, bit) = (index * 6 / 8, index * 6 % 8);
            let next = group.get(byte + 1).copied().unwrap_or_default();
            let pair = u16::from_be_bytes([group[byte], next]);
            char::from(BASE64[usize::from(pair >> (10 - bit) & 63)])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_any_base64_around_it() {
        // What `printf %s … | base64` says.
        for (around, text) in [
            ("", "c2VzYW1lLTI="),
            ("a", "YXNlc2FtZS0y"),
            ("ab", "YWJzZXNhbWUtMg=="),
            ("x-access-token:", "eC1hY2Nlc3MtdG9rZW46c2VzYW1lLTI="),
        ] {
            let inside = base64_inside(b"sesame-2", around.len() % 3);
            assert!(text.contains(&inside), "{inside} in {text}");
        }
        let alignments = [0, 1, 2].map(|before| base64_inside(b"sesame-2", before));
        assert_eq!(alignments, ["c2VzYW1lLT", "Nlc2FtZS0y", "zZXNhbWUtM"]);
    }

    #[test]
    fn every_form_of_a_value() {
        assert_eq!(
            forms("?>\"ü~!\n~"),
            [
                "%3F%3E%22%C3%BC~!%0A~",
                "%3F%3E%22%C3%BC~%21%0A~",
                "/PiLDvH4hCn",
                "8+IsO8fiEKf",
                "8-IsO8fiEKf",
                "?>\"ü~!\n~",
                "?>\\\"ü~!\\n~",
                "Pz4iw7x+IQp+",
                "Pz4iw7x-IQp-",
                "_PiLDvH4hCn",
            ]
            .map(str::to_owned)
        );
    }
}
