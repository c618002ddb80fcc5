//! Decoding an object by its schema: what typed decoding does for built-in kinds.

use serde_json::Value;

use super::{Structural, embedded};
use crate::metadata::{self, Malformed};

/// Why an object cannot be decoded; the text is what the server answers with a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl Structural {
    /// Brings an object into the form the schema allows and tells which fields were unknown.
    ///
    /// In upstream's order: metadata is decoded, unspecified fields are pruned, nulls of
    /// non-nullable fields without default are dropped, embedded metadata is decoded. The paths
    /// are those of `unknown field "…"` warnings.
    pub fn normalize(
        &self,
        object: &mut Value,
        malformed: Malformed,
    ) -> Result<Vec<String>, DecodeError> {
        let mut unknown = Vec::new();
        if let Some(metadata) = object.get_mut("metadata") {
            metadata::coerce(metadata, malformed, "metadata", &mut unknown).map_err(DecodeError)?;
        }
        unknown.extend(self.prune(object));
        self.drop_nulls(object);
        let mut embedded = Vec::new();
        embedded::coerce(self.root(), object, "", malformed, &mut embedded)
            .map_err(|error| DecodeError(error.to_string()))?;
        embedded.sort_unstable();
        unknown.extend(embedded);
        Ok(unknown)
    }
}
