//! Impersonation. A request with `Impersonate-*` headers continues as the requested user,
//! if the requestor may impersonate that user.
//!
//! Follows upstream's constrained impersonation: the modes of [`MODES`] are tried in order, then
//! the legacy `impersonate` verb. A constrained mode needs two permissions, one for the user
//! (`impersonate:<mode>`) and one for the action (`impersonate-on:<mode>:<verb>`). The first mode
//! that allows the request wins; if none does, the first error is returned.

use std::collections::BTreeMap;

use evenkeel_kinds::validate;
use evenkeel_schema::names;
use http::{HeaderMap, HeaderName};

use super::authenticate::Authenticated;
use super::authorize::{attributes, forbidden};
use crate::access::{AccessTrail, Recording};
use crate::authz::{Attributes, Authorizer, Decision, ResourceAttributes};
use crate::identity::{
    ANONYMOUS, AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED, service_account,
    service_account_groups,
};
use crate::request::query::decode_path;
use crate::status::Status;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

/// The API group of users, groups, uids and extras in constrained modes.
const AUTHENTICATION: &str = "authentication.k8s.io";
/// The group of all nodes.
const NODES: &str = "system:nodes";
/// The extra key with the node of the pod that a service account token is bound to.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// With at least this many values, a constrained mode authorizes the wildcard first.
const WILDCARD_THRESHOLD: usize = 4;

/// Replaces the identity of a request that impersonates a user, and records the checks in the trail.
pub(crate) fn impersonate(
    authorizer: &dyn Authorizer,
    trail: Option<&AccessTrail>,
    mut request: Authenticated,
) -> Result<Authenticated, Status> {
    let Some(requested) = take_requested(&mut request.routed.parts.headers)? else {
        return Ok(request);
    };
    let parts = &request.routed.parts;
    let method = parts.method.as_str().to_ascii_lowercase();
    let attributes =
        attributes(&request.identity, &request.routed.route, &method, parts.uri.path());
    let authorized = authorize_any_mode(authorizer, &requested, &attributes);
    if let Some(trail) = trail {
        // Of the modes that were tried, the one that allows the request counts; if none does, the
        // legacy one, which needs the fewest permissions.
        let mode = authorized.as_ref().map_or(&LEGACY, |(_, mode)| *mode);
        let recording = Recording { authorizer, trail, allowed: authorized.is_ok() };
        // Its outcome is known.
        let _ = mode.check(&recording, &requested, &attributes);
    }
    let (impersonated, mode) = authorized?;
    let constraint = mode.constraint();
    tracing::debug!(
        requestor = request.identity.user,
        user = impersonated.user,
        "impersonating a user"
    );
    request.impersonated_by = Some(constraint);
    request.identity = impersonated;
    Ok(request)
}

/// Reads the requested user from the headers and removes them, so that later stages cannot
/// distinguish an impersonated request.
fn take_requested(headers: &mut HeaderMap) -> Result<Option<Identity>, Status> {
    let text = |name: &str| {
        let value = headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        value.unwrap_or_default().into_owned()
    };
    let all = |name: &HeaderName| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let mut requested = Identity { user: text(USER), uid: text(UID), ..Identity::default() };
    requested.groups = all(&HeaderName::from_static(GROUP));
    let extras: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(EXTRA)).cloned().collect();
    for name in &extras {
        let key = decode_path(&name.as_str()[EXTRA.len()..]).into_owned();
        requested.extra.entry(key).or_default().extend(all(name));
    }
    if requested.user.is_empty() {
        if requested.uid.is_empty() && requested.groups.is_empty() && extras.is_empty() {
            return Ok(None);
        }
        let shown = go_syntax(&requested);
        return Err(Status::bad_request(format!(
            "requested {shown} without impersonating a user name"
        )));
    }
    for name in [USER, UID, GROUP].map(HeaderName::from_static).iter().chain(&extras) {
        headers.remove(name);
    }
    Ok(Some(requested))
}

/// Formats a user like Go's `%#v`, for the error message.
fn go_syntax(user: &Identity) -> String {
    let strings = |values: &[String]| {
        let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => strings(groups),
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let pairs = user.extra.iter().map(|(key, values)| format!("{key:?}:{}", strings(values)));
        format!("map[string][]string{{{}}}", pairs.collect::<Vec<_>>().join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{:?}, UID:{:?}, Groups:{groups}, Extra:{extra}}}",
        user.user, user.uid
    )
}

/// A mode of impersonation: the users it covers, and the permissions it requires.
struct Mode {
    /// Empty for legacy impersonation.
    name: &'static str,
    covers: fn(&Identity, &Identity) -> bool,
}

