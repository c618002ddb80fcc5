//! The OpenAPI documents of the served resources: v3, one per group and version with an index, and
//! v2, one for everything.
//!
//! The input is a list of [`Served`] resources; [`routes`] turns it into operations, [`paths`]
//! renders them, and [`schemas`] (built-in types) and [`custom`] (CRDs) add the schemas they refer
//! to; [`protobuf`] encodes a document as protobuf. Everything here is a pure function of its
//! input, so a document can be cached until its input changes; every `$ref` of a document resolves
//! within it.

mod custom;
mod messages;
mod parameters;
mod paths;
pub(crate) mod protobuf;
pub(crate) mod publish;
mod routes;
mod schemas;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use evenkeel_types::Type;
use serde_json::{Map, Value, json};

use self::paths::Document;
use self::routes::Route;

/// A resource in one version.
pub(crate) struct Served<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) list_kind: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) namespaced: bool,
    /// As in discovery: `get`, `list`, `create`, …
    pub(crate) verbs: &'a [&'a str],
    pub(crate) subresources: Vec<Sub<'a>>,
    pub(crate) schema: Source<'a>,
}

/// A subresource and its kind.
pub(crate) struct Sub<'a> {
    pub(crate) name: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) verbs: &'a [&'a str],
}

/// The origin of a resource's schema.
pub(crate) enum Source<'a> {
    /// The table of built-in types.
    Builtin(&'static Type),
    /// A CustomResourceDefinition.
    Custom {
        /// Its `openAPIV3Schema`; null when it has none.
        schema: &'a Value,
        /// The paths of its `selectableFields`, such as `.spec.color`.
        selectable: Vec<&'a str>,
    },
}

/// The two versions of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// Returns a `$ref` to the schema `name`.
    fn reference(self, name: &str) -> Value {
        let at = match self {
            Dialect::V2 => "#/definitions/",
            Dialect::V3 => "#/components/schemas/",
        };
        let mut reference = Map::new();
        reference.insert("$ref".to_owned(), Value::String([at, name].concat()));
        Value::Object(reference)
    }

    /// Returns a reference to which properties can be added: v3 allows no siblings of `$ref`.
    fn open_reference(self, name: &str) -> Map<String, Value> {
        let reference = self.reference(name);
        match (self, reference) {
            (Dialect::V2, Value::Object(reference)) => reference,
            (_, reference) => Map::from_iter([("allOf".to_owned(), Value::Array(vec![reference]))]),
        }
    }
}

/// Returns the paths of the v3 documents, as listed in the index and below `/openapi/v3/`.
pub(crate) fn v3_paths(served: &[Served<'_>]) -> BTreeSet<String> {
    let mut paths: BTreeSet<String> =
        routes::fixed().map(|(document, _)| document.to_owned()).collect();
    for resource in served {
        paths.insert(group_version_path(resource.group, resource.version));
        if matches!(resource.schema, Source::Builtin(_)) && !resource.group.is_empty() {
            paths.insert(format!("apis/{}", resource.group));
        }
    }
    paths
}

/// Renders the index at `/openapi/v3`: the path and hash of each document.
pub(crate) fn v3_index<P, H>(documents: impl IntoIterator<Item = (P, H)>) -> Value
where
    P: AsRef<str>,
    H: AsRef<str>,
{
    let entry = |(path, hash): (P, H)| {
        let url = format!("/openapi/v3/{}?hash={}", path.as_ref(), hash.as_ref());
        (path.as_ref().to_owned(), json!({ "serverRelativeURL": url }))
    };
    json!({ "paths": documents.into_iter().map(entry).collect::<Map<_, _>>() })
}

/// Renders the v3 document at a path of [`v3_paths`].
pub(crate) fn v3_document(served: &[Served<'_>], path: &str) -> Option<Value> {
    if let Some((_, route)) = routes::fixed().find(|(document, _)| *document == path) {
        return Some(v3(Document::new(Dialect::V3, None), [route], true));
    }
    let resources: Vec<&Served<'_>> = served
        .iter()
        .filter(|resource| group_version_path(resource.group, resource.version) == path)
        .collect();
    let Some(first) = resources.first() else {
        let group = path.strip_prefix("apis/").filter(|group| !group.is_empty())?;
        let known = |resource: &Served<'_>| {
            resource.group == group && matches!(resource.schema, Source::Builtin(_))
        };
        return served
            .iter()
            .any(known)
            .then(|| v3(Document::new(Dialect::V3, None), [routes::group(group)], true));
    };
    let mut document = Document::new(Dialect::V3, Some((first.group, first.version)));
    let builtin = resources.iter().any(|resource| matches!(resource.schema, Source::Builtin(_)));
    let mut routes: Vec<Route<'_>> = Vec::new();
    if builtin {
        routes.push(routes::group_version(first.group, first.version));
    }
    for resource in resources {
        document.add_custom(resource);
        routes.extend(routes::of(resource));
    }
    Some(v3(document, routes, builtin))
}

fn v3<'a>(
    document: Document<'_>,
    routes: impl IntoIterator<Item = Route<'a>>,
    builtin: bool,
) -> Value {
    let (paths, schemas, _) = document.finish(routes);
    let mut components = Map::new();
    if !schemas.is_empty() {
        components.insert("schemas".to_owned(), Value::Object(schemas));
    }
    if builtin {
        components.insert("securitySchemes".to_owned(), security());
    }
    let info = match builtin {
        true => json!({ "title": "Kubernetes", "version": "1.36" }),
        false => json!({ "title": "Kubernetes CRD Swagger", "version": "v0.1.0" }),
    };
    json!({ "openapi": "3.0.0", "info": info, "paths": paths, "components": components })
}

/// Renders the v2 document.
pub(crate) fn v2_document(served: &[Served<'_>]) -> Value {
    let mut document = Document::new(Dialect::V2, None);
    let mut routes: Vec<Route<'_>> = routes::fixed().map(|(_, route)| route).collect();
    let (mut groups, mut versions) = (BTreeSet::new(), BTreeSet::new());
    for resource in served {
        document.add_custom(resource);
        routes.extend(routes::of(resource));
        if matches!(resource.schema, Source::Builtin(_)) {
            groups.insert(resource.group);
            versions.insert((resource.group, resource.version));
        }
    }
    groups.remove("");
    routes.extend(groups.into_iter().map(routes::group));
    routes
        .extend(versions.into_iter().map(|(group, version)| routes::group_version(group, version)));
    let (paths, definitions, parameters) = document.finish(routes);
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "1.36" },
        "paths": paths,
        "definitions": definitions,
        "parameters": parameters,
        "securityDefinitions": security(),
        "security": [{ "BearerToken": [] }],
    })
}

fn security() -> Value {
    json!({ "BearerToken": { "type": "apiKey", "name": "authorization", "in": "header" } })
}

fn group_version_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        _ => format!("apis/{group}/{version}"),
    }
}
