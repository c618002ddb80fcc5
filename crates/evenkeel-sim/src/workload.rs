//! What the user of the operator does.

pub(crate) mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::world::{Change, Run};

/// An object by type, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObjectRef {
    /// As in the object.
    pub api_version: String,
    /// As in the object.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    #[serde(default)]
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// One action of the user. The run continues with the next one when the cluster is at rest.
///
/// ```
/// use evenkeel_sim::Step;
///
/// let step: Step = serde_json::from_str(
///     r#"{"delete": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "name": "b"}}"#,
/// )?;
/// assert_eq!(step.to_string(), "deletes ConfigMap a/b");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Step {
    /// Creates an object.
    Create(Value),
    /// Changes an object by a merge patch.
    Patch {
        /// The object.
        object: ObjectRef,
        /// The patch.
        patch: Value,
    },
    /// Changes an object and changes it back before the cluster is at rest.
    Flip {
        /// The object.
        object: ObjectRef,
        /// The change.
        patch: Value,
        /// The change back.
        back: Value,
    },
    /// Deletes an object.
    Delete(ObjectRef),
    /// Deletes an object and creates it again under the same name as soon as it is gone.
    Recreate(Value),
    /// Replaces the previous version of the operator by the current one.
    Upgrade,
    /// Lets this many seconds pass.
    Wait(u32),
}

impl ObjectRef {
    /// Returns the reference with the namespace that objects without one are created in.
    pub(crate) fn in_default(mut self) -> Self {
        if self.namespace.is_empty() {
            "default".clone_into(&mut self.namespace);
        }
        self
    }

    /// Returns the reference of an object.
    pub(crate) fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(object) => write!(f, "creates {}", ObjectRef::of(object)),
            Self::Patch { object, patch } => write!(f, "patches {object} with {patch}"),
            Self::Flip { object, patch, .. } => {
                write!(f, "patches {object} with {patch} and changes it back at once")
            }
            Self::Delete(object) => write!(f, "deletes {object}"),
            Self::Recreate(object) => {
                write!(f, "deletes {} and creates it again", ObjectRef::of(object))
            }
            Self::Upgrade => f.write_str("upgrades the operator"),
            Self::Wait(seconds) => write!(f, "waits {seconds} s"),
        }
    }
}

impl Step {
    /// Returns the objects that the step creates.
    pub(crate) fn created(&self) -> Option<&Value> {
        match self {
            Self::Create(object) | Self::Recreate(object) => Some(object),
            _ => None,
        }
    }
}

/// Returns the merge patch that restores the values which `patch` replaces in `object`.
pub(crate) fn inverse(object: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return object.clone() };
    let fields = patch.iter().map(|(name, change)| {
        let old = object.get(name).unwrap_or(&Value::Null);
        let back = match (old, change) {
            (Value::Object(_), Value::Object(_)) => inverse(old, change),
            (old, _) => old.clone(),
        };
        (name.clone(), back)
    });
    Value::Object(fields.collect())
}

/// Applies a merge patch.
pub(crate) fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        value.clone_from(patch);
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    let Value::Object(fields) = value else { return };
    for (name, change) in patch {
        match change {
            Value::Null => drop(fields.remove(name)),
            change => merge(fields.entry(name).or_insert(Value::Null), change),
        }
    }
}

/// Adds a step to what is declared, by object.
pub(crate) fn declare(declared: &mut BTreeMap<String, Value>, step: &Step) {
    match step {
        Step::Create(object) | Step::Recreate(object) => {
            declared.insert(ObjectRef::of(object).in_default().to_string(), object.clone());
        }
        Step::Patch { object, patch } => {
            if let Some(found) = declared.get_mut(&object.clone().in_default().to_string()) {
                merge(found, patch);
            }
        }
        Step::Delete(object) => {
            declared.remove(&object.clone().in_default().to_string());
        }
        _ => {}
    }
}

/// Returns one workload for each child that the operator has created in a run and that exists at the
/// end of its workload: another client deletes it when the cluster is at rest, so that only a watch
/// shows it.
pub(crate) fn without_children(workload: &[Step], run: &Run) -> Vec<Vec<Step>> {
    let mut children = BTreeSet::new();
    for write in run.requests.writes.iter().filter(|write| write.code == 201) {
        let object = write.object();
        let mut changes = run.changes[run.changes_before..].iter();
        let last = changes.rfind(|it| it.step < run.steps && it.object.path() == object);
        // An object with a generated name has another one in each run.
        let generated = |it: &&Change| !it.object.value["metadata"]["generateName"].is_null();
        let kept = last.filter(|it| !it.deleted && !generated(it));
        children.extend(kept.map(|it| ObjectRef::of(&it.object.value)));
    }
    let delete = |child| workload.iter().cloned().chain([Step::Delete(child)]).collect();
    children.into_iter().map(delete).collect()
}

/// Returns a patch with one field.
pub(crate) fn patch_at(path: &[String], value: Value) -> Value {
    path.iter().rev().fold(value, |inner, name| json!({name: inner}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_restores_changed_and_added_fields() {
        let object = json!({"spec": {"a": 1, "b": {"c": [1]}}});
        let patch = json!({"spec": {"a": 2, "b": {"c": null}, "d": 5}});
        let back = json!({"spec": {"a": 1, "b": {"c": [1]}, "d": null}});
        assert_eq!(inverse(&object, &patch), back);
        let mut changed = object.clone();
        merge(&mut changed, &patch);
        assert_eq!(changed, json!({"spec": {"a": 2, "b": {}, "d": 5}}));
        merge(&mut changed, &back);
        assert_eq!(changed, object);
        assert_eq!(patch_at(&["a".to_owned(), "b".to_owned()], 1.into()), json!({"a": {"b": 1}}));
    }
}
