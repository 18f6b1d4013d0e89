//! What must be as it was when the step is over, however it ends.

use std::path::{Path, PathBuf};

use super::board::Board;
use crate::action::Job;
use crate::error::{Error, ErrorKind};
use crate::host::{self, GivenBack, TakenCredentials, Workspace};
use crate::units::Count;

const ROOT: u32 = 0;

#[derive(Debug, Default)]
pub(super) struct Cleanup {
    /// The workspace, and to whom it belongs.
    workspace: Option<(PathBuf, (u32, u32))>,
    taken: Option<(Workspace, TakenCredentials)>,
}

impl Cleanup {
    /// From here on root may leave files behind.
    pub(super) fn give_back(&mut self, workspace: &Path, owner: (u32, u32)) {
        self.workspace = Some((workspace.to_owned(), owner));
    }

    /// From here on it may not.
    pub(super) fn keep_workspace(&mut self) {
        self.workspace = None;
    }

    /// Takes the tokens that a checkout left in the git configuration out of it.
    pub(super) fn take_credentials(
        &mut self,
        workspace: &Workspace,
        job: &Job,
        board: &mut Board,
    ) -> Result<&TakenCredentials, Error> {
        let elsewhere = job.runner_temp.as_deref().map(host::checkout_tokens);
        board.mask(elsewhere.into_iter().flatten());
        let taken = workspace
            .take_credentials(board.secrets())
            .map_err(|error| {
                Error::caused(ErrorKind::Unavailable, &error).hint(
                    "with `persist-credentials: false` in the checkout step there is none to take out",
                )
            })?;
        board.mask(taken.secrets.iter().cloned());
        if taken.looked_at == 0 {
            board.warn("there is no git repository in the workspace: is there an actions/checkout step before this one?");
        }
        let (_, taken) = self.taken.insert((workspace.clone(), taken));
        Ok(taken)
    }

    /// Gives everything that root owns in the workspace to whom the workspace belongs.
    pub(super) fn own_everything(&self, board: &mut Board) {
        let Some((workspace, owner)) = &self.workspace else {
            return;
        };
        match host::give_back(workspace, ROOT, *owner) {
            Ok(GivenBack { left: 0, .. }) => {}
            Ok(GivenBack { left, example, .. }) => {
                let example = example.unwrap_or_default();
                let files = Count(left, "file");
                board.warn(&format!(
                    "{files} of root stay in the workspace, {} for example",
                    example.display()
                ));
            }
            Err(error) => board.warn(&format!(
                "files of root may stay in the workspace: {error:#}"
            )),
        }
    }

    pub(super) fn run(self, board: &mut Board) {
        if let Some((workspace, taken)) = &self.taken {
            let kept = workspace.put_back_credentials(taken);
            let kept = kept.unwrap_or_else(|error| vec![format!("{error:#}")]);
            for reason in kept {
                board.warn(&format!(
                    "later steps cannot use the token of the checkout, which stays out of the git configuration: {reason}"
                ));
            }
        }
        self.own_everything(board);
    }
}
