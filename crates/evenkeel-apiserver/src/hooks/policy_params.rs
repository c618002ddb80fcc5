//! The permissions that parameters of admission policies require: a policy reads objects for its
//! author, so the author must be able to read them.

use evenkeel_schema::field;
use evenkeel_types::{Gvk, go};
use serde_json::{Value, json};

use crate::authz::{Attributes, Decision, ResourceAttributes};
use crate::context::RequestContext;
use crate::identity::{Identity, MASTERS};
use crate::storage::Key;

/// Returns the error of a policy whose `paramKind` the user cannot read.
pub(super) fn authorize_policy(
    cx: &RequestContext,
    policy: &Value,
    old: Option<&Value>,
) -> Option<field::Error> {
    let kind = &policy["spec"]["paramKind"];
    let unchanged = old.is_some_and(|old| old["spec"]["paramKind"] == *kind);
    if kind.is_null() || unchanged || cx.identity.is_in(MASTERS) {
        return None;
    }
    let required = Required::of_kind(cx, kind);
    if required.is_allowed(cx, "get", "*", "*") {
        return None;
    }
    let text = |field: &str| kind[field].as_str().unwrap_or("");
    let why = format!(
        "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, \
         apiVersion={})",
        printed(&cx.identity),
        text("kind"),
        text("apiVersion"),
    );
    Some(field::Error::forbidden("spec.paramKind", why))
}

/// Returns the error of a binding whose `paramRef` the user cannot read. `policies` is the table of
/// its policy, and `denied` the message with the user and the verb.
///
/// Every update is checked: upstream compares the addresses of the old and the new action for missing
/// parameters, which always differ.
pub(super) fn authorize_binding(
    cx: &RequestContext,
    binding: &Value,
    policies: &'static str,
    denied: fn(&str, &str) -> String,
) -> Option<field::Error> {
    let reference = &binding["spec"]["paramRef"];
    if reference.is_null() || cx.identity.is_in(MASTERS) {
        return None;
    }
    let policy_name = binding["spec"]["policyName"].as_str().unwrap_or("");
    let policy = cx.core.store.table(policies).get(&Key::new("", policy_name));
    let policy: Option<Value> = policy.and_then(|record| serde_json::from_slice(&record.body).ok());
    let kind = policy.as_ref().map_or(&Value::Null, |policy| &policy["spec"]["paramKind"]);
    let required = if kind.is_null() { Required::all() } else { Required::of_kind(cx, kind) };
    let text = |field: &str| reference[field].as_str().unwrap_or("");
    let verb = if text("name").is_empty() { "list" } else { "get" };
    if required.is_allowed(cx, verb, text("namespace"), text("name")) {
        return None;
    }
    let user = printed(&cx.identity);
    let unknown = |what: String| {
        format!(
            "unable to {what} to determine minimum required permissions and user {user} does not \
             have \"{verb}\" permission for all groups, versions and resources"
        )
    };
    let why = if policy.is_none() {
        unknown(format!("get policy {policy_name}"))
    } else if !kind.is_null() && required.resource == "*" {
        let of = |field: &str| kind[field].as_str().unwrap_or("");
        unknown(format!("resolve paramKind &{{{} {}}}", of("apiVersion"), of("kind")))
    } else {
        denied(&user, verb)
    };
    Some(field::Error::forbidden("spec.paramRef", why))
}

/// The message about a binding of a validating policy.
pub(super) fn validating_denied(user: &str, verb: &str) -> String {
    format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef")
}

/// The message about a binding of a mutating policy: upstream's has the user and the verb in each
/// other's place.
pub(super) fn mutating_denied(user: &str, verb: &str) -> String {
    validating_denied(verb, user)
}

/// The resource that the user must be able to read; `*` where it is not known.
struct Required {
    group: String,
    version: String,
    resource: String,
}

impl Required {
    fn all() -> Self {
        let all = || "*".to_owned();
        Self { group: all(), version: all(), resource: all() }
    }

    fn of_kind(cx: &RequestContext, kind: &Value) -> Self {
        let text = |field: &str| kind[field].as_str().unwrap_or("");
        let gvk = Gvk::from_api_version(text("apiVersion"), text("kind"));
        let snapshot = cx.core.registry.snapshot();
        let found = snapshot.resources().find(|resource| resource.gvk() == gvk);
        Self {
            resource: found.map_or("*", |found| &*found.plural).to_owned(),
            group: gvk.group.into(),
            version: gvk.version.into(),
        }
    }

    fn is_allowed(&self, cx: &RequestContext, verb: &str, namespace: &str, name: &str) -> bool {
        let resource = ResourceAttributes {
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            namespace,
            name,
            ..ResourceAttributes::default()
        };
        let attributes =
            Attributes { user: &cx.identity, verb, path: "", resource: Some(resource) };
        let allowed = cx.core.authorizer.decide(&attributes) == Decision::Allow;
        // Recorded in the terms of a role: all namespaces and all names.
        let all = |value| if value == "*" { "" } else { value };
        let resource =
            ResourceAttributes { namespace: all(namespace), name: all(name), ..resource };
        cx.core.record_access(&Attributes { resource: Some(resource), ..attributes }, allowed);
        allowed
    }
}

/// The user as Go prints it.
fn printed(user: &Identity) -> String {
    let Identity { user: name, uid, groups, extra } = user;
    let (groups, extra) = (go::format_v(&json!(groups)), go::format_v(&json!(extra)));
    format!("&{{{name} {uid} {groups} {extra}}}")
}
