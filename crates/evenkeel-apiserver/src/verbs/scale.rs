//! The `scale` subresource: how many, in one form for everything that can be scaled.

use evenkeel_schema::{Replicas, Scale, field};
use evenkeel_types::go::Quoted;
use evenkeel_types::{Gvk, Type};
use http::StatusCode;
use serde_json::{Value, json};

use super::patch::{self, Kind, Patch};
use super::update::{check_name, check_uid, current, replace_managed};
use crate::call::Call;
use crate::negotiate::{Output, View};
use crate::object::{Metadata as _, set_meta};
use crate::pipeline::decode;
use crate::pipeline::encode::{self, Answer, Include};
use crate::pipeline::manage;
use crate::pipeline::persist::{self, Persisted};
use crate::pipeline::validate_schema::Part;
use crate::query::WriteOptions;
use crate::registry::resource::Nature;
use crate::route::Verb;
use crate::status::{Named, Status};

const SCALE: Gvk<'static> = Gvk::new("autoscaling", "v1", "Scale");

/// The type of a Scale.
pub(super) fn ty() -> Option<&'static Type> {
    evenkeel_types::lookup(SCALE)
}

pub(super) async fn answer(call: &Call, output: Output, body: &[u8]) -> Result<Answer, Status> {
    let scale = scale(call, body).await?;
    Ok(Answer::Other(
        StatusCode::OK,
        match output.view {
            View::Whole => scale,
            View::Metadata | View::MetadataList => encode::to_metadata(&scale),
            View::Table => {
                let include = Include::parse(&call.query)?;
                encode::table_of(SCALE, &scale, call.core.sources.now(), include)
            }
        },
    ))
}

