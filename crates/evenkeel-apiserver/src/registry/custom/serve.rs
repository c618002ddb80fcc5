//! Builds the resources of a CRD.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use evenkeel_schema::{Scale, Structural, jsonpath};
use evenkeel_types::watch;
use serde_json::{Value, json};

use super::{Column, Conversion, Custom, Selectable, storage_version};
use crate::object::Metadata as _;
use crate::registry::resource::{Resource, Subresource, TypeInfo};
use crate::registry::version_rank;
use crate::storage::Store;

/// In upstream's order for custom resources.
const VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const EDIT: &[&str] = &["get", "patch", "update"];

/// Returns the resources of all served versions. Empty if a schema cannot be compiled, which
/// validation prevents. A schema that one of the `last` resources has is not compiled again, nor are
/// its rules.
pub(crate) fn resources(
    store: &Store,
    crd: &Value,
    lifetime: &watch::Receiver<()>,
    last: &[Arc<Resource>],
) -> Vec<Arc<Resource>> {
    let versions = || crd["spec"]["versions"].as_array().into_iter().flatten();
    let group = crd["spec"]["group"].as_str().unwrap_or("");
    let schemas = versions().filter_map(|version| {
        let name = format!("{group}/{}", version["name"].as_str()?);
        Some((name.into(), compile(crd, version, last)?))
    });
    let schemas = Arc::new(schemas.collect());
    let conversion = Conversion::of(crd).map(Arc::new);
    let best = best_version(&crd["spec"]);
    let of = |version, unserved| {
        let custom = custom(crd, version, best, &schemas, lifetime)?;
        let custom = Custom { unserved, conversion: conversion.clone(), ..custom };
        resource(store, crd, version, custom).map(Arc::new)
    };
    let (served, unserved): (Vec<&Value>, Vec<&Value>) =
        versions().partition(|version| version["served"] == true);
    let unserved: Arc<[Arc<Resource>]> =
        unserved.into_iter().filter_map(|version| of(version, Arc::from([]))).collect();
    served.into_iter().filter_map(|version| of(version, unserved.clone())).collect()
}

fn resource(store: &Store, crd: &Value, version: &Value, custom: Custom) -> Option<Resource> {
    let spec = &crd["spec"];
    // The accepted names are served, not the requested ones.
    let names = &crd["status"]["acceptedNames"];
    let text = |name: &str| names[name].as_str().unwrap_or("");
    let list = |name: &str| -> Vec<Box<str>> {
        let list = names[name].as_array();
        list.into_iter().flatten().filter_map(Value::as_str).map(Box::from).collect()
    };
    let (group, plural) = (spec["group"].as_str()?, text("plural"));
    let version_name = version["name"].as_str()?;
    let mut subresources = Vec::new();
    if custom.has_status {
        subresources.push(Subresource {
            name: "status",
            group: "",
            version: "",
            kind: text("kind").into(),
            verbs: EDIT,
        });
    }
    if custom.schema.scale().is_some() {
        subresources.push(Subresource {
            name: "scale",
            group: "autoscaling",
            version: "v1",
            kind: "Scale".into(),
            verbs: EDIT,
        });
    }
    Some(Resource {
        group: group.into(),
        version: version_name.into(),
        api_version: format!("{group}/{version_name}").into(),
        kind: text("kind").into(),
        list_kind: text("listKind").into(),
        plural: plural.into(),
        singular: text("singular").into(),
        namespaced: spec["scope"] == "Namespaced",
        verbs: VERBS.to_vec(),
        short_names: list("shortNames"),
        categories: list("categories"),
        subresources,
        table: store.table_from_now(&format!("{group}/{plural}")),
        storage_version: format!("{group}/{}", storage_version(crd)).into(),
        epoch: crd.meta_i64("generation").unwrap_or(0) as u32,
        selectable: custom.selectable.iter().map(|field| field.label.clone()).collect(),
        type_info: TypeInfo::Custom(Box::new(custom)),
        apply_type: OnceLock::new(),
        zero: OnceLock::new(),
    })
}

fn custom(
    crd: &Value,
    version: &Value,
    best: Option<&str>,
    schemas: &Arc<BTreeMap<Box<str>, Structural>>,
    lifetime: &watch::Receiver<()>,
) -> Option<Custom> {
    let group = crd["spec"]["group"].as_str().unwrap_or("");
    let api_version = format!("{group}/{}", version["name"].as_str()?);
    let schema = schemas.get(&*api_version)?.clone();
    let subresources = &version["subresources"];
    let fields = version["selectableFields"].as_array();
    let selectable = fields.into_iter().flatten().filter_map(|field| {
        let json_path = field["jsonPath"].as_str()?;
        Some(Selectable {
            label: json_path.trim_start_matches('.').into(),
            json_path: json_path.into(),
            path: jsonpath::Path::parse(json_path).ok()?,
        })
    });
    Some(Custom {
        crd: crd.meta_str("name").into(),
        schema: schema.with_scale(subresources.get("scale").and_then(Scale::new)),
        schemas: schemas.clone(),
        openapi: version.pointer("/schema/openAPIV3Schema").cloned(),
        has_status: subresources.get("status").is_some(),
        columns: columns(version),
        selectable: selectable.collect(),
        lifetime: lifetime.clone(),
        deprecation: deprecation(&crd["spec"], version, best),
        terminating: crd.is_deleting(),
        unserved: Arc::from([]),
        conversion: None,
    })
}

