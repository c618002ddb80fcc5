//! Decodes a custom resource by its schema, as typed decoding does for built-in kinds.

use serde_json::Value;

use super::{Structural, embedded};
use crate::metadata::{self, Malformed};

/// Why an object cannot be decoded. The server returns the text with status 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

impl Structural {
    /// Converts an object to the form its schema allows and returns the unknown fields.
    ///
    /// In upstream's order: decodes metadata, prunes unspecified fields, drops nulls of
    /// non-nullable fields without a default, decodes embedded metadata. The returned paths are
    /// those of `unknown field "…"` warnings.
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
