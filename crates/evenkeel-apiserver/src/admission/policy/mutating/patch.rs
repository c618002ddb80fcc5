//! The patches of mutating policies: what an expression evaluates to, applied to the object.

use evenkeel_apply::ObjectType;
use evenkeel_apply::patch::{JsonPatch, JsonPatchError};
use evenkeel_apply::typed::Duplicates;
use evenkeel_cel::admission::{Budget, Compiled, Inputs, Scope, Variable};
use evenkeel_cel::{Object, Value as CelValue};
use evenkeel_types::Gvk;
use evenkeel_types::go::Quoted;
use serde_json::{Map, Value};

use super::super::super::convert;
use super::PatchKind;
use crate::codec;
use crate::pipeline::manage::types;
use crate::registry::resource::Resource;
use crate::status::Status;

/// Why a mutation is not applied.
pub(super) enum Failure {
    /// The failure policy decides about the request.
    Policy(String),
    /// The request is rejected.
    Rejected(Status),
}

/// The object that is patched, in the version that the policy matches.
pub(super) struct Target<'a> {
    pub(super) resource: &'a Resource,
    pub(super) kind: Gvk<'a>,
    pub(super) object: &'a Value,
}

/// Evaluates the expression of a mutation and applies its result. Returns the patched object, before
/// defaults are set.
pub(super) fn apply<'a>(
    kind: PatchKind,
    compiled: &'a Compiled,
    inputs: &'a Inputs<'a>,
    variables: &'a [Variable],
    target: &Target<'_>,
) -> Result<Value, Failure> {
    // As upstream, without the prefix of other evaluations.
    if let Err(invalid) = compiled {
        return Err(Failure::Policy(invalid.to_string()));
    }
    let scope = Scope::new(inputs, variables);
    let evaluated = scope.evaluate(compiled, &mut Budget::of_object());
    let value = evaluated.map_err(|error| Failure::Policy(error.to_string()))?;
    let value = value.map_err(Failure::Policy)?;
    match kind {
        PatchKind::ApplyConfiguration => merge(&value, target),
        PatchKind::JsonPatch => operations(&value, target),
    }
}

// === Apply configurations ===

fn merge(value: &CelValue<'_>, target: &Target<'_>) -> Result<Value, Failure> {
    let mut configuration = match value {
        CelValue::Object(object) => {
            check_names(object)?;
            value.to_json().map_err(|error| Failure::Policy(error.to_string()))?
        }
        other => {
            let type_ = other.type_();
            let why = "unsupported return type from ApplyConfiguration expression";
            return Err(Failure::Policy(format!("{why}: {}", type_.name())));
        }
    };
    for field in ["apiVersion", "kind"] {
        configuration[field] = target.object[field].clone();
    }
    let failed = |why: String| Failure::Policy(format!("error applying patch: {why}"));
    let (of_resource, of_kind);
    let object_type = if target.kind == target.resource.gvk() {
        of_resource = types::of(target.resource);
        of_resource
    } else {
        of_kind = evenkeel_types::lookup(target.kind)
            .map_or_else(ObjectType::deduced, types::builtin_type);
        &of_kind
    };
    object_type
        .validate(&configuration, Duplicates::Reject)
        .map_err(|why| failed(format!("failed to convert patch object to typed object: {why}")))?;
    let atomics = object_type.atomics(&configuration);
    if !atomics.is_empty() {
        return Err(failed(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        )));
    }
    let mut merged = object_type
        .merge(target.object.clone(), &configuration)
        .map_err(|why| failed(format!("failed to merge patch: {why}")))?;
    convert::decode(target.resource, target.kind, &mut merged).map_err(Failure::Rejected)?;
    Ok(merged)
}

/// Checks that the types of nested objects are named after their path.
fn check_names(object: &Object<'_>) -> Result<(), Failure> {
    let mut errors = Vec::new();
    let root = object.type_name().to_string();
    mismatches(&CelValue::Object(object.clone()), &root, &mut errors);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::Policy(format!("type mismatch: {}", errors.join("\n")))),
    }
}

fn mismatches(value: &CelValue<'_>, path: &str, errors: &mut Vec<String>) {
    match value {
        CelValue::Object(object) => {
            let name = object.type_name();
            if **name != *path {
                errors.push(format!(
                    "unexpected type name {}, expected {}, which matches field name path from \
                     root Object type",
                    Quoted(name),
                    Quoted(path)
                ));
            }
            for (field, value) in object.fields() {
                mismatches(&value, &format!("{path}.{field}"), errors);
            }
        }
        CelValue::List(list) => list.iter().for_each(|item| mismatches(&item, path, errors)),
        CelValue::Map(map) => map.iter().for_each(|(_, value)| mismatches(&value, path, errors)),
        _ => {}
    }
}

// === JSON patches ===

fn operations(value: &CelValue<'_>, target: &Target<'_>) -> Result<Value, Failure> {
    let CelValue::List(list) = value else {
        let why = "type mismatch: JSONPatchType.expression should evaluate to array";
        return Err(Failure::Policy(why.to_owned()));
    };
    let operations = list.iter().map(|operation| self::operation(&operation));
    let patch = Value::Array(operations.collect::<Result<_, _>>()?);
    let failed = |why: JsonPatchError| Failure::Policy(format!("JSON Patch: {why}"));
    let patch = JsonPatch::decode(patch).map_err(failed)?;
    let mut patched = match patch.apply(target.object.clone()) {
        Ok(patched) => patched,
        // A failed test leaves the object as it is.
        Err(JsonPatchError::TestFailed(_)) => return Ok(target.object.clone()),
        Err(why) => return Err(failed(why)),
    };
    // Unknown fields are those of the kind that the patched object has.
    let text = |field: &str| patched[field].as_str().unwrap_or("");
    let patched_kind = Gvk::from_api_version(text("apiVersion"), text("kind"));
    let builtin = evenkeel_types::lookup(target.kind);
    if let Some(ty) = builtin.and_then(|_| evenkeel_types::lookup(patched_kind)) {
        let internal = |why: String| Failure::Rejected(Status::internal(why));
        let unknown = codec::conform_to(ty, &mut patched.clone()).map_err(internal)?;
        if !unknown.is_empty() {
            let why = format!("strict decoding error: {}", unknown.join(", "));
            return Err(internal(why));
        }
    }
    convert::decode(target.resource, target.kind, &mut patched).map_err(Failure::Rejected)?;
    Ok(patched)
}

fn operation(value: &CelValue<'_>) -> Result<Value, Failure> {
    let mut operation = Map::new();
    let CelValue::Object(fields) = value else {
        let why = "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch";
        return Err(Failure::Policy(why.to_owned()));
    };
    for field in ["op", "path", "from"] {
        let text = fields.get(field);
        let text = text.as_ref().and_then(CelValue::as_str).unwrap_or("");
        if field != "from" || !text.is_empty() {
            operation.insert(field.to_owned(), text.into());
        }
    }
    if let Some(value) = fields.get("value") {
        if let CelValue::Object(object) = &value {
            check_names(object)?;
        }
        let value = value.to_json().map_err(|error| {
            Failure::Policy(format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: \
                 {error}"
            ))
        })?;
        operation.insert("value".to_owned(), value);
    }
    Ok(Value::Object(operation))
}
