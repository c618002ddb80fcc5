//! Lists and maps that a client sent empty.
//!
//! Go distinguishes a nil list or map from an empty one until the object is stored, although both
//! print the same. Some rules see the difference: they compare with `reflect.DeepEqual` or with nil,
//! or print the value in an error. Conforming an object to its type removes empty values, so they are found
//! before that, restored while the defaults and the rules of the kind are applied, and removed before
//! the object is stored.

use evenkeel_types::{Gvk, Shape, lookup};
use serde_json::{Map, Value, json};

/// The fields of an object that were sent empty and whose rules distinguish nil from empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmptyFields(Vec<EmptyField>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct EmptyField {
    /// JSON pointer.
    pointer: String,
    is_map: bool,
}

/// Returns the map of bytes of a kind. Go decodes a `null` in it as no bytes, and stores that.
#[must_use]
pub fn field_of_bytes(gvk: Gvk<'_>) -> Option<&'static str> {
    match (gvk.group, gvk.kind) {
        ("", "ConfigMap") => Some("binaryData"),
        ("", "Secret") => Some("data"),
        _ => None,
    }
}

/// Returns the dotted paths of the fields of a kind that distinguish nil from empty, including
/// everything below them. A path continues in the items of a list.
fn paths(gvk: Gvk<'_>) -> &'static [&'static str] {
    match (gvk.group, gvk.kind) {
        // `data` of a ConfigMap is never nil: it is defaulted.
        ("", "ConfigMap") => &["binaryData"],
        ("", "Secret") => &["data"],
        // The differences of two specs are part of the error.
        ("", "PersistentVolume" | "PersistentVolumeClaim") => &["spec"],
        ("", "Pod") => &[
            "spec.resources.claims",
            "spec.ephemeralContainers.ports",
            "spec.ephemeralContainers.resizePolicy",
            "spec.ephemeralContainers.resources",
            "spec.ephemeralContainers.restartPolicyRules",
        ],
        ("", "PodTemplate") => &["template.spec.resources.claims"],
        ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") => {
            &["spec.template.metadata.labels", "spec.template.spec.resources.claims"]
        }
        ("", "ReplicationController") | ("batch", "Job") => {
            &["spec.template.spec.resources.claims"]
        }
        ("batch", "CronJob") => &["spec.jobTemplate.spec.template.spec.resources.claims"],
        ("autoscaling", "HorizontalPodAutoscaler") => {
            &["spec.behavior.scaleDown.policies", "spec.behavior.scaleUp.policies"]
        }
        ("resource.k8s.io", "ResourceSlice") => &["spec.devices", "spec.sharedCounters"],
        ("networking.k8s.io", "Ingress") => &["spec.rules"],
        ("networking.k8s.io", "NetworkPolicy") => &["spec"],
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => &["webhooks"],
        _ => &[],
    }
}

impl EmptyFields {
    /// Finds the fields in an object as it was sent, before it is conformed to its type.
    pub fn find(gvk: Gvk<'_>, sent: &Value) -> Self {
        let mut found = Self::default();
        let paths = paths(gvk);
        if paths.is_empty() {
            return found;
        }
        let (Some(ty), Some(object)) = (lookup(gvk), sent.as_object()) else { return found };
        for path in paths {
            let path: Vec<&str> = path.split('.').collect();
            found.add_fields(ty, object, &path, "");
        }
        found
    }

    /// Inserts the fields that the object does not have. Returns those that were inserted.
    #[must_use]
    pub fn restore(&self, object: &mut Value) -> Self {
        let mut inserted = self.clone();
        inserted.0.retain(|field| {
            let Some((parent, name)) = field.parent(object) else { return false };
            let is_missing = !parent.contains_key(&name);
            if is_missing {
                parent.insert(name, if field.is_map { json!({}) } else { json!([]) });
            }
            is_missing
        });
        inserted
    }

    /// Removes the fields that [`Self::restore`] inserted, unless they were changed since.
    pub fn remove(&self, object: &mut Value) {
        for field in &self.0 {
            let Some((parent, name)) = field.parent(object) else { continue };
            if parent.get(&name).is_some_and(|value| *value == json!([]) || *value == json!({})) {
                parent.remove(&name);
            }
        }
    }

    fn add_fields(
        &mut self,
        ty: &'static evenkeel_types::Type,
        object: &Map<String, Value>,
        path: &[&str],
        pointer: &str,
    ) {
        let below = path.get(1..).unwrap_or_default();
        for (name, value) in object {
            if path.first().is_some_and(|first| first != name) {
                continue;
            }
            if let Some(field) = ty.field(name) {
                self.add(field.shape, value, below, &child(pointer, name));
            }
        }
    }

    fn add(&mut self, shape: Shape, value: &Value, path: &[&str], pointer: &str) {
        match (shape, value) {
            (Shape::List(_), Value::Array(items)) if items.is_empty() => {
                self.push(path, pointer, false);
            }
            (Shape::Map { .. }, Value::Object(map)) if map.is_empty() => {
                self.push(path, pointer, true);
            }
            (Shape::List(item), Value::Array(items)) => {
                for (index, value) in items.iter().enumerate() {
                    self.add(item.shape(), value, path, &format!("{pointer}/{index}"));
                }
            }
            (Shape::Struct(ty), Value::Object(object)) => {
                self.add_fields(ty.get(), object, path, pointer);
            }
            // The values of maps have no fields that distinguish nil from empty.
            _ => {}
        }
    }

    /// Adds an empty value, unless the path ends below it.
    fn push(&mut self, path: &[&str], pointer: &str, is_map: bool) {
        if path.is_empty() {
            self.0.push(EmptyField { pointer: pointer.to_owned(), is_map });
        }
    }
}

impl EmptyField {
    /// Returns the struct that has the field, and the name of the field.
    fn parent<'a>(&self, object: &'a mut Value) -> Option<(&'a mut Map<String, Value>, String)> {
        let (parent, name) = self.pointer.rsplit_once('/')?;
        Some((object.pointer_mut(parent)?.as_object_mut()?, name.to_owned()))
    }
}

