//! The command files: what a step writes for the runner to read when it has ended, however it ended.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use super::lines;
use super::record::Record;

/// Their prefixes and the keys of the `github` context that name them, in the order in which they are processed.
pub(super) const FILES: [(&str, &str); 7] = [
    ("add_path_", "path"),
    ("set_env_", "env"),
    ("step_summary_", "step_summary"),
    ("save_state_", "state"),
    ("set_output_", "output"),
    ("artifacts_", "artifacts"),
    ("artifacts_list_", "artifacts_list"),
];

const SUMMARY_LIMIT: usize = 1024 * 1024;

/// Processes all files of a step.
pub(super) fn process(folder: &Path, id: &str, reader: Reader, record: &mut Record) {
    for (prefix, key) in FILES {
        let file = folder.join(format!("{prefix}{id}"));
        let result = match reader.read(&file) {
            Ok(None) => Ok(()),
            Ok(Some(bytes)) => apply(key, &bytes, record),
            Err(error) => Err(format!("{}: {error}", file.display())),
        };
        if let Err(why) = result {
            let what = format!("Unable to process file command '{key}' successfully.");
            record.fail(&what, &why);
        }
    }
}

fn apply(key: &str, bytes: &[u8], record: &mut Record) -> Result<(), String> {
    match key {
        "path" => {
            for line in lines::of(&decode(bytes)) {
                if !line.is_empty() {
                    record.add_path(&line);
                }
            }
        }
        "env" => return each_pair(bytes, |name, value| set_env(record, name, value)),
        "state" => return each_pair(bytes, |name, value| record.save_state(name, value)),
        "output" => return each_pair(bytes, |name, value| record.set_output(name, value)),
        "step_summary" => summarise(bytes, record),
        _ => {}
    }
    Ok(())
}

fn set_env(record: &mut Record, name: &str, value: &str) {
    if name.eq_ignore_ascii_case("NODE_OPTIONS") {
        record.error("Can't store NODE_OPTIONS output parameter using '$GITHUB_ENV' command.");
    } else {
        record.env.insert(name.to_owned(), value.to_owned());
    }
}

/// One byte too many, and nothing of it is shown; that alone does not fail the step.
fn summarise(bytes: &[u8], record: &mut Record) {
    if bytes.len() > SUMMARY_LIMIT {
        let (limit, size) = (SUMMARY_LIMIT / 1024, bytes.len() / 1024);
        record.error(&format!(
            "$GITHUB_STEP_SUMMARY upload aborted, supports content up to a size of {limit}k, got {size}k."
        ));
    } else if !bytes.is_empty() {
        let lines = lines::of(&decode(bytes));
        let lines = lines.iter().map(|line| record.masks.hide(line) + "\n");
        record.summary = Some(lines.collect());
    }
}

/// Calls for every entry. What stands before a bad one has been applied by then, and what follows is lost.
fn each_pair(bytes: &[u8], mut apply: impl FnMut(&str, &str)) -> Result<(), String> {
    let text = decode(bytes);
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let heredoc = line.find("<<");
        match line.find('=') {
            _ if line.is_empty() => {}
            Some(equals) if heredoc.is_none_or(|heredoc| equals < heredoc) => {
                if equals == 0 {
                    return Err(format!("Invalid format '{line}'. Name must not be empty"));
                }
                apply(&line[..equals], &line[equals + 1..]);
            }
            _ => {
                let Some((name, delimiter)) = line.split_once("<<") else {
                    return Err(format!("Invalid format '{line}'"));
                };
                if name.is_empty() || delimiter.is_empty() {
                    return Err(format!(
                        "Invalid format '{line}'. Name must not be empty and delimiter must not be empty"
                    ));
                }
                apply(name, &until(delimiter, &mut lines)?);
            }
        }
    }
    Ok(())
}

/// The lines up to the one that is the delimiter.
fn until<'a>(delimiter: &str, lines: &mut impl Iterator<Item = &'a str>) -> Result<String, String> {
    let mut value = String::new();
    loop {
        let Some(line) = lines.next() else {
            return Err(format!(
                "Invalid value. Matching delimiter not found '{delimiter}'"
            ));
        };
        if line.strip_suffix('\n').unwrap_or(line) == delimiter {
            value.truncate(value.len().saturating_sub(1));
            return Ok(value);
        }
        if !line.ends_with('\n') {
            return Err("Invalid value. EOF marker missing new line.".to_owned());
        }
        value.push_str(line);
    }
}

