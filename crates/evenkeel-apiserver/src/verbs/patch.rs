//! `patch`: a change described rather than a new whole.
//!
//! Three of the four kinds are worked out on the stored object and then go on like an update.
//! Server-side apply is different: it merges what its sender declares with what others own, and
//! creates the object if there is none.

pub(super) mod apply;

mod strategic;

use evenkeel_apply::patch::{JsonPatch, JsonPatchError, StrategicError, merge_patch};
use evenkeel_schema::field;
use evenkeel_types::{Gvk, go};
use serde_json::Value;

use super::create::check_namespace;
use super::update::{check_named, ok, replace};
use crate::call::Call;
use crate::json;
use crate::negotiate;
use crate::pipeline::decode::{self, PatchedError};
use crate::pipeline::encode::Answer;
use crate::pipeline::persist;
use crate::pipeline::validate_schema::Part;
use crate::query::WriteOptions;
use crate::registry::resource::Nature;
use crate::status::{Named, Status};

/// The kinds of patches, by their content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY_YAML: &str = "application/apply-patch+yaml";

pub(super) async fn answer(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let kind = kind(call)?;
    let options = WriteOptions::parse(&call.query, "PatchOptions", kind == Kind::Apply)?;
    if kind == Kind::Apply {
        return apply::answer(call, body, &options).await;
    }
    let patch = Patch::parse(kind, body)?;
    let part = Part::of(call.subresource.as_deref());
    let persisted = persist::update(call, call.name(), options.dry_run, |old, record| {
        let mut patched = patch.apply(call, old)?;
        if call.resource.is_custom() {
            check_type(call, &patch, &patched)?;
        } else if let Err(why) = decode::keep_kind(&call.resource, &mut patched) {
            return Err(patch.refuse_strictly(&patched, &why));
        }
        check_named(call, &patched)?;
        check_namespace(call, &patched)?;
        let shown = patched.clone();
        let object = decode::patched(call, patched, &patch.duplicates, options.field_validation)
            .map_err(|error| match error {
                PatchedError::Refused(status) => status,
                PatchedError::Strict(why) => patch.refuse_strictly(&shown, &why),
            })?;
        replace(call, object, old, record, part, &options)
    })
    .await?;
    Ok(ok(persisted))
}

/// Built-in objects are decoded into their type; the others could become of any kind.
fn check_type(call: &Call, patch: &Patch, object: &Value) -> Result<(), Status> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("");
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let resource = &call.resource;
    if kind.is_empty() {
        return Err(
            patch.refuse_strictly(object, &format!("Object 'Kind' is missing in '{object}'"))
        );
    }
    if !object["metadata"].is_object() {
        let found = go::json_kind(&object["metadata"]);
        let why = format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta");
        return Err(patch.refuse_strictly(object, &why));
    }
    if api_version.is_empty() {
        return Err(Status::internal(
            "Object 'apiVersion' is missing in 'object has no apiVersion field'",
        ));
    }
    let wrong = if kind != &*resource.kind {
        field::Error::invalid("kind", kind, format!("must be {}", resource.kind))
    } else if api_version != &*resource.api_version {
        let expected = format!("must be {}", resource.api_version);
        field::Error::invalid("apiVersion", api_version, expected)
    } else {
        return Ok(());
    };
    let group = Gvk::from_api_version(api_version, kind).group;
    Err(Status::invalid(Named { group, kind }, call.name(), &[wrong]))
}

pub(super) fn kind(call: &Call) -> Result<Kind, Status> {
    match negotiate::media_type(&call.headers).as_str() {
        JSON_PATCH => Ok(Kind::Json),
        MERGE_PATCH => Ok(Kind::Merge),
        APPLY_YAML => Ok(Kind::Apply),
        STRATEGIC if !call.resource.is_custom() => Ok(Kind::Strategic),
        _ if call.resource.is_custom() => {
            Err(Status::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_YAML]))
        }
        _ => Err(Status::unsupported_patch()),
    }
}

/// The refusal of a patch whose outcome does not decode; it shows what was decoded.
fn strict(shown: &str, why: &str) -> Status {
    let error = field::Error::invalid("patch", shown, why);
    Status::invalid(Named { group: "", kind: "" }, "", &[error])
}

/// A patch that can be read.
pub(super) struct Patch {
    change: Change,
    duplicates: Vec<String>,
}

enum Change {
    Json(JsonPatch),
    Merge(Value),
    Strategic(serde_json::Map<String, Value>),
}

impl Patch {
    pub(super) fn parse(kind: Kind, body: &[u8]) -> Result<Self, Status> {
        let bad = |why: &str| match kind {
            Kind::Strategic => Status::bad_request(why),
            _ => Status::bad_request(format!("error decoding patch: {why}")),
        };
        let (value, duplicates) = json::decode(body).map_err(|why| bad(&why))?;
        let change = match (kind, value) {
            (Kind::Json, value) => {
                Change::Json(JsonPatch::decode(value).map_err(|error| match error {
                    JsonPatchError::TooManyOperations(count) => Status::patch_too_long(count),
                    other => {
                        bad(&other.to_string().replace("jsonpatch.Patch", "[]handlers.jsonPatchOp"))
                    }
                })?)
            }
            (Kind::Strategic, Value::Object(patch)) => Change::Strategic(patch),
            (Kind::Strategic, Value::Null) => Change::Strategic(serde_json::Map::new()),
            (_, Value::Null) => return Err(Status::bad_request("Invalid JSON Patch")),
            (_, value @ Value::Object(_)) => Change::Merge(value),
            (_, other) => {
                let kind = go::json_kind(&other);
                return Err(bad(&format!(
                    "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
                )));
            }
        };
        Ok(Self { change, duplicates })
    }

    /// The refusal of a patch that leaves fields nobody knows.
    ///
    /// It shows what they were found in: for a strategic patch that is the patch itself.
    fn refuse_strictly(&self, patched: &Value, why: &str) -> Status {
        match &self.change {
            Change::Strategic(patch) => strict(&go::plain(&Value::Object(patch.clone())), why),
            _ => strict(&patched.to_string(), why),
        }
    }

    /// The object as the patch wants it. For the resource of `call`, or for its scale.
    pub(super) fn apply(&self, call: &Call, object: &Value) -> Result<Value, Status> {
        let patched = match &self.change {
            Change::Merge(patch) => merge_patch(object.clone(), patch.clone())
                .map_err(|error| Status::bad_request(error.to_string()))?,
            Change::Json(patch) => patch
                .clone()
                .apply(object.clone())
                .map_err(|error| Status::unprocessable(&error.to_string()))?,
            Change::Strategic(patch) => {
                let ty = match (&call.resource.nature, call.subresource.as_deref()) {
                    (Nature::Builtin(builtin), None | Some("status")) => builtin.ty,
                    _ => super::scale::ty().ok_or_else(Status::unsupported_patch)?,
                };
                let object = object.as_object().cloned().unwrap_or_default();
                strategic::apply(ty, object, patch.clone()).map(Value::Object).map_err(refuse)?
            }
        };
        let mut patched = patched;
        // Patches are worked out on untyped values, where `1.0` counts as an integer.
        json::settle_floats(&mut patched);
        if patched.is_object() { Ok(patched) } else { Err(Status::unprocessable("not an object")) }
    }
}

fn refuse(error: StrategicError) -> Status {
    match error {
        StrategicError::ListOfLists => Status::unprocessable(&error.to_string()),
        StrategicError::Other(why) => Status::bare(500, why),
        other => Status::bad_request(other.to_string()),
    }
}
