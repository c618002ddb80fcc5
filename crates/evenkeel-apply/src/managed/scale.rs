//! managedFields of the scale subresource, as upstream's `ScaleHandler`.
//!
//! A Scale has one field that other managers can own: `.spec.replicas`, which is a field of its
//! parent. A write to the Scale sees the parent's managers of that field, and its changes are
//! recorded in the parent for the writer.

use serde_json::Value;

use super::{DecodeError, Entry, ManagedFields, Operation};
use crate::{
    path::{Path, fields},
    set::Set,
};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Translates managedFields between a resource and its scale subresource.
#[derive(Clone, Copy, Debug)]
pub struct ScaleHandler<'a> {
    /// The version of the parent in which scale entries are recorded.
    pub api_version: &'a str,
    /// The path of the replicas in each version of the parent; `None` if it cannot be scaled.
    pub replicas_paths: &'a [(String, Option<Path>)],
}

impl ScaleHandler<'_> {
    /// Returns the parent's managedFields as those of the Scale: the managers of the replicas.
    pub fn to_subresource(&self, parent: Option<&Value>) -> Result<Option<Value>, DecodeError> {
        let mut managers = ManagedFields::decode(parent)?;
        managers.entries.retain_mut(|entry| {
            let owns = self.replicas(entry).is_some_and(|path| entry.fields.has(path));
            entry.fields = scale_fields();
            entry.api_version = SCALE_VERSION.into();
            owns
        });
        Ok(managers.encode())
    }

    /// Returns the parent's managedFields after a write that left the Scale with `scale`.
    pub fn to_parent(
        &self,
        parent: Option<&Value>,
        scale: Option<&Value>,
    ) -> Result<Option<Value>, DecodeError> {
        let mut parent = ManagedFields::decode(parent)?;
        let before = parent.clone();
        let mut scale = ManagedFields::decode(scale)?;
        let known =
            |entry: &Entry| self.replicas_paths.iter().any(|(v, _)| *v == entry.api_version);
        parent.entries.retain(known);
        for entry in &mut parent.entries {
            let Some(path) = self.replicas(entry).filter(|path| entry.fields.has(path)) else {
                continue;
            };
            // The Scale's entries are in its own version, which is part of the identity of an
            // updater: its replicas are removed even if the write changed nothing.
            match scale.find(entry) {
                Some(at) => {
                    scale.entries.remove(at);
                }
                None => {
                    let taken = Set::from_paths([path]);
                    entry.fields = std::mem::take(&mut entry.fields).difference(&taken);
                }
            }
        }
        parent.entries.retain(|entry| !entry.fields.is_empty());
        let path = self.path_in(self.api_version);
        for entry in scale.entries {
            if entry.fields.has(&fields(["spec", "replicas"])) {
                let fields = path.into_iter().collect::<Vec<_>>();
                // Only an applier with a previous entry has a time; upstream drops the others.
                let time = before.find(&entry).and_then(|at| before.entries[at].time.clone());
                let operation = entry.operation;
                let api_version = self.api_version.to_owned();
                let entry = Entry { api_version, fields: Set::from_paths(fields), time, ..entry };
                match operation {
                    Operation::Apply => parent.insert(entry),
                    // An updater had another version, so it never replaces its own entry.
                    Operation::Update => parent.entries.push(entry),
                }
            }
        }
        Ok(parent.encode())
    }

    fn replicas(&self, entry: &Entry) -> Option<&Path> {
        self.path_in(&entry.api_version)
    }

    fn path_in(&self, api_version: &str) -> Option<&Path> {
        let (_, path) = self.replicas_paths.iter().find(|(version, _)| version == api_version)?;
        path.as_ref()
    }
}

fn scale_fields() -> Set {
    Set::from_paths([fields(["spec", "replicas"])])
}
