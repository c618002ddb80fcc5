//! The requests of the operator: which were denied, and a report for `evenkeel check --access`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use evenkeel_apiserver::AccessTrail;

use crate::output::progress;

/// What the service account of the operator did.
pub(super) struct Accesses {
    trail: AccessTrail,
    /// Where the report is written to.
    directory: Option<PathBuf>,
    /// The user name of the service account; `None` if the operator is the administrator.
    pub(super) user: Option<String>,
    /// The denied requests that were printed.
    printed: BTreeSet<String>,
}

impl Accesses {
    pub(super) fn new(trail: AccessTrail, directory: Option<&Path>) -> Self {
        let directory = directory.map(Path::to_owned);
        Self { trail, directory, user: None, printed: BTreeSet::new() }
    }

    /// Prints the requests that were denied since the last call.
    pub(super) fn print_denied(&mut self) {
        let Some(user) = &self.user else { return };
        for denied in self.trail.report(user, &[]).denied {
            let access = denied.access.to_string();
            if !self.printed.contains(&access) {
                progress(&format!(
                    "The operator may not {access}; add a rule with ManagerBuilder::rule."
                ));
                self.printed.insert(access);
            }
        }
    }

    /// Writes the report of all requests until now.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        let (Some(directory), Some(user)) = (&self.directory, &self.user) else { return Ok(()) };
        let path = directory.join("dev.json");
        let failed = || format!("cannot write {}", path.display());
        std::fs::create_dir_all(directory).with_context(failed)?;
        let report = serde_json::to_vec(&self.trail.report(user, &[]))?;
        std::fs::write(&path, report).with_context(failed)
    }
}