async fn scale(call: &Call, body: &[u8]) -> Result<Value, Status> {
    match call.verb {
        Verb::Get => {
            let (_, object) = current(call)?;
            scale_of(call, &object)
        }
        Verb::Update => {
            let options = WriteOptions::parse(&call.query, "UpdateOptions", false)?;
            let scale = decode::of_kind(call, body, SCALE, options.field_validation)?;
            write(call, &options, |_| Ok(scale.clone())).await
        }
        Verb::Patch => {
            let kind = patch::kind(call)?;
            let options = WriteOptions::parse(&call.query, "PatchOptions", kind == Kind::Apply)?;
            if kind == Kind::Apply {
                let config = patch::apply::parse(body, options.field_validation)?;
                return apply(call, &options, &config).await;
            }
            let patch = Patch::parse(kind, body)?;
            write(call, &options, |object| {
                let patched = patch.apply(call, &scale_before(call, object)?)?;
                decode::patched_kind(call, patched, SCALE, options.field_validation)
            })
            .await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// Carries the number of replicas in a Scale over to the object.
async fn write(
    call: &Call,
    options: &WriteOptions,
    make: impl Fn(&Value) -> Result<Value, Status>,
) -> Result<Value, Status> {
    let persisted = persist::update(call, call.name(), options.dry_run, |old, record| {
        let scale = make(old)?;
        check(call, &scale)?;
        let mut object = old.clone();
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        set_replicas(call, &mut object, replicas);
        for field in ["uid", "resourceVersion"] {
            let given = scale.meta_str(field);
            if !given.is_empty() {
                set_meta(&mut object, field, Some(given.into()));
            }
        }
        let given = object.meta_str("resourceVersion").to_owned();
        check_uid(call, &object, old)?;
        let managed = manage::on_scale(call, object, scale_before(call, old)?, scale, options);
        replace_managed(call, managed, &given, old, record, Part::Main)
    })
    .await?;
    written(call, &persisted)
}

/// Server-side apply: whoever applies a Scale owns the number of replicas in the object.
async fn apply(call: &Call, options: &WriteOptions, config: &Value) -> Result<Value, Status> {
    let given = config.get("apiVersion").and_then(Value::as_str).unwrap_or("");
    let expected = SCALE.api_version();
    if given != expected {
        return Err(Status::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {given}, \
             expected: {expected}"
        )));
    }
    check_name(call, config)?;
    check(call, config)?;
    let resource = &call.resource;
    let mut partial = json!({
        "apiVersion": &*resource.api_version, "kind": &*resource.kind,
        "metadata": {"name": call.name()},
    });
    if let Some(replicas) = config.pointer("/spec/replicas").and_then(Value::as_i64) {
        set_replicas(call, &mut partial, replicas);
    }
    if let Some(version) = config.meta("resourceVersion") {
        set_meta(&mut partial, "resourceVersion", Some(version.clone()));
    }
    let persisted = persist::update(call, call.name(), options.dry_run, |old, record| {
        let managed = manage::on_apply(call, &partial, Some(old), options)?;
        let version = managed.value().meta_str("resourceVersion").to_owned();
        replace_managed(call, managed, &version, old, record, Part::Main)
    })
    .await?;
    written(call, &persisted)
}

fn written(call: &Call, persisted: &Persisted) -> Result<Value, Status> {
    match persisted {
        Persisted::Stored(record) => scale_of(call, &super::delete::shown(call, record)?),
        Persisted::Shown(value) => scale_of(call, value),
    }
}

/// Custom resources have rules of their own for replicas, which say where the fault is.
fn check(call: &Call, scale: &Value) -> Result<(), Status> {
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas >= 0 || call.resource.is_custom() {
        return Ok(());
    }
    let error =
        field::Error::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
    Err(Status::invalid(Named { group: "autoscaling", kind: "Scale" }, call.name(), &[error]))
}

fn set_replicas(call: &Call, object: &mut Value, replicas: i64) {
    match custom_scale(call) {
        Some(scale) => {
            scale.set_replicas(object, replicas);
        }
        None => object["spec"]["replicas"] = replicas.into(),
    }
}

fn custom_scale(call: &Call) -> Option<&Scale> {
    match &call.resource.nature {
        Nature::Custom(custom) => custom.schema.scale(),
        Nature::Builtin(_) => None,
    }
}

/// What is asked for and what is there.
fn replicas_of(call: &Call, object: &Value) -> Result<Replicas, Status> {
    if let Some(scale) = custom_scale(call) {
        return scale.read(object).map_err(Status::internal);
    }
    let count = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    Ok(Replicas {
        spec: Some(count("/spec/replicas").unwrap_or(0)),
        status: count("/status/replicas").unwrap_or(0),
        selector: selector_text(object.pointer("/spec/selector")),
    })
}

fn scale_of(call: &Call, object: &Value) -> Result<Value, Status> {
    let replicas = replicas_of(call, object)?;
    match (replicas.spec, custom_scale(call)) {
        (None, Some(scale)) => Err(Status::internal(format_args!(
            "the spec replicas field {} does not exist",
            Quoted(scale.spec_path())
        ))),
        _ => Ok(shown(object, replicas)),
    }
}

/// The scale a patch starts from; one without replicas has none of them.
fn scale_before(call: &Call, object: &Value) -> Result<Value, Status> {
    Ok(shown(object, replicas_of(call, object)?))
}

fn shown(object: &Value, replicas: Replicas) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.meta(field) {
            metadata[field] = value.clone();
        }
    }
    let mut spec = json!({});
    if let Some(count) = replicas.spec.filter(|count| *count != 0) {
        spec["replicas"] = count.into();
    }
    let mut status = json!({"replicas": replicas.status});
    if !replicas.selector.is_empty() {
        status["selector"] = replicas.selector.into();
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec,
        "status": status,
    })
}

/// A label selector as the text that kubectl and autoscalers pass on.
fn selector_text(selector: Option<&Value>) -> String {
    let Some(Value::Object(selector)) = selector else { return String::new() };
    let structured =
        selector.contains_key("matchLabels") || selector.contains_key("matchExpressions");
    let labels = if structured { selector.get("matchLabels") } else { None };
    let plain = Value::Object(selector.clone());
    let labels = labels.or((!structured).then_some(&plain)).and_then(Value::as_object);
    let mut terms: Vec<(String, String)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or(""))))
        .collect();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or("");
        let mut values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression["operator"].as_str().unwrap_or("") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key.to_owned(), text));
    }
    terms.sort();
    terms.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}
