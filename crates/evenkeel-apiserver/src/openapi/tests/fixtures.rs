//! Served resources, and what the tests read of their documents.

use evenkeel_types::{Gvk, lookup};

use super::super::*;

pub(super) const ALL: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
pub(super) const OBJECT: &[&str] = &["get", "patch", "update"];

pub(super) fn builtin<'a>(gvk: Gvk<'a>, list_kind: &'a str, plural: &'a str) -> Served<'a> {
    Served {
        group: gvk.group,
        version: gvk.version,
        kind: gvk.kind,
        list_kind,
        plural,
        namespaced: true,
        verbs: ALL,
        subresources: vec![Sub {
            name: "status",
            group: gvk.group,
            version: gvk.version,
            kind: gvk.kind,
            verbs: OBJECT,
        }],
        schema: Source::Builtin(lookup(gvk).expect("built in")),
    }
}

pub(super) fn pods() -> Served<'static> {
    let sub = |name, kind, verbs| Sub { name, group: "", version: "v1", kind, verbs };
    let mut pods = builtin(Gvk::new("", "v1", "Pod"), "PodList", "pods");
    pods.subresources.extend([
        sub("binding", "Binding", &["create"] as &[_]),
        sub("exec", "PodExecOptions", &["create", "get"]),
        sub("log", "Pod", &["get"]),
        sub("proxy", "PodProxyOptions", &["create", "delete", "get", "patch", "update"]),
    ]);
    pods
}

pub(super) fn widgets(schema: &Value) -> Served<'_> {
    let sub = |name, group, version, kind| Sub { name, group, version, kind, verbs: OBJECT };
    Served {
        group: "shop.example.com",
        version: "v1",
        kind: "Widget",
        list_kind: "WidgetList",
        plural: "widgets",
        namespaced: true,
        verbs: ALL,
        subresources: vec![
            sub("status", "shop.example.com", "v1", "Widget"),
            sub("scale", "autoscaling", "v1", "Scale"),
        ],
        schema: Source::Custom { schema, selectable: vec![".spec.color"] },
    }
}

/// Runs `check` with all built-in kinds that have lists, with made-up plurals.
pub(super) fn with_builtins<R>(check: impl FnOnce(&[Served<'_>]) -> R) -> R {
    let names: Vec<(Gvk<'static>, String, String)> = evenkeel_types::all()
        .flat_map(|ty| ty.gvks.iter().copied())
        .map(|gvk| {
            (gvk, format!("{}List", gvk.kind), format!("{}s", gvk.kind.to_ascii_lowercase()))
        })
        .filter(|(gvk, list, _)| lookup(Gvk::new(gvk.group, gvk.version, list)).is_some())
        .collect();
    let served: Vec<Served<'_>> =
        names.iter().map(|(gvk, list, plural)| builtin(*gvk, list, plural)).collect();
    assert!(served.len() > 60, "only {} kinds have lists", served.len());
    check(&served)
}

pub(super) const SCHEMA: &str = "com.example.shop.v1.Widget";

/// Returns the schema published for a custom resource with the schema `declared`.
pub(super) fn published(dialect: Dialect, declared: &Value) -> Value {
    let served = [widgets(declared)];
    let mut document = match dialect {
        Dialect::V2 => v2_document(&served),
        Dialect::V3 => v3_document(&served, "apis/shop.example.com/v1").expect("published"),
    };
    match dialect {
        Dialect::V2 => document["definitions"][SCHEMA].take(),
        Dialect::V3 => document["components"]["schemas"][SCHEMA].take(),
    }
}

/// Returns the schema published for a field `spec` with the schema `spec`.
pub(super) fn published_spec(dialect: Dialect, spec: &Value) -> Value {
    let declared = json!({ "type": "object", "properties": { "spec": spec } });
    published(dialect, &declared)["properties"]["spec"].take()
}

pub(super) fn references<'v>(value: &'v Value, into: &mut Vec<&'v str>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(to) if key == "$ref" => into.push(to),
                    _ => references(value, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

#[track_caller]
pub(super) fn assert_closed(document: &Value) {
    let mut found = Vec::new();
    references(document, &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("within the document");
        assert!(document.pointer(pointer).is_some(), "{reference} does not resolve");
    }
}

pub(super) fn operations(document: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().expect("methods").iter();
        methods
            .filter(|(method, _)| *method != "parameters")
            .map(move |(method, operation)| (path, method, operation))
    })
}

pub(super) fn names(parameters: &Value) -> Vec<&str> {
    let parameters = parameters.as_array().map_or(&[] as &[Value], Vec::as_slice);
    parameters.iter().filter_map(|parameter| parameter["name"].as_str()).collect()
}
