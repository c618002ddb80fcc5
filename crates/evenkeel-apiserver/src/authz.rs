//! Who may do what. The seam that RBAC will fill.

use crate::identity::{AUTHENTICATED, Identity, MASTERS};
use crate::route::{ResourceRoute, Route};

/// What is asked, in the words of RBAC.
#[derive(Debug)]
pub struct Attributes<'a> {
    /// Who asks.
    pub user: &'a Identity,
    /// `get`, `list`, … for resources; the lower-case method for other paths.
    pub verb: &'a str,
    /// The request's path.
    pub path: &'a str,
    /// Set when the request concerns a resource.
    pub resource: Option<ResourceAttributes<'a>>,
}

/// The resource part of [`Attributes`].
#[derive(Clone, Copy, Debug)]
pub struct ResourceAttributes<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// Empty for none.
    pub subresource: &'a str,
    /// Empty for cluster scope and across namespaces.
    pub namespace: &'a str,
    /// Empty for collections.
    pub name: &'a str,
}

/// An answer, with the reason a refusal gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go on.
    Allow,
    /// Refuse; the text is appended to the 403's message.
    Deny(String),
}

/// Decides what an identity may do.
pub trait Authorizer: Send + Sync {
    /// Must not block.
    fn decide(&self, attributes: &Attributes<'_>) -> Decision;
}

/// Allows everything to everyone who is authenticated, and health checks to all.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAuthenticated;

impl Authorizer for AllowAuthenticated {
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let health = || {
            ["/healthz", "/livez", "/readyz", "/version"].iter().any(|open| {
                let rest = attributes.path.strip_prefix(open);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let user = attributes.user;
        if user.is_authenticated()
            || user.is_in(AUTHENTICATED)
            || user.is_in(MASTERS)
            || (attributes.resource.is_none() && health())
        {
            Decision::Allow
        } else {
            Decision::Deny(String::new())
        }
    }
}

/// The attributes of a routed request.
pub(crate) fn attributes<'a>(
    user: &'a Identity,
    route: &'a Route,
    method: &'a str,
    path: &'a str,
) -> Attributes<'a> {
    match route {
        Route::Path => Attributes { user, verb: method, path, resource: None },
        Route::Resource(ResourceRoute {
            verb,
            group,
            version,
            namespace,
            plural,
            name,
            subresource,
            ..
        }) => Attributes {
            user,
            verb: verb.name(),
            path,
            resource: Some(ResourceAttributes {
                group,
                version,
                resource: plural,
                subresource: subresource.as_deref().unwrap_or(""),
                // A namespace is in itself, so that a role in it can grant access to it.
                namespace: match name {
                    Some(name) if plural == "namespaces" => name,
                    _ => namespace,
                },
                name: name.as_deref().unwrap_or(""),
            }),
        },
    }
}
