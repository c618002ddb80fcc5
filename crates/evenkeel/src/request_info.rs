//! The description of a request in errors, warnings and the journal.

use std::fmt;

use crate::key::Key;
use crate::kind::Kind;

/// A request, displayed as `create Deployment.apps shop/web`.
///
/// ```
/// use evenkeel::client::Error;
///
/// fn verb(error: &Error) -> Option<&str> {
///     match error.kind() {
///         evenkeel::client::ErrorKind::Api { request_info, .. } => Some(request_info.verb),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestInfo {
    /// The verb.
    pub verb: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The subresource, if any.
    pub subresource: Option<&'static str>,
    /// The object, or the namespace of a collection.
    pub target: Target,
}

/// The target of a request.
///
/// ```
/// use evenkeel::Key;
/// use evenkeel::client::{RequestInfo, Target};
///
/// fn object(request: &RequestInfo) -> Option<&Key> {
///     match &request.target {
///         Target::Object(key) => Some(key),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// One object.
    Object(Key),
    /// All objects of a namespace, or of the cluster if `None`.
    Collection(Option<String>),
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.kind)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        match &self.target {
            Target::Object(key) => write!(f, " {key}"),
            Target::Collection(Some(namespace)) => write!(f, " in {namespace}"),
            Target::Collection(None) => write!(f, " in all namespaces"),
        }
    }
}
