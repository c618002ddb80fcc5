//! Stage 4: authorization.

use std::sync::Arc;

use super::Routed;
use super::authenticate::Authenticated;
use crate::authz::{self, Decision};
use crate::context::Core;
use crate::identity::Identity;
use crate::request::route::Route;
use crate::status::{GroupResource, Status};

/// An authorized request.
pub(crate) struct Authorized {
    routed: Routed,
    identity: Identity,
}

impl Authorized {
    pub(crate) fn route(&self) -> &Route {
        &self.routed.route
    }

    pub(crate) fn request(&self) -> &Routed {
        &self.routed
    }

    pub(crate) fn into_parts(self) -> (Routed, Identity) {
        (self.routed, self.identity)
    }
}

pub(crate) fn authorize(core: &Arc<Core>, request: Authenticated) -> Result<Authorized, Status> {
    let Authenticated { routed, identity } = request;
    let method = routed.parts.method.as_str().to_ascii_lowercase();
    let path = routed.parts.uri.path();
    let attributes = authz::attributes(&identity, &routed.route, &method, path);
    match core.authorizer.decide(&attributes) {
        Decision::Allow => Ok(Authorized { routed, identity }),
        Decision::Deny(reason) => Err(forbidden(&attributes, &reason)),
    }
}

/// Returns the 403 status of a request that is not authorized.
pub(super) fn forbidden(attributes: &authz::Attributes<'_>, reason: &str) -> Status {
    let user = &attributes.user.user;
    let verb = attributes.verb;
    let suffix = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let Some(resource) = &attributes.resource else {
        let why = sanitize(&format!("User {user:?} cannot {verb} path {:?}", attributes.path));
        return Status::forbidden_path(format!("forbidden: {why}{suffix}"));
    };
    let plural = match resource.subresource {
        "" => resource.resource.to_owned(),
        subresource => format!("{}/{subresource}", resource.resource),
    };
    let place = match resource.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = sanitize(&format!(
        "User {user:?} cannot {verb} resource {plural:?} in API group {:?} {place}",
        resource.group
    ));
    let named = GroupResource { group: resource.group, resource: resource.resource };
    Status::forbidden(named, resource.name, &format!("{why}{suffix}"))
}

/// Escapes HTML in text of the request.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