/// Returns the JSON pointer to a field. Names of fields need no escapes.
fn child(pointer: &str, field: &str) -> String {
    format!("{pointer}/{field}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::EmptyFields;
    use evenkeel_types::Gvk;

    /// Returns the object with the fields of `sent` restored, and after they are removed again.
    fn restored(api_version: &str, kind: &str, sent: &Value, object: &Value) -> (Value, Value) {
        let empty = EmptyFields::find(Gvk::from_api_version(api_version, kind), sent);
        let mut restored = object.clone();
        let inserted = empty.restore(&mut restored);
        let mut removed = restored.clone();
        inserted.remove(&mut removed);
        (restored, removed)
    }

    #[test]
    fn fields_that_were_sent_empty_are_restored_and_removed() {
        for (api_version, kind, sent, object, expected) in [
            (
                "v1",
                "ConfigMap",
                json!({"data": {}, "binaryData": {}}),
                json!({}),
                json!({"binaryData": {}}),
            ),
            ("v1", "Secret", json!({"data": {}, "stringData": {}}), json!({}), json!({"data": {}})),
            (
                "networking.k8s.io/v1",
                "NetworkPolicy",
                json!({"spec": {"podSelector": {"matchLabels": {}}, "ingress": [{"from": []}]}}),
                json!({"spec": {"podSelector": {}, "ingress": [{}]}}),
                json!({"spec": {"podSelector": {"matchLabels": {}}, "ingress": [{"from": []}]}}),
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({"spec": {"accessModes": [], "resources": {"requests": {}}}}),
                json!({"spec": {"resources": {}}}),
                json!({"spec": {"accessModes": [], "resources": {"requests": {}}}}),
            ),
            (
                "v1",
                "Pod",
                json!({"spec": {"ephemeralContainers": [
                    {"name": "a", "command": [], "ports": [], "resources": {"limits": {}}},
                ]}}),
                json!({"spec": {"ephemeralContainers": [{"name": "a", "resources": {}}]}}),
                json!({"spec": {"ephemeralContainers": [
                    {"name": "a", "ports": [], "resources": {"limits": {}}},
                ]}}),
            ),
        ] {
            let (restored, removed) = restored(api_version, kind, &sent, &object);
            assert_eq!(restored, expected, "{kind}");
            assert_eq!(removed, object, "{kind}");
        }
    }

    #[test]
    fn unknown_fields_structs_and_defaulted_fields_are_not_restored() {
        let sent = json!({"spec": {
            "podSelector": {}, "policyTypes": [], "unknown": [], "ingress": [{"unknown": {}}],
        }});
        let object = json!({"spec": {
            "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}],
        }});
        let done = restored("networking.k8s.io/v1", "NetworkPolicy", &sent, &object);
        assert_eq!(done, (object.clone(), object));
    }

    #[test]
    fn arbitrary_values_do_not_panic() {
        for sent in [json!(null), json!([]), json!({"spec": []}), json!({"spec": {"ingress": 1}})] {
            let empty =
                EmptyFields::find(Gvk::new("networking.k8s.io", "v1", "NetworkPolicy"), &sent);
            assert_eq!(empty, EmptyFields::default());
        }
    }
}
