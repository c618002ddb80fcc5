//! The `scale` subresource.

mod managed;

use evenkeel_schema::{Scale, ScaleValues, field};
use evenkeel_types::Gvk;
use evenkeel_types::go::Quoted;
use http::StatusCode;
use serde_json::{Value, json};

use self::managed::ScaleWrite;
use crate::codec;
use crate::context::{Operation, RequestContext};
use crate::object::{Metadata as _, set_meta};
use crate::pipeline::checks::{check_named, check_namespace, check_uid, check_version};
use crate::pipeline::encode::{self, Include, Reply};
use crate::pipeline::manage::Managed;
use crate::pipeline::patch::{self, Config, Kind, Patch};
use crate::pipeline::persist::{self, ATTEMPTS, Persisted};
use crate::pipeline::{decode, mutate, prepare, validate};
use crate::registry::resource::{Part, TypeInfo};
use crate::request::negotiate::{Output, View};
use crate::request::query::WriteOptions;
use crate::request::route::Verb;
use crate::status::{GroupResource, Status};

const SCALE: Gvk<'static> = Gvk::new("autoscaling", "v1", "Scale");

/// The replicas of a custom object that has none: a write to its Scale must set them.
const UNSET: i64 = i32::MIN as i64;

pub(crate) async fn handle(
    cx: &RequestContext,
    output: Output,
    body: &[u8],
) -> Result<Reply, Status> {
    let scale = scale(cx, body).await?;
    Ok(Reply::Other(
        StatusCode::OK,
        match output.view {
            View::Object => scale,
            View::Metadata | View::MetadataList => encode::to_metadata(SCALE, &scale),
            View::Table => {
                let include = Include::parse(&cx.query)?;
                encode::table_of(SCALE, &scale, cx.core.clock_rng.now(), include)
            }
        },
    ))
}

