//! What an author expects of the operator.
//!
//! The other oracles compare runs with each other, so they do not see what is wrong in all of them: a
//! label that is missing, a status that is never written.

use evenkeel::Object;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Oracle, Violation};
use crate::plan::Plan;
use crate::simulation::{Config, Simulation};
use crate::workload::ObjectRef;
use crate::world::Run;

impl Simulation {
    /// Adds an invariant: at rest, the objects that `expected` returns for an object of type `K` exist
    /// and have at least these fields. They are in the namespace of that object unless they name
    /// another one, and may be the object itself, with its status. Objects that are being deleted are
    /// left out. `expected` also gets all objects that were written since the start.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use serde_json::json;
    /// # struct Operator;
    /// # impl Operator { fn register(&self, _: &Manager) -> Result<(), RegisterError> { Ok(()) } }
    /// evenkeel_sim::operator("copies", |manager| Operator.register(manager))
    ///     .sample("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: y}}")
    ///     .expect(|map: &ConfigMap, _| {
    ///         let name = format!("copy-of-{}", map.name_any());
    ///         let metadata = json!({"name": name});
    ///         [json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})]
    ///     })
    ///     .check();
    /// ```
    pub fn expect<K, E>(self, expected: impl Fn(&K, &[&Value]) -> E + Send + Sync + 'static) -> Self
    where
        K: Object + DeserializeOwned,
        E: IntoIterator<Item = Value>,
    {
        let kind = evenkeel::Kind::of::<K>();
        let (api_version, kind) = (kind.api_version(), kind.kind().to_owned());
        self.invariant(&format!("what is expected of {kind}"), move |objects| {
            let declared = objects.iter().filter(|object| {
                object["apiVersion"] == *api_version
                    && object["kind"] == *kind
                    && object["metadata"]["deletionTimestamp"].is_null()
            });
            for object in declared {
                let typed = K::deserialize(*object).map_err(|it| it.to_string())?;
                for expected in expected(&typed, objects) {
                    exists(objects, expected, &object["metadata"]["namespace"])?;
                }
            }
            Ok(())
        })
    }
}

/// Checks, in a run without faults, that the samples are accepted: what is not created, is not tested.
pub(super) fn samples(config: &Config, plan: &Plan, run: &Run, violations: &mut Vec<Violation>) {
    if !plan.workload.is_empty() {
        return;
    }
    let sample = |(step, _): &&(usize, String)| config.workload.get(*step)?.created();
    let rejected = run.rejected.iter().find_map(|it| Some((sample(&it)?, &it.1)));
    if let Some((object, message)) = rejected {
        let object = ObjectRef::of(object).to_string();
        violations.push(Violation::new(Oracle::Invariant, object).found(message.clone()));
    }
}

/// Checks that an object exists and has the fields.
fn exists(objects: &[&Value], mut expected: Value, namespace: &Value) -> Result<(), String> {
    if expected["metadata"]["namespace"].is_null() && !namespace.is_null() {
        expected["metadata"]["namespace"] = namespace.clone();
    }
    let metadata = &expected["metadata"];
    let is_meant = |found: &&&Value| {
        found["apiVersion"] == expected["apiVersion"]
            && found["kind"] == expected["kind"]
            && found["metadata"]["name"] == metadata["name"]
            && found["metadata"]["namespace"] == metadata["namespace"]
    };
    let name = format!("{} {}", text(&expected["kind"]), text(&metadata["name"]));
    match objects.iter().find(is_meant) {
        None => Err(format!("{name} does not exist")),
        Some(found) => contains(found, &expected, &mut String::new())
            .map_err(|difference| format!("{name}: {difference}")),
    }
}

/// Checks that a value has at least the expected fields. Lists have the same length.
fn contains(found: &Value, expected: &Value, path: &mut String) -> Result<(), String> {
    let length = path.len();
    let mut nested = |name: &str, found: &Value, expected: &Value| {
        path.push('.');
        path.push_str(name);
        contains(found, expected, path)?;
        path.truncate(length);
        Ok(())
    };
    match (found, expected) {
        (Value::Object(all), Value::Object(fields)) => {
            fields.iter().try_for_each(|(name, value)| {
                nested(name, all.get(name).unwrap_or(&Value::Null), value)
            })
        }
        (Value::Array(all), Value::Array(items)) if all.len() == items.len() => {
            let items = all.iter().zip(items).enumerate();
            items
                .into_iter()
                .try_for_each(|(index, (found, value))| nested(&index.to_string(), found, value))
        }
        _ if found == expected => Ok(()),
        _ => Err(format!("{path} is {found}, expected {expected}")),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn additional_fields_are_allowed_and_others_are_named() {
        let found = json!({"a": {"b": [{"c": 1, "d": 2}]}});
        let check = |expected| contains(&found, &expected, &mut String::new());
        assert_eq!(check(json!({"a": {"b": [{"c": 1}]}})), Ok(()));
        let wrong = [
            (json!({"a": {"b": [{"c": 2}]}}), ".a.b.0.c is 1, expected 2"),
            (json!({"a": {"x": 1}}), ".a.x is null, expected 1"),
            (json!({"a": {"b": []}}), ".a.b is [{\"c\":1,\"d\":2}], expected []"),
        ];
        for (expected, text) in wrong {
            assert_eq!(check(expected), Err(text.to_owned()));
        }
    }

    #[test]
    fn object_is_looked_for_in_the_namespace_of_its_owner() {
        let map = |namespace: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": namespace}})
        };
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let check = |object: &Value| exists(&[object], expected.clone(), &json!("shop"));
        assert_eq!(check(&map("shop")), Ok(()));
        assert_eq!(check(&map("other")), Err("ConfigMap a does not exist".to_owned()));
    }
}
