//! Other representations of objects: table rows and partial metadata.

use evenkeel_kinds::{columns, convert, strategy};
use evenkeel_types::Gvk;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::registry::resource::{Resource, TypeInfo};
use crate::request::query::Query;
use crate::status::Status;

/// How much of the object is included in its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        match query.get("includeObject").unwrap_or("") {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::Nothing),
            "Object" => Ok(Self::Object),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \
                     {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// The kind of a single object's metadata.
pub(super) const METADATA: &str = "PartialObjectMetadata";

/// The kind of a list of metadata.
pub(super) const METADATA_LIST: &str = "PartialObjectMetadataList";

/// The API version of all views.
pub(super) const META: &str = "meta.k8s.io/v1";

/// Returns the API version of a view, `v1beta1` if `beta`.
pub(super) fn meta(beta: bool) -> &'static str {
    if beta { "meta.k8s.io/v1beta1" } else { META }
}

/// Reduces an object to its metadata.
pub(crate) fn to_metadata(gvk: Gvk<'_>, object: &Value) -> Value {
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    strategy::remove_versioned_metadata(gvk, &mut metadata);
    json!({
        "kind": METADATA,
        "apiVersion": META,
        "metadata": metadata,
    })
}

/// Sets the requested version of a table or metadata.
pub(crate) fn in_version(beta: bool, mut view: Value) -> Value {
    if !beta {
        return view;
    }
    let rename = |value: &mut Value| {
        if value["apiVersion"] == META {
            value["apiVersion"] = meta(beta).into();
        }
    };
    for row in view.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        rename(&mut row["object"]);
    }
    for item in view.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
        rename(item);
    }
    rename(&mut view);
    view
}

/// Returns the column definitions of a kind.
pub(crate) fn table_definitions(resource: &Resource) -> Value {
    let define = |name: &str, ty: &str, format: &str, description: &str, priority: i32| {
        json!({
            "name": name, "type": ty, "format": format, "description": description,
            "priority": priority,
        })
    };
    match &resource.type_info {
        TypeInfo::Builtin(_) => columns::definitions(resource.storage_gvk())
            .iter()
            .map(columns::Column::to_json)
            .collect(),
        TypeInfo::Custom(custom) => {
            let name = define("Name", "string", "name", "Name of the object.", 0);
            let others = custom
                .columns
                .iter()
                .map(|c| define(&c.name, &c.ty, &c.format, &c.description, c.priority));
            std::iter::once(name).chain(others).collect()
        }
    }
}

/// Renders an object as a row.
pub(crate) fn to_row(
    resource: &Resource,
    object: &Value,
    now: Timestamp,
    include: Include,
) -> Value {
    let cells = match &resource.type_info {
        TypeInfo::Builtin(_) if resource.api_version != resource.storage_version => {
            // Columns are defined for the storage version.
            let mut stored = object.clone();
            if let Err(why) = convert::to(resource.gvk(), resource.storage_gvk(), &mut stored) {
                tracing::error!(
                    %why,
                    kind = &*resource.kind,
                    "cannot convert an object for its table row"
                );
            }
            columns::row(resource.storage_gvk(), &stored, now.as_second())
        }
        TypeInfo::Builtin(_) => columns::row(resource.gvk(), object, now.as_second()),
        TypeInfo::Custom(custom) => custom.cells(object, now.as_second()),
    };
    let mut row = json!({"cells": cells});
    if !resource.is_custom()
        && let Some(condition) = columns::row_conditions(resource.gvk(), object)
    {
        row["conditions"] = json!([condition.to_json()]);
    }
    row["object"] = included(resource.gvk(), object, include);
    row
}

/// Renders an object whose kind is not a resource as a table with one row.
pub(crate) fn table_of(gvk: Gvk<'_>, object: &Value, now: Timestamp, include: Include) -> Value {
    let definitions = columns::definitions(gvk).iter().map(columns::Column::to_json).collect();
    let row = json!({
        "cells": columns::row(gvk, object, now.as_second()),
        "object": included(gvk, object, include),
    });
    table(table_metadata_of(object), Some(definitions), vec![row])
}

fn included(gvk: Gvk<'_>, object: &Value, include: Include) -> Value {
    match include {
        Include::Nothing => Value::Null,
        Include::Metadata => to_metadata(gvk, object),
        Include::Object => object.clone(),
    }
}

/// Returns the table metadata of a single object: its resource version.
pub(crate) fn table_metadata_of(object: &Value) -> Map<String, Value> {
    let version = object.pointer("/metadata/resourceVersion").cloned();
    version.map(|version| ("resourceVersion".to_owned(), version)).into_iter().collect()
}

/// Builds a table. In a watch only the first table contains the definitions.
pub(crate) fn table(
    metadata: Map<String, Value>,
    definitions: Option<Value>,
    rows: Vec<Value>,
) -> Value {
    let mut table = json!({"kind": "Table", "apiVersion": META});
    table["metadata"] = metadata.into();
    table["columnDefinitions"] = definitions.unwrap_or_default();
    table["rows"] = rows.into();
    table
}
