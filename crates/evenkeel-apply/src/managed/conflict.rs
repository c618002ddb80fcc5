//! Conflicts: fields that an apply would change although other managers own them.

use std::fmt;

use evenkeel_types::go;

use super::{Entry, Operation};
use crate::path::{self, Path};

/// A field to which two managers assign different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager, as in messages: `"m"`, `"m" with subresource "status" using apps/v1`.
    pub manager: String,
    /// The field.
    pub path: Path,
    /// Groups the conflicts with one manager.
    key: String,
}

/// All conflicts of an apply; displayed as the message of the 409 response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflict {
    /// Returns the `message` of the status cause, whose reason is `FieldManagerConflict`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }

    /// Returns the `field` of the status cause.
    pub fn field(&self) -> String {
        path::print(&self.path)
    }
}

impl Conflicts {
    pub(super) fn push(&mut self, entry: &Entry, path: Path) {
        self.0.push(Conflict { manager: describe(entry), key: entry.sort_key(), path });
    }

    pub(super) fn sort(&mut self) {
        self.0.sort_by(|a, b| a.key.cmp(&b.key));
    }

    /// Returns the conflicts, grouped by manager.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }

    /// Returns whether there are no conflicts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Conflict) -> bool) {
        self.0.retain(keep);
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: {}: {}", only.message(), only.field());
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (i, group) in self.0.chunk_by(|a, b| a.key == b.key).enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "conflicts with {}:", group[0].manager)?;
            group.iter().try_for_each(|conflict| write!(f, "\n- {}", conflict.field()))?;
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}

fn describe(entry: &Entry) -> String {
    let mut out = go::quote(&entry.manager);
    if !entry.subresource.is_empty() {
        out.push_str(" with subresource ");
        out.push_str(&go::quote(&entry.subresource));
    }
    if entry.operation == Operation::Update {
        out.push_str(" using ");
        out.push_str(&entry.api_version);
    }
    out
}
