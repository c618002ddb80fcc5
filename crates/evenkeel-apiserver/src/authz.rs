//! The authorization interface. RBAC will implement it.

use crate::identity::{AUTHENTICATED, Identity, MASTERS};

/// The attributes of a request that is authorized, in the terms of RBAC.
#[derive(Debug)]
pub struct Attributes<'a> {
    /// The user.
    pub user: &'a Identity,
    /// `get`, `list`, … for resources; the lower-case method for other paths.
    pub verb: &'a str,
    /// The request's path.
    pub path: &'a str,
    /// Set for requests on resources.
    pub resource: Option<ResourceAttributes<'a>>,
}

/// The resource part of [`Attributes`].
#[derive(Clone, Copy, Debug)]
pub struct ResourceAttributes<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The resource, in its plural form.
    pub resource: &'a str,
    /// The subresource; empty if there is none.
    pub subresource: &'a str,
    /// The namespace; empty for cluster-scoped requests and across namespaces.
    pub namespace: &'a str,
    /// The name of the object; empty for collections.
    pub name: &'a str,
}

/// The decision of an [`Authorizer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allow,
    /// The request is denied; the text is appended to the message of the 403 response.
    Deny(String),
}

/// Decides what an identity may do.
pub trait Authorizer: Send + Sync {
    /// Decides whether the request is allowed. Must not block.
    fn decide(&self, attributes: &Attributes<'_>) -> Decision;
}

/// An [`Authorizer`] that allows everything to authenticated users, and health checks to all.
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
