//! GroupVersionKind: the `apiVersion` and `kind` of a manifest.

use std::fmt;

/// One version of a kind, for example `apps/v1, Kind=Deployment`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// For example `v1`.
    pub version: &'a str,
    /// For example `Deployment`.
    pub kind: &'a str,
}

impl<'a> Gvk<'a> {
    /// Creates a GVK from its parts.
    pub const fn new(group: &'a str, version: &'a str, kind: &'a str) -> Self {
        Self { group, version, kind }
    }

    /// Splits `apiVersion` at its slash; without a slash it is a version of the core group.
    pub fn from_api_version(api_version: &'a str, kind: &'a str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group, version, kind }
    }

    /// Returns the `apiVersion`: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Gvk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}