/// UTF-8, unless a mark at the start says otherwise.
fn decode(bytes: &[u8]) -> String {
    let wide = |rest: &[u8], join: fn([u8; 2]) -> u16| {
        let units = rest.chunks_exact(2).map(|pair| join([pair[0], pair[1]]));
        char::decode_utf16(units)
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Reads with the rights of the runner's user, who is not root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Reader {
    /// `None`: there is no such file.
    fn read(self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let path = path.to_owned();
        let reading = thread::spawn(move || {
            self.become_runner();
            read(&path)
        });
        reading.join().unwrap()
    }

    /// The identity for files belongs to the thread, which ends soon.
    fn become_runner(self) {
        #[expect(unsafe_code, reason = "there is no safe way to say it")]
        // SAFETY: two system calls without pointers, which concern this thread alone.
        unsafe {
            libc::setfsgid(self.gid);
            libc::setfsuid(self.uid);
        }
    }
}

fn read(path: &PathBuf) -> io::Result<Option<Vec<u8>>> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if metadata.is_dir() {
        return Ok(None);
    }
    if metadata.file_type().is_fifo() {
        return Err(io::Error::other("a FIFO: the runner would wait for good"));
    }
    let mut options = File::options();
    let mut file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
fn parsed(text: &[u8]) -> String {
    let mut shown = Vec::new();
    let result = each_pair(text, |name, value| shown.push(format!("{name}={value:?}")));
    shown.extend(result.err().map(|error| format!("! {error}")));
    shown.join(" | ")
}

#[test]
fn entries_are_read_by_the_runners_grammar() {
    let cases: [(&[u8], &str); 23] = [
        (b"", ""),
        (b"a=b", r#"a="b""#),
        (b"a=b\nc=d\n", r#"a="b" | c="d""#),
        (b"a=b\r\n", r#"a="b\r""#),
        (b"\n\na=\n", r#"a="""#),
        (b" a = b = c ", r#" a =" b = c ""#),
        (b"a=b<<c", r#"a="b<<c""#),
        (b"a<<E=F\nx\nE=F\n", r#"a="x""#),
        (b"a<<E\none\ntwo\nE\nb=1", r#"a="one\ntwo" | b="1""#),
        (b"a<<E\nE", r#"a="""#),
        (b"a<<E\n\nE\n", r#"a="""#),
        (b"a<<E\n\n\nE\n", r#"a="\n""#),
        (b"a<<E\nx\nE \n E\nE\n", r#"a="x\nE \n E""#),
        (b"a<<E\nx\r\nE\n", r#"a="x\r""#),
        (b"a<<E\r\nx\r\nE\r\n", r#"a="x\r""#),
        (b"\xef\xbb\xbfa=\xff", "a=\"\u{fffd}\""),
        (b"\xff\xfea\0=\0b\0", r#"a="b""#),
        (b"a=1\nbad\nb=2", r#"a="1" | ! Invalid format 'bad'"#),
        (b"  \n", "! Invalid format '  '"),
        (b"=x\n", "! Invalid format '=x'. Name must not be empty"),
        (
            b"a<<\n",
            "! Invalid format 'a<<'. Name must not be empty and delimiter must not be empty",
        ),
        (
            b"a<<E\nx\r\nE\r",
            "! Invalid value. EOF marker missing new line.",
        ),
        (
            b"a=1\nb<<E\nx\n",
            r#"a="1" | ! Invalid value. Matching delimiter not found 'E'"#,
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(
            parsed(text),
            expected,
            "{:?}",
            String::from_utf8_lossy(text)
        );
    }
}

#[test]
fn node_options_are_refused_without_failing_the_step() {
    let mut record = Record::default();
    apply("env", b"A=1\nnode_options=x\nB=2\n", &mut record).unwrap();
    let names: Vec<&String> = record.env.keys().collect();
    assert_eq!(names, ["A", "B"]);
    assert_eq!(record.errors.len(), 1);
    assert!(!record.failed);
}

#[test]
fn a_summary_is_masked_line_by_line_and_dropped_whole_above_the_limit() {
    let mut record = Record::default();
    record.masks.add("hunter2");
    apply("step_summary", b"# It\r\nis hunter2", &mut record).unwrap();
    assert_eq!(record.summary.as_deref(), Some("# It\nis ***\n"));

    for (size, is_shown) in [(0, false), (1024 * 1024, true), (1024 * 1024 + 1, false)] {
        let mut record = Record::default();
        apply("step_summary", &vec![b'x'; size], &mut record).unwrap();
        assert_eq!(record.summary.is_some(), is_shown, "{size}");
        assert_eq!(record.errors.len(), usize::from(size > 1024 * 1024));
        assert!(!record.failed);
    }
}

#[test]
fn paths_stand_one_on_a_line() {
    let mut record = Record::default();
    apply("path", b"/a\r\n\n/b", &mut record).unwrap();
    assert_eq!(record.path, ["/a", "/b"]);
}
