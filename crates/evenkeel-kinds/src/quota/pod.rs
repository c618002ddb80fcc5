//! What quotas count of pods.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_types::time::{Precision, Timestamp};
use serde_json::{Map, Value};

use super::Scope;
use super::evaluator::whole;
use crate::compute::{self, Kind, Measure, ResourceList};
use crate::defaults::resources::is_huge_page;
use crate::strategy::qos_class;
use crate::validate::resources::{is_extended, is_native};

/// The resources that every container has to set if a quota counts them.
const REQUIRED: &[&str] =
    &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// The resources that are counted by name.
const COMPUTE: &[&str] = &["cpu", "memory", "ephemeral-storage"];

/// The prefix of extended resources that a DeviceClass has without naming one.
const IMPLICIT_EXTENDED: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn counts(name: &str) -> bool {
    let base = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits."));
    name == "pods"
        || COMPUTE.contains(&base.unwrap_or(name))
        || is_huge_page(name)
        || name.strip_prefix("requests.").is_some_and(|requested| {
            is_huge_page(requested) || !is_native(name) || requested.starts_with(IMPLICIT_EXTENDED)
        })
}

/// Returns whether the pod has a deadline: the scope `Terminating`.
pub(super) fn is_terminating(pod: &Value) -> bool {
    let deadline = pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
    deadline.is_some_and(|seconds| seconds >= 0)
}

fn is_best_effort(pod: &Value) -> bool {
    let class = pod.pointer("/status/qosClass").and_then(Value::as_str).unwrap_or_default();
    let empty = Map::new();
    let spec = || pod.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let class = if class.is_empty() { qos_class(spec()) } else { class };
    class == "BestEffort"
}

pub(super) fn matches(scope: &Scope, pod: &Value) -> bool {
    match scope.name.as_str() {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = pod.pointer("/spec/priorityClassName").and_then(Value::as_str);
            scope.matches(class.filter(|class| !class.is_empty()))
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(pod),
        _ => false,
    }
}

/// Returns whether an affinity term of the pod selects pods of other namespaces.
fn crosses_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        term.get("namespaces").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
            || term.get("namespaceSelector").is_some_and(|selector| !selector.is_null())
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|field| {
        let affinity = pod.pointer("/spec/affinity").and_then(|affinity| affinity.get(field));
        let terms = |field: &str| {
            let found = affinity.and_then(|affinity| affinity.get(field));
            found.and_then(Value::as_array).into_iter().flatten()
        };
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .any(|weighted| weighted.get("podAffinityTerm").is_some_and(crosses))
    })
}

/// Checks that every container sets the resources that a quota limits, unless the pod does.
pub(super) fn constraints<'a>(
    required: impl Iterator<Item = &'a str>,
    pod: &Value,
) -> Result<(), String> {
    if compute::has_pod_level_resources(pod) {
        return Ok(());
    }
    let required: Vec<&str> = required.filter(|name| REQUIRED.contains(name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let init = compute::containers(pod, "initContainers");
    for container in compute::containers(pod, "containers").chain(init) {
        let requests = compute::of_container(container, Kind::Requests);
        let limits = compute::of_container(container, Kind::Limits);
        let used = compute_usage(&requests, &limits);
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        for resource in required.iter().filter(|resource| !used.contains_key(**resource)) {
            missing.entry(resource).or_default().insert(name);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<String> = missing
        .into_iter()
        .map(|(resource, names)| {
            let names: Vec<&str> = names.into_iter().collect();
            format!("{resource} for: {}", names.join(","))
        })
        .collect();
    Err(format!("must specify {}", missing.join("; ")))
}

/// Adds what a pod uses. One that has ended counts as an object only.
pub(super) fn usage(usage: &mut ResourceList, pod: &Value, now: i64) {
    if has_ended(pod, now) {
        return;
    }
    let requests = compute::of_pod(pod, Kind::Requests, Measure::Usage);
    let limits = compute::of_pod(pod, Kind::Limits, Measure::Usage);
    usage.extend(compute_usage(&requests, &limits));
}

fn has_ended(pod: &Value, now: i64) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    if matches!(phase, Some("Failed" | "Succeeded")) {
        return true;
    }
    // A pod that its node should have ended long ago is not waited for.
    let metadata = pod.get("metadata");
    let field = |name: &str| metadata.and_then(|metadata| metadata.get(name));
    let deleted = field("deletionTimestamp").and_then(Value::as_str);
    let deleted = deleted.and_then(|text| Timestamp::parse(text, Precision::Seconds).ok());
    let grace = field("deletionGracePeriodSeconds").and_then(Value::as_i64);
    deleted.zip(grace).is_some_and(|(deleted, grace)| now > deleted.seconds.saturating_add(grace))
}

fn compute_usage(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut usage = ResourceList::from([("pods".to_owned(), whole(1))]);
    for (name, quantity) in requests {
        let native = COMPUTE.contains(&name.as_str()) || is_huge_page(name);
        if native {
            usage.insert(name.clone(), quantity.clone());
        }
        if native || is_extended(name) || name.starts_with(IMPLICIT_EXTENDED) {
            usage.insert(format!("requests.{name}"), quantity.clone());
        }
    }
    for name in COMPUTE {
        if let Some(quantity) = limits.get(*name) {
            usage.insert(format!("limits.{name}"), quantity.clone());
        }
    }
    usage
}
