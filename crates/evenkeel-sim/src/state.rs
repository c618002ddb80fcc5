//! The state of a cluster in a form that can be compared between two runs.
//!
//! Values that depend on the number or the time of writes are replaced: uids by the path of their
//! object, generated names by their prefix, timestamps, allocated addresses and ports by a mark.
//! Resource versions, generations and managed fields are dropped; `observedGeneration` is replaced
//! by whether it is current.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::StoredObject;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::gate::is_auxiliary;

/// The annotation that another client sets when it touches an object.
pub(crate) const TOUCHED: &str = "sim.evenkeel.dev/touched";

/// The annotation that a webhook of another owner sets.
pub(crate) const MUTATED: &str = "sim.evenkeel.dev/mutated";

/// The path of what the operator manages besides objects.
pub(crate) const APPLICATION: &str = "application";

/// The prefix of the name of the volume that has the token of a pod.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// The canonical objects of a cluster, by resource and name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct State(pub(crate) BTreeMap<String, Value>);

/// One field that differs between two states.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Difference {
    /// The object: resource and name.
    pub(crate) object: String,
    /// The path of the field; empty if the whole object is missing or surplus.
    pub(crate) field: String,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// An object as stored, decoded.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Decoded {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) value: Arc<Value>,
}

/// The most bodies that are kept.
const BODIES: usize = 4_000;

/// Decoded bodies of objects. Most of those of a run were stored in an earlier run, too. Clones share
/// them.
#[derive(Clone, Default)]
pub(crate) struct Bodies(Arc<Mutex<HashMap<Bytes, Arc<Value>>>>);

impl Bodies {
    fn decode(&self, body: &Bytes) -> Arc<Value> {
        if let Some(known) = self.0.lock().get(body) {
            return known.clone();
        }
        let value: Arc<Value> = Arc::new(serde_json::from_slice(body).unwrap_or_default());
        let mut known = self.0.lock();
        if known.len() >= BODIES {
            known.clear();
        }
        known.insert(body.clone(), value.clone());
        value
    }
}

