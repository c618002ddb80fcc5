//! The patch types: a patch is applied to the stored object, and the result is decoded.
//!
//! Server-side apply is different: its configuration is merged by the stage of managed fields.

mod config;

mod strategic;

use evenkeel_apply::patch::{JsonPatch, JsonPatchError, StrategicError, merge_patch};
use evenkeel_schema::field;
use evenkeel_types::{Gvk, Type, go};
use serde_json::Value;

use super::decode::{Decoded, Patched};
use crate::context::RequestContext;
use crate::json;
use crate::request::negotiate;
use crate::request::query::{FieldValidation, WriteOptions};
use crate::status::{GroupResource, Status};

pub(crate) use config::Config;

/// The patch types, by content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY_YAML: &str = "application/apply-patch+yaml";

const BAD_PATCH: &str = "Invalid JSON Patch";

/// Checks the kind of a patched custom object; built-in objects are decoded into their type.
pub(crate) fn check_type(cx: &RequestContext, object: &Value) -> Result<(), Status> {
    if !cx.resource.is_custom() {
        return Ok(());
    }
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("");
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let resource = &cx.resource;
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
    Err(Status::invalid(GroupResource { group, resource: kind }, cx.name(), &[wrong]))
}

pub(crate) fn kind(cx: &RequestContext) -> Result<Kind, Status> {
    match negotiate::media_type(&cx.headers).as_str() {
        JSON_PATCH => Ok(Kind::Json),
        MERGE_PATCH => Ok(Kind::Merge),
        APPLY_YAML => Ok(Kind::Apply),
        STRATEGIC if !cx.resource.is_custom() => Ok(Kind::Strategic),
        _ if cx.resource.is_custom() => {
            Err(Status::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_YAML]))
        }
        _ => Err(Status::unsupported_patch()),
    }
}

/// Parses the options of a patch. Its body is audited from then on: kube-apiserver records none of a
/// request whose options are invalid.
pub(crate) fn options(
    cx: &RequestContext,
    kind: Kind,
    body: &[u8],
) -> Result<WriteOptions, Status> {
    let options = WriteOptions::parse(&cx.query, "PatchOptions", kind == Kind::Apply)?;
    cx.audit.request_patch(body);
    Ok(options)
}

/// A parsed patch.
pub(crate) struct Patch {
    change: Change,
    duplicates: Vec<String>,
    validation: FieldValidation,
}

enum Change {
    Json(JsonPatch),
    Merge(Value),
    Strategic(serde_json::Map<String, Value>),
}

impl Patch {
    pub(crate) fn parse(
        kind: Kind,
        body: &[u8],
        validation: FieldValidation,
    ) -> Result<Self, Status> {
        // With `fieldValidation=Ignore` upstream does not run the strict decoder.
        let lenient = validation == FieldValidation::Ignore;
        let bad = |why: &str| match kind {
            Kind::Merge if lenient => Status::bad_request(BAD_PATCH),
            Kind::Json | Kind::Merge if !lenient => {
                Status::bad_request(format!("error decoding patch: {why}"))
            }
            _ => Status::bad_request(why),
        };
        let (value, duplicates) = json::decode(body).map_err(|why| bad(&why))?;
        let change = match (kind, value) {
            (Kind::Json, value) => {
                Change::Json(JsonPatch::decode(value).map_err(|error| match error {
                    JsonPatchError::TooManyOperations(count) => Status::patch_too_long(count),
                    other if lenient => bad(&other.to_string()),
                    other => {
                        let why =
                            other.to_string().replace("jsonpatch.Patch", "[]handlers.jsonPatchOp");
                        bad(&why.replace("jsonpatch.Operation", "handlers.jsonPatchOp"))
                    }
                })?)
            }
            (Kind::Strategic, Value::Object(patch)) => Change::Strategic(patch),
            (Kind::Strategic, Value::Null) => Change::Strategic(serde_json::Map::new()),
            (_, Value::Null) => return Err(Status::bad_request(BAD_PATCH)),
            (_, value @ Value::Object(_)) => Change::Merge(value),
            (Kind::Merge, value @ Value::Array(_)) if lenient => Change::Merge(value),
            (_, other) => {
                let kind = go::json_kind(&other);
                return Err(bad(&format!(
                    "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
                )));
            }
        };
        Ok(Self { change, duplicates, validation })
    }

    /// Applies the patch to an object of the request's resource.
    pub(crate) fn object(&self, cx: &RequestContext, old: &Value) -> Result<Decoded, Status> {
        let ty = cx.resource.builtin_type();
        let patched = self.apply(ty, old)?;
        self.checks().object(cx, patched).map_err(|why| self.refuse(ty, old, &why))
    }

    /// Applies the patch to a Scale.
    pub(crate) fn scale(
        &self,
        cx: &RequestContext,
        old: &Value,
        gvk: Gvk<'_>,
    ) -> Result<Value, Status> {
        let ty = evenkeel_types::lookup(gvk).ok_or_else(Status::unsupported_patch)?;
        let patched = self.apply(Some(ty), old)?;
        self.checks().of_kind(cx, patched, gvk, ty).map_err(|why| self.refuse(Some(ty), old, &why))
    }

    fn checks(&self) -> Patched<'_> {
        Patched {
            duplicates: &self.duplicates,
            validation: self.validation,
            strategic: matches!(self.change, Change::Strategic(_)),
        }
    }

    /// Returns the error of a patch whose result is not a valid object. It contains the result,
    /// which is computed again since that is rare, or the strategic patch.
    fn refuse(&self, ty: Option<&'static Type>, old: &Value, why: &str) -> Status {
        let shown = match &self.change {
            Change::Strategic(patch) => go::format_v(&Value::Object(patch.clone())),
            _ => match self.apply(ty, old) {
                Ok(patched) => patched.to_string(),
                Err(status) => return status,
            },
        };
        let error = field::Error::invalid("patch", shown, why);
        Status::invalid(GroupResource { group: "", resource: "" }, "", &[error])
    }

    fn apply(&self, ty: Option<&'static Type>, object: &Value) -> Result<Value, Status> {
        let mut patched = match &self.change {
            // Go's library treats a list as the new value.
            Change::Merge(patch @ Value::Array(_)) => patch.clone(),
            Change::Merge(patch) => merge_patch(object.clone(), patch.clone())
                .map_err(|error| Status::bad_request(error.to_string()))?,
            Change::Json(patch) => patch
                .clone()
                .apply(object.clone())
                .map_err(|error| Status::unprocessable(&error.to_string()))?,
            Change::Strategic(patch) => {
                let ty = ty.ok_or_else(Status::unsupported_patch)?;
                let object = object.as_object().cloned().unwrap_or_default();
                let merged = strategic::apply(ty, object, patch.clone());
                merged.map(Value::Object).map_err(not_merged)?
            }
        };
        // Patches are applied to untyped values, where `1.0` counts as an integer. In custom
        // objects it is one only once stored.
        if ty.is_some() {
            json::normalize_floats(&mut patched);
        }
        Ok(patched)
    }
}

fn not_merged(error: StrategicError) -> Status {
    match error {
        StrategicError::ListOfLists => Status::unprocessable(&error.to_string()),
        StrategicError::Other(why) => Status::without_reason(500, why),
        other => Status::bad_request(other.to_string()),
    }
}
