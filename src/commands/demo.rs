//! `rooda demo`: the whole thing at work, in a throw-away repository, with an agent that needs no AI.

use std::path::Path;

use anyhow::Result;

use super::World;
use super::run::execute;
use crate::cli::Colour;
use crate::config::{
    Catalogue, CommandLine, Layer, Request, Resolved, Source, Target, builtin_layers, resolve,
};
use crate::error::{Error, ErrorKind};
use crate::host;
use crate::status::Status;

pub(super) const GREETING: &str = "greet.sh";
pub(super) const CHECK: &str = "check.sh";
pub(super) const PLAN: &str = "PLAN.md";

const FILES: [(&str, &str); 3] = [
    (
        "AGENTS.md",
        "# AGENTS.md\n\n- Work tracking: PLAN.md\n- Test: `sh check.sh`\n",
    ),
    (PLAN, "- [ ] write greet.sh\n"),
    (
        CHECK,
        "said=$(sh greet.sh World 2>&1)\n\
         [ \"$said\" = \"Hello, World!\" ] || { echo \"expected Hello, World! but got: $said\" >&2; exit 1; }\n",
    ),
];

const BEFORE: &str = "\
A throw-away git repository, the built-in procedure `build`, and a scripted agent in the place of an AI.
The agent is a real process. It forgets everything between iterations; only the files stay.

$ rooda build --ai-cmd 'rooda demo-agent' --max-iterations 5
";

const AFTER: &str = "
What happened: the first iteration failed its own check, so its end was shown and the failure counted. The second one
started from scratch, found the broken file, mended it and committed. The third one found nothing left to do and
promised success, which ended the run with exit code 0.

Try next, in a repository of your own:
  rooda list                                              which procedures there are
  rooda bootstrap --ai-cmd-alias claude                   let an agent write AGENTS.md
  rooda build --ai-cmd-alias claude --dry-run             see the prompt and the settings, run nothing
  rooda build --ai-cmd-alias claude --max-iterations 5    let it work
";

pub fn run(world: &World) -> Result<u8, Error> {
    let unavailable = |error: anyhow::Error| {
        Error::caused(ErrorKind::Unavailable, &error)
            .hint("the demo needs `git` and `sh`, and a folder for temporary files that can be written to")
    };
    let folder = host::throw_away_folder().map_err(unavailable)?;
    prepare(folder.path()).map_err(unavailable)?;
    host::enter(folder.path()).map_err(unavailable)?;
    let resolved = plan().map_err(unavailable)??;
    let agents = resolved.agents.clone()?;
    world.console.out(BEFORE.into());
    let status = execute(world, &resolved, &agents, Colour::Auto)?;
    if status == Status::Success {
        world.console.out(AFTER.into());
        world.console.flush_blocking().ok();
    }
    Ok(status.exit_code())
}

fn prepare(folder: &Path) -> Result<()> {
    for (name, text) in FILES {
        host::write_file(&folder.join(name), text)?;
    }
    git(folder, &["init", "-q"])?;
    git(folder, &["add", "."])?;
    git(folder, &["commit", "-q", "-m", "A plan and a check"])
}

/// `git` as the demo needs it, whatever the user's own configuration says.
pub(super) fn git(folder: &Path, arguments: &[&str]) -> Result<()> {
    let own = [
        "git",
        "-c",
        "user.name=rooda demo",
        "-c",
        "user.email=demo@example.invalid",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "core.hooksPath=/dev/null",
    ];
    host::run_quietly(folder, &[&own, arguments].concat()).map(drop)
}

/// The built-in configuration and nothing else: the demo is the same for everybody.
fn plan() -> Result<Result<Resolved, Error>> {
    let program = host::current_program()?.to_string_lossy().into_owned();
    let words = vec![program, "demo-agent".to_owned()];
    let command = CommandLine {
        text: shell_words::join(&words),
        words,
    };
    let request = Request {
        target: Target::Procedure("build".to_owned()),
        phases: Vec::new(),
        context: Vec::new(),
        task_id: None,
        in_actions: false,
    };
    Ok(builtin_layers().and_then(|mut layers| {
        layers.push(Layer::of(Source::Flag("--ai-cmd"), |settings| {
            settings.ai_cmd = Some(command);
        }));
        resolve(&Catalogue::new(&mut layers), request)
    }))
}
