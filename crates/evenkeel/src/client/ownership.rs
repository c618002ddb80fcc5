//! The controller check of owned applies.
//!
//! An owned apply creates an object or changes one that the owner already controls; any other
//! object of that name is not changed. The result of the check is sent as a precondition of the
//! apply, so that an object that another client creates in between is not adopted.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::Error;
use super::{Client, Live};
use crate::cache::Meta;
use crate::key::Key;
use crate::kind::Kind;
use crate::nulls;
use crate::uid::Uid;

/// The required controller of an applied object.
pub(super) struct Ownership {
    pub(super) uid: Uid,
    /// The owner, as kind and key.
    pub(super) owner: String,
}

/// The precondition of an apply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Precondition {
    /// No object of that name exists.
    Absent,
    /// The object of that name has this uid.
    Uid(String),
}

/// A resourceVersion that no object has: resourceVersions are positive signed 64-bit revisions.
///
/// An apply that creates an object ignores the resourceVersion in the body, one that changes an
/// object must match it. So an apply with this resourceVersion can only create.
const NO_VERSION: &str = "9223372036854775807";

impl Precondition {
    /// Returns the body with the precondition in its metadata.
    pub(super) fn add_to(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        type Fields = std::collections::BTreeMap<String, Box<RawValue>>;
        let (field, value) = match self {
            Self::Absent => ("resourceVersion", NO_VERSION),
            Self::Uid(uid) => ("uid", uid.as_str()),
        };
        let parse = |text: &[u8]| serde_json::from_slice::<Fields>(text);
        let add = || {
            let mut object = parse(body)?;
            let mut meta = match object.get("metadata") {
                Some(meta) => parse(meta.get().as_bytes())?,
                None => Fields::default(),
            };
            meta.insert(field.to_owned(), serde_json::value::to_raw_value(value)?);
            object.insert("metadata".to_owned(), serde_json::value::to_raw_value(&meta)?);
            serde_json::to_vec(&object)
        };
        add().map_err(|error: serde_json::Error| error.to_string())
    }
}

impl Ownership {
    /// Returns the precondition of an apply to `key`; `None` if the object exists and has another
    /// controller or none.
    ///
    /// Reads the cache if possible, unless `live`.
    pub(super) async fn check(
        &self,
        client: &Client,
        kind: &Kind,
        key: &Key,
        live: bool,
    ) -> Result<Option<Precondition>, Error> {
        let cached = if live { None } else { client.shared.cache.try_get(kind, key) };
        match cached {
            Some(Ok(None)) => Ok(Some(Precondition::Absent)),
            Some(Ok(Some(entry))) => Ok(self.controls(entry.meta())),
            // Not watched, not synced, or the outcome of a write is unknown.
            Some(Err(_)) | None => {
                let Some(bytes) = Live::new(client).raw(kind, key).await? else {
                    return Ok(Some(Precondition::Absent));
                };
                Ok(self.controls_raw(&bytes))
            }
        }
    }

    fn controls(&self, meta: &Meta) -> Option<Precondition> {
        let ours = meta.owners().iter().any(|owner| owner.controller && owner.uid == self.uid);
        ours.then(|| Precondition::Uid(meta.uid().to_string()))
    }

    fn controls_raw(&self, bytes: &[u8]) -> Option<Precondition> {
        let Controlled { metadata } = nulls::decode(bytes).ok()?;
        let ours = metadata
            .owner_references
            .iter()
            .any(|owner| owner.controller && Uid::new(&owner.uid) == self.uid);
        (ours && !metadata.uid.is_empty()).then_some(Precondition::Uid(metadata.uid))
    }

    /// Returns the error message for an object that the owner does not control.
    pub(super) fn not_controlled(&self) -> String {
        format!("the object exists and is not controlled by {}; adopt it first", self.owner)
    }
}

/// The owner references of an object.
#[derive(Deserialize)]
struct Controlled {
    metadata: ControlledMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ControlledMeta {
    uid: String,
    owner_references: Vec<Reference>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    uid: String,
    controller: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn precondition_is_added_only_to_the_metadata() {
        let body = json!({
            "apiVersion": "v1", "data": {"metadata": {"a": 1}}, "metadata": {"name": "a"},
        });
        let added = |precondition: Precondition| {
            let body = precondition.add_to(body.to_string().as_bytes()).unwrap();
            serde_json::from_slice::<Value>(&body).unwrap()
        };
        let mut expected = body.clone();
        expected["metadata"]["uid"] = json!("u\"1");
        assert_eq!(added(Precondition::Uid("u\"1".to_owned())), expected);
        let mut expected = body.clone();
        expected["metadata"]["resourceVersion"] = json!(NO_VERSION);
        assert_eq!(added(Precondition::Absent), expected);
    }
}