/// In the order upstream tries them.
const MODES: [Mode; 5] = [
    Mode { name: "associated-node", covers: is_own_node },
    Mode {
        name: "arbitrary-node",
        covers: |requested, _| only_user(requested) && node(requested).is_some(),
    },
    Mode {
        name: "serviceaccount",
        covers: |requested, _| only_user(requested) && service_account(&requested.user).is_some(),
    },
    Mode {
        name: "user-info",
        covers: |requested, _| {
            node(requested).is_none() && service_account(&requested.user).is_none()
        },
    },
    LEGACY,
];

const LEGACY: Mode = Mode { name: "", covers: |_, _| true };

fn only_user(requested: &Identity) -> bool {
    requested.uid.is_empty() && requested.groups.is_empty() && requested.extra.is_empty()
}

/// Returns the node with this user name.
fn node(user: &Identity) -> Option<&str> {
    let name = user.user.strip_prefix("system:node:")?;
    names::dns1123_subdomain(name).is_empty().then_some(name)
}

/// Returns whether `requestor` is a service account whose token is bound to a pod on the requested
/// node.
fn is_own_node(requested: &Identity, requestor: &Identity) -> bool {
    let own = match requestor.extra.get(NODE_NAME).map(Vec::as_slice) {
        Some([one]) => Some(one.as_str()),
        _ => None,
    };
    only_user(requested)
        && node(requested).is_some_and(|node| own == Some(node))
        && service_account(&requestor.user).is_some()
}

/// Returns the impersonated user, authorized by the first mode that allows it.
fn authorize_any_mode(
    authorizer: &dyn Authorizer,
    requested: &Identity,
    attributes: &Attributes<'_>,
) -> Result<(Identity, &'static Mode), Status> {
    let mut refusal = None;
    for mode in MODES.iter().filter(|mode| (mode.covers)(requested, attributes.user)) {
        match mode.check(authorizer, requested, attributes) {
            Ok(identity) => return Ok((identity, mode)),
            Err(status) => refusal = refusal.or(Some(status)),
        }
    }
    Err(refusal.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
}

impl Mode {
    fn is_constrained(&self) -> bool {
        !self.name.is_empty()
    }

    /// Returns the verb of a constrained mode; empty for legacy impersonation.
    fn constraint(&self) -> String {
        if self.is_constrained() { format!("impersonate:{}", self.name) } else { String::new() }
    }

    fn check(
        &self,
        authorizer: &dyn Authorizer,
        requested: &Identity,
        attributes: &Attributes<'_>,
    ) -> Result<Identity, Status> {
        // The permissions of a node agent are the same on every node.
        let agent = (self.name == "associated-node").then(|| without_node(attributes.user));
        let requestor = agent.as_ref().unwrap_or(attributes.user);
        if self.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.name, attributes.verb);
            let on = Attributes {
                user: requestor,
                verb: &verb,
                path: attributes.path,
                resource: attributes.resource,
            };
            authorize(authorizer, &on)?;
        }
        let verb = match self.name {
            "" => "impersonate".to_owned(),
            name => format!("impersonate:{name}"),
        };
        let check = Check { authorizer, mode: self, requestor, verb: &verb };
        let groups = check.user(requested)?;
        check.uid(requested)?;
        check.groups(requested)?;
        check.extra(requested)?;
        Ok(with_system_group(Identity { groups, ..requested.clone() }))
    }
}

/// Returns the requestor with the keys of its extra values only.
fn without_node(requestor: &Identity) -> Identity {
    let keys = requestor.extra.keys().cloned().collect();
    let known = "authentication.kubernetes.io/associated-node-keys".to_owned();
    Identity { extra: BTreeMap::from([(known, keys)]), ..requestor.clone() }
}

/// Adds the group of all authenticated or unauthenticated users.
fn with_system_group(mut user: Identity) -> Identity {
    let group = match user.user == ANONYMOUS {
        true => UNAUTHENTICATED,
        false if user.is_in(UNAUTHENTICATED) => return user,
        false => AUTHENTICATED,
    };
    if !user.is_in(group) {
        user.groups.push(group.to_owned());
    }
    user
}

/// The checks of permissions on each part of the requested user.
struct Check<'a> {
    authorizer: &'a dyn Authorizer,
    mode: &'a Mode,
    requestor: &'a Identity,
    verb: &'a str,
}

