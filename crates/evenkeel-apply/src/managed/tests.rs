//! Field management: scripts of writes to one object.

#![expect(clippy::needless_pass_by_value, reason = "scripts read better with json! arguments")]

use serde_json::{Value, json};

use super::*;
use crate::{
    path::fields,
    schema::{MapDef, Scalar, Schema, SchemaBuilder},
    set::Set,
};

mod apply_path;
mod subresources;
mod update_path;
mod versions;

/// The type of most scripts: leaves, a map, a set, an associative list, an atomic list, a status.
fn thing_type() -> ObjectType {
    let mut b = SchemaBuilder::new();
    let string = b.scalar(Scalar::String);
    let numeric = b.scalar(Scalar::Numeric);
    let set = b.set(string);
    let map = b.map_of(string);
    let atomic = b.atomic_list(numeric);
    let item = MapDef::new().field("name", string).field("value", numeric).field("other", numeric);
    let item = b.map(item);
    let list = b.map_list(item, ["name"]);
    let spec = b.map(
        MapDef::new()
            .field("a", string)
            .field("b", string)
            .field("replicas", numeric)
            .field("set", set)
            .field("map", map)
            .field("atomic", atomic)
            .field("list", list),
    );
    let meta = b.object_meta();
    let thing = MapDef::new().field("metadata", meta).field("spec", spec).field("status", spec);
    let thing = b.object(thing);
    b.finish(thing).unwrap()
}

const VERSION: &str = "example.io/v1";

/// The state of one object (smd's test fixture of the same name).
struct State {
    versions: Box<dyn Versions>,
    api_version: &'static str,
    subresource: &'static str,
    reset: Vec<(&'static str, Filter)>,
    empty_object: Value,
    now: i64,
    live: Option<Value>,
}

impl State {
    fn new() -> Self {
        Self::with(SingleVersion { api_version: VERSION.into(), object_type: thing_type() })
    }

    fn with(versions: impl Versions + 'static) -> Self {
        Self {
            versions: Box::new(versions),
            api_version: VERSION,
            subresource: "",
            reset: Vec::new(),
            empty_object: json!({}),
            now: 0,
            live: None,
        }
    }

    fn request<'a>(&'a self, manager: &'a str, now: &'a str) -> Request<'a> {
        Request {
            versions: self.versions.as_ref(),
            api_version: self.api_version,
            kind: "Thing",
            subresource: self.subresource,
            reset_fields: &self.reset,
            empty_object: &self.empty_object,
            manager,
            now,
        }
    }

    fn object(&self, body: Value) -> Value {
        let mut object = json!({
            "apiVersion": self.api_version, "kind": "Thing", "metadata": {"name": "n", "namespace": "ns"}
        });
        let Value::Object(body) = body else { unreachable!() };
        for (name, value) in body {
            match (&mut object[&name], value) {
                (Value::Object(known), Value::Object(value)) => known.extend(value),
                (slot, value) => *slot = value,
            }
        }
        object
    }

    /// Each write is one second later than the previous one.
    fn tick(&mut self) -> String {
        self.now += 1;
        time::format(self.now)
    }

    fn try_update(&mut self, manager: &str, body: Value) -> Result<(), UpdateError> {
        let now = self.tick();
        let mut new = self.object(body);
        let result = update(&self.request(manager, &now), self.live.as_ref(), &mut new);
        new["metadata"]["uid"] = json!("u");
        self.live = Some(new);
        result
    }

    fn update(&mut self, manager: &str, body: Value) {
        self.try_update(manager, body).unwrap();
    }

    fn try_apply(&mut self, manager: &str, body: Value, force: bool) -> Result<bool, ApplyError> {
        let now = self.tick();
        let applied = self.object(body);
        let applied = apply(&self.request(manager, &now), self.live.as_ref(), &applied, force)?;
        let mut object = applied.object;
        object["metadata"]["uid"] = json!("u");
        self.live = Some(object);
        Ok(applied.changed)
    }

    fn apply(&mut self, manager: &str, body: Value) -> bool {
        self.try_apply(manager, body, false).unwrap()
    }

    fn force(&mut self, manager: &str, body: Value) -> bool {
        self.try_apply(manager, body, true).unwrap()
    }

    fn apply_error(&mut self, manager: &str, body: Value) -> String {
        self.try_apply(manager, body, false).unwrap_err().to_string()
    }

    fn conflicts(&mut self, manager: &str, body: Value) -> String {
        let error = self.try_apply(manager, body, false).unwrap_err();
        assert!(matches!(error, ApplyError::Conflict(_)), "{error}");
        error.to_string()
    }

    fn live(&self) -> &Value {
        self.live.as_ref().unwrap()
    }

    fn spec(&self) -> &Value {
        &self.live()["spec"]
    }

    fn managers(&self) -> ManagedFields {
        ManagedFields::decode(self.live()["metadata"].get("managedFields")).unwrap()
    }

    /// Returns the managers: `manager operation[/subresource]: paths`.
    fn field_managers(&self) -> Vec<String> {
        let show = |entry: &Entry| {
            let slash = if entry.subresource.is_empty() { "" } else { "/" };
            let paths: Vec<_> =
                entry.fields.paths().iter().map(|path| crate::path::print(path)).collect();
            format!(
                "{} {:?}{slash}{}: {}",
                entry.manager,
                entry.operation,
                entry.subresource,
                paths.join(" ")
            )
        };
        self.managers().iter().map(show).collect()
    }

    /// Returns the times of the entries in seconds.
    fn times(&self) -> Vec<Option<i64>> {
        let seconds = |entry: &Entry| entry.time.as_deref().map(|text| time::parse(text).unwrap());
        self.managers().iter().map(seconds).collect()
    }
}

fn structural(document: Value) -> ObjectType {
    Schema::from_structural(&document, false).unwrap()
}

fn set(paths: &[&[&str]]) -> Set {
    Set::from_paths(paths.iter().map(|path| fields(path.iter().copied())))
}
