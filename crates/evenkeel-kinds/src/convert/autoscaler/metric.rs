//! Converts metrics: v1 has flat fields where v2 has targets.

use serde_json::{Value, json};

use super::annotation::{Fields, compact, is_zero, items};
use crate::convert::go_json::{Object, selector};

pub(super) fn specs_from_v1(json: &str) -> Option<Vec<Value>> {
    items(json, |metric| {
        Some(compact([
            ("type", metric.string("type")?),
            ("object", metric.optional("object", object_spec)?),
            ("pods", metric.optional("pods", pods_spec)?),
            ("resource", metric.optional("resource", resource_spec)?),
            ("containerResource", metric.optional("containerResource", container_spec)?),
            ("external", metric.optional("external", external_spec)?),
        ]))
    })
}

pub(super) fn statuses_from_v1(json: &str) -> Option<Vec<Value>> {
    items(json, |metric| {
        Some(compact([
            ("type", metric.string("type")?),
            ("object", metric.optional("object", object_status)?),
            ("pods", metric.optional("pods", pods_status)?),
            ("resource", metric.optional("resource", resource_status)?),
            ("containerResource", metric.optional("containerResource", container_status)?),
            ("external", metric.optional("external", external_status)?),
        ]))
    })
}

pub(super) fn spec_to_v1(metric: &Value) -> String {
    metric_to_v1(metric, |source, of| {
        let (target, metric) = (&of["target"], &of["metric"]);
        let object = Object::new();
        match source {
            "object" => object
                .raw("target", &reference(&of["describedObject"]))
                .string("metricName", &metric["name"])
                .quantity("targetValue", &target["value"])
                .selector("selector", &metric["selector"])
                .optional("averageValue", &target["averageValue"]),
            "pods" => object
                .string("metricName", &metric["name"])
                .quantity("targetAverageValue", &target["averageValue"])
                .selector("selector", &metric["selector"]),
            "external" => object
                .string("metricName", &metric["name"])
                .selector("metricSelector", &metric["selector"])
                .optional("targetValue", &target["value"])
                .optional("targetAverageValue", &target["averageValue"]),
            _ => object
                .string("name", &of["name"])
                .optional("targetAverageUtilization", &target["averageUtilization"])
                .optional("targetAverageValue", &target["averageValue"])
                .container(source, &of["container"]),
        }
    })
}

pub(super) fn status_to_v1(metric: &Value) -> String {
    metric_to_v1(metric, |source, of| {
        let (current, metric) = (&of["current"], &of["metric"]);
        let object = Object::new();
        match source {
            "object" => object
                .raw("target", &reference(&of["describedObject"]))
                .string("metricName", &metric["name"])
                .quantity("currentValue", &current["value"])
                .selector("selector", &metric["selector"])
                .optional("averageValue", &current["averageValue"]),
            "pods" => object
                .string("metricName", &metric["name"])
                .quantity("currentAverageValue", &current["averageValue"])
                .selector("selector", &metric["selector"]),
            "external" => object
                .string("metricName", &metric["name"])
                .selector("metricSelector", &metric["selector"])
                .quantity("currentValue", &current["value"])
                .optional("currentAverageValue", &current["averageValue"]),
            _ => object
                .string("name", &of["name"])
                .optional("currentAverageUtilization", &current["averageUtilization"])
                .quantity("currentAverageValue", &current["averageValue"])
                .container(source, &of["container"]),
        }
    })
}

/// Prints a metric: its type and the source under the field of that type.
fn metric_to_v1(metric: &Value, print: impl Fn(&str, &Value) -> Object) -> String {
    let mut object = Object::new().string("type", &metric["type"]);
    for source in ["object", "pods", "resource", "containerResource", "external"] {
        if !metric[source].is_null() {
            object = object.raw(source, &print(source, &metric[source]).end());
        }
    }
    object.end()
}

impl Object {
    fn selector(self, key: &str, value: &Value) -> Self {
        if value.is_null() { self } else { self.raw(key, &selector(value)) }
    }

    fn container(self, source: &str, container: &Value) -> Self {
        if source == "containerResource" { self.string("container", container) } else { self }
    }
}

fn reference(object: &Value) -> String {
    Object::new()
        .string("kind", &object["kind"])
        .string("name", &object["name"])
        .filled_string("apiVersion", &object["apiVersion"])
        .end()
}

