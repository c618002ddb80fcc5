//! Discovery documents of the served resources.
//!
//! There are two forms: one document per group-version, and the aggregated one that current clients
//! fetch in a single request. Both are built once per snapshot of the registry.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};

use super::resource::{Resource, Subresource};
use super::{Group, GroupVersion, Snapshot};
use crate::digest;
use crate::json;

/// The aggregated documents of one snapshot, encoded on first use.
#[derive(Default)]
pub(crate) struct Documents {
    core: OnceLock<Document>,
    groups: OnceLock<Document>,
}

/// The OpenAPI documents of one snapshot, which `openapi/` renders on first use.
#[derive(Default)]
pub(crate) struct OpenApiDocuments {
    pub(crate) v2: OnceLock<Document>,
    pub(crate) index: OnceLock<Document>,
    v3: Mutex<BTreeMap<String, Arc<Document>>>,
}

impl OpenApiDocuments {
    /// Returns the v3 documents by path.
    pub(crate) fn v3(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Document>>> {
        self.v3.lock()
    }
}

/// An encoded document and its ETag.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) body: Bytes,
    pub(crate) etag: String,
    /// The protobuf encoding, on first use. It has the same ETag.
    protobuf: OnceLock<Bytes>,
}

impl Document {
    pub(crate) fn new(value: &Value) -> Self {
        let mut body = json::to_bytes(value);
        body.push(b'\n');
        let body = Bytes::from(body);
        let etag = format!("\"{}\"", digest::sha512_hex(&body));
        Self { body, etag, protobuf: OnceLock::new() }
    }

    /// Returns the document encoded by `encode`.
    pub(crate) fn protobuf(&self, encode: impl FnOnce(&Value) -> Vec<u8>) -> &Bytes {
        self.protobuf.get_or_init(|| {
            // Encoded JSON can always be decoded.
            let document = serde_json::from_slice(&self.body).unwrap_or_default();
            encode(&document).into()
        })
    }

    /// Creates a document with a known ETag.
    pub(crate) fn tagged(value: &Value, tag: &str) -> Self {
        let body = Bytes::from(json::to_bytes(value));
        Self { body, etag: format!("\"{tag}\""), protobuf: OnceLock::new() }
    }
}

impl Snapshot {
    /// Returns `/api` or `/apis` in the aggregated form.
    pub(crate) fn aggregated(&self, core: bool) -> &Document {
        let slot = if core { &self.documents().core } else { &self.documents().groups };
        slot.get_or_init(|| {
            let items: Vec<Value> = self
                .groups()
                .filter(|group| group.name.is_empty() == core)
                .map(aggregated_group)
                .collect();
            Document::new(&json!({
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            }))
        })
    }

    /// Returns `/apis`: the groups with their versions.
    pub(crate) fn group_list(&self) -> Value {
        let groups: Vec<Value> = self
            .groups()
            .filter(|group| !group.name.is_empty())
            .map(|group| Value::Object(group_fields(group)))
            .collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }
}

/// Returns `/apis/<group>`.
pub(crate) fn api_group(group: &Group) -> Value {
    let mut fields = group_fields(group);
    fields.insert("kind".into(), "APIGroup".into());
    fields.insert("apiVersion".into(), "v1".into());
    Value::Object(fields)
}

fn group_fields(group: &Group) -> Map<String, Value> {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|v| json!({"groupVersion": group_version_name(group, v), "version": v.version}))
        .collect();
    let mut fields = Map::new();
    fields.insert("name".into(), Value::from(&*group.name));
    if let Some(preferred) = versions.first() {
        fields.insert("preferredVersion".into(), preferred.clone());
    }
    fields.insert("versions".into(), versions.into());
    fields
}

fn group_version_name(group: &Group, version: &GroupVersion) -> String {
    if group.name.is_empty() {
        version.version.to_string()
    } else {
        format!("{}/{}", group.name, version.version)
    }
}

/// Returns `/api/v1` or `/apis/<group>/<version>`: the resources and their subresources.
pub(crate) fn resource_list(group: &str, version: &GroupVersion) -> Value {
    let mut resources = Vec::new();
    for resource in &version.resources {
        resources.push(legacy_resource(resource));
        for sub in &resource.subresources {
            resources.push(legacy_subresource(resource, sub));
        }
    }
    let name = match group {
        "" => version.version.to_string(),
        group => format!("{group}/{}", version.version),
    };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": name, "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

fn legacy_resource(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": &*resource.plural,
        "singularName": &*resource.singular,
        "namespaced": resource.namespaced,
        "kind": &*resource.kind,
        "verbs": resource.verbs,
    });
    names_and_categories(&mut entry, resource);
    if resource.is_stored() {
        entry["storageVersionHash"] = storage_version_hash(resource).into();
    }
    entry
}

fn legacy_subresource(resource: &Resource, sub: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, sub.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": sub.kind,
        "verbs": sub.verbs,
    });
    if !sub.group.is_empty() {
        entry["group"] = sub.group.into();
    }
    if !sub.version.is_empty() {
        entry["version"] = sub.version.into();
    }
    entry
}

fn aggregated_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> =
                version.resources.iter().map(|r| aggregated_resource(r)).collect();
            json!({"version": version.version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let mut metadata = json!({});
    if !group.name.is_empty() {
        metadata["name"] = Value::from(&*group.name);
    }
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(resource: &Resource) -> Value {
    // The kinds of built-in resources have no group and version here.
    let custom = resource.is_custom();
    let own = |kind: &str| {
        let (group, version) =
            if custom { (&*resource.group, &*resource.version) } else { ("", "") };
        json!({"group": group, "version": version, "kind": kind})
    };
    let mut entry = json!({
        "resource": &*resource.plural,
        "responseKind": own(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*resource.singular,
        "verbs": resource.verbs,
    });
    names_and_categories(&mut entry, resource);
    if !resource.subresources.is_empty() {
        let subs = resource.subresources.iter().map(|sub| {
            let kind = if sub.group.is_empty() && sub.version.is_empty() {
                own(&sub.kind)
            } else {
                json!({"group": sub.group, "version": sub.version, "kind": sub.kind})
            };
            json!({"subresource": sub.name, "responseKind": kind, "verbs": sub.verbs})
        });
        entry["subresources"] = subs.collect();
    }
    entry
}

fn names_and_categories(entry: &mut Value, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry["shortNames"] =
            resource.short_names.iter().map(|name| Value::from(&**name)).collect();
    }
    if !resource.categories.is_empty() {
        entry["categories"] = resource.categories.iter().map(|name| Value::from(&**name)).collect();
    }
}

/// Returns a hash that changes with the storage version of a resource.
fn storage_version_hash(resource: &Resource) -> String {
    let gvk = resource.storage_gvk();
    let name = format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind);
    digest::base64(&digest::sha256(name.as_bytes())[..8])
}
