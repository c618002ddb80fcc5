//! The attributes of a request as webhooks and expressions see them (`AdmissionRequest`).

use std::collections::BTreeMap;

use evenkeel_types::Gvk;
use serde::Serialize;
use serde_json::{Value, json};

use super::{rules, selection};
use crate::context::{Attributes, Operation};
use crate::registry::resource::Resource;

/// An `AdmissionRequest` without its objects and options.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    pub(super) uid: &'a str,
    kind: Kind<'a>,
    resource: ResourceName<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: Kind<'a>,
    request_resource: ResourceName<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'static str,
    user_info: UserInfo<'a>,
}

#[derive(Serialize)]
struct Kind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

#[derive(Serialize)]
struct ResourceName<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
}

#[derive(Serialize)]
struct UserInfo<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
}

impl<'a> From<Gvk<'a>> for Kind<'a> {
    fn from(gvk: Gvk<'a>) -> Self {
        Self { group: gvk.group, version: gvk.version, kind: gvk.kind }
    }
}

impl<'a> From<&'a Resource> for ResourceName<'a> {
    fn from(resource: &'a Resource) -> Self {
        Self { group: &resource.group, version: &resource.version, resource: &resource.plural }
    }
}

impl<'a> Request<'a> {
    /// Describes a request whose object is seen as `kind` of `resource`.
    pub(super) fn new(
        attributes: &'a Attributes<'_>,
        kind: Gvk<'a>,
        resource: &'a Resource,
    ) -> Self {
        let cx = attributes.cx;
        let subresource = cx.subresource.as_deref().unwrap_or("");
        Self {
            uid: "",
            kind: kind.into(),
            resource: resource.into(),
            sub_resource: subresource,
            request_kind: attributes.kind.into(),
            request_resource: (&*cx.resource).into(),
            request_sub_resource: subresource,
            name: selection::name(attributes),
            namespace: selection::namespace(attributes),
            operation: rules::name(attributes.operation),
            user_info: UserInfo {
                username: &cx.identity.user,
                uid: &cx.identity.uid,
                groups: &cx.identity.groups,
                extra: &cx.identity.extra,
            },
        }
    }

    /// Returns the request as expressions see it.
    pub(super) fn to_value(&self, attributes: &Attributes<'_>) -> Value {
        let mut request = serde_json::to_value(self).unwrap_or_default();
        request["dryRun"] = attributes.dry_run.into();
        request["options"] = options(attributes).unwrap_or_default();
        request
    }
}

/// Returns the options of the operation.
pub(super) fn options(attributes: &Attributes<'_>) -> Option<Value> {
    let query = &attributes.cx.query;
    let (kind, mut options) = match (attributes.operation, attributes.delete_options) {
        (Operation::Connect, _) => return None,
        (Operation::Delete, Some(options)) => ("DeleteOptions", options.to_value()),
        (Operation::Delete, None) => ("DeleteOptions", json!({})),
        (Operation::Create, _) => ("CreateOptions", json!({})),
        (Operation::Update, _) => ("UpdateOptions", json!({})),
    };
    if attributes.operation != Operation::Delete {
        if attributes.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        for field in ["fieldManager", "fieldValidation"] {
            if let Some(value) = query.get(field).filter(|value| !value.is_empty()) {
                options[field] = value.into();
            }
        }
    }
    options["kind"] = kind.into();
    options["apiVersion"] = "meta.k8s.io/v1".into();
    Some(options)
}
