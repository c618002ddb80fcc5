//! The types of resources as expressions see them, from discovery and OpenAPI.

use std::collections::HashMap;
use std::fmt;

use evenkeel::BoxError;
use evenkeel_cel::schema::Schema;
use evenkeel_schema::Structural;
use serde_json::{Map, Value, json};

use crate::discovery::{self, Served};

/// A group, a version and a kind, printed as upstream prints it: with the slash of an empty group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gvk {
    group: String,
    version: String,
    kind: String,
}

impl Gvk {
    pub(super) fn from_api_version(api_version: &str, kind: &str) -> Self {
        let gvk = evenkeel_types::Gvk::from_api_version(api_version, kind);
        Self { group: gvk.group.into(), version: gvk.version.into(), kind: gvk.kind.into() }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// Reads types from the API server, each document once.
pub(super) struct Types<'c> {
    client: &'c kube::Client,
    served: Option<Vec<Served>>,
    documents: HashMap<String, Option<Value>>,
}

impl<'c> Types<'c> {
    pub(super) fn new(client: &'c kube::Client) -> Self {
        Self { client, served: None, documents: HashMap::new() }
    }

    /// Returns the kinds of a resource by its plural or singular name. As in upstream's REST mapper,
    /// an empty group stands for all groups.
    pub(super) async fn kinds(
        &mut self,
        group: &str,
        version: &str,
        resource: &str,
    ) -> Result<Vec<Gvk>, BoxError> {
        let served = match self.served.take() {
            Some(served) => served,
            None => discovery::served(self.client).await?,
        };
        let resource = resource.to_lowercase();
        let matching = self.served.insert(served).iter().filter(|it| {
            (group.is_empty() || it.group == group)
                && it.version == version
                && (it.plural == resource || it.singular == resource)
        });
        let mut kinds: Vec<Gvk> = Vec::new();
        for it in matching {
            let (group, version, kind) = (it.group.clone(), it.version.clone(), it.kind.clone());
            let gvk = Gvk { group, version, kind };
            if !kinds.contains(&gvk) {
                kinds.push(gvk);
            }
        }
        Ok(kinds)
    }

    /// Returns the type of a kind: `None` if it has no schema, and inside if expressions cannot use
    /// it. The names of types begin with the kind and `number`.
    pub(super) async fn schema(
        &mut self,
        gvk: &Gvk,
        number: u8,
    ) -> Result<Option<Option<Schema>>, BoxError> {
        let path = format!("/openapi/v3{}", path(&gvk.group, &gvk.version));
        let Some(document) = self.document(path).await? else { return Ok(None) };
        let schemas = &document["components"]["schemas"];
        let is_kind = |schema: &Value| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.into_iter().flatten().any(|it| {
                it["group"] == *gvk.group
                    && it["version"] == *gvk.version
                    && it["kind"] == *gvk.kind
            })
        };
        let mut all = schemas.as_object().into_iter().flatten();
        let Some((name, schema)) = all.find(|(_, schema)| is_kind(schema)) else {
            return Ok(None);
        };
        let resolved = resolve(schema, schemas, &mut vec![name.as_str()]);
        let Ok(compiled) = Structural::compile(&resolved) else { return Ok(None) };
        Ok(Some(compiled.expression_types(&format!("{}{number}", gvk.kind))))
    }

    async fn document(&mut self, path: String) -> Result<Option<&Value>, BoxError> {
        if !self.documents.contains_key(&path) {
            let request = http::Request::get(&path).body(Vec::new())?;
            let document = match self.client.request::<Value>(request).await {
                Ok(document) => Some(document),
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(error) => return Err(error.into()),
            };
            self.documents.insert(path.clone(), document);
        }
        Ok(self.documents.get(&path).and_then(Option::as_ref))
    }
}

fn path(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

/// Returns a schema with all references replaced by what they refer to. In a type that contains
/// itself, the inner one is an object without fields. `open` are the types that contain the schema.
fn resolve<'s>(schema: &'s Value, schemas: &'s Value, open: &mut Vec<&'s str>) -> Value {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(reference) = reference {
        let name = reference.rsplit('/').next().unwrap_or_default();
        if open.contains(&name) {
            return json!({"type": "object"});
        }
        open.push(name);
        let resolved = resolve(&schemas[name], schemas, open);
        open.pop();
        return resolved;
    }
    let mut resolved = Map::new();
    if schema["format"] == "int-or-string" {
        resolved.insert("x-kubernetes-int-or-string".to_owned(), true.into());
        return resolved.into();
    }
    for (field, value) in schema.as_object().into_iter().flatten() {
        let value = match &**field {
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties = properties
                    .map(|(name, property)| (name.clone(), resolve(property, schemas, open)));
                Value::Object(properties.collect())
            }
            "items" | "additionalProperties" if value.is_object() => resolve(value, schemas, open),
            "type" | "format" | "x-kubernetes-int-or-string" | "x-kubernetes-embedded-resource" => {
                value.clone()
            }
            _ => continue,
        };
        resolved.insert(field.clone(), value);
    }
    resolved.into()
}