async fn scale(cx: &RequestContext, body: &[u8]) -> Result<Value, Status> {
    match cx.verb {
        Verb::Get => {
            let current = persist::current(cx, cx.name()).await?;
            scale_of(cx, current.object())
        }
        Verb::Update => {
            let options = WriteOptions::parse(&cx.query, "UpdateOptions", false)?;
            let mut scale = decode::of_kind(cx, body, SCALE, options.field_validation)
                .map_err(|status| undecodable(cx, status))?;
            check_namespace(cx, &mut scale)?;
            check_named(cx, &scale)?;
            write(cx, &options, &ScaleWrite::Replace(&scale)).await
        }
        Verb::Patch => {
            let kind = patch::kind(cx)?;
            let options = patch::options(cx, kind, body)?;
            if kind == Kind::Apply {
                persist::current(cx, cx.name()).await?;
                let config = Config::parse(body)?;
                config.report(cx, options.field_validation)?;
                return write(cx, &options, &ScaleWrite::Apply(&config.value)).await;
            }
            let patch = Patch::parse(kind, body, options.field_validation);
            let make =
                |before: &Value| patch.as_ref().map_err(Status::clone)?.scale(cx, before, SCALE);
            write(cx, &options, &ScaleWrite::Patch(&make)).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// Returns the error of the custom resource handler for an invalid Scale, which gives no details.
fn undecodable(cx: &RequestContext, status: Status) -> Status {
    if status.code() != 400 || !cx.resource.is_custom() {
        return status;
    }
    Status::bad_request(
        "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"",
    )
}

/// Writes the replicas of a Scale to its object.
async fn write(
    cx: &RequestContext,
    options: &WriteOptions,
    how: &ScaleWrite<'_>,
) -> Result<Value, Status> {
    for _ in 0..ATTEMPTS {
        let current = persist::current(cx, cx.name()).await?;
        let old = current.object();
        let before = scale_before(cx, old)?;
        if let ScaleWrite::Replace(scale) = how {
            check_uid(cx, scale, old.meta_str("uid"), options.dry_run)?;
        }
        let (before, mut scale, owned) = managed::on_scale(cx, old, before, how, options)?;
        check_namespace(cx, &mut scale)?;
        check_named(cx, &scale)?;
        mutate::unstored(cx, Operation::Update, &mut scale, Some(&before)).await?;
        check(cx, &scale, old)?;
        let mutated = mutate::scaled(Managed::scaled(scaled(cx, old, &scale), owned));
        check_version(cx, mutated.value(), &current)?;
        let prepared = prepare::on_update(cx, mutated, old, Part::Main)?;
        // As upstream: validating admission sees both without managed fields.
        let old_scale = scale_before(cx, old)?;
        let mut new_scale = scale_before(cx, prepared.value())?;
        let admitted = validate::scaled(cx, prepared, &mut new_scale, &old_scale).await?;
        match persist::update(cx, &current, admitted, options.dry_run).await? {
            Some(Persisted::Stored(record)) => {
                return scale_of(cx, &codec::value(&cx.resource, &record)?);
            }
            Some(Persisted::Value(value)) => return scale_of(cx, &value),
            None => {}
        }
    }
    Err(persist::conflict(cx, cx.name()))
}

/// Returns the object with the replicas of its Scale.
fn scaled(cx: &RequestContext, old: &Value, scale: &Value) -> Value {
    let mut object = old.clone();
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    set_replicas(cx, &mut object, replicas);
    let version = scale.meta_str("resourceVersion");
    if !version.is_empty() {
        set_meta(&mut object, "resourceVersion", Some(version.into()));
    }
    object
}

/// Checks whether the Scale may replace that of `old`.
fn check(cx: &RequestContext, scale: &Value, old: &Value) -> Result<(), Status> {
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if let Some(custom) = custom_scale(cx) {
        // Custom resources validate replicas by their schema, with its field path.
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
        let named = GroupResource { group: "autoscaling", resource: "Scale" };
        return Err(Status::invalid(named, cx.name(), &[error]));
    }
    let (given, stored) = (scale.meta_str("uid"), old.meta_str("uid"));
    if !given.is_empty() && given != stored {
        let kind = format!("{}/scale", cx.resource.plural);
        let named = GroupResource { group: &cx.resource.group, resource: &kind };
        let why = format!(
            "Precondition failed: UID in precondition: {given}, UID in object meta: {stored}"
        );
        return Err(Status::conflict(named, cx.name(), &why));
    }
    Ok(())
}

fn set_replicas(cx: &RequestContext, object: &mut Value, replicas: i64) {
    match custom_scale(cx) {
        Some(scale) => {
            scale.set_replicas(object, replicas);
        }
        None => object["spec"]["replicas"] = replicas.into(),
    }
}

fn custom_scale(cx: &RequestContext) -> Option<&Scale> {
    match &cx.resource.type_info {
        TypeInfo::Custom(custom) => custom.schema.scale(),
        TypeInfo::Builtin(_) => None,
    }
}

/// Returns the desired and current replicas.
fn replicas_of(cx: &RequestContext, object: &Value) -> Result<ScaleValues, Status> {
    if let Some(scale) = custom_scale(cx) {
        return scale.read(object).map_err(Status::internal);
    }
    let count = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    Ok(ScaleValues {
        spec: Some(count("/spec/replicas").unwrap_or(0)),
        status: count("/status/replicas").unwrap_or(0),
        selector: selector_text(object.pointer("/spec/selector")),
    })
}

fn scale_of(cx: &RequestContext, object: &Value) -> Result<Value, Status> {
    let replicas = replicas_of(cx, object)?;
    match (replicas.spec, custom_scale(cx)) {
        (None, Some(scale)) => Err(Status::internal(format_args!(
            "the spec replicas field {} does not exist",
            Quoted(scale.spec_path())
        ))),
        _ => Ok(to_scale(object, replicas)),
    }
}

/// Returns the Scale before a write.
fn scale_before(cx: &RequestContext, object: &Value) -> Result<Value, Status> {
    let mut replicas = replicas_of(cx, object)?;
    replicas.spec.get_or_insert(UNSET);
    Ok(to_scale(object, replicas))
}

fn to_scale(object: &Value, replicas: ScaleValues) -> Value {
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

/// Formats a label selector, for kubectl and autoscalers.
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
