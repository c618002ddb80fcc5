//! Field managers: `metadata.managedFields` and the two operations that write it.
//!
//! Every write except apply is an [`update`]: the manager owns the fields it changed, and other
//! managers lose them. Server-side apply is an [`apply`]: the manager owns the fields it applies,
//! and fields it no longer applies are removed unless another manager owns them. The rules are
//! those of structured-merge-diff's `merge.Updater` and of apimachinery's `managedfields` package.
//!
//! Managers may have written in other versions of the kind; [`Versions`] converts for them.

use serde_json::Value;

use crate::schema::ObjectType;

mod apply;
mod conflict;
mod entry;
mod filter;
mod last_applied;
mod object;
mod prune;
mod scale;
#[cfg(test)]
mod tests;
mod time;
mod timestamps;
mod update;

pub use apply::{Applied, ApplyError, apply};
pub use conflict::{Conflict, Conflicts};
pub use entry::{DecodeError, Entry, ManagedFields, Operation};
pub use filter::{Filter, PathElementMatcher};
pub use scale::ScaleHandler;
pub use timestamps::ignore_managed_fields_timestamps;
pub use update::{UpdateError, update};

/// The versions of one kind.
pub trait Versions {
    /// Returns the type of the kind's objects in a version; `None` if the version is not served.
    fn object_type(&self, api_version: &str) -> Option<&ObjectType>;

    /// Converts an object of the kind to another version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;
}

/// Why an object could not be converted.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConvertError {
    /// The version is unknown; entries in it are dropped.
    #[error("no corresponding type")]
    MissingVersion,
    /// The conversion failed.
    #[error("{0}")]
    Failed(String),
}

/// A write, as far as it concerns managed fields.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// The `apiVersion` of the endpoint.
    pub api_version: &'a str,
    /// The kind of the endpoint.
    pub kind: &'a str,
    /// The subresource of the endpoint; empty for the main resource.
    pub subresource: &'a str,
    /// The fields the endpoint resets, by `apiVersion`: no manager gains them through it, and no
    /// manager that wrote in that version loses them. Nothing is reset in a version that
    /// is not listed.
    pub reset_fields: &'a [(&'a str, Filter)],
    /// The object an empty body decodes to, from which a create is compared: an empty object for
    /// custom resources, the fields that are never omitted for built-in kinds
    /// (`{"metadata":{},"spec":{"strategy":{}}}`).
    pub empty_object: &'a Value,
    /// The field manager.
    pub manager: &'a str,
    /// The time of the request, RFC 3339 in UTC with second precision.
    pub now: &'a str,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("api_version", &self.api_version)
            .field("kind", &self.kind)
            .field("subresource", &self.subresource)
            .field("manager", &self.manager)
            .finish_non_exhaustive()
    }
}

/// A kind with one version.
#[derive(Clone, Debug)]
pub struct SingleVersion {
    /// The version.
    pub api_version: String,
    /// The type of the kind's objects.
    pub object_type: ObjectType,
}

impl Versions for SingleVersion {
    fn object_type(&self, api_version: &str) -> Option<&ObjectType> {
        (self.api_version == api_version).then_some(&self.object_type)
    }

    fn convert(&self, _: &Value, _: &str) -> Result<Value, ConvertError> {
        Err(ConvertError::MissingVersion)
    }
}
