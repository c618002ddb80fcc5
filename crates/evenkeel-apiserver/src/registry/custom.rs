//! Custom resources, as declared by CustomResourceDefinitions.
//!
//! A CRD is an object like any other; `hooks/custom_resource_definition.rs` runs after each write to one: it accepts names,
//! sets conditions, and serves or withdraws resources. It runs as part of the write, so a CRD takes
//! effect immediately.

mod conversion;

mod names;

pub(crate) mod serve;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use evenkeel_kinds::columns;
use evenkeel_schema::{Structural, jsonpath, record_storage_version};
use evenkeel_types::watch;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

pub(crate) use self::conversion::Conversion;
use super::Registry;
use super::resource::{Part, Resource};
use crate::object::{Metadata as _, metadata_mut, set_meta};

/// The schema and options of one version of a custom resource.
pub(crate) struct Custom {
    /// The name of the CRD.
    pub(crate) crd: Box<str>,
    pub(crate) schema: Structural,
    /// The schemas of all versions by API version: objects are stored in one and read in another.
    pub(crate) schemas: Arc<BTreeMap<Box<str>, Structural>>,
    /// The declared schema, for OpenAPI and server-side apply.
    pub(crate) openapi: Option<Value>,
    pub(crate) has_status: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<Selectable>,
    /// Closed when the CRD is changed or deleted, so that watches end.
    pub(crate) lifetime: watch::Receiver<()>,
    /// The deprecation warning of this version.
    pub(crate) deprecation: Option<Box<str>>,
    /// Whether the CRD is being deleted: no objects can be created.
    pub(crate) terminating: bool,
    /// The conversion webhook of the CRD, if it has one.
    pub(crate) conversion: Option<Arc<Conversion>>,
    /// The versions that are not served; fields written in them still have managers.
    pub(crate) unserved: Arc<[Arc<Resource>]>,
}

/// A selectable field.
pub(crate) struct Selectable {
    /// The name in selectors: `spec.color`.
    pub(crate) label: Box<str>,
    /// The JSON path in the CRD: `.spec.color`.
    pub(crate) json_path: Box<str>,
    path: jsonpath::Path,
}

/// A printer column.
pub(crate) struct Column {
    pub(crate) name: Box<str>,
    pub(crate) ty: Box<str>,
    pub(crate) format: Box<str>,
    pub(crate) description: Box<str>,
    pub(crate) priority: i32,
    path: Option<jsonpath::Path>,
}

/// All CRDs: the resources of established ones, and the accepted names of all. By group, so that
/// the cost of a change depends on its own group only.
#[derive(Default)]
pub(crate) struct Crds {
    served: Mutex<HashMap<Box<str>, ServedGroup>>,
    names: Mutex<HashMap<Box<str>, names::AcceptedNames>>,
}

/// The resources of the established CRDs of one group, by CRD name.
type ServedGroup = BTreeMap<Box<str>, Served>;

struct Served {
    /// The revision of the CRD; older ones do not replace it.
    revision: u64,
    /// The uid, generation and accepted names of the CRD: a change of them replaces the resources.
    identity: (String, i64, Value),
    /// Whether the CRD is being deleted.
    terminating: bool,
    lifetime: watch::Sender<()>,
    resources: Vec<Arc<Resource>>,
    /// Versions that are no longer served, in their last form: their OpenAPI documents remain until
    /// the CRD is deleted.
    withdrawn: Vec<Arc<Resource>>,
}

pub(crate) fn is_crd(resource: &Resource) -> bool {
    resource.is("apiextensions.k8s.io", "customresourcedefinitions")
}

// === CRDs as objects ===

/// Returns whether a condition of the CRD is true.
pub(crate) fn is_true(crd: &Value, condition: &str) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == condition && c["status"] == "True")
}

/// Prepares a new CRD: its status contains the storage version only.
pub(crate) fn prepare_create(crd: &mut Value) {
    set_meta(crd, "generation", Some(1.into()));
    crd["status"] = json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": [],
    });
    record_storage_version(crd);
}