impl Decoded {
    pub(crate) fn of(object: &StoredObject, bodies: &Bodies) -> Self {
        Self {
            resource: object.resource.to_string(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            value: bodies.decode(&object.body),
        }
    }

    pub(crate) fn uid(&self) -> &str {
        self.value["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Returns `resource namespace/name`.
    pub(crate) fn path(&self) -> String {
        path(&self.resource, &self.namespace, &self.name)
    }

    /// Returns the uid of the controller.
    pub(crate) fn controller(&self) -> Option<&str> {
        controller_of(&self.value)
    }
}

/// Returns the uid of the controller of an object.
pub(crate) fn controller_of(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

/// Returns a resource with its group: `deployments.apps`.
pub(crate) fn resource(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

pub(crate) fn path(resource: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{resource} {name}"),
        namespace => format!("{resource} {namespace}/{name}"),
    }
}

/// Whether the resource is left out: by-products, and what belongs to the cluster itself.
pub(crate) fn is_ignored(resource: &str) -> bool {
    is_auxiliary(resource)
        || matches!(resource, "nodes" | "csinodes.storage.k8s.io" | "ipaddresses.networking.k8s.io")
}

impl State {
    /// Returns the state of these objects and of the application.
    pub(crate) fn of(objects: &[&Decoded], application: Option<&Value>) -> Self {
        let names = Names::of(objects);
        let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for object in objects {
            let group = groups.entry(names.replace(&object.path())).or_default();
            group.push(canonical(&object.value, &names));
        }
        let mut state = BTreeMap::new();
        for (path, mut objects) in groups {
            // Objects that differ in their generated name only, in the order of their content.
            if objects.len() > 1 {
                objects.sort_by_cached_key(Value::to_string);
            }
            for (number, object) in objects.into_iter().enumerate() {
                let path = if number == 0 { path.clone() } else { format!("{path} ({number})") };
                state.insert(path, object);
            }
        }
        if let Some(application) = application {
            let value = masked(application, &Value::Null, &names);
            state.insert(APPLICATION.to_owned(), value);
        }
        Self(state)
    }

    /// Returns what differs from `expected`, by object.
    pub(crate) fn differences(&self, expected: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        for (object, wanted) in &expected.0 {
            match self.0.get(object) {
                Some(found) if found == wanted => {}
                Some(found) => compare(object, "", wanted, found, &mut differences),
                None => differences.push(missing(object, "present", "absent")),
            }
        }
        for object in self.0.keys().filter(|object| !expected.0.contains_key(*object)) {
            differences.push(missing(object, "absent", "present"));
        }
        differences
    }
}

fn missing(object: &str, expected: &str, found: &str) -> Difference {
    Difference {
        object: object.to_owned(),
        field: String::new(),
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

/// Replacements of uids and generated names in text.
struct Names {
    uids: HashMap<String, String>,
    /// The longest first: a name may contain another one.
    generated: Vec<(String, String)>,
    /// The length of the shortest of them.
    shortest: usize,
}

impl Names {
    fn of(objects: &[&Decoded]) -> Self {
        let mut names = Self { uids: HashMap::new(), generated: Vec::new(), shortest: usize::MAX };
        for object in objects {
            let prefix = object.value["metadata"]["generateName"].as_str().unwrap_or_default();
            if !prefix.is_empty() && object.name.len() > prefix.len() {
                names.generated.push((object.name.clone(), format!("{prefix}*")));
            }
        }
        names.generated.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.shortest = names.generated.last().map_or(usize::MAX, |(name, _)| name.len());
        // The second time with the uids in names: a volume has that of its claim.
        for _ in 0..2 {
            for object in objects.iter().filter(|object| !object.uid().is_empty()) {
                let path = format!("<uid of {}>", names.replace(&object.path()));
                names.uids.insert(object.uid().to_owned(), path);
            }
        }
        names
    }

    /// Replaces a uid within a text.
    fn replace_uid(&self, text: &str) -> Option<String> {
        let last = text.len().checked_sub(UID)?;
        (0..=last).find_map(|start| {
            let uid = text.get(start..start + UID).filter(|it| is_uid(it))?;
            Some(text.replace(uid, self.uids.get(uid)?))
        })
    }

    fn replace(&self, text: &str) -> String {
        if let Some(path) = self.uids.get(text) {
            return path.clone();
        }
        // The name of the volume with the token of a pod ends with random letters.
        if text.starts_with(TOKEN_VOLUME) && text.len() == TOKEN_VOLUME.len() + 5 {
            return format!("{TOKEN_VOLUME}*");
        }
        let mut text = self.replace_uid(text).unwrap_or_else(|| text.to_owned());
        // Most texts are shorter than any name.
        if text.len() < self.shortest {
            return text;
        }
        for (from, to) in &self.generated {
            if text.contains(from.as_str()) {
                text = text.replace(from.as_str(), to);
            }
        }
        text
    }
}

/// The length of a uid.
const UID: usize = 36;

fn is_uid(text: &str) -> bool {
    text.len() == UID && [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-')
}

/// Replaces uids, and the random letters in the names of the volumes that have the tokens of pods.
pub(crate) fn mask_random(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(mask_random),
        Value::Array(items) => items.iter_mut().for_each(mask_random),
        Value::String(text) if is_uid(text) => *text = "<uid>".to_owned(),
        Value::String(text) if text.starts_with(TOKEN_VOLUME) => {
            *text = format!("{TOKEN_VOLUME}*");
        }
        _ => {}
    }
}

/// Fields of the metadata that depend on the number of writes.
const VOLATILE: &[&str] = &["resourceVersion", "uid", "generation", "managedFields", "selfLink"];

fn canonical(object: &Value, names: &Names) -> Value {
    let generation = &object["metadata"]["generation"];
    let Value::Object(fields) = object else { return masked(object, generation, names) };
    let canonical = fields.iter().map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            (name.clone(), canonical_metadata(metadata, generation, names).into())
        }
        value => (name.clone(), masked_field(name, value, generation, names)),
    });
    canonical.collect()
}

fn canonical_metadata(
    metadata: &Map<String, Value>,
    generation: &Value,
    names: &Names,
) -> Map<String, Value> {
    let kept = metadata.iter().filter(|(name, _)| !VOLATILE.contains(&&***name));
    let fields =
        kept.map(|(name, value)| (name.clone(), masked_field(name, value, generation, names)));
    let mut fields: Map<String, Value> = fields.collect();
    if let Some(annotations) = fields.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(TOUCHED);
        annotations.remove(MUTATED);
        if annotations.is_empty() {
            fields.remove("annotations");
        }
    }
    fields
}

/// Fields whose values are allocated or random.
fn is_allocated(name: &str) -> bool {
    matches!(
        name,
        "clusterIP"
            | "clusterIPs"
            | "podIP"
            | "podIPs"
            | "hostIP"
            | "hostIPs"
            | "nodePort"
            | "containerID"
            | "nodeName"
            | "ip"
            | "batch.kubernetes.io/controller-uid"
            | "controller-uid"
            | "healthCheckNodePort"
            | "addresses"
    )
}

/// Returns a value without what differs between runs.
fn masked(value: &Value, generation: &Value, names: &Names) -> Value {
    match value {
        Value::Object(fields) => {
            let masked = fields
                .iter()
                .map(|(name, value)| (name.clone(), masked_field(name, value, generation, names)));
            masked.collect()
        }
        Value::Array(items) => items.iter().map(|item| masked(item, generation, names)).collect(),
        Value::String(text) if is_timestamp(text) => "<time>".into(),
        Value::String(text) => names.replace(text).into(),
        value => value.clone(),
    }
}

fn masked_field(name: &str, value: &Value, generation: &Value, names: &Names) -> Value {
    match name {
        _ if is_allocated(name) && !value.is_null() && value != "None" => "<allocated>".into(),
        // Of a reference: a volume has that of its claim.
        "resourceVersion" => "<version>".into(),
        "observedGeneration" if value == generation => "<current>".into(),
        "observedGeneration" => "<outdated>".into(),
        // A map by type: the order depends on which one was written first.
        "conditions" => {
            let mut conditions = masked(value, generation, names);
            if let Some(items) = conditions.as_array_mut() {
                items.sort_by(|one, other| one["type"].as_str().cmp(&other["type"].as_str()));
            }
            conditions
        }
        _ => masked(value, generation, names),
    }
}

/// Whether the text is a timestamp: `2026-01-01T00:00:00Z`, with or without a fraction.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20
        && bytes.len() <= 35
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes[10] == b'T'
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && text.parse::<jiff::Timestamp>().is_ok()
}

fn compare(object: &str, at: &str, expected: &Value, found: &Value, into: &mut Vec<Difference>) {
    match (expected, found) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, value) in old {
                compare(
                    object,
                    &join(at, name),
                    value,
                    new.get(name).unwrap_or(&Value::Null),
                    into,
                );
            }
            for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
                compare(object, &join(at, name), &Value::Null, value, into);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                compare(object, &format!("{at}[{index}]"), old, new, into);
            }
        }
        (expected, found) if expected != found => into.push(Difference {
            object: object.to_owned(),
            field: at.to_owned(),
            expected: show(expected),
            found: show(found),
        }),
        _ => {}
    }
}

fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "absent".to_owned(),
        other => {
            let text = other.to_string();
            match text.char_indices().nth(160) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decoded(resource: &str, value: Value) -> Decoded {
        let name = value["metadata"]["name"].as_str().unwrap().to_owned();
        let (resource, namespace) = (resource.to_owned(), "a".to_owned());
        Decoded { resource, namespace, name, value: value.into() }
    }

    #[test]
    fn volatile_values_are_replaced_and_others_kept() {
        let pod = decoded(
            "pods",
            json!({
                "metadata": {
                    "name": "web-x7k2p", "generateName": "web-", "uid": "u-1", "generation": 3,
                    "annotations": {TOUCHED: "1"}, "creationTimestamp": "2026-01-01T00:00:00Z",
                },
                "status": {"observedGeneration": 3, "podIP": "10.0.0.1", "message": "web-x7k2p ok"},
            }),
        );
        let names = Names::of(&[&pod]);
        assert_eq!(
            canonical(&pod.value, &names),
            json!({
                "metadata": {
                    "name": "web-*", "generateName": "web-", "creationTimestamp": "<time>",
                },
                "status": {
                    "observedGeneration": "<current>", "podIP": "<allocated>", "message": "web-* ok",
                },
            })
        );
        assert_eq!(names.replace("u-1"), "<uid of pods a/web-*>");
    }

    #[test]
    fn uid_within_a_name_is_replaced() {
        let uid = "07038626-11b8-48b3-abcd-d580f23e6b9a";
        let claim = json!({"metadata": {"name": "data", "uid": uid}});
        let volume = json!({"metadata": {"name": format!("pvc-{uid}"), "uid": "u-2"}});
        let objects =
            [decoded("persistentvolumes", volume), decoded("persistentvolumeclaims", claim)];
        let names = Names::of(&objects.iter().collect::<Vec<_>>());
        let of_claim = "<uid of persistentvolumeclaims a/data>";
        assert_eq!(names.replace(&format!("pvc-{uid}")), format!("pvc-{of_claim}"));
        assert_eq!(names.replace("u-2"), format!("<uid of persistentvolumes a/pvc-{of_claim}>"));
    }

    #[test]
    fn differences_name_the_field() {
        let state = |value: Value| State([("pods a/b".to_owned(), value)].into());
        let found = state(json!({"spec": {"x": [1, 2], "y": true}}));
        let differences = found.differences(&state(json!({"spec": {"x": [1, 3]}})));
        let shown: Vec<_> =
            differences.iter().map(|it| (&*it.field, &*it.expected, &*it.found)).collect();
        assert_eq!(shown, [("spec.x[1]", "3", "2"), ("spec.y", "absent", "true")]);
        let gone = State::default().differences(&found);
        assert_eq!((&*gone[0].expected, &*gone[0].found), ("present", "absent"));
    }
}
