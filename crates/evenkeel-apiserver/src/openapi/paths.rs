//! Renders operations: parameters that all methods of a path share once, the rest by method.
//!
//! A [`Document`] also collects the schemas its operations refer to.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::parameters::Parameter;
use super::routes::{Model, Route};
use super::schemas::Schemas;
use super::{Dialect, Served, custom};

const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// A document under construction.
pub(super) struct Document<'a> {
    dialect: Dialect,
    schemas: Schemas<'a>,
    /// The shared parameters of a v2 document, by name.
    shared: Map<String, Value>,
}

/// The paths, the schemas and the shared parameters of a document.
type Parts = (Map<String, Value>, Map<String, Value>, Map<String, Value>);

impl<'a> Document<'a> {
    /// Creates a document of one group and version, or of several.
    pub(super) fn new(dialect: Dialect, group_version: Option<(&'a str, &'a str)>) -> Document<'a> {
        Document { dialect, schemas: Schemas::new(dialect, group_version), shared: Map::new() }
    }

    /// Adds the schemas of a custom resource.
    pub(super) fn add_custom(&mut self, served: &Served<'_>) {
        custom::add(served, &mut self.schemas);
    }

    pub(super) fn finish<'r>(mut self, routes: impl IntoIterator<Item = Route<'r>>) -> Parts {
        let mut by_path: BTreeMap<String, Vec<Route<'r>>> = BTreeMap::new();
        for mut route in routes {
            route.parameters.sort_unstable();
            let path = std::mem::take(&mut route.path);
            by_path.entry(path).or_default().push(route);
        }
        let mut paths = Map::new();
        for (path, routes) in by_path {
            let item = self.item(&routes);
            paths.insert(path, Value::Object(item));
        }
        (paths, self.schemas.finish(), self.shared)
    }

    fn item(&mut self, routes: &[Route<'_>]) -> Map<String, Value> {
        let mut item = Map::new();
        let common: Vec<Parameter> = match routes.split_first() {
            Some((first, rest)) => first
                .parameters
                .iter()
                .filter(|parameter| rest.iter().all(|route| route.parameters.contains(parameter)))
                .copied()
                .collect(),
            None => Vec::new(),
        };
        for route in routes {
            let operation = self.operation(route, &common);
            item.insert(route.method.to_owned(), Value::Object(operation));
        }
        if !common.is_empty() {
            let common = common.iter().map(|parameter| self.parameter(*parameter)).collect();
            item.insert("parameters".to_owned(), Value::Array(common));
        }
        item
    }

    fn operation(&mut self, route: &Route<'_>, common: &[Parameter]) -> Map<String, Value> {
        let mut operation = Map::new();
        let mut set = |key: &str, value: Value| operation.insert(key.to_owned(), value);
        set("tags", json!([route.tag]));
        set("operationId", json!(route.id));
        if let Some((action, [group, version, kind])) = route.action {
            set("x-kubernetes-action", json!(action));
            set(
                "x-kubernetes-group-version-kind",
                json!({ "group": group, "version": version, "kind": kind }),
            );
        }
        let own = route.parameters.iter().filter(|parameter| !common.contains(parameter));
        let mut parameters: Vec<Value> = own.clone().map(|own| self.parameter(*own)).collect();
        match self.dialect {
            Dialect::V2 => {
                if !route.consumes.is_empty() {
                    set("consumes", json!(route.consumes));
                }
                set("produces", json!(route.produces));
                set("schemes", json!(["https"]));
                if let Some(body) = self.body_parameter(route) {
                    let at = own.take_while(|parameter| parameter.name < "body").count();
                    parameters.insert(at, body);
                }
            }
            Dialect::V3 => {
                if let Some(body) = self.request_body(route) {
                    set("requestBody", body);
                }
            }
        }
        if !parameters.is_empty() {
            set("parameters", Value::Array(parameters));
        }
        set("responses", Value::Object(self.responses(route)));
        operation
    }

    fn parameter(&mut self, parameter: Parameter) -> Value {
        let rendered = parameter.render(self.dialect);
        match self.dialect {
            Dialect::V2 if parameter.shared() => {
                let name = format!("{}-{}", parameter.name, parameter.location.name());
                self.share(name, rendered)
            }
            _ => rendered,
        }
    }

    fn share(&mut self, name: String, parameter: Value) -> Value {
        let reference = json!({ "$ref": format!("#/parameters/{name}") });
        self.shared.insert(name, parameter);
        reference
    }

    fn body_parameter(&mut self, route: &Route<'_>) -> Option<Value> {
        let (model, required) = route.body.as_ref()?;
        let mut body = Map::new();
        body.insert("name".to_owned(), "body".into());
        body.insert("in".to_owned(), "body".into());
        body.insert("schema".to_owned(), self.model(model));
        if *required {
            body.insert("required".to_owned(), true.into());
        }
        let body = Value::Object(body);
        Some(match model {
            Model::Patch => self.share("body-Patch".to_owned(), body),
            Model::Type(ty) if ty.name.starts_with("io.k8s.apimachinery.") => {
                self.share(format!("body-{}", ty.short_name()), body)
            }
            _ => body,
        })
    }

    fn request_body(&mut self, route: &Route<'_>) -> Option<Value> {
        let (model, required) = route.body.as_ref()?;
        let mut body = Map::new();
        body.insert("content".to_owned(), self.content(route.consumes, model));
        if *required {
            body.insert("required".to_owned(), true.into());
        }
        Some(Value::Object(body))
    }

    fn content(&mut self, types: &[&str], model: &Model) -> Value {
        let content = types
            .iter()
            .map(|media_type| ((*media_type).to_owned(), json!({ "schema": self.model(model) })));
        Value::Object(content.collect())
    }

    fn responses(&mut self, route: &Route<'_>) -> Map<String, Value> {
        let mut responses = Map::new();
        for status in route.success_codes {
            let description = match status {
                201 => "Created",
                202 => "Accepted",
                _ => "OK",
            };
            let (key, what) = match self.dialect {
                Dialect::V2 => ("schema", self.model(&route.response)),
                Dialect::V3 => ("content", self.content(route.produces, &route.response)),
            };
            let response = json!({ "description": description, key: what });
            responses.insert(status.to_string(), response);
        }
        responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
        responses
    }

    /// Returns a reference to the schema of a body, and adds the schema to the document.
    fn model(&mut self, model: &Model) -> Value {
        match model {
            Model::Type(ty) => self.schemas.reference(ty),
            Model::Custom(name) => self.dialect.reference(name),
            Model::Patch => {
                self.schemas.insert(PATCH, || json!({ "type": "object" }));
                self.dialect.reference(PATCH)
            }
            Model::Text => json!({ "type": "string" }),
        }
    }
}
