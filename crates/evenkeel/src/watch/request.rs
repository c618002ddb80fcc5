//! List and watch requests: paths, parameters and headers.

use http::{Method, Request, header};
use kube::client::Body;

use super::Error;
use crate::kind::Kind;
use crate::query::Query;

/// The scope of a reflector: kind, namespace and selectors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    /// The namespace, or all if `None`.
    pub(crate) namespace: Option<String>,
    /// A label selector.
    pub(crate) labels: Option<String>,
    /// A field selector.
    pub(crate) fields: Option<String>,
    /// Whether to request `PartialObjectMetadata`. A server that does not support it sends whole
    /// objects.
    pub(crate) metadata_only: bool,
}

/// The parameters of a request.
pub(super) enum RequestParameters<'a> {
    /// One page of a list, or the whole list if `limit` is 0.
    List { version: &'a str, limit: u32, token: Option<&'a str> },
    /// A watch from a resourceVersion.
    Watch { version: &'a str, seconds: u64 },
    /// A streaming list at a resourceVersion or later, followed by a watch.
    Stream { version: &'a str, seconds: u64 },
}

impl Scope {
    /// Returns the scope of all objects of a kind.
    #[cfg(test)]
    pub(crate) fn all(kind: Kind) -> Self {
        Self { kind, namespace: None, labels: None, fields: None, metadata_only: false }
    }

    pub(super) fn request(
        &self,
        parameters: &RequestParameters<'_>,
    ) -> Result<Request<Body>, Error> {
        let mut uri = Query::default();
        uri.add("labelSelector", self.labels.as_deref().unwrap_or_default());
        uri.add("fieldSelector", self.fields.as_deref().unwrap_or_default());
        match parameters {
            RequestParameters::List { version, limit, token } => {
                if *limit > 0 {
                    uri.number("limit", (*limit).into());
                }
                uri.add("continue", token.unwrap_or_default());
                // A continue token includes the resourceVersion; the server rejects both together.
                if token.is_none() {
                    uri.add("resourceVersion", version);
                }
            }
            RequestParameters::Watch { version, seconds } => {
                uri.add("watch", "true");
                uri.add("allowWatchBookmarks", "true");
                uri.add("resourceVersion", version);
                uri.number("timeoutSeconds", *seconds);
            }
            RequestParameters::Stream { version, seconds } => {
                uri.add("watch", "true");
                uri.add("allowWatchBookmarks", "true");
                uri.add("sendInitialEvents", "true");
                uri.add("resourceVersionMatch", "NotOlderThan");
                uri.add("resourceVersion", version);
                uri.number("timeoutSeconds", *seconds);
            }
        }
        let watch = !matches!(parameters, RequestParameters::List { .. });
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
            // Servers since 1.37 compress each event as a gzip member, which decoders that stop
            // after the first member cannot read.
            request = request.header(header::ACCEPT_ENCODING, "identity");
        }
        request
            .body(Body::empty())
            .map_err(|error| Error::unexpected(format!("invalid request: {error}")))
    }
}
