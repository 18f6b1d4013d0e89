//! Which parts of a git configuration hold a token, the text without them, and the way back.

use std::ops::Range;

use super::git_config::{Item, Variable, quoted, read};

/// A configuration without its tokens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stripped {
    pub(super) text: Vec<u8>,
    pub(super) removed: Vec<Removed>,
    /// What must be masked.
    pub(super) secrets: Vec<String>,
}

/// One variable that was taken out, as it stood there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Removed {
    header: Vec<u8>,
    text: Vec<u8>,
    /// The variable that was left in its place, if only a part of it was secret.
    left: Option<(Vec<u8>, Vec<u8>)>,
}

/// Takes the tokens out, and every variable with something in it that is known to be a secret. `None`: it is no
/// configuration, and git could not read it either.
pub(super) fn strip(original: &[u8], is_known: &dyn Fn(&[u8]) -> bool) -> Option<Stripped> {
    let mut edits: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
    let mut removed = Vec::new();
    let mut secrets = Vec::new();
    let mut header: &[u8] = b"";
    let mut whole_section = false;
    for item in read(original)? {
        let variable = match item {
            Item::Variable(variable) => variable,
            Item::Header(place) => {
                header = &original[place.range.clone()];
                // `[url "https://x-access-token:TOKEN@github.com/"]`
                let url = place.name.splitn(2, |byte| *byte == b'.').nth(1);
                whole_section = url.is_some_and(|url| without_user(url, &mut secrets).is_some());
                if whole_section {
                    edits.push((place.range, Vec::new()));
                }
                continue;
            }
        };
        // Without its password a proxy lets nobody through, and the agent needs it too.
        let clean = match variable.last() {
            b"proxy" => None,
            _ => without_user(variable.text(), &mut secrets),
        };
        let goes = whole_section || is_header(&variable, &mut secrets) || is_hidden(&variable);
        let left = if goes || is_known(clean.as_deref().unwrap_or(variable.text())) {
            edits.push((variable.range.clone(), Vec::new()));
            None
        } else if let Some(clean) = clean {
            let text = [variable.last(), b" = ", &quoted(&clean)].concat();
            edits.push((variable.range.clone(), text));
            Some((variable.name.clone(), clean))
        } else {
            continue;
        };
        removed.push(Removed {
            header: header.to_vec(),
            text: original[variable.range].to_vec(),
            left,
        });
    }
    Some(Stripped {
        text: edited(original, &edits),
        removed,
        secrets,
    })
}

/// The secrets of a configuration that is not going to be changed.
pub(super) fn secrets(text: &[u8]) -> Vec<String> {
    strip(text, &|_| false).map_or_else(Vec::new, |stripped| stripped.secrets)
}

