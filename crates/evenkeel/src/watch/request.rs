//! What is asked of the API server: one place that knows paths, parameters and headers.

use http::{Method, Request, header};
use kube::client::Body;

use super::Error;
use crate::kind::Kind;
use crate::query::Query;

/// What a reflector covers: a type, where, and which of its objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    /// One namespace, or all of them.
    pub(crate) namespace: Option<String>,
    /// A label selector, as text.
    pub(crate) labels: Option<String>,
    /// A field selector, as text.
    pub(crate) fields: Option<String>,
    /// Whether `PartialObjectMetadata` is asked for instead of whole objects. A server that cannot
    /// make them sends whole ones.
    pub(crate) metadata_only: bool,
}

/// One request for objects.
pub(super) enum Ask<'a> {
    /// One page of a list, or all of it if `limit` is 0.
    List { version: &'a str, limit: u32, token: Option<&'a str> },
    /// The changes after a version.
    Watch { version: &'a str, seconds: u64 },
    /// The whole state at a version or later, then the changes after it.
    Stream { version: &'a str, seconds: u64 },
}

impl Scope {
    /// The scope of all objects of a kind.
    #[cfg(test)]
    pub(crate) fn all(kind: Kind) -> Self {
        Self { kind, namespace: None, labels: None, fields: None, metadata_only: false }
    }

    pub(super) fn request(&self, ask: &Ask<'_>) -> Result<Request<Body>, Error> {
        let mut uri = Query::default();
        uri.add("labelSelector", self.labels.as_deref().unwrap_or_default());
        uri.add("fieldSelector", self.fields.as_deref().unwrap_or_default());
        match ask {
            Ask::List { version, limit, token } => {
                if *limit > 0 {
                    uri.number("limit", (*limit).into());
                }
                uri.add("continue", token.unwrap_or_default());
                // A page token carries its version; the server refuses both together.
                if token.is_none() {
                    uri.add("resourceVersion", version);
                }
            }
            Ask::Watch { version, seconds } => {
                uri.add("watch", "true");
                uri.add("allowWatchBookmarks", "true");
                uri.add("resourceVersion", version);
                uri.number("timeoutSeconds", *seconds);
            }
            Ask::Stream { version, seconds } => {
                uri.add("watch", "true");
                uri.add("allowWatchBookmarks", "true");
                uri.add("sendInitialEvents", "true");
                uri.add("resourceVersionMatch", "NotOlderThan");
                uri.add("resourceVersion", version);
                uri.number("timeoutSeconds", *seconds);
            }
        }
        let watch = !matches!(ask, Ask::List { .. });
        let accept = match (self.metadata_only, watch) {
            (false, _) => "application/json",
            (true, false) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
            (true, true) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
        };
        let mut request = Request::builder()
            .method(Method::GET)
            .uri(self.kind.path(self.namespace.as_deref()) + uri.as_str())
            .header(header::ACCEPT, accept);
        if watch {
            // Servers since 1.37 compress watches one event at a time, which decoders that stop
            // after the first member cannot read.
            request = request.header(header::ACCEPT_ENCODING, "identity");
        }
        request
            .body(Body::empty())
            .map_err(|error| Error::unexpected(format!("cannot make a request: {error}")))
    }
}
