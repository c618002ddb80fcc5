//! `RuntimeClass`: sets overhead, node selector and tolerations of a pod from its RuntimeClass.

use std::collections::HashSet;

use evenkeel_types::go::Quoted;
use serde_json::{Map, Value};

use crate::context::{Attributes, Operation, Plugin};
use crate::status::Status;
use crate::storage::Key;

pub(super) struct RuntimeClass;

impl Plugin for RuntimeClass {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let Some(class) = class(attributes)? else { return Ok(()) };
        let refuse = forbidden(attributes);
        let Some(Value::Object(spec)) =
            attributes.object.as_deref_mut().and_then(|pod| pod.get_mut("spec"))
        else {
            return Ok(());
        };
        if let Some(overhead) = class.pointer("/overhead/podFixed") {
            if has_entries(spec.get("overhead")) && spec.get("overhead") != Some(overhead) {
                return Err(refuse(MISMATCH));
            }
            spec.insert("overhead".to_owned(), overhead.clone());
        }
        if let Some(scheduling) = class.get("scheduling") {
            select_nodes(spec, &scheduling["nodeSelector"]).map_err(|why| refuse(&why))?;
            let tolerations = merge_tolerations(
                list(spec.get("tolerations")),
                list(scheduling.get("tolerations")),
            );
            if !tolerations.is_empty() {
                spec.insert("tolerations".to_owned(), tolerations.into());
            }
        }
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !applies(attributes) {
            return Ok(());
        }
        let class = class(attributes)?;
        let defined = class.as_ref().and_then(|class| class.pointer("/overhead/podFixed"));
        let given = attributes.object.as_deref().and_then(|pod| pod.pointer("/spec/overhead"));
        match (defined, given) {
            (Some(defined), given) if given != Some(defined) => {
                Err(forbidden(attributes)(MISMATCH))
            }
            (None, Some(_)) => Err(forbidden(attributes)(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
            )),
            _ => Ok(()),
        }
    }
}

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

fn applies(attributes: &Attributes<'_>) -> bool {
    let cx = attributes.cx;
    attributes.operation == Operation::Create
        && cx.resource.is("", "pods")
        && cx.subresource.is_none()
}

/// Returns the RuntimeClass of a new pod.
fn class(attributes: &Attributes<'_>) -> Result<Option<Value>, Status> {
    let pod = attributes.object.as_deref().filter(|_| applies(attributes));
    let Some(name) =
        pod.and_then(|pod| pod.pointer("/spec/runtimeClassName")).and_then(Value::as_str)
    else {
        return Ok(None);
    };
    // Upstream reads it with a client, which rejects names that are not a path segment.
    if let Some(why) = path_segment_error(name) {
        return Err(Status::without_reason(500, why));
    }
    let table = attributes.cx.core.store.table("node.k8s.io/runtimeclasses");
    let Some(record) = table.get(&Key::new("", name)) else {
        let why = format!("pod rejected: RuntimeClass {} not found", Quoted(name));
        return Err(forbidden(attributes)(&why));
    };
    serde_json::from_slice(&record.body).map(Some).map_err(Status::internal)
}

fn forbidden(attributes: &Attributes<'_>) -> impl Fn(&str) -> Status + use<> {
    let resource = attributes.cx.resource.clone();
    let name = attributes.name().to_owned();
    move |why| Status::forbidden(resource.group_resource(), &name, why)
}

fn path_segment_error(name: &str) -> Option<String> {
    let fault = match name {
        "" => return Some("resource name may not be empty".to_owned()),
        "." => "may not be '.'",
        ".." => "may not be '..'",
        _ if name.contains('/') && name.contains('%') => "may not contain '/' may not contain '%'",
        _ if name.contains('/') => "may not contain '/'",
        _ if name.contains('%') => "may not contain '%'",
        _ => return None,
    };
    Some(format!("invalid resource name {}: [{fault}]", Quoted(name)))
}