pub(crate) fn prepare_update(crd: &mut Value, old: &Value, part: Part<'_>) {
    if part == Part::Status {
        crd["spec"] = old["spec"].clone();
        keep_metadata(crd, old, &["managedFields", "finalizers"]);
        return;
    }
    crd["status"] = old["status"].clone();
    if crd["spec"] != old["spec"] {
        let generation = old.meta_i64("generation").unwrap_or(0);
        set_meta(crd, "generation", Some((generation + 1).into()));
    }
    record_storage_version(crd);
}

fn storage_version(crd: &Value) -> &str {
    let versions = crd["spec"]["versions"].as_array();
    let storage = versions.into_iter().flatten().find(|version| version["storage"] == true);
    storage.and_then(|version| version["name"].as_str()).unwrap_or("")
}

/// Keeps the metadata of `old`, except some fields.
fn keep_metadata(object: &mut Value, old: &Value, but: &[&str]) {
    let kept: Vec<(&str, Option<Value>)> =
        but.iter().map(|field| (*field, object.meta(field).cloned())).collect();
    *metadata_mut(object) = old["metadata"].as_object().cloned().unwrap_or_default();
    for (field, value) in kept {
        set_meta(object, field, value);
    }
}

// === objects of custom kinds ===

impl Custom {
    pub(crate) fn prepare_update(&self, object: &mut Value, old: &Value, part: Part<'_>) {
        if part == Part::Status {
            let status = object.get("status").cloned();
            let managed = object.meta("managedFields").cloned();
            *object = old.clone();
            set_meta(object, "managedFields", managed);
            if let Value::Object(map) = object {
                match status {
                    Some(status) => map.insert("status".into(), status),
                    None => map.remove("status"),
                };
            }
            return;
        }
        if self.has_status
            && let Value::Object(map) = &mut *object
        {
            match old.get("status") {
                Some(status) => map.insert("status".into(), status.clone()),
                None => map.remove("status"),
            };
        }
        if self.differs(object, old) {
            let generation = old.meta_i64("generation").unwrap_or(0);
            set_meta(object, "generation", Some((generation + 1).into()));
        }
    }

    /// Returns whether anything but metadata (and status, if it is a subresource) differs.
    fn differs(&self, object: &Value, old: &Value) -> bool {
        let (Value::Object(new), Value::Object(old)) = (object, old) else { return true };
        let counts = |key: &&String| match key.as_str() {
            "metadata" | "apiVersion" | "kind" => false,
            "status" => !self.has_status,
            _ => true,
        };
        new.keys().chain(old.keys()).filter(counts).any(|key| new.get(key) != old.get(key))
    }

    pub(crate) fn selectable_value(&self, label: &str, object: &Value) -> String {
        let field = self.selectable.iter().find(|field| *field.label == *label);
        match field.and_then(|field| field.path.first(object)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }

    /// Returns the cells of a table row: the name, then the printer columns.
    pub(crate) fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let name = Value::from(object.meta_str("name"));
        std::iter::once(name)
            .chain(self.columns.iter().map(|column| column.cell(object, now)))
            .collect()
    }
}

impl Column {
    fn cell(&self, object: &Value, now: i64) -> Value {
        let Some(path) = &self.path else { return Value::Null };
        let Some(first) = path.first(object) else { return Value::Null };
        match &*self.ty {
            "integer" => match first {
                Value::Number(number) => number
                    .as_i64()
                    .or_else(|| number.as_f64().map(|float| float as i64))
                    .map_or(Value::Null, Value::from),
                _ => Value::Null,
            },
            "number" if first.is_number() => Value::clone(first),
            "boolean" if first.is_boolean() => Value::clone(first),
            "number" | "boolean" => Value::Null,
            "date" => match first.as_str() {
                Some(text) => columns::date(text, now).into(),
                None => Value::Null,
            },
            _ => match first {
                Value::String(text) => text.clone().into(),
                other => other.to_string().into(),
            },
        }
    }
}

// === impl Crds ===

/// Returns the group of a CRD, which is the suffix of its name.
fn group_of(crd: &str) -> &str {
    crd.split_once('.').map_or("", |(_, group)| group)
}

