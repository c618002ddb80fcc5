//! Columns of HorizontalPodAutoscalers: metrics as current value and target.

use evenkeel_types::Gvk;
use serde_json::Value;

use super::text::{NONE, UNKNOWN, UNSET, age, int, list, name, quantity, str};
use super::{AGE, Column, NAME, Printer};
use crate::convert;

/// Maximum number of metrics in a cell. Further metrics are only counted.
const MAX_SHOWN: usize = 2;

const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Reference", "What is scaled."),
    Column::text("Targets", "Metrics: current value and target."),
    Column::text("MinPods", "Fewest replicas."),
    Column::text("MaxPods", "Most replicas."),
    Column::text("Replicas", "Replicas last observed."),
    AGE,
];

pub(super) const HORIZONTAL_POD_AUTOSCALER: Printer = Printer { columns: COLUMNS, cells };

/// v1 keeps all metrics but one in annotations, so objects are converted to v2 for printing.
pub(super) const HORIZONTAL_POD_AUTOSCALER_V1: Printer = Printer {
    columns: COLUMNS,
    cells: |object, now| {
        const V1: Gvk<'_> = Gvk::new("autoscaling", "v1", "HorizontalPodAutoscaler");
        let mut object = object.clone();
        // Conversion between these versions cannot fail, so the object is always converted.
        let _converted = convert::to(V1, convert::storage_gvk(V1), &mut object);
        cells(&object, now)
    },
};

fn cells(object: &Value, now: i64) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let least = match spec["minReplicas"].as_i64() {
        Some(replicas) => replicas.to_string(),
        None => UNSET.to_owned(),
    };
    cells![
        name(object),
        format!("{}/{}", str(&target["kind"]), str(&target["name"])),
        metrics(list(&spec["metrics"]), &status["currentMetrics"]),
        least,
        int(&spec["maxReplicas"]),
        int(&status["currentReplicas"]),
        age(object, now),
    ]
}

fn metrics(specs: &[Value], statuses: &Value) -> String {
    if specs.is_empty() {
        return NONE.to_owned();
    }
    let shown: Vec<_> = specs
        .iter()
        .take(MAX_SHOWN)
        .enumerate()
        .map(|(index, spec)| metric(spec, &statuses[index]))
        .collect();
    let shown = shown.join(", ");
    match specs.len().saturating_sub(MAX_SHOWN) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    match str(&spec["type"]) {
        "External" => value_or_average(&spec["external"], &status["external"]),
        "Object" => value_or_average(&spec["object"], &status["object"]),
        "Pods" => {
            let current =
                present(&status["pods"], |pods| quantity(&pods["current"]["averageValue"]));
            format!("{current}/{}", quantity(&spec["pods"]["target"]["averageValue"]))
        }
        "Resource" => utilization(&spec["resource"], &status["resource"]),
        "ContainerResource" => {
            utilization(&spec["containerResource"], &status["containerResource"])
        }
        _ => "<unknown type>".to_owned(),
    }
}

fn value_or_average(spec: &Value, status: &Value) -> String {
    let (target, current) = (&spec["target"], &status["current"]);
    if target["averageValue"].is_null() {
        let current = present(status, |_| quantity(&current["value"]));
        format!("{current}/{}", quantity(&target["value"]))
    } else {
        let current = present(&current["averageValue"], quantity);
        format!("{current}/{} (avg)", quantity(&target["averageValue"]))
    }
}

fn utilization(spec: &Value, status: &Value) -> String {
    let (target, current) = (&spec["target"], &status["current"]);
    let resource = str(&spec["name"]);
    if target["averageValue"].is_null() {
        let percent = |field: &Value| format!("{}%", int(field));
        let current = present(&current["averageUtilization"], percent);
        let target = match &target["averageUtilization"] {
            Value::Null => "<auto>".to_owned(),
            utilization => percent(utilization),
        };
        format!("{resource}: {current}/{target}")
    } else {
        let current = present(status, |_| quantity(&current["averageValue"]));
        format!("{resource}: {current}/{}", quantity(&target["averageValue"]))
    }
}

fn present(field: &Value, print: impl FnOnce(&Value) -> String) -> String {
    if field.is_null() { UNKNOWN.to_owned() } else { print(field) }
}
