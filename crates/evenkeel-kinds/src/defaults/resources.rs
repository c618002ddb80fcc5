//! Defaults of resource requests and limits: rounding, and requests derived from limits.

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::set::{self, Object};
use crate::compute::{self, Kind};

/// Rounds every quantity in the resource list at `key` up to milli-units.
pub(crate) fn round(object: &mut Object, key: &str) {
    let Some(list) = set::child(object, key) else { return };
    for amount in list.values_mut() {
        let Some(text) = amount.as_str() else { continue };
        // A canonical quantity needs rounding only if it uses a smaller unit.
        if (text.ends_with(['n', 'u']) || text.contains(['.', 'e', 'E']))
            && let Ok(quantity) = Quantity::parse(text)
        {
            let rounded = quantity.clone().rounded_up(-3);
            if rounded != quantity {
                *amount = rounded.to_string().into();
            }
        }
    }
}

/// Rounds the `limits` and `requests` of the requirements at `key`.
pub(crate) fn round_requirements(object: &mut Object, key: &str) {
    if let Some(requirements) = set::child(object, key) {
        round(requirements, "limits");
        round(requirements, "requests");
    }
}

/// Sets a container's missing requests to its limits.
pub(crate) fn set_requests_from_limits(container: &mut Object) {
    let Some(resources) = set::child(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object) else { return };
    if limits.is_empty() {
        return;
    }
    let mut requests = match resources.get("requests") {
        Some(Value::Object(requests)) if limits.keys().all(|key| requests.contains_key(key)) => {
            return;
        }
        Some(Value::Object(requests)) => requests.clone(),
        _ => Object::new(),
    };
    for (name, amount) in limits {
        if !requests.contains_key(name) {
            requests.insert(name.clone(), amount.clone());
        }
    }
    resources.insert("requests".to_owned(), Value::Object(requests));
}

/// Sets pod-level resources from those of the containers.
pub(crate) fn default_pod_level(spec: &mut Object) {
    match spec.get("resources").and_then(Value::as_object) {
        Some(resources) if has(resources, "limits") || has(resources, "requests") => {}
        _ => return,
    }
    let container_limits = compute::aggregate(spec, Kind::Limits);
    let container_requests = compute::aggregate(spec, Kind::Requests);
    let Some(resources) = set::child(spec, "resources") else { return };

    // Hugepage limits are the sum of the containers' limits, unless set on the pod.
    for (name, amount) in container_limits.into_iter().filter(|(name, _)| is_huge_page(name)) {
        let is_set = ["limits", "requests"].iter().any(|list| {
            resources.get(*list).is_some_and(|quantities| quantities.get(&name).is_some())
        });
        if !is_set && let Some(limits) = set::structure(resources, "limits") {
            limits.insert(name, amount.to_string().into());
        }
    }
    if !has(resources, "limits") {
        return;
    }

    // Requests are those of the containers, or the pod's limits if there are none.
    let mut wanted: Vec<(String, Value)> = container_requests
        .into_iter()
        .filter(|(name, _)| can_overcommit(name))
        .map(|(name, amount)| (name, amount.to_string().into()))
        .collect();
    let limits = resources.get("limits").and_then(Value::as_object);
    wanted.extend(
        limits
            .into_iter()
            .flatten()
            .filter(|(name, _)| can_overcommit(name) || is_huge_page(name))
            .map(|(name, amount)| (name.clone(), amount.clone())),
    );
    if wanted.is_empty() {
        return;
    }
    let Some(requests) = set::structure(resources, "requests") else { return };
    for (name, amount) in wanted {
        if !requests.contains_key(&name) {
            requests.insert(name, amount);
        }
    }
}

fn has(resources: &Object, list: &str) -> bool {
    !set::is_empty(resources.get(list))
}

/// Returns whether the resource can be overcommitted and therefore set at pod level.
fn can_overcommit(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

/// Returns whether the resource is hugepages of some size.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}