fn compile(crd: &Value, version: &Value, last: &[Arc<Resource>]) -> Option<Structural> {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&free);
    let mut last = last.iter().filter_map(|resource| resource.custom());
    if let Some(last) = last.find(|last| last.openapi.as_ref() == Some(schema)) {
        return Some(last.schema.clone().with_scale(None));
    }
    let compiled = Structural::compile(schema);
    if let Err(why) = &compiled {
        tracing::error!(
            crd = crd.meta_str("name"),
            %why,
            "cannot compile the schema of a CustomResourceDefinition"
        );
    }
    compiled.ok()
}

/// Returns the version with the highest priority that is served and not deprecated.
fn best_version(spec: &Value) -> Option<&str> {
    let versions = spec["versions"].as_array();
    versions
        .into_iter()
        .flatten()
        .filter(|version| version["served"] == true && version["deprecated"] != true)
        .filter_map(|version| version["name"].as_str())
        .max_by_key(|version| version_rank(version))
}

/// Returns the declared deprecation warning, or one that names the preferred version if that has a
/// higher priority.
fn deprecation(spec: &Value, version: &Value, best: Option<&str>) -> Option<Box<str>> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(declared) = version["deprecationWarning"].as_str() {
        return Some(declared.into());
    }
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let (group, kind, name) =
        (text(&spec["group"]), text(&spec["names"]["kind"]), text(&version["name"]));
    let mut warning = format!("{group}/{name} {kind} is deprecated");
    if let Some(better) = best.filter(|best| version_rank(best) > version_rank(&name)) {
        warning.push_str(&format!("; use {group}/{better} {kind}"));
    }
    Some(warning.into())
}

/// Returns the declared printer columns, or the age if there are none.
fn columns(version: &Value) -> Vec<Column> {
    let declared = version["additionalPrinterColumns"].as_array().filter(|list| !list.is_empty());
    let Some(declared) = declared else {
        return vec![Column {
            name: "Age".into(),
            ty: "date".into(),
            format: "".into(),
            description: "When the object was created.".into(),
            priority: 0,
            path: jsonpath::Path::parse(".metadata.creationTimestamp").ok(),
        }];
    };
    let text =
        |column: &Value, name: &str| -> Box<str> { column[name].as_str().unwrap_or("").into() };
    let columns = declared.iter().map(|column| Column {
        name: text(column, "name"),
        ty: text(column, "type"),
        format: text(column, "format"),
        description: text(column, "description"),
        priority: column["priority"].as_i64().unwrap_or(0) as i32,
        path: jsonpath::Path::parse(&text(column, "jsonPath")).ok(),
    });
    columns.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Options;

    #[test]
    fn deprecation_warning_names_the_preferred_version() {
        let spec = json!({"group": "x.io", "names": {"kind": "Foo"}, "versions": [
            {"name": "v1beta1", "served": true, "deprecated": true},
            {"name": "v1", "served": true},
            {"name": "v2", "served": false},
            {"name": "v3", "served": true, "deprecated": true, "deprecationWarning": "gone soon"},
            {"name": "v4", "served": true, "deprecated": true},
        ]});
        let best = best_version(&spec);
        let warning_of = |at: usize| deprecation(&spec, &spec["versions"][at], best);
        assert_eq!(
            warning_of(0).as_deref(),
            Some("x.io/v1beta1 Foo is deprecated; use x.io/v1 Foo")
        );
        assert_eq!(warning_of(1), None);
        assert_eq!(warning_of(3).as_deref(), Some("gone soon"));
        assert_eq!(warning_of(4).as_deref(), Some("x.io/v4 Foo is deprecated"));
    }

    #[test]
    fn rules_of_an_unchanged_schema_are_not_compiled_again() {
        let store = Store::in_memory(&Options::default());
        let lifetime = watch::Sender::new(());
        let version = |name: &str, rule: &str| {
            json!({"name": name, "served": true, "storage": name == "v1", "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": {"size": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": rule}],
                }}},
            }})
        };
        let mut crd = json!({
            "metadata": {"name": "foos.x.io", "generation": 1},
            "spec": {
                "group": "x.io", "scope": "Namespaced",
                "versions": [version("v1", "self.size > 1"), version("v2", "self.size > 2")],
            },
            "status": {"acceptedNames": {"plural": "foos", "kind": "Foo", "listKind": "FooList"}},
        });
        let serve = |crd: &Value, last: &[Arc<Resource>]| {
            resources(&store, crd, &lifetime.subscribe(), last)
        };
        let same = |a: &[Arc<Resource>], b: &[Arc<Resource>]| -> Vec<bool> {
            let schemas = |all: &[Arc<Resource>]| -> Vec<Structural> {
                let custom = all.iter().filter_map(|resource| resource.custom());
                custom.map(|custom| custom.schema.clone()).collect()
            };
            let both = schemas(a).into_iter().zip(schemas(b));
            both.map(|(a, b)| a.is_clone_of(&b)).collect()
        };
        let first = serve(&crd, &[]);
        assert_eq!(same(&first, &serve(&crd, &[])), [false, false]);
        crd["metadata"]["generation"] = json!(2);
        crd["spec"]["versions"][0]["additionalPrinterColumns"] =
            json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
        crd["spec"]["versions"][1]["subresources"] = json!({"status": {}});
        let second = serve(&crd, &first);
        assert_eq!(same(&first, &second), [true, true]);
        crd["spec"]["versions"][0] = version("v1", "self.size > 0");
        assert_eq!(same(&second, &serve(&crd, &second)), [false, true]);
    }
}