/// Puts the tokens into a configuration that was changed meanwhile. It is refused, with the name of a variable, if
/// anything but the harmless was changed: whoever uses the token would do so as the changes say.
pub(super) fn put_into(
    now: &[u8],
    original: &[u8],
    stripped: &[u8],
    removed: &[Removed],
) -> Result<Vec<u8>, String> {
    compare(stripped, now)?;
    let mut edits = Vec::new();
    let mut added = Vec::new();
    let items = read(now).unwrap_or_default();
    for removed in removed {
        let in_place = items.iter().find_map(|item| match (item, &removed.left) {
            (Item::Variable(variable), Some((name, value)))
                if variable.name == *name && variable.value.as_ref() == Some(value) =>
            {
                Some(variable.range.clone())
            }
            _ => None,
        });
        match in_place {
            Some(range) => edits.push((range, removed.text.clone())),
            None => added.push([&removed.header[..], b"\n\t", &removed.text, b"\n"].concat()),
        }
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut text = edited(now, &edits);
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend(added.concat());
    // What is put back must be what was there, whatever the text around it does to it.
    let sorted = |text: &[u8]| {
        let mut variables = risky(text)?;
        variables.sort();
        Some(variables)
    };
    if sorted(&text) != sorted(original) {
        return Err("it cannot be put together again".to_owned());
    }
    Ok(text)
}

/// Whether only the harmless differs; else the name of a variable that does.
pub(super) fn compare(then: &[u8], now: &[u8]) -> Result<(), String> {
    let (Some(then), Some(now)) = (risky(then), risky(now)) else {
        return Err("it cannot be read any more".to_owned());
    };
    let mut pairs = then.iter().zip(&now);
    let different = pairs.find(|(then, now)| then != now).map(|(_, now)| now);
    let longer = if then.len() > now.len() { &then } else { &now };
    match different.or_else(|| longer.get(then.len().min(now.len()))) {
        None => Ok(()),
        Some((name, _)) => Err(String::from_utf8_lossy(name).into_owned()),
    }
}

type NameAndValue = (Vec<u8>, Option<Vec<u8>>);

/// All that a change of could lead a later step astray: nearly everything.
fn risky(text: &[u8]) -> Option<Vec<NameAndValue>> {
    let risky = read(text)?.into_iter().filter_map(|item| match item {
        Item::Variable(variable) if !is_harmless(&variable) => {
            Some((variable.name, variable.value))
        }
        _ => None,
    });
    Some(risky.collect())
}

/// What agents, and git at their bidding, change in passing, and what names neither a program nor a place.
fn is_harmless(variable: &Variable) -> bool {
    let is_plain = |text: &[u8]| {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        text.iter().all(plain)
    };
    match (variable.section(), variable.subsection(), variable.last()) {
        (b"user", None, b"name" | b"email")
        | (b"branch", Some(_), b"merge" | b"rebase" | b"description")
        | (b"submodule", Some(_), b"active")
        | (b"gc", None, b"auto" | b"autodetach")
        | (b"maintenance", None, b"auto")
        | (b"pull", None, b"rebase" | b"ff")
        | (b"push", None, b"default" | b"autosetupremote")
        | (b"init", None, b"defaultbranch")
        | (b"lfs", None, b"repositoryformatversion")
        | (b"advice" | b"color", None, _) => true,
        // The name of a remote, not an address.
        (b"branch", Some(_), b"remote" | b"pushremote") => is_plain(variable.text()),
        _ => false,
    }
}

/// `http.<url>.extraheader = AUTHORIZATION: basic …`, which checkout writes.
fn is_header(variable: &Variable, secrets: &mut Vec<String>) -> bool {
    let value = String::from_utf8_lossy(variable.text());
    if variable.section() != b"http" || variable.last() != b"extraheader" || value.is_empty() {
        return false;
    }
    let credentials = value.split_once(':').map_or(&*value, |(_, value)| value);
    if let Some(word) = credentials.split_whitespace().last() {
        add(secrets, word);
        if let Some(pair) = from_base64(word) {
            let pair = String::from_utf8_lossy(&pair);
            add(secrets, pair.split_once(':').map_or("", |(_, token)| token));
        }
    }
    true
}

/// Leads to a file with a token, which newer versions of checkout write beside the repository, or to another file that
/// nobody in the jail can read: git gives up on one that it may not read.
fn is_hidden(variable: &Variable) -> bool {
    let includes = matches!(variable.section(), b"include" | b"includeif");
    let path = variable.text();
    includes
        && variable.last() == b"path"
        && (path
            .rsplit(|byte| *byte == b'/')
            .next()
            .is_some_and(is_credentials_file)
            || path.starts_with(b"/github/") && !path.starts_with(b"/github/workspace/"))
}

/// `git-credentials-<uuid>.config`
pub(super) fn is_credentials_file(name: &[u8]) -> bool {
    name.strip_prefix(b"git-credentials-")
        .and_then(|name| name.strip_suffix(b".config"))
        .is_some_and(|id| {
            id.iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        })
}

/// An address without the name and password before the host, if it has any.
fn without_user(url: &[u8], secrets: &mut Vec<String>) -> Option<Vec<u8>> {
    let lower = url.to_ascii_lowercase();
    let start = if lower.starts_with(b"https://") {
        8
    } else if lower.starts_with(b"http://") {
        7
    } else {
        return None;
    };
    let rest = &url[start..];
    let end = rest
        .iter()
        .position(|byte| b"/?#".contains(byte))
        .unwrap_or(rest.len());
    let at = rest[..end].iter().rposition(|byte| *byte == b'@')?;
    let user = String::from_utf8_lossy(&rest[..at]);
    let word = match user.split_once(':') {
        // Some put a token in the place of the name. Most names are no secret, and are short.
        Some((name, "" | "x-oauth-basic")) => name,
        Some((_, password)) => password,
        None if user.len() >= 20 => &user,
        None => "",
    };
    add(secrets, word);
    add(secrets, &without_percent(word));
    Some([&url[..start], &rest[at + 1..]].concat())
}

/// Only what is long enough to be a secret: a short word would be masked wherever it occurs.
fn add(secrets: &mut Vec<String>, word: &str) {
    if word.len() >= 8 && !secrets.iter().any(|secret| secret == word) {
        secrets.push(word.to_owned());
    }
}

fn without_percent(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail
            .get(..2)
            .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut bits = 0_u32;
    let mut count = 0;
    for letter in text.trim_end_matches('=').bytes() {
        let six = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

/// Replaces parts of a text. A line of which nothing is left goes as a whole.
fn edited(text: &[u8], edits: &[(Range<usize>, Vec<u8>)]) -> Vec<u8> {
    let mut result = Vec::new();
    let mut at = 0;
    for (range, new) in edits {
        result.extend_from_slice(&text[at..range.start]);
        result.extend_from_slice(new);
        at = range.end;
        if new.is_empty() {
            let kept = result.iter().rposition(|byte| !b" \t".contains(byte));
            let line_is_empty = kept.is_none_or(|kept| result[kept] == b'\n');
            let rest = &text[at..];
            let end = match rest {
                [b'\r', b'\n', ..] => Some(2),
                [b'\n', ..] => Some(1),
                [] => Some(0),
                _ => None,
            };
            if let (true, Some(end)) = (line_is_empty, end) {
                result.truncate(kept.map_or(0, |kept| kept + 1));
                at += end;
            }
        }
    }
    result.extend_from_slice(&text[at..]);
    result
}

#[cfg(test)]
mod tests;
