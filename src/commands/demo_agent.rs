//! The agent of the demo: a real child process with a script for a mind. Like every agent it knows nothing but the
//! prompt and the files it finds.

use std::path::Path;

use anyhow::Result;

use super::World;
use super::demo::{CHECK, GREETING, PLAN, git};
use crate::error::{Error, ErrorKind};
use crate::host;

const WRONG: &str = "#!/bin/sh\necho \"Helo, $1!\"\n";
const RIGHT: &str = "#!/bin/sh\necho \"Hello, $1!\"\n";

pub fn run(world: &World) -> Result<u8, Error> {
    act(world).map_err(|error| Error::caused(ErrorKind::Unavailable, &error))
}

fn act(world: &World) -> Result<u8> {
    let say = |line: &str| world.console.out(format!("{line}\n").into_bytes());
    let here = Path::new(".");
    let prompt = host::read_stdin()?;
    say("Phase: OBSERVE");
    let task = prompt.lines().next().unwrap_or("nothing");
    say(&format!("My prompt begins with: {task}"));
    let written = host::read_text_file(Path::new(GREETING))?;
    let checked = host::run_quietly(here, &["sh", CHECK]);
    say("Phase: ORIENT");
    match (written, checked) {
        (None, _) => {
            say("PLAN.md has one open task: write greet.sh.");
            say("Phase: ACT");
            host::write_file(Path::new(GREETING), WRONG)?;
            say("Wrote greet.sh. Running check.sh:");
            match host::run_quietly(here, &["sh", CHECK]) {
                Ok(_) => Ok(0),
                Err(error) => {
                    say(&format!("{error:#}"));
                    Ok(1)
                }
            }
        }
        (Some(_), Err(_)) => {
            say("greet.sh is there, but its check fails: there is a letter missing.");
            say("Phase: ACT");
            host::write_file(Path::new(GREETING), RIGHT)?;
            host::run_quietly(here, &["sh", CHECK])?;
            host::write_file(Path::new(PLAN), "- [x] write greet.sh\n")?;
            git(here, &["add", "."])?;
            git(here, &["commit", "-q", "-m", "Add greet.sh"])?;
            say("Mended greet.sh; check.sh passes. Ticked the task in PLAN.md and committed.");
            Ok(0)
        }
        (Some(_), Ok(_)) => {
            say("No task is open in PLAN.md, check.sh passes, everything is committed.");
            say("<promise>SUCCESS</promise>");
            Ok(0)
        }
    }
}
