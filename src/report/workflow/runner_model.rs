//! The runner as far as it reads the log of a step: lines end at LF, CR or CRLF, `::name …::data` is a command at the
//! beginning of a line, `##[name …]data` anywhere in it, and after `::stop-commands::token` only the token is one.

const COMMANDS: [&str; 16] = [
    "stop-commands",
    "internal-set-repo-path",
    "set-env",
    "set-output",
    "save-state",
    "add-mask",
    "add-path",
    "add-matcher",
    "remove-matcher",
    "debug",
    "echo",
    "notice",
    "warning",
    "error",
    "group",
    "endgroup",
];

/// What the runner makes of a log.
#[derive(Debug, Default)]
pub(super) struct Runner {
    /// The token that it waits for.
    pub(super) stopped: Option<String>,
    pub(super) obeyed: Vec<String>,
    /// The lines that everybody sees, without unfolding a group.
    pub(super) seen: Vec<String>,
    is_grouped: bool,
}

impl Runner {
    pub(super) fn read(log: &[u8]) -> Runner {
        let mut runner = Runner::default();
        let text = String::from_utf8_lossy(log).replace("\r\n", "\n");
        for line in text.split(['\n', '\r']) {
            runner.line(line);
        }
        runner
    }

    fn line(&mut self, line: &str) {
        let command = self.modern(line).or_else(|| self.legacy(line));
        let Some((header, data)) = command else {
            if !self.is_grouped {
                self.seen.push(line.to_owned());
            }
            return;
        };
        let name = name(header).to_lowercase();
        if let Some(token) = &self.stopped {
            if name != *token {
                return;
            }
            self.stopped = None;
        }
        match name.as_str() {
            "stop-commands" => self.stopped = Some(data.to_lowercase()),
            "group" => self.is_grouped = true,
            "endgroup" => self.is_grouped = false,
            _ => {}
        }
        self.obeyed.push(format!("::{header}::{data}"));
    }

    fn modern<'a>(&self, line: &'a str) -> Option<(&'a str, &'a str)> {
        let command = line.trim_start().strip_prefix("::")?.split_once("::")?;
        self.knows(command.0).then_some(command)
    }

    fn legacy<'a>(&self, line: &'a str) -> Option<(&'a str, &'a str)> {
        let command = line.split_once("##[")?.1.split_once(']')?;
        self.knows(command.0).then_some(command)
    }

    fn knows(&self, header: &str) -> bool {
        let name = name(header).to_lowercase();
        self.stopped.as_ref() == Some(&name) || COMMANDS.contains(&name.as_str())
    }
}

fn name(header: &str) -> &str {
    header.split(' ').next().unwrap_or_default()
}
