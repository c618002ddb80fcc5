//! Converts HorizontalPodAutoscalers between v1, which has a single metric (CPU utilization), and
//! v2.
//!
//! v1 keeps the other fields of v2 in annotations: further metrics, their current values,
//! conditions and behavior. Annotations that cannot be parsed are dropped, as are those set on a v2
//! object.

mod annotation;
mod behavior;
mod metric;

use serde_json::{Map, Value, json};

use super::go_json::{Object, array};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Annotations reserved for the conversion, including those of former releases.
const RESERVED_ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The default CPU utilization of a v1 autoscaler.
const DEFAULT_UTILIZATION: i64 = 80;

pub(super) fn convert(from_version: &str, to_version: &str, object: &mut Value) {
    match (from_version, to_version) {
        ("v1", "v1") => {
            to_v2(object);
            to_v1(object);
        }
        ("v1", _) => to_v2(object),
        (_, "v1") => to_v1(object),
        _ => {
            take_annotations(object);
        }
    }
}

fn to_v2(object: &mut Value) {
    let annotations = take_annotations(object);
    let read = |key| annotations.get(key).and_then(Value::as_str);
    let Some(object) = object.as_object_mut() else { return };

    let spec = entry(object, "spec");
    let utilization = spec.remove("targetCPUUtilizationPercentage");
    let mut metrics = read(METRICS).and_then(metric::specs_from_v1).unwrap_or_default();
    metrics.extend(utilization.as_ref().filter(|it| !it.is_null()).map(cpu_utilization));
    if metrics.is_empty() {
        metrics.push(cpu_utilization(&DEFAULT_UTILIZATION.into()));
    }
    spec.insert("metrics".to_owned(), metrics.into());
    if let Some(behavior) = read(BEHAVIOR).and_then(behavior::from_v1) {
        spec.insert("behavior".to_owned(), behavior);
    }

    let status = entry(object, "status");
    let utilization = status.remove("currentCPUUtilizationPercentage");
    let current = match read(CURRENT_METRICS).and_then(metric::statuses_from_v1) {
        Some(current) => current.into(),
        None => match utilization.filter(|it| !it.is_null()) {
            Some(utilization) => json!([{
                "type": "Resource",
                "resource": { "name": "cpu", "current": { "averageUtilization": utilization } },
            }]),
            None => Value::Null,
        },
    };
    status.insert("currentMetrics".to_owned(), current);
    if status.get("currentReplicas").is_some_and(|replicas| replicas == 0) {
        status.remove("currentReplicas");
    }
    status.entry("desiredReplicas").or_insert(json!(0));
    if let Some(conditions) = read(CONDITIONS).and_then(annotation::conditions)
        && !conditions.is_empty()
    {
        status.insert("conditions".to_owned(), conditions.into());
    }
}

fn to_v1(object: &mut Value) {
    take_annotations(object);
    let Some(object) = object.as_object_mut() else { return };
    let mut annotations = Map::new();
    let mut annotate = |key: &str, json: String| annotations.insert(key.to_owned(), json.into());

    let spec = entry(object, "spec");
    let metrics = spec.remove("metrics").unwrap_or_default();
    let metrics = metrics.as_array().map_or(&[][..], Vec::as_slice);
    let (cpu, others): (Vec<_>, Vec<_>) = metrics.iter().partition(|it| is_cpu_utilization(it));
    if let Some(metric) = cpu.first() {
        let utilization = metric["resource"]["target"]["averageUtilization"].clone();
        spec.insert("targetCPUUtilizationPercentage".to_owned(), utilization);
    }
    if !others.is_empty() {
        let others: Vec<_> = others.into_iter().map(metric::spec_to_v1).collect();
        annotate(METRICS, array(&others));
    }
    if let Some(behavior) = spec.remove("behavior").filter(|it| !it.is_null()) {
        annotate(BEHAVIOR, behavior::to_v1(&behavior));
    }

    let status = entry(object, "status");
    let current = status.remove("currentMetrics").unwrap_or_default();
    let current = current.as_array().map_or(&[][..], Vec::as_slice);
    let mut utilizations = current
        .iter()
        .filter(|metric| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu")
        .map(|metric| &metric["resource"]["current"]["averageUtilization"]);
    if let Some(utilization) = utilizations.rfind(|it| !it.is_null()) {
        status.insert("currentCPUUtilizationPercentage".to_owned(), utilization.clone());
    }
    if !current.is_empty() {
        // Utilization is repeated here because the field has no place for the raw value.
        let current: Vec<_> = current.iter().map(metric::status_to_v1).collect();
        annotate(CURRENT_METRICS, array(&current));
    }
    let conditions = status.remove("conditions").unwrap_or_default();
    if let Some(conditions) = conditions.as_array().filter(|all| !all.is_empty()) {
        let conditions: Vec<_> = conditions.iter().map(condition_to_v1).collect();
        annotate(CONDITIONS, array(&conditions));
    }
    status.entry("currentReplicas").or_insert(json!(0));
    status.entry("desiredReplicas").or_insert(json!(0));

    if !annotations.is_empty() {
        entry(entry(object, "metadata"), "annotations").extend(annotations);
    }
}

/// Removes the annotations of the conversion and returns them.
fn take_annotations(object: &mut Value) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return taken };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return taken };
    for key in RESERVED_ANNOTATIONS {
        taken.extend(annotations.remove_entry(key));
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    taken
}

/// Returns the object at a key, inserting an empty one if absent.
fn entry<'a>(object: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let entry = object.entry(key).or_insert_with(|| json!({}));
    if !entry.is_object() {
        *entry = json!({});
    }
    match entry {
        Value::Object(object) => object,
        _ => unreachable!("replaced by an object above"),
    }
}

fn cpu_utilization(percent: &Value) -> Value {
    json!({
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": { "type": "Utilization", "averageUtilization": percent },
        },
    })
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && !metric["resource"]["target"]["averageUtilization"].is_null()
}

fn condition_to_v1(condition: &Value) -> String {
    Object::new()
        .string("type", &condition["type"])
        .string("status", &condition["status"])
        .value("lastTransitionTime", &condition["lastTransitionTime"])
        .filled_string("reason", &condition["reason"])
        .filled_string("message", &condition["message"])
        .end()
}
