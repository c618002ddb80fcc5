//! Converts Events between the core group and `events.k8s.io`, which differ in field names.

use serde_json::{Map, Value, json};

/// Field names in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

pub(super) fn convert(from_group: &str, to_group: &str, object: &mut Value) {
    let Some(event) = object.as_object_mut().filter(|_| from_group != to_group) else { return };
    if to_group.is_empty() {
        for (core, events) in NAMES {
            rename(event, events, core);
        }
        for (field, zero) in always_in_core() {
            event.entry(field).or_insert(zero);
        }
        if let Some(Value::Object(series)) = event.get_mut("series") {
            remove_if(series, "count", |count| count == 0);
        }
    } else {
        for (core, events) in NAMES {
            rename(event, core, events);
        }
        for (field, zero) in always_in_events() {
            event.entry(field).or_insert(zero);
        }
        for field in ["reportingController", "reportingInstance"] {
            remove_if(event, field, |text| text == "");
        }
        if let Some(Value::Object(series)) = event.get_mut("series") {
            series.entry("count").or_insert(json!(0));
        }
    }
}

/// Fields that are written even if empty.
fn always_in_core() -> [(&'static str, Value); 7] {
    [
        ("eventTime", Value::Null),
        ("firstTimestamp", Value::Null),
        ("involvedObject", json!({})),
        ("lastTimestamp", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
        ("source", json!({})),
    ]
}

/// Fields that are written even if empty.
fn always_in_events() -> [(&'static str, Value); 5] {
    [
        ("deprecatedFirstTimestamp", Value::Null),
        ("deprecatedLastTimestamp", Value::Null),
        ("deprecatedSource", json!({})),
        ("eventTime", Value::Null),
        ("regarding", json!({})),
    ]
}

fn rename(event: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = event.remove(from) {
        event.insert(to.to_owned(), value);
    }
}

fn remove_if(object: &mut Map<String, Value>, field: &str, condition: impl Fn(&Value) -> bool) {
    if object.get(field).is_some_and(condition) {
        object.remove(field);
    }
}