fn has_entries(map: Option<&Value>) -> bool {
    map.and_then(Value::as_object).is_some_and(|map| !map.is_empty())
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Merges the node selector of the RuntimeClass into that of the pod.
fn select_nodes(spec: &mut Map<String, Value>, required: &Value) -> Result<(), String> {
    let Some(required) = required.as_object().filter(|required| !required.is_empty()) else {
        return Ok(());
    };
    let selector = spec.entry("nodeSelector").or_insert(Value::Null);
    if !selector.is_object() {
        *selector = Value::Object(Map::new());
    }
    let Value::Object(selector) = selector else { return Ok(()) };
    for (key, value) in required {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        match selector.get(key) {
            Some(own) if own != value => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; \
                     pod.spec.nodeSelector[{key}] = {}",
                    text(value),
                    text(own)
                ));
            }
            _ => _ = selector.insert(key.clone(), value.clone()),
        }
    }
    Ok(())
}

/// Merges both lists and drops tolerations that another one covers. Beyond `PAIRWISE_MAX` only
/// equal ones are dropped, since each toleration is compared with all others.
fn merge_tolerations(first: &[Value], second: &[Value]) -> Vec<Value> {
    const PAIRWISE_MAX: usize = 500;
    let all: Vec<&Value> = first.iter().chain(second).collect();
    if all.len() > PAIRWISE_MAX {
        let mut seen = HashSet::new();
        return all.into_iter().filter(|toleration| seen.insert(*toleration)).cloned().collect();
    }
    let mut merge_tolerations: Vec<Value> = Vec::new();
    for (at, toleration) in all.iter().enumerate() {
        let known = merge_tolerations.iter().any(|other| is_superset(other, toleration));
        // The first of equal tolerations is kept.
        let follows =
            all[at + 1..].iter().any(|other| other != toleration && is_superset(other, toleration));
        if !known && !follows {
            merge_tolerations.push(Value::clone(toleration));
        }
    }
    merge_tolerations
}

/// Returns whether `more` tolerates everything that `some` tolerates, like upstream's `isSuperset`.
fn is_superset(more: &Value, some: &Value) -> bool {
    if more == some {
        return true;
    }
    fn text<'a>(toleration: &'a Value, field: &str) -> &'a str {
        toleration[field].as_str().unwrap_or("")
    }
    let same = |field: &str| text(more, field) == text(some, field);
    let exists = text(more, "operator") == "Exists";
    let every_key = text(more, "key").is_empty() && exists;
    if !(every_key || same("key")) {
        return false;
    }
    if !same("effect") && !text(more, "effect").is_empty() {
        return false;
    }
    if text(more, "effect") == "NoExecute"
        && let Some(seconds) = more["tolerationSeconds"].as_i64()
        && some["tolerationSeconds"].as_i64().is_none_or(|some| some > seconds)
    {
        return false;
    }
    match text(more, "operator") {
        "Equal" | "" => text(some, "operator") == "Equal" && same("value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn covered_tolerations_are_dropped() {
        let one = json!({"key": "a", "operator": "Exists"});
        let narrow = json!({"key": "a", "operator": "Equal", "value": "x", "effect": "NoSchedule"});
        let brief = json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
        let first = [narrow, one.clone()];
        let second = [one.clone(), brief.clone()];
        assert_eq!(merge_tolerations(&first, &second), [one, brief]);
    }

    #[test]
    fn conflicting_node_selectors_are_an_error() {
        let mut spec = Map::from_iter([("nodeSelector".to_owned(), json!({"a": "1"}))]);
        select_nodes(&mut spec, &json!({"a": "1", "b": "2"})).unwrap();
        assert_eq!(spec["nodeSelector"], json!({"a": "1", "b": "2"}));
        let why = select_nodes(&mut spec, &json!({"b": "3"})).unwrap_err();
        assert!(why.contains("nodeSelector[b] = 3; pod.spec.nodeSelector[b] = 2"), "{why}");
    }
}
