//! What an agent finds around it, whichever it is: git, the directory, and no walls.

use super::super::agents::{PATIENCE, first_words, interrupted};
use super::World;
use crate::error::Error;
use crate::host::{self, Answer, Reader};
use crate::iteration::End;
use crate::report::Finding;

/// All of git is asked about because the prompts tell the agent to commit. A run can begin without.
const CANNOT_COMMIT: &str = "the agent cannot commit what it did";

pub(super) fn git(world: &World) -> Result<Vec<Finding>, Error> {
    let git = match Reader::Direct.find_program("git", world.path()) {
        Ok(program) => program.path.to_string_lossy().into_owned(),
        Err(_) => return Ok(vec![Finding::odd("git is not there").hint(CANNOT_COMMIT)]),
    };
    // A name that git made up from the user's and the machine's is not what anybody wants.
    let strictly = ["-c", "user.useConfigOnly=true", "var"];
    let questions = [
        vec!["--version"],
        vec!["rev-parse", "--is-inside-work-tree"],
        [&strictly[..], &["GIT_AUTHOR_IDENT"]].concat(),
        [&strictly[..], &["GIT_COMMITTER_IDENT"]].concat(),
    ];
    let words = |question: &Vec<&str>| {
        let words = [&[git.as_str()], &question[..]].concat();
        words.into_iter().map(str::to_owned).collect()
    };
    let questions: Vec<Vec<String>> = questions.iter().map(words).collect();
    let answers = host::ask(&questions, PATIENCE).map_err(interrupted)?;
    let [version, place, author, committer] = &answers[..] else {
        return Ok(Vec::new());
    };
    Ok(vec![
        program(&git, said(version)),
        work_tree(said(place)),
        identity(said(author), said(committer)),
    ])
}

/// What git answered, or why it did not.
fn said(answer: &std::io::Result<Answer>) -> Result<String, String> {
    match answer {
        Err(error) => Err(error.to_string()),
        Ok(answer) if answer.end == End::Exited(0) => {
            Ok(first_words(&answer.stdout).unwrap_or_default())
        }
        Ok(answer) => {
            let words = first_words(&answer.stderr);
            Err(words.unwrap_or_else(|| "it did not answer".to_owned()))
        }
    }
}

fn program(path: &str, version: Result<String, String>) -> Finding {
    match version {
        Ok(said) => {
            let version = said.strip_prefix("git version ").unwrap_or(&said);
            Finding::well(format_args!("Git: {version} ({path})"))
        }
        Err(why) => Finding::odd(format_args!("git does not work: {path}")).hint(why),
    }
}

fn work_tree(answer: Result<String, String>) -> Finding {
    match answer.as_deref() {
        Ok("true") => Finding::well("Repository: in a work tree of git"),
        Ok(_) => Finding::odd("this is in a git repository, but not in a work tree of it")
            .hint(CANNOT_COMMIT),
        Err(why) => Finding::odd("git finds no repository here")
            .hint(why)
            .hint(CANNOT_COMMIT),
    }
}

fn identity(author: Result<String, String>, committer: Result<String, String>) -> Finding {
    match (author, committer) {
        (Ok(author), Ok(_)) => {
            // A time stands behind it.
            let name = author.rsplit_once('>').map_or("", |(name, _)| name);
            Finding::well(format_args!("Commits: by {name}>"))
        }
        _ => Finding::odd("git has no name and email for commits")
            .hint("git config --global user.name \"…\" && git config --global user.email \"…\""),
    }
}

/// What the agent can reach. Only the action has a jail.
pub(super) fn sandbox() -> Finding {
    let kernel = match host::landlock_abi() {
        Some(abi) => format!("this kernel has Landlock, ABI {abi}"),
        None => "this kernel has no Landlock".to_owned(),
    };
    Finding::odd("Sandbox: on the command line the agent can do all that you can do").hint(
        format_args!(
            "the action confines it ({kernel}); here, use a container or a user of its own"
        ),
    )
}

pub(super) fn directory() -> Finding {
    let (path, is_writable) = host::working_folder();
    let path = path.display();
    match is_writable {
        true => Finding::well(format_args!("Directory: {path}")),
        false => Finding::wrong(format_args!("cannot write to the directory {path}"))
            .hint("the agent works there, as you"),
    }
}