impl Crds {
    /// Replaces the resources of a CRD and updates the registry, unless a newer revision is served.
    /// Does nothing if the CRD has not changed. `make` receives the resources until now.
    ///
    /// Watches of its resources end if it has changed.
    pub(crate) fn put(
        &self,
        registry: &Registry,
        crd: &Value,
        revision: u64,
        make: impl FnOnce(&watch::Receiver<()>, &[Arc<Resource>]) -> Vec<Arc<Resource>>,
    ) {
        let name = crd.meta_str("name");
        let identity = (
            crd.meta_str("uid").to_owned(),
            crd.meta_i64("generation").unwrap_or(0),
            crd["status"]["acceptedNames"].clone(),
        );
        let terminating = crd.is_deleting();
        let mut all = self.served();
        let group = all.entry(group_of(name).into()).or_default();
        let served = group.get_mut(name);
        if served.as_ref().is_some_and(|served| served.revision > revision) {
            return;
        }
        let lifetime = match served {
            Some(served) if served.identity == identity => {
                served.revision = revision;
                if served.terminating == terminating {
                    return;
                }
                served.lifetime.clone()
            }
            _ => watch::Sender::new(()),
        };
        let last = group.get(name).map(|served| &served.resources[..]).unwrap_or_default();
        let resources = make(&lifetime.subscribe(), last);
        let versions: HashSet<&str> = resources.iter().map(|new| &*new.version).collect();
        let before = group.get(name).into_iter();
        let before = before.flat_map(|served| served.resources.iter().chain(&served.withdrawn));
        let withdrawn = before.filter(|old| !versions.contains(&*old.version)).cloned().collect();
        let served = Served { revision, identity, terminating, lifetime, resources, withdrawn };
        group.insert(name.into(), served);
        publish(registry, group_of(name), group);
    }

    /// Stops serving a deleted CRD and releases its names.
    pub(crate) fn remove(&self, registry: &Registry, name: &str) {
        let group_name = group_of(name);
        if let Some(given) = self.names().get_mut(group_name) {
            given.forget(name);
        }
        let mut all = self.served();
        let Some(group) = all.get_mut(group_name) else { return };
        if group.remove(name).is_some() {
            publish(registry, group_name, group);
        }
        if group.is_empty() {
            all.remove(group_name);
        }
    }

    /// Returns the served resources of a CRD.
    pub(crate) fn resources_of(&self, name: &str) -> Vec<Arc<Resource>> {
        let all = self.served();
        let served = all.get(group_of(name)).and_then(|group| group.get(name));
        served.map(|served| served.resources.clone()).unwrap_or_default()
    }

    /// Records the accepted names of a CRD.
    pub(crate) fn record_names(&self, crd: &Value) {
        let name = crd.meta_str("name");
        self.names().entry(group_of(name).into()).or_default().record(crd);
    }

    /// Checks the requested names of a CRD against the accepted names of others.
    pub(crate) fn check_names(&self, crd: &Value) -> names::NameCheck {
        let all = self.names();
        let given = all.get(group_of(crd.meta_str("name")));
        names::check(crd, given.unwrap_or(&names::AcceptedNames::default()))
    }

    /// Returns the CRDs in the same group that wait for names.
    pub(crate) fn pending_in_group_of(&self, name: &str) -> Vec<Box<str>> {
        let all = self.names();
        all.get(group_of(name)).map(names::AcceptedNames::pending).unwrap_or_default()
    }

    fn served(&self) -> MutexGuard<'_, HashMap<Box<str>, ServedGroup>> {
        self.served.lock()
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Box<str>, names::AcceptedNames>> {
        self.names.lock()
    }
}

/// Updates the registry with the resources of a group. Called with the lock held, so that an
/// earlier change cannot overwrite a later one.
fn publish(registry: &Registry, name: &str, group: &ServedGroup) {
    let served: Vec<_> = group.values().flat_map(|served| &served.resources).cloned().collect();
    let withdrawn = group.values().flat_map(|served| &served.withdrawn).cloned().collect();
    registry.replace_custom(name, &served, withdrawn);
}
