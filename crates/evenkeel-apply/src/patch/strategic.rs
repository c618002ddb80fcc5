//! Strategic merge patch, as apimachinery's `strategicpatch`: lists merge by the merge key of their
//! type.
//!
//! Directives: `$patch: replace|delete` on maps and list items, `$retainKeys` on maps, and
//! `$deleteFromPrimitiveList/f` and `$setElementOrder/f` next to a list `f`. Directives are not
//! part of the result.

use evenkeel_types::go::{self, Quoted};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::work;

mod list;
#[cfg(test)]
mod tests;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// The patch metadata of a type.
pub trait PatchSchema {
    /// Returns a declared field; `None` if the type does not have it.
    fn field(&self, name: &str) -> Option<PatchField<'_>>;

    /// Returns the name of the type, for error messages.
    fn name(&self) -> &str;

    /// Returns whether this is a struct. Maps and scalars have no declared fields.
    fn is_struct(&self) -> bool {
        true
    }
}

/// How a field is patched.
#[derive(Clone, Copy)]
pub struct PatchField<'a> {
    /// The type of the field, or of its items if it is a list.
    pub schema: &'a dyn PatchSchema,
    /// The patch strategy.
    pub strategy: PatchStrategy,
    /// The merge key of a list of maps.
    pub merge_key: Option<&'a str>,
}

/// How a map or list is patched if both sides have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchStrategy {
    /// Maps merge, lists are replaced.
    #[default]
    Default,
    /// Both merge.
    Merge,
    /// Both are replaced.
    Replace,
}

/// Why a patch is rejected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StrategicError {
    /// The kind has no patch schema (custom resources): 400 Bad Request, if not rejected earlier.
    #[error("strategic merge patch format is not supported")]
    Unsupported,
    /// `$deleteFromPrimitiveList` without a field: 400 Bad Request.
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    /// `$retainKeys` that is not a list, or lacks a field that the patch sets: 400 Bad Request.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// `$setElementOrder` without a field: 400 Bad Request.
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrder,
    /// A merging list of lists: 422 Unprocessable Entity.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// Anything else: 500 Internal Server Error.
    #[error("{0}")]
    Other(String),
}

/// Applies a strategic merge patch to an object.
pub fn strategic_merge_patch(
    object: Map<String, Value>,
    patch: Map<String, Value>,
    schema: &dyn PatchSchema,
) -> Result<Map<String, Value>, StrategicError> {
    merge_map(object, patch, schema)
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: &dyn PatchSchema,
) -> Result<Map<String, Value>, StrategicError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => {
            patch.remove(DIRECTIVE);
            return Ok(patch);
        }
        Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
        Some(other) => return Err(unknown_directive(other, &patch)),
    }
    retain_keys(&mut original, &mut patch)?;
    list::set_element_order(&mut original, &mut patch, schema)?;
    for (name, value) in patch {
        work::step();
        merge_field(&mut original, name, value, schema)?;
    }
    Ok(original)
}

fn merge_field(
    original: &mut Map<String, Value>,
    mut name: String,
    mut value: Value,
    schema: &dyn PatchSchema,
) -> Result<(), StrategicError> {
    let deletes = name.starts_with(DELETE_FROM_LIST);
    if deletes {
        let field =
            directive_field(&name, DELETE_FROM_LIST).ok_or(StrategicError::PrimitiveList)?;
        if !field.is_empty() {
            name = field.to_owned();
        }
    }
    if value.is_null() {
        original.remove(&name);
        return Ok(());
    }
    match (original.get_mut(&name), value) {
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let field = lookup(schema, &name)?;
            if field.strategy == PatchStrategy::Replace {
                *current = patch;
            } else {
                *current = merge_map(std::mem::take(current), patch, field.schema)?;
            }
        }
        (Some(Value::Array(current)), Value::Array(patch)) => {
            let field = lookup(schema, &name)?;
            *current = list::merge(std::mem::take(current), patch, &field, deletes)?;
        }
        (_, patch) if !deletes => {
            value = patch;
            discard_nulls(&mut value);
            match without_directives(value) {
                Some(value) => original.insert(name, value),
                None => original.remove(&name),
            };
        }
        _ => {}
    }
    Ok(())
}

fn lookup<'s>(schema: &'s dyn PatchSchema, name: &str) -> Result<PatchField<'s>, StrategicError> {
    if !schema.is_struct() {
        return Err(StrategicError::Other(format!(
            "merging an object in json but data type is not struct, instead is: {}",
            schema.name()
        )));
    }
    schema.field(name).ok_or_else(|| {
        StrategicError::Other(format!(
            "unable to find api field in struct {} for the json field {}",
            schema.name(),
            Quoted(name)
        ))
    })
}

/// Removes fields that `$retainKeys` does not list. The patch may only set listed fields.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), StrategicError> {
    let retained = match patch.remove(RETAIN_KEYS) {
        None => return Ok(()),
        Some(Value::Array(retained)) => retained,
        Some(_) => return Err(StrategicError::RetainKeys),
    };
    let names: std::collections::HashSet<&str> =
        retained.iter().filter_map(Value::as_str).collect();
    let is_directive =
        |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
    let stray = |(name, value): (&String, &Value)| {
        !value.is_null() && !is_directive(name) && !names.contains(name.as_str())
    };
    if patch.iter().any(stray) {
        return Err(StrategicError::RetainKeys);
    }
    original.retain(|name, _| names.contains(name.as_str()));
    Ok(())
}

/// Returns the field of a `$directive/field`.
fn directive_field<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    key.split_once('/').filter(|(head, _)| *head == prefix).map(|(_, field)| field)
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes maps with a directive from the value; `None` if the value is one.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => {
            Some(Value::Array(items.into_iter().filter_map(without_directives).collect()))
        }
        scalar => Some(scalar),
    }
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> StrategicError {
    let map = go::format_v(&Value::Object(map.clone()));
    StrategicError::Other(format!("unknown patch type: {} in map: {map}", go::format_v(directive)))
}

fn wrong_type(expected: &str, actual: &Value) -> StrategicError {
    let actual = if actual.is_null() { "%!s(<nil>)" } else { go::type_name(actual) };
    StrategicError::Other(format!("expected a {expected}, but received a {actual}"))
}

fn no_merge_key(map: &Value, key: &str) -> StrategicError {
    let map = go::format_v(map);
    StrategicError::Other(format!("map: {map} does not contain declared merge key: {key}"))
}
