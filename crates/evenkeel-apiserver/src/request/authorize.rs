//! Authorization.

use super::Routed;
use super::authenticate::Authenticated;
use super::route::{ResourceRoute, Route};
use crate::access::AccessTrail;
use crate::audit::{AuditTrail, Level};
use crate::authz::{Attributes, Authorizer, Decision, ResourceAttributes};
use crate::identity::Identity;
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

/// Authorizes a request, and records the decision in both trails.
pub(crate) fn authorize(
    authorizer: &dyn Authorizer,
    trail: Option<&AccessTrail>,
    audit: &AuditTrail,
    request: Authenticated,
) -> Result<Authorized, Status> {
    let Authenticated { routed, identity, .. } = request;
    let method = routed.parts.method.as_str().to_ascii_lowercase();
    let path = routed.parts.uri.path();
    let attributes = attributes(&identity, &routed.route, &method, path);
    let decision = recorded(authorizer, trail, &attributes);
    if audit.records(Level::Metadata) {
        match &decision {
            Decision::Allow => {
                let reason = authorizer.allow_reason(&attributes).unwrap_or_default();
                audit.decided("allow", &reason);
            }
            Decision::Deny(reason) => audit.decided("forbid", reason),
        }
    }
    result(decision, &attributes)?;
    Ok(Authorized { routed, identity })
}

/// Checks that the request with these attributes is allowed, and records the decision in the trail.
pub(crate) fn decide(
    authorizer: &dyn Authorizer,
    trail: Option<&AccessTrail>,
    attributes: &Attributes<'_>,
) -> Result<(), Status> {
    result(recorded(authorizer, trail, attributes), attributes)
}

fn recorded(
    authorizer: &dyn Authorizer,
    trail: Option<&AccessTrail>,
    attributes: &Attributes<'_>,
) -> Decision {
    let decision = authorizer.decide(attributes);
    if let Some(trail) = trail {
        trail.record(attributes, decision == Decision::Allow);
    }
    decision
}

fn result(decision: Decision, attributes: &Attributes<'_>) -> Result<(), Status> {
    match decision {
        Decision::Allow => Ok(()),
        Decision::Deny(reason) => Err(forbidden(attributes, &reason)),
    }
}

/// Returns the attributes of a routed request.
pub(crate) fn attributes<'a>(
    user: &'a Identity,
    route: &'a Route,
    method: &'a str,
    path: &'a str,
) -> Attributes<'a> {
    match route {
        Route::Path => Attributes { user, verb: method, path, resource: None },
        Route::Resource(
            route @ ResourceRoute {
                verb,
                group,
                version,
                namespace,
                plural,
                name,
                subresource,
                selected_fields,
                ..
            },
        ) => Attributes {
            user,
            verb: verb.name(),
            path,
            resource: Some(ResourceAttributes {
                group,
                version,
                resource: plural,
                subresource: subresource.as_deref().unwrap_or(""),
                // A namespace counts as inside itself, so that a role in it can grant access to it.
                namespace: match name {
                    Some(name) if plural == "namespaces" => name,
                    _ => namespace,
                },
                name: name.as_deref().or_else(|| route.selected_name()).unwrap_or(""),
                selected_fields,
            }),
        },
    }
}

/// Returns the 403 status of a request that is not authorized.
pub(crate) fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Status {
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
