//! Decides which webhooks a request is sent to.

use std::cell::OnceCell;
use std::sync::Arc;

use evenkeel_types::Gvk;
use serde_json::Value;

use super::hook::Hook;
use super::index::Index;
use super::rules::Requested;
use crate::codec;
use crate::context::{Attributes, Operation};
use crate::object::Metadata as _;
use crate::pipeline::manage::other_versions;
use crate::registry::resource::Resource;
use crate::selector::LabelSelector;
use crate::status::{GroupResource, Status};
use crate::storage::{Key, Labels};

/// The kinds that configure admission itself, which webhooks do not see.
const EXEMPT: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// A webhook whose rules match the request.
pub(super) struct Invocation {
    pub(super) hook: Arc<Hook>,
    /// The position among all webhooks.
    pub(super) index: usize,
    /// The version of the resource that the rules match.
    pub(super) resource: Arc<Resource>,
}

impl Invocation {
    /// Returns the kind that the webhook receives.
    pub(super) fn kind(&self, subresource: Option<&str>) -> Gvk<'_> {
        self.resource.gvk_of(subresource)
    }
}

/// Returns the webhooks whose rules match the request. Selectors are evaluated for the object as it
/// is when the webhook is called.
pub(super) fn invocations(index: &Index, attributes: &Attributes<'_>) -> Vec<Invocation> {
    let hooks = index.hooks();
    let kind = attributes.kind;
    let exempt = kind.group == "admissionregistration.k8s.io" && EXEMPT.contains(&kind.kind);
    if hooks.is_empty() || exempt {
        return Vec::new();
    }
    let cx = attributes.cx;
    let equivalents = OnceCell::new();
    let matching = |hook: &Hook| {
        let own = &cx.resource;
        if hook.rules.iter().any(|rule| rule.matches(requested(attributes, own))) {
            return Some(own.clone());
        }
        if !hook.equivalent {
            return None;
        }
        let others: &Vec<Arc<Resource>> = equivalents.get_or_init(|| served_versions(attributes));
        // Earlier rules first.
        hook.rules.iter().find_map(|rule| {
            let mut others = others.iter();
            others.find(|other| rule.matches(requested(attributes, other))).cloned()
        })
    };
    let found = (0..).zip(&*hooks).filter_map(|(index, hook)| {
        Some(Invocation { resource: matching(hook)?, hook: hook.clone(), index })
    });
    found.collect()
}

fn requested<'a>(attributes: &'a Attributes<'_>, resource: &'a Resource) -> Requested<'a> {
    let cx = attributes.cx;
    Requested {
        operation: attributes.operation,
        group: &resource.group,
        version: &resource.version,
        resource: &resource.plural,
        subresource: cx.subresource.as_deref().unwrap_or(""),
        namespaced: !cx.namespace.is_empty() && !is_namespaces(&cx.resource),
    }
}

/// Returns the other served versions of the resource.
fn served_versions(attributes: &Attributes<'_>) -> Vec<Arc<Resource>> {
    let cx = attributes.cx;
    let unserved = cx.resource.custom().map(|custom| &*custom.unserved).unwrap_or_default();
    let mut others = other_versions(cx);
    others.retain(|other| !unserved.iter().any(|it| it.api_version == other.api_version));
    others
}

fn is_namespaces(resource: &Resource) -> bool {
    resource.is("", "namespaces")
}

/// Returns the name of the object in reviews.
pub(super) fn name<'a>(attributes: &'a Attributes<'_>) -> &'a str {
    match (attributes.cx.name(), attributes.operation) {
        ("", Operation::Create) => {
            attributes.object.as_deref().map_or("", |object| object.meta_str("name"))
        }
        (name, _) => name,
    }
}

/// Returns the namespace in reviews; that of a namespace is its name.
pub(super) fn namespace<'a>(attributes: &'a Attributes<'_>) -> &'a str {
    if is_namespaces(&attributes.cx.resource) {
        return name(attributes);
    }
    &attributes.cx.namespace
}

/// Returns whether the selectors of the webhook match the request.
pub(super) fn is_selected(hook: &Hook, attributes: &Attributes<'_>) -> Result<bool, Status> {
    Ok(namespace_matches(hook, attributes)? && object_matches(hook, attributes)?)
}

fn namespace_matches(hook: &Hook, attributes: &Attributes<'_>) -> Result<bool, Status> {
    let cx = attributes.cx;
    let is_namespace = is_namespaces(&cx.resource);
    if namespace(attributes).is_empty() && !is_namespace {
        return Ok(true);
    }
    let selector = hook.namespace_selector.as_ref().map_err(Status::internal)?;
    if selector.is_empty() {
        return Ok(true);
    }
    let written = matches!(attributes.operation, Operation::Create | Operation::Update);
    if is_namespace && cx.subresource.is_none() && written {
        return Ok(labels_match(selector, attributes.object.as_deref()));
    }
    let name = namespace(attributes);
    match cx.core.store.table("namespaces").get(&Key::new("", name)) {
        Some(record) => Ok(selector.matches(&record.labels)),
        None => Err(Status::not_found(GroupResource { group: "", resource: "namespaces" }, name)),
    }
}

fn object_matches(hook: &Hook, attributes: &Attributes<'_>) -> Result<bool, Status> {
    let selector = hook.object_selector.as_ref().map_err(Status::internal)?;
    if selector.is_empty() {
        return Ok(true);
    }
    let either = [attributes.object.as_deref(), attributes.old];
    Ok(either.into_iter().flatten().any(|object| labels_match(selector, Some(object))))
}

fn labels_match(selector: &LabelSelector, object: Option<&Value>) -> bool {
    selector.matches(&object.map_or_else(Labels::default, codec::labels))
}
