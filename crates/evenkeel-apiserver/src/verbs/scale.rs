//! The `scale` subresource: how many, in one form for everything that can be scaled.

use evenkeel_schema::{Scale, ScaleValues, field};
use evenkeel_types::Gvk;
use evenkeel_types::go::Quoted;
use http::StatusCode;
use serde_json::{Value, json};

use super::create::settle_namespace;
use super::patch::apply::Config;
use super::patch::{self, Kind, Patch};
use super::update::{check_named, check_uid, current, replace_managed};
use crate::call::Call;
use crate::negotiate::{Output, View};
use crate::object::{Metadata as _, set_meta};
use crate::pipeline::decode;
use crate::pipeline::encode::{self, Answer, Include};
use crate::pipeline::manage::{self, Managed, ScaleWrite};
use crate::pipeline::persist::{self, Persisted};
use crate::pipeline::validate_schema::Part;
use crate::query::WriteOptions;
use crate::registry::resource::Nature;
use crate::route::Verb;
use crate::status::{Named, Status};

const SCALE: Gvk<'static> = Gvk::new("autoscaling", "v1", "Scale");

/// Stands for replicas that a custom object does not say: whoever writes its Scale has to.
const UNSET: i64 = i32::MIN as i64;

pub(super) async fn answer(call: &Call, output: Output, body: &[u8]) -> Result<Answer, Status> {
    let scale = scale(call, body).await?;
    Ok(Answer::Other(
        StatusCode::OK,
        match output.view {
            View::Whole => scale,
            View::Metadata | View::MetadataList => encode::to_metadata(SCALE, &scale),
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
            let mut scale = decode::of_kind(call, body, SCALE, options.field_validation)
                .map_err(|status| undecodable(call, status))?;
            settle_namespace(call, &mut scale)?;
            check_named(call, &scale)?;
            write(call, &options, &ScaleWrite::Replace(&scale)).await
        }
        Verb::Patch => {
            let kind = patch::kind(call)?;
            let options = WriteOptions::parse(&call.query, "PatchOptions", kind == Kind::Apply)?;
            if kind == Kind::Apply {
                current(call)?;
                let config = Config::parse(body)?;
                config.report(call, options.field_validation)?;
                return write(call, &options, &ScaleWrite::Apply(&config.value)).await;
            }
            let patch = Patch::parse(kind, body, options.field_validation);
            let make =
                |before: &Value| patch.as_ref().map_err(Status::clone)?.scale(call, before, SCALE);
            write(call, &options, &ScaleWrite::Patch(&make)).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// The handler of custom resources does not know a Scale well enough to say what is wrong with it.
fn undecodable(call: &Call, status: Status) -> Status {
    if status.code() != 400 || !call.resource.is_custom() {
        return status;
    }
    Status::bad_request(
        "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"",
    )
}

/// Carries the number of replicas in a Scale over to the object.
async fn write(call: &Call, options: &WriteOptions, how: &ScaleWrite<'_>) -> Result<Value, Status> {
    let persisted = persist::update(call, call.name(), options.dry_run, |old, record| {
        let before = scale_before(call, old)?;
        if let ScaleWrite::Replace(scale) = how {
            check_uid(call, scale, old.meta_str("uid"), options.dry_run)?;
        }
        let (mut scale, owned) = manage::on_scale(call, old, before, how, options)?;
        settle_namespace(call, &mut scale)?;
        check_named(call, &scale)?;
        check(call, &scale, old)?;
        let mut object = old.clone();
        let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
        set_replicas(call, &mut object, replicas);
        let version = scale.meta_str("resourceVersion");
        if !version.is_empty() {
            set_meta(&mut object, "resourceVersion", Some(version.into()));
        }
        let given = object.meta_str("resourceVersion").to_owned();
        let managed = Managed::scaled(object, owned);
        replace_managed(call, managed, &given, old, record, Part::Main)
    })
    .await?;
    match &persisted {
        Persisted::Stored(record) => scale_of(call, &super::delete::shown(call, record)?),
        Persisted::Shown(value) => scale_of(call, value),
    }
}

/// Whether the Scale may be written over that of `old`.
fn check(call: &Call, scale: &Value, old: &Value) -> Result<(), Status> {
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if let Some(custom) = custom_scale(call) {
        // Custom resources have rules of their own for replicas, which say where the fault is.
        return if replicas == UNSET {
            Err(Status::bad_request(format!(
                "the spec replicas field {} cannot be empty",
                Quoted(custom.spec_path())
            )))
        } else {
            Ok(())
        };
    }
    if replicas < 0 {
        let error =
            field::Error::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        let named = Named { group: "autoscaling", kind: "Scale" };
        return Err(Status::invalid(named, call.name(), &[error]));
    }
    let (given, stored) = (scale.meta_str("uid"), old.meta_str("uid"));
    if !given.is_empty() && given != stored {
        let kind = format!("{}/scale", call.resource.plural);
        let named = Named { group: &call.resource.group, kind: &kind };
        let why = format!(
            "Precondition failed: UID in precondition: {given}, UID in object meta: {stored}"
        );
        return Err(Status::conflict(named, call.name(), &why));
    }
    Ok(())
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
fn replicas_of(call: &Call, object: &Value) -> Result<ScaleValues, Status> {
    if let Some(scale) = custom_scale(call) {
        return scale.read(object).map_err(Status::internal);
    }
    let count = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    Ok(ScaleValues {
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

/// The scale a write starts from.
fn scale_before(call: &Call, object: &Value) -> Result<Value, Status> {
    let mut replicas = replicas_of(call, object)?;
    replicas.spec.get_or_insert(UNSET);
    Ok(shown(object, replicas))
}

fn shown(object: &Value, replicas: ScaleValues) -> Value {
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
