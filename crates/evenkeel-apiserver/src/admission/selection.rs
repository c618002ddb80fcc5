//! What the rules and selectors of webhooks and policies match in a request.

use std::sync::Arc;

use serde_json::Value;

use super::rules::Requested;
use crate::codec;
use crate::context::{Attributes, Operation};
use crate::object::Metadata as _;
use crate::pipeline::manage::other_versions;
use crate::registry::resource::Resource;
use crate::selector::LabelSelector;
use crate::status::{GroupResource, Status};
use crate::storage::{Key, Labels};

/// The selectors of a webhook or of a policy.
pub(super) struct Selectors {
    namespace: Result<LabelSelector, String>,
    object: Result<LabelSelector, String>,
}

impl Selectors {
    /// Parses `namespaceSelector` and `objectSelector`.
    pub(super) fn parse(owner: &Value) -> Self {
        Self {
            namespace: LabelSelector::from_object(&owner["namespaceSelector"]),
            object: LabelSelector::from_object(&owner["objectSelector"]),
        }
    }

    /// Returns whether the selectors match the request.
    pub(super) fn matches(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        Ok(self.namespace_matches(attributes)? && self.object_matches(attributes)?)
    }

    /// Returns whether the namespace selector matches the request.
    pub(super) fn namespace_matches(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        let cx = attributes.cx;
        let is_namespace = is_namespaces(&cx.resource);
        if namespace(attributes).is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = self.namespace.as_ref().map_err(Status::internal)?;
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
            None => {
                Err(Status::not_found(GroupResource { group: "", resource: "namespaces" }, name))
            }
        }
    }

    /// Returns whether the object selector matches the request.
    pub(super) fn object_matches(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        let selector = self.object.as_ref().map_err(Status::internal)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let either = [attributes.object.as_deref(), attributes.old];
        Ok(either.into_iter().flatten().any(|object| labels_match(selector, Some(object))))
    }
}

fn labels_match(selector: &LabelSelector, object: Option<&Value>) -> bool {
    selector.matches(&object.map_or_else(Labels::default, codec::labels))
}

/// Returns what rules match if the request were on `resource`.
pub(super) fn requested<'a>(
    attributes: &'a Attributes<'_>,
    resource: &'a Resource,
) -> Requested<'a> {
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
pub(super) fn served_versions(attributes: &Attributes<'_>) -> Vec<Arc<Resource>> {
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