fn object_spec(source: Fields<'_>) -> Option<Value> {
    let value = source.quantity("targetValue")?;
    let average = source.optional_quantity("averageValue")?;
    // v1 always has a value, so zero means unset if there is an average.
    let target = if average.is_null() {
        json!({ "type": "Value", "value": value })
    } else if value.as_str().is_none_or(is_zero) {
        json!({ "type": "AverageValue", "averageValue": average })
    } else {
        json!({ "type": "AverageValue", "value": value, "averageValue": average })
    };
    Some(json!({
        "describedObject": described_object(source)?,
        "target": target,
        "metric": identifier(source, "selector")?,
    }))
}

fn object_status(source: Fields<'_>) -> Option<Value> {
    let current = compact([
        ("value", source.quantity("currentValue")?),
        ("averageValue", source.optional_quantity("averageValue")?),
    ]);
    Some(json!({
        "describedObject": described_object(source)?,
        "current": current,
        "metric": identifier(source, "selector")?,
    }))
}

fn pods_spec(source: Fields<'_>) -> Option<Value> {
    let average = source.quantity("targetAverageValue")?;
    Some(json!({
        "metric": identifier(source, "selector")?,
        "target": { "type": "AverageValue", "averageValue": average },
    }))
}

fn pods_status(source: Fields<'_>) -> Option<Value> {
    let average = source.quantity("currentAverageValue")?;
    Some(json!({
        "metric": identifier(source, "selector")?,
        "current": { "averageValue": average },
    }))
}

fn resource_spec(source: Fields<'_>) -> Option<Value> {
    Some(json!({ "name": source.string("name")?, "target": resource_target(source)? }))
}

fn resource_status(source: Fields<'_>) -> Option<Value> {
    Some(json!({ "name": source.string("name")?, "current": resource_current(source)? }))
}

fn container_spec(source: Fields<'_>) -> Option<Value> {
    Some(json!({
        "name": source.string("name")?,
        "container": source.string("container")?,
        "target": resource_target(source)?,
    }))
}

fn container_status(source: Fields<'_>) -> Option<Value> {
    Some(json!({
        "name": source.string("name")?,
        "container": source.string("container")?,
        "current": resource_current(source)?,
    }))
}

fn resource_target(source: Fields<'_>) -> Option<Value> {
    let utilization = source.optional_int("targetAverageUtilization")?;
    let type_name = if utilization.is_null() { "AverageValue" } else { "Utilization" };
    Some(compact([
        ("type", json!(type_name)),
        ("averageValue", source.optional_quantity("targetAverageValue")?),
        ("averageUtilization", utilization),
    ]))
}

fn resource_current(source: Fields<'_>) -> Option<Value> {
    Some(compact([
        ("averageValue", source.quantity("currentAverageValue")?),
        ("averageUtilization", source.optional_int("currentAverageUtilization")?),
    ]))
}

fn external_spec(source: Fields<'_>) -> Option<Value> {
    let value = source.optional_quantity("targetValue")?;
    let type_name = if value.is_null() { "AverageValue" } else { "Value" };
    let target = compact([
        ("type", json!(type_name)),
        ("value", value),
        ("averageValue", source.optional_quantity("targetAverageValue")?),
    ]);
    Some(json!({ "metric": identifier(source, "metricSelector")?, "target": target }))
}

fn external_status(source: Fields<'_>) -> Option<Value> {
    let current = compact([
        ("value", source.quantity("currentValue")?),
        ("averageValue", source.optional_quantity("currentAverageValue")?),
    ]);
    Some(json!({ "metric": identifier(source, "metricSelector")?, "current": current }))
}

fn described_object(source: Fields<'_>) -> Option<Value> {
    source.nested("target", |target| {
        let api_version = match target.string("apiVersion")? {
            none if none == "" => Value::Null,
            api_version => api_version,
        };
        Some(compact([
            ("kind", target.string("kind")?),
            ("name", target.string("name")?),
            ("apiVersion", api_version),
        ]))
    })
}

fn identifier(source: Fields<'_>, selector: &str) -> Option<Value> {
    Some(compact([
        ("name", source.string("metricName")?),
        ("selector", source.selector(selector)?),
    ]))
}
