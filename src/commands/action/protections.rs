//! What keeps the agent in, tried before it is relied upon.

use std::path::PathBuf;

use super::super::World;
use super::prepare::Settled;
use crate::action::{Job, Sandbox};
use crate::error::{Error, ErrorKind};
use crate::host::{self, Attempt, Jail, LandlockStatus, ProbeTargets, TakenCredentials};
use crate::report::Protection;
use crate::units::Count;

/// Every protection, in force or not. Where all are required, one that is not in force is an error.
pub(super) fn protections(
    world: &World,
    job: &Job,
    settled: &Settled,
    jail: &Jail,
    taken: &TakenCredentials,
) -> Result<Vec<Protection>, Error> {
    let sandbox = settled.inputs.sandbox;
    let mut protections = vec![
        user(settled),
        landlock(&settled.landlock, sandbox),
        processes(),
        environment(jail),
        credentials(taken),
    ];
    if sandbox != Sandbox::Off {
        let attempts = host::run_probe(jail, &targets(world, job))
            .map_err(|error| Error::caused(ErrorKind::Unavailable, &error))?;
        protections.push(probe(&attempts));
    }
    let broken: Vec<&Protection> = protections.iter().filter(|p| !p.in_force).collect();
    if sandbox != Sandbox::Required || broken.is_empty() {
        return Ok(protections);
    }
    let problems = broken.iter().map(|protection| {
        let message = format!("not protected: {}: {}", protection.name, protection.detail);
        Error::new(ErrorKind::Unavailable, message)
    });
    let refused = Error::join(problems).map(|()| Vec::new());
    refused.map_err(|error| {
        error
            .hint("to run without it all the same: `sandbox: auto`, or `off` to try nothing at all")
    })
}

fn user(settled: &Settled) -> Protection {
    let tenant = settled.tenant;
    Protection {
        name: "a user of its own",
        in_force: !tenant.is_root(),
        detail: match tenant.is_root() {
            true => "the agent is root in this container (run-as: root)".to_owned(),
            false => format!(
                "uid {}, private group {}, no other groups, no capabilities, no way to gain any",
                tenant.uid, tenant.gid
            ),
        },
    }
}

fn landlock(status: &LandlockStatus, sandbox: Sandbox) -> Protection {
    let missing = status.missing.join(", ");
    let detail = match (status.abi, sandbox) {
        (_, Sandbox::Off) => "switched off (sandbox: off)".to_owned(),
        (None, _) => "this kernel has none, or the container may not use it".to_owned(),
        (Some(abi), _) if !status.is_in_force() => {
            format!("this kernel has ABI {abi}, and 3 is needed")
        }
        (Some(abi), _) if missing.is_empty() => format!("ABI {abi}"),
        (Some(abi), _) => format!("ABI {abi}, without: {missing}"),
    };
    Protection {
        name: "Landlock rules on files",
        in_force: status.is_in_force(),
        detail,
    }
}

fn processes() -> Protection {
    let is_init = host::is_init();
    Protection {
        name: "an end to every process",
        in_force: is_init,
        detail: match is_init {
            true => "rooda is PID 1: after an iteration nothing of the agent's user is left",
            false => "rooda is not PID 1 here, so a process of the agent may get away",
        }
        .to_owned(),
    }
}

fn environment(jail: &Jail) -> Protection {
    let count = Count(jail.environment().len() as u64, "variable");
    Protection {
        name: "an environment of its own",
        in_force: true,
        detail: format!("{count}, each passed by name; no token, no INPUT_*, no ACTIONS_*"),
    }
}

fn credentials(taken: &TakenCredentials) -> Protection {
    let entries = match taken.count() {
        0 => "none was there".to_owned(),
        count => format!(
            "{} taken out for the time of the run",
            Count(count as u64, "setting")
        ),
    };
    let looked_at = Count(taken.looked_at as u64, "git configuration");
    let detail = format!("{entries} ({looked_at} looked at)");
    Protection {
        name: "no token in the git configuration",
        in_force: taken.missed.is_none(),
        detail: match &taken.missed {
            Some(why) => format!("not all of the workspace could be searched: {why}; {detail}"),
            None => detail,
        },
    }
}

fn probe(attempts: &[Attempt]) -> Protection {
    let allowed: Vec<&str> = attempts
        .iter()
        .filter(|attempt| attempt.allowed)
        .map(|attempt| attempt.name.as_str())
        .collect();
    let tried = Count(attempts.len() as u64, "attempt");
    Protection {
        name: "the probe",
        in_force: allowed.is_empty(),
        detail: match allowed.is_empty() {
            true => format!("{tried} to get out, made in the agent's place, none succeeded"),
            false => format!("the agent could: {}", allowed.join("; ")),
        },
    }
}

fn targets(world: &World, job: &Job) -> ProbeTargets {
    let variables = [
        "GITHUB_OUTPUT",
        "GITHUB_STEP_SUMMARY",
        "GITHUB_ENV",
        "GITHUB_PATH",
        "GITHUB_STATE",
    ];
    let files = variables
        .into_iter()
        .filter_map(|name| world.environment.get(name))
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    // A runner that has not mounted a folder names it all the same.
    let folders = [&job.runner_temp, &job.home]
        .into_iter()
        .flatten()
        .filter(|path| host::is_folder(path))
        .cloned();
    ProbeTargets {
        command_files: files.collect(),
        folders: folders.collect(),
        sockets: Vec::new(),
    }
}
