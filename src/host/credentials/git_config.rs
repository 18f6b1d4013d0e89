//! The text of a git configuration: which variables it sets, and where each of them stands. Reading follows git's own
//! reader character by character, so that both see the same; nothing is ever rewritten but what was asked for.

use std::ops::Range;

/// What stands in a configuration file, in its order. Comments and blank lines are what is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// `[section "subsection"]`
    Header(Place),
    Variable(Variable),
}

/// A header, and how the names of the variables below it begin: `section.subsection.`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) range: Range<usize>,
    pub(super) name: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    /// From the name up to the end of its last line.
    pub(super) range: Range<usize>,
    /// The whole name: section and name in lower case, the subsection as it is written.
    pub(super) name: Vec<u8>,
    /// `None` where there is not even an equals sign, which git takes for `true`.
    pub(super) value: Option<Vec<u8>>,
}

impl Variable {
    pub(super) fn section(&self) -> &[u8] {
        let end = self.name.iter().position(|byte| *byte == b'.');
        &self.name[..end.unwrap_or(0)]
    }

    pub(super) fn subsection(&self) -> Option<&[u8]> {
        let first = self.name.iter().position(|byte| *byte == b'.')?;
        let last = self.name.iter().rposition(|byte| *byte == b'.')?;
        (first < last).then(|| &self.name[first + 1..last])
    }

    /// The last part of the name.
    pub(super) fn last(&self) -> &[u8] {
        let start = self.name.iter().rposition(|byte| *byte == b'.');
        &self.name[start.map_or(0, |dot| dot + 1)..]
    }

    pub(super) fn text(&self) -> &[u8] {
        self.value.as_deref().unwrap_or_default()
    }
}

/// Reads a configuration. `None`: git would not understand it either.
pub(super) fn read(text: &[u8]) -> Option<Vec<Item>> {
    let mut reader = Reader { text, at: 0 };
    let mut items = Vec::new();
    let mut prefix = Vec::new();
    if text.starts_with(b"\xef\xbb\xbf") {
        reader.at = 3;
    }
    while reader.at < text.len() {
        let start = reader.at;
        match reader.next() {
            b'#' | b';' => reader.skip_line(),
            byte if is_space(byte) => {}
            b'[' => {
                prefix = reader.header()?;
                items.push(Item::Header(Place {
                    range: start..reader.at,
                    name: prefix.clone(),
                }));
            }
            byte if byte.is_ascii_alphabetic() => {
                let mut name = prefix.clone();
                name.push(byte.to_ascii_lowercase());
                let value = reader.variable(&mut name)?;
                items.push(Item::Variable(Variable {
                    range: start..reader.end_of_line(start),
                    name,
                    value,
                }));
            }
            _ => return None,
        }
    }
    Some(items)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The next character. The end of the text is the end of a line, and so is what Windows writes.
    fn next(&mut self) -> u8 {
        let rest = &self.text[self.at.min(self.text.len())..];
        match rest {
            [b'\r', b'\n', ..] => {
                self.at += 2;
                b'\n'
            }
            [byte, ..] => {
                self.at += 1;
                *byte
            }
            [] => {
                // One further, so that a line without an end looks like any other.
                self.at = self.text.len() + 1;
                b'\n'
            }
        }
    }

    fn skip_line(&mut self) {
        while self.next() != b'\n' {}
    }

    /// Where the line that was read last ends, without its end-of-line characters.
    fn end_of_line(&self, start: usize) -> usize {
        let end = self.at.min(self.text.len());
        let line = &self.text[start..end];
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = match self.at > self.text.len() {
            true => line,
            false => line.strip_suffix(b"\r").unwrap_or(line),
        };
        start + line.len()
    }

    fn header(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        loop {
            match self.next() {
                b']' if name.is_empty() => return None,
                b']' => {
                    name.push(b'.');
                    return Some(name);
                }
                byte if is_space(byte) => return self.subsection(name, byte),
                byte if is_of_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
    }

    fn subsection(&mut self, mut name: Vec<u8>, mut byte: u8) -> Option<Vec<u8>> {
        while is_space(byte) {
            if byte == b'\n' {
                return None;
            }
            byte = self.next();
        }
        if byte != b'"' {
            return None;
        }
        name.push(b'.');
        loop {
            match self.next() {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next() {
                    b'\n' => return None,
                    byte => name.push(byte),
                },
                byte => name.push(byte),
            }
        }
        name.push(b'.');
        (self.next() == b']').then_some(name)
    }

    fn variable(&mut self, name: &mut Vec<u8>) -> Option<Option<Vec<u8>>> {
        let mut byte = self.next();
        while is_of_key(byte) {
            name.push(byte.to_ascii_lowercase());
            byte = self.next();
        }
        while byte == b' ' || byte == b'\t' {
            byte = self.next();
        }
        match byte {
            b'\n' => Some(None),
            b'=' => self.value().map(Some),
            _ => None,
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let mut quoted = false;
        // Where white space began that counts only if something comes after it.
        let mut trim = None;
        loop {
            let byte = self.next();
            match byte {
                b'\n' if quoted => return None,
                b'\n' => break,
                _ if is_space(byte) && !quoted => {
                    if !value.is_empty() {
                        trim.get_or_insert(value.len());
                        value.push(byte);
                    }
                    continue;
                }
                b';' | b'#' if !quoted => {
                    self.skip_line();
                    break;
                }
                _ => trim = None,
            }
            match byte {
                b'\\' => match self.next() {
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                b'"' => quoted = !quoted,
                byte => value.push(byte),
            }
        }
        value.truncate(trim.unwrap_or(value.len()));
        Some(value)
    }
}

/// What git takes for white space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_of_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// A value as it can be written.
pub(super) fn quoted(value: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for byte in value {
        match byte {
            b'\n' => text.extend(b"\\n"),
            b'\t' => text.extend(b"\\t"),
            8 => text.extend(b"\\b"),
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            byte => text.push(*byte),
        }
    }
    text.push(b'"');
    text
}

#[cfg(test)]
mod tests;