impl Check<'_> {
    /// Authorizes the user name and returns the groups of the user.
    fn user(&self, requested: &Identity) -> Result<Vec<String>, Status> {
        let mut groups = requested.groups.clone();
        let group = self.users_group();
        if let Some((namespace, name)) = service_account(&requested.user) {
            if groups.is_empty() {
                groups = service_account_groups(namespace);
            }
            self.authorize(ResourceAttributes {
                namespace,
                ..resource_attributes(group, "serviceaccounts", name)
            })?;
        } else if let Some(name) = node(requested).filter(|_| self.mode.is_constrained()) {
            groups = vec![NODES.to_owned()];
            let name = if self.mode.name == "associated-node" { "*" } else { name };
            self.authorize(resource_attributes(group, "nodes", name))?;
        } else {
            self.authorize(resource_attributes(group, "users", &requested.user))?;
        }
        Ok(groups)
    }

    fn uid(&self, requested: &Identity) -> Result<(), Status> {
        match requested.uid.as_str() {
            "" => Ok(()),
            uid => self.authorize(resource_attributes(AUTHENTICATION, "uids", uid)),
        }
    }

    fn groups(&self, requested: &Identity) -> Result<(), Status> {
        let group = self.users_group();
        if self.mode.is_constrained() {
            if requested.is_in("") {
                let why = "impersonating the empty string group is not allowed";
                return Err(self.refuse(resource_attributes(group, "groups", ""), why));
            }
            if requested.is_in(MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(self.refuse(resource_attributes(group, "groups", MASTERS), why));
            }
            if requested.groups.len() >= WILDCARD_THRESHOLD
                && self.authorize(resource_attributes(group, "groups", "*")).is_ok()
            {
                return Ok(());
            }
        }
        requested
            .groups
            .iter()
            .try_for_each(|name| self.authorize(resource_attributes(group, "groups", name)))
    }

    fn extra(&self, requested: &Identity) -> Result<(), Status> {
        let extras = resource_attributes(AUTHENTICATION, "userextras", "");
        if self.mode.is_constrained() {
            if let Some(why) = invalid_extra(&requested.extra) {
                return Err(self.refuse(extras, &why));
            }
            let values: usize = requested.extra.values().map(Vec::len).sum();
            let every = ResourceAttributes { subresource: "*", name: "*", ..extras };
            if (requested.extra.len() >= WILDCARD_THRESHOLD || values >= WILDCARD_THRESHOLD)
                && self.authorize(every).is_ok()
            {
                return Ok(());
            }
        }
        for (key, values) in &requested.extra {
            for value in values {
                self.authorize(ResourceAttributes { subresource: key, name: value, ..extras })?;
            }
        }
        Ok(())
    }

    /// Returns the API group of users and groups, which is the core group in legacy impersonation.
    fn users_group(&self) -> &'static str {
        if self.mode.is_constrained() { AUTHENTICATION } else { "" }
    }

    fn authorize(&self, resource: ResourceAttributes<'_>) -> Result<(), Status> {
        authorize(self.authorizer, &self.attributes(resource))
    }

    fn refuse(&self, resource: ResourceAttributes<'_>, why: &str) -> Status {
        forbidden(&self.attributes(resource), why)
    }

    fn attributes<'a>(&'a self, resource: ResourceAttributes<'a>) -> Attributes<'a> {
        Attributes { user: self.requestor, verb: self.verb, path: "", resource: Some(resource) }
    }
}

fn resource_attributes<'a>(
    group: &'a str,
    resource: &'a str,
    name: &'a str,
) -> ResourceAttributes<'a> {
    ResourceAttributes {
        group,
        version: "v1",
        resource,
        subresource: "",
        namespace: "",
        name,
        selected_fields: &[],
    }
}

fn authorize(authorizer: &dyn Authorizer, attributes: &Attributes<'_>) -> Result<(), Status> {
    match authorizer.decide(attributes) {
        Decision::Allow => Ok(()),
        Decision::Deny(reason) => Err(forbidden(attributes, &reason)),
    }
}

/// Returns why a constrained mode rejects these extra values.
fn invalid_extra(extra: &BTreeMap<String, Vec<String>>) -> Option<String> {
    extra.iter().find_map(|(key, values)| {
        if key.is_empty() {
            Some("impersonating the empty string key in extra is not allowed".to_owned())
        } else if let [why, ..] = validate::user_extra_key(key).as_slice() {
            Some(format!("impersonating an invalid key in extra is not allowed: {why}"))
        } else if *key != key.to_lowercase() {
            Some(format!("impersonating a non-lowercase key in extra is not allowed: {key:?}"))
        } else if values.is_empty() {
            Some("impersonating empty values in extra is not allowed".to_owned())
        } else if values.iter().any(String::is_empty) {
            Some("impersonating the empty string value in extra is not allowed".to_owned())
        } else {
            None
        }
    })
}
