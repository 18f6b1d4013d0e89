//! The agent's user, its home and its jail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::World;
use crate::action::{Inputs, Job, RunAs};
use crate::error::{Error, ErrorKind};
use crate::host::{self, Confinement};

/// In the image, and nobody else's: not the home that all container steps of a job share.
pub(super) const HOME: &str = "/home/agent";

const SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/docker.sock"];

/// Who the agent is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tenant {
    pub uid: u32,
    /// A group that is nobody else's. The workspace's own would do harm: on some runners it is docker's.
    pub gid: u32,
    /// To whom the workspace belongs.
    pub owner: (u32, u32),
}

impl Tenant {
    pub(super) fn choose(job: &Job, run_as: RunAs) -> Result<Self, Error> {
        let unavailable = |error: anyhow::Error| {
            Error::caused(ErrorKind::Unavailable, &error)
                .hint("`rooda action` runs in the container of the action; on the command line use `rooda run`")
        };
        if !host::is_root() {
            let message =
                "`rooda action` must be root in its container, to keep the agent from being it";
            return Err(Error::new(ErrorKind::Unavailable, message)
                .hint("an image made FROM this one must not set USER"));
        }
        let owner = host::owner(&job.workspace).map_err(unavailable)?;
        let uid = match run_as {
            RunAs::Uid(uid) => uid,
            RunAs::Owner if owner.0 == 0 => return Err(root_workspace(&job.workspace)),
            RunAs::Owner => owner.0,
        };
        let sockets = SOCKETS
            .iter()
            .filter_map(|path| host::group_of(Path::new(path)));
        let taken: Vec<u32> = sockets.chain([owner.1]).collect();
        let gid = host::private_gid(&taken);
        host::settle(Path::new(HOME), "agent", uid, gid).map_err(unavailable)?;
        Ok(Tenant { uid, gid, owner })
    }

    pub(super) fn is_root(self) -> bool {
        self.uid == 0
    }
}

fn root_workspace(workspace: &Path) -> Error {
    let workspace = workspace.display();
    let message = format!(
        "the workspace {workspace} belongs to root, and the agent does not run as root unless told to"
    );
    Error::new(ErrorKind::Unavailable, message)
        .hint("give it to another user in a step before this one: `chown -R 1001:1001 .`")
        .hint("or accept an agent that is root in this container: `run-as: root` with `sandbox: auto`")
}

/// The folder to work in. It may not lead out of the workspace.
pub(super) fn working_directory(job: &Job, inputs: &Inputs) -> Result<PathBuf, Error> {
    let Some(given) = &inputs.working_directory else {
        return Ok(job.workspace.clone());
    };
    let wrong = |message: &str| {
        Error::new(
            ErrorKind::Usage,
            format_args!("input working-directory: {message}, found {given:?}"),
        )
    };
    // Links are followed here, before any agent of this step could have made one.
    let Some(directory) = host::resolve(&job.workspace.join(given)) else {
        return Err(wrong("expected a folder that is there")
            .hint("it is relative to the workspace; did a checkout step run before?"));
    };
    let workspace = host::resolve(&job.workspace).unwrap_or_else(|| job.workspace.clone());
    if !directory.starts_with(workspace) || !host::is_folder(&directory) {
        return Err(wrong("expected a folder inside the workspace"));
    }
    Ok(directory)
}

/// How the agent is kept. Its variables come later, when it is known which agent it is.
pub(super) fn confinement(
    world: &World,
    job: &Job,
    tenant: Tenant,
    directory: PathBuf,
    landlock: bool,
) -> Confinement {
    let variable = |name: &str| world.environment.get(name).map(PathBuf::from);
    let folders = ["GITHUB_OUTPUT", "GITHUB_EVENT_PATH"]
        .into_iter()
        .filter_map(|name| Some(variable(name)?.parent()?.to_owned()));
    let shared = job.runner_temp.iter().chain(&job.home).cloned();
    // A variable of the host may name a folder that is not mounted here; /github as a whole is left out anyway.
    let is_there = |path: &PathBuf| path.is_absolute() && host::exists(path);
    let forbidden = folders
        .chain(shared)
        .chain([PathBuf::from("/root")])
        .filter(is_there)
        .filter(|path| !job.workspace.starts_with(path));
    Confinement {
        uid: tenant.uid,
        gid: tenant.gid,
        home: HOME.into(),
        directory,
        writable: vec![job.workspace.clone()],
        forbidden: forbidden.collect(),
        environment: BTreeMap::new(),
        landlock,
    }
}
