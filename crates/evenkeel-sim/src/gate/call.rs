//! What a request is about, as RBAC names it.

use http::{Method, Request, header};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::plan::At;
use crate::workload::ObjectRef;

/// All verbs.
const VERBS: [&str; 10] = [
    "apply",
    "call",
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// A request of the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Call {
    pub(crate) verb: &'static str,
    /// The resource with its group and subresource.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    /// The name; empty for collections and creates.
    pub(crate) name: String,
    /// The path without the subresource.
    pub(crate) path: String,
}

// Not derived, because of the verb, which is not borrowed from the input.
impl<'de> Deserialize<'de> for Call {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Owned {
            verb: String,
            resource: String,
            namespace: String,
            name: String,
            path: String,
        }
        let Owned { verb, resource, namespace, name, path } = Owned::deserialize(from)?;
        let Some(verb) = VERBS.into_iter().find(|known| *known == verb) else {
            return Err(D::Error::custom(format!("unknown verb {verb}")));
        };
        Ok(Self { verb, resource, namespace, name, path })
    }
}

impl Call {
    /// Parses a request for a resource. Others, such as discovery, are `None`.
    pub(crate) fn parse<B>(request: &Request<B>) -> Option<Self> {
        let path = request.uri().path();
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => {
                parts.next()?;
                ""
            }
            "apis" => {
                let group = parts.next()?;
                parts.next()?;
                group
            }
            _ => return None,
        };
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = "";
        // `/api/v1/namespaces/x` is the namespace itself.
        if rest.len() > 2 && rest[0] == "namespaces" && !matches!(rest[2], "status" | "finalize") {
            namespace = rest[1];
            rest.drain(..2);
        }
        let plural = *rest.first()?;
        let name = rest.get(1).copied().unwrap_or_default();
        let subresource = rest.get(2).copied();
        let query = request.uri().query().unwrap_or_default();
        let watches = query.split('&').any(|it| matches!(it, "watch=true" | "watch=1"));
        let applies = || {
            let media = request.headers().get(header::CONTENT_TYPE);
            media.is_some_and(|media| media.as_bytes().starts_with(b"application/apply-patch"))
        };
        let verb = match *request.method() {
            Method::GET if watches => "watch",
            Method::GET if name.is_empty() => "list",
            Method::GET => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH if applies() => "apply",
            Method::PATCH => "patch",
            Method::DELETE if name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ => return None,
        };
        let mut resource = match group {
            "" => plural.to_owned(),
            group => format!("{plural}.{group}"),
        };
        let mut object_path = path;
        if let Some(subresource) = subresource {
            resource = format!("{resource}/{subresource}");
            object_path = path.strip_suffix(&format!("/{subresource}")).unwrap_or(path);
        }
        Some(Self {
            verb,
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            path: object_path.to_owned(),
        })
    }

    /// Returns a call of the application.
    pub(crate) fn of_application(operation: &str, object: &str) -> Self {
        Self {
            verb: "call",
            resource: operation.to_owned(),
            namespace: String::new(),
            name: object.to_owned(),
            path: String::new(),
        }
    }

    /// Returns the pod or Service that the proxy of the API server forwards the request to.
    pub(crate) fn proxied(&self) -> Option<ObjectRef> {
        let kind = match &*self.resource {
            "pods/proxy" => "Pod",
            "services/proxy" => "Service",
            _ => return None,
        };
        Some(ObjectRef {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        })
    }

    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }

    /// Returns the resource without its subresource.
    pub(crate) fn main_resource(&self) -> &str {
        self.resource.split('/').next().unwrap_or_default()
    }

    /// Whether it is a request for a lease.
    pub(crate) fn is_lease(&self) -> bool {
        self.resource == "leases.coordination.k8s.io"
    }

    /// Whether it is a request for Events, leader election leases or reviews, which are not part of
    /// the state that an operator manages.
    pub(crate) fn is_auxiliary(&self) -> bool {
        is_auxiliary(&self.resource)
    }

    /// Returns `namespace/name`, or the name of a cluster-scoped object.
    pub(crate) fn object(&self) -> String {
        match (&*self.namespace, &*self.name) {
            (_, "") => String::new(),
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        }
    }

    pub(crate) fn at(&self, nth: u32) -> At {
        At::new(self.verb, &self.resource, &self.object(), nth)
    }
}

/// Whether objects of the resource are by-products: Events, leases, reviews.
pub(crate) fn is_auxiliary(resource: &str) -> bool {
    let plural = resource.split(['.', '/']).next().unwrap_or_default();
    matches!(plural, "events" | "leases") || plural.ends_with("reviews")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: Method, uri: &str) -> Call {
        Call::parse(&Request::builder().method(method).uri(uri).body(()).unwrap()).unwrap()
    }

    #[test]
    fn requests_are_named_as_in_rbac() {
        let call = parse(Method::GET, "/apis/apps/v1/deployments?watch=true&resourceVersion=1");
        assert_eq!(
            (call.verb, &*call.resource, &*call.object()),
            ("watch", "deployments.apps", "")
        );
        let call = parse(Method::PUT, "/apis/x.test/v1/namespaces/a/things/b/status");
        assert_eq!((call.verb, &*call.resource), ("update", "things.x.test/status"));
        assert_eq!(call.path, "/apis/x.test/v1/namespaces/a/things/b");
        assert_eq!(call.object(), "a/b");
        let call = parse(Method::DELETE, "/api/v1/namespaces/a");
        assert_eq!((&*call.resource, &*call.object()), ("namespaces", "a"));
        let call = parse(Method::POST, "/api/v1/namespaces/a/pods");
        assert_eq!((call.verb, &*call.resource, call.is_write()), ("create", "pods", true));
        assert!(Call::parse(&Request::builder().uri("/version").body(()).unwrap()).is_none());
        assert!(is_auxiliary("events.events.k8s.io") && !is_auxiliary("pods"));
    }
}
