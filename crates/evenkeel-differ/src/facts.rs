//! Extracts facts from discovery and OpenAPI documents, without order, descriptions and the groups
//! of other sequences.
//!
//! A fact is a key and a value, so that a difference names the operation, resource or property
//! instead of a position in a document of megabytes.

use serde_json::{Map, Value, json};

use crate::sequence::Scope;

/// Suffix of the API groups that sequences create.
const SEQUENCE_GROUP_SUFFIX: &str = ".differ.test";

/// Returns the facts in `document`. Other documents are returned unchanged.
pub(crate) fn extract(document: &Value, scope: Scope, group: Option<&str>) -> Value {
    let filter = Filter { scope, group: group.unwrap_or_default() };
    let mut facts = Map::new();
    match document["kind"].as_str() {
        Some("APIGroupList") => {
            for group in array(&document["groups"]) {
                if filter.wants_group(text(&group["name"])) {
                    facts.insert(format!("group {}", text(&group["name"])), api_group(group));
                }
            }
        }
        Some("APIGroup") => return api_group(document),
        Some("APIResourceList") => {
            for resource in array(&document["resources"]) {
                let name = format!("resource {}", text(&resource["name"]));
                facts.insert(name, sorted(resource));
            }
        }
        Some("APIGroupDiscoveryList") => aggregated(document, filter, &mut facts),
        _ if document["swagger"].is_string() => {
            paths(document, filter, &mut facts);
            schemas(&document["definitions"], filter, &mut facts);
            for name in ["securityDefinitions", "security"] {
                facts.insert(name.to_owned(), without_descriptions(&document[name]));
            }
        }
        _ if document["openapi"].is_string() => {
            paths(document, filter, &mut facts);
            schemas(&document["components"]["schemas"], filter, &mut facts);
            let security = without_descriptions(&document["components"]["securitySchemes"]);
            facts.insert("securitySchemes".to_owned(), security);
        }
        _ if document["paths"].is_object() => {
            for (path, value) in object(&document["paths"]) {
                if filter.wants_path(path) {
                    let url = text(&value["serverRelativeURL"]);
                    let (url, hash) = url.split_once('?').unwrap_or((url, ""));
                    let hashed = hash.starts_with("hash=") && hash.len() > 20;
                    facts.insert(format!("document {path}"), json!({"url": url, "hashed": hashed}));
                }
            }
        }
        _ => return document.clone(),
    }
    facts.into()
}

#[derive(Clone, Copy)]
struct Filter<'a> {
    scope: Scope,
    group: &'a str,
}

impl Filter<'_> {
    fn wants_group(self, name: &str) -> bool {
        match self.scope {
            Scope::Own => name == self.group,
            Scope::BuiltIn => !name.ends_with(SEQUENCE_GROUP_SUFFIX),
        }
    }

    fn wants_path(self, path: &str) -> bool {
        match self.scope {
            Scope::Own => path.split('/').any(|part| part == self.group),
            Scope::BuiltIn => !path.split('/').any(|part| part.ends_with(SEQUENCE_GROUP_SUFFIX)),
        }
    }

    /// OpenAPI schema names start with the reversed API group.
    fn wants_schema(self, name: &str) -> bool {
        let backwards = |group: &str| {
            let mut parts: Vec<_> = group.split('.').filter(|part| !part.is_empty()).collect();
            parts.reverse();
            parts.join(".") + "."
        };
        match self.scope {
            Scope::Own => name.starts_with(&backwards(self.group)),
            Scope::BuiltIn => !name.starts_with(&backwards(SEQUENCE_GROUP_SUFFIX)),
        }
    }
}

fn api_group(group: &Value) -> Value {
    let versions: Vec<_> =
        array(&group["versions"]).iter().map(|version| version["version"].clone()).collect();
    json!({
        "name": group["name"],
        "versions": versions,
        "preferred": group["preferredVersion"]["version"],
    })
}

fn aggregated(document: &Value, filter: Filter<'_>, facts: &mut Map<String, Value>) {
    for group in array(&document["items"]) {
        let name = text(&group["metadata"]["name"]);
        if !filter.wants_group(name) {
            continue;
        }
        let versions = array(&group["versions"]);
        let names: Vec<_> = versions.iter().map(|version| version["version"].clone()).collect();
        facts.insert(format!("group {name}"), names.into());
        for version in versions {
            let label = format!("{name}/{}", text(&version["version"]));
            facts.insert(format!("freshness of {label}"), version["freshness"].clone());
            for resource in array(&version["resources"]) {
                let plural = text(&resource["resource"]);
                for part in array(&resource["subresources"]) {
                    let name = text(&part["subresource"]);
                    facts.insert(format!("resource {label} {plural}/{name}"), sorted(part));
                }
                let mut own = sorted(resource);
                if let Value::Object(own) = &mut own {
                    own.remove("subresources");
                }
                facts.insert(format!("resource {label} {plural}"), own);
            }
        }
    }
}

/// Extracts each operation, and the parameters shared by all operations of a path.
fn paths(document: &Value, filter: Filter<'_>, facts: &mut Map<String, Value>) {
    for (path, item) in object(&document["paths"]) {
        if !filter.wants_path(path) {
            continue;
        }
        for (method, operation) in object(item) {
            let what = format!("{} {path}", method.to_uppercase());
            for parameter in array(&operation["parameters"]) {
                let (name, value) = parameter_fact(parameter);
                facts.insert(format!("{what} parameter {name}"), value);
            }
            let mut rest = without_descriptions(operation);
            if let Value::Object(rest) = &mut rest {
                rest.remove("parameters");
            }
            if method == "parameters" {
                for parameter in array(operation) {
                    let (name, value) = parameter_fact(parameter);
                    facts.insert(format!("{path} parameter {name}"), value);
                }
                continue;
            }
            facts.insert(what, rest);
        }
    }
}

/// A shared parameter is referenced by its name and a hash.
fn parameter_fact(parameter: &Value) -> (&str, Value) {
    match parameter["$ref"].as_str() {
        Some(reference) => {
            let last = reference.rsplit('/').next().unwrap_or(reference);
            (last.split('-').next().unwrap_or(last), "shared".into())
        }
        None => (text(&parameter["name"]), without_descriptions(parameter)),
    }
}

fn schemas(schemas: &Value, filter: Filter<'_>, facts: &mut Map<String, Value>) {
    for (name, schema) in object(schemas) {
        if !filter.wants_schema(name) {
            continue;
        }
        let mut own = without_descriptions(schema);
        if let Value::Object(own) = &mut own
            && let Some(Value::Object(properties)) = own.remove("properties")
        {
            for (property, value) in properties {
                facts.insert(format!("type {name} .{property}"), value);
            }
        }
        facts.insert(format!("type {name}"), own);
    }
}

/// Removes descriptions and sorts lists whose order has no meaning.
fn without_descriptions(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, value)| *name != "description" || !value.is_string())
                .map(|(name, value)| match (name.as_str(), value) {
                    (
                        "required" | "consumes" | "produces" | "tags" | "schemes",
                        Value::Array(_),
                    ) => (name.clone(), sorted(value)),
                    // OpenAPI v3 wraps a reference in `allOf` if it has a description.
                    ("allOf", Value::Array(all))
                        if all.len() == 1 && all[0]["$ref"].is_string() =>
                    {
                        ("$ref".to_owned(), all[0]["$ref"].clone())
                    }
                    (_, value) => (name.clone(), without_descriptions(value)),
                });
            kept.collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(without_descriptions).collect(),
        other => other.clone(),
    }
}

/// Sorts every list of strings.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), sorted(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(sorted).collect();
            if items.iter().all(Value::is_string) {
                items.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            }
            items.into()
        }
        other => other.clone(),
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
