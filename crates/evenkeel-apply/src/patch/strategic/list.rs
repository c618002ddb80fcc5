//! Lists in a strategic merge patch.
//!
//! Items are found through an index of their merge keys, so that a patch of many items to a long
//! list takes linear time.

use std::collections::{HashMap, HashSet};

use evenkeel_types::go;
use serde_json::{Map, Value};

use crate::work;

use super::{
    DIRECTIVE, PatchField, PatchSchema, PatchStrategy, SET_ORDER, StrategicError, directive_field,
    lookup, merge_map, no_merge_key, unknown_directive, without_directives, wrong_type,
};

const LIST: &str = "[]interface {}";
const MAP: &str = "map[string]interface {}";

/// Merges or replaces the list of a field according to its patch strategy (upstream's
/// `mergeSlice`).
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: &PatchField<'_>,
    deletes: bool,
) -> Result<Vec<Value>, StrategicError> {
    if field.strategy != PatchStrategy::Merge && !deletes {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let maps = element_type(&[&original, &patch])?;
    if !maps && deletes {
        let deleted: HashSet<&Value> = patch.iter().collect();
        return Ok(original.into_iter().filter(|item| !deleted.contains(item)).collect());
    }
    if !maps {
        if let Some(key) = field.merge_key {
            let first = original.first().or(patch.first()).unwrap_or(&Value::Null);
            return Err(merge_key_value(first, key)
                .err()
                .unwrap_or_else(|| wrong_type(MAP, first)));
        }
        let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
        let mut seen = HashSet::new();
        for item in original.iter().chain(&patch) {
            if seen.insert(item) {
                merged.push(item.clone());
            }
        }
        let (from_patch, server_only) = partition(merged, &patch, None)?;
        return ordered(from_patch, server_only, &patch, &original, None);
    }
    let Some(key) = field.merge_key else {
        return Err(StrategicError::Other(format!(
            "cannot merge lists without merge key for {}",
            if field.schema.is_struct() { "struct" } else { field.schema.name() }
        )));
    };
    let (original, patch) = apply_item_directives(original, patch, key)?;
    let order: Vec<Value> = original.iter().map(|item| key_only(item, key)).collect();
    let patch_order: Vec<Value> = patch.iter().map(|item| key_only(item, key)).collect();
    let merged = merge_items(original, patch, key, field.schema)?;
    let (from_patch, server_only) = partition(merged, &patch_order, Some(key))?;
    ordered(from_patch, server_only, &patch_order, &order, Some(key))
}

/// Handles `$setElementOrder/f`: merges the list `f` and sorts it in the given order.
pub(super) fn set_element_order(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: &dyn PatchSchema,
) -> Result<(), StrategicError> {
    let directives: Vec<String> =
        patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(wrong_type(LIST, &other.unwrap_or(Value::Null))),
        };
        let name = directive_field(&directive, SET_ORDER).ok_or(StrategicError::SetElementOrder)?;
        let current = take_list(original, name)?;
        let changes = take_list(patch, name)?;
        let field = lookup(schema, name)?;
        let key = field.merge_key.filter(|key| !key.is_empty());
        check_order(changes.as_deref().unwrap_or_default(), &order, key)?;

        let lists =
            [current.as_deref().unwrap_or_default(), changes.as_deref().unwrap_or_default()];
        let typed = element_type(&lists);
        let server_order = match key {
            Some(key) if field.strategy == PatchStrategy::Merge => remaining_order(lists, key),
            Some(key) => lists[0].iter().map(|item| key_only(item, key)).collect(),
            None => lists[0].to_vec(),
        };
        let merged = match (current, changes) {
            (None, None) => continue,
            (Some(current), None) => current,
            (None, Some(changes)) => changes.into_iter().filter_map(without_directives).collect(),
            (Some(current), Some(changes)) => merge(current, changes, &field, false)?,
        };
        let (listed, server_only) = partition(merged, &order, key)?;
        typed?;
        let list = ordered(listed, server_only, &order, &server_order, key)?;
        original.insert(name.to_owned(), Value::Array(list));
    }
    Ok(())
}

/// Returns the order of the live list as upstream computes it after merging.
///
/// Upstream deletes items in place and then appends new ones to the same slice, so as many new
/// items as were deleted are ordered as if they had always followed the remaining ones. The result
/// is visible to clients that delete and add items in one patch, so it is preserved.
fn remaining_order([original, patch]: [&[Value]; 2], key: &str) -> Vec<Value> {
    let is_deleted = |item: &&Value| item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete");
    let deleted: HashSet<&Value> =
        patch.iter().filter(is_deleted).filter_map(|item| item.get(key)).collect();
    let existing: HashSet<&Value> = original.iter().filter_map(|item| item.get(key)).collect();
    let mut order: Vec<Value> = original
        .iter()
        .filter(|item| !item.get(key).is_some_and(|value| deleted.contains(value)))
        .map(|item| key_only(item, key))
        .collect();
    let slots = original.len() - order.len();
    let is_new = |item: &&Value| {
        let value = item.get(key);
        item.get(DIRECTIVE).is_none()
            && value.is_some_and(|value| !existing.contains(value) || deleted.contains(value))
    };
    order.extend(patch.iter().filter(is_new).take(slots).map(|item| key_only(item, key)));
    order
}

fn take_list(
    map: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<Vec<Value>>, StrategicError> {
    match map.remove(name) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(wrong_type(LIST, &other)),
    }
}

/// Checks that items of the patch appear in the order list, in the same order.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), StrategicError> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::with_capacity(patch.len());
    for item in patch {
        let directive = match (key, item) {
            (Some(_), Value::Object(map)) => map.get(DIRECTIVE),
            (Some(_), other) => return Err(wrong_type(MAP, other)),
            (None, _) => None,
        };
        if directive.and_then(Value::as_str) != Some("delete") {
            kept.push((item, directive.is_some()));
        }
    }
    let mut listed = order.iter();
    for (item, is_directive) in kept {
        // A directive matches any remaining position.
        let mut found = is_directive && !listed.as_slice().is_empty();
        while let Some(candidate) = (!found).then(|| listed.next()).flatten() {
            found = match key {
                None => item == candidate,
                Some(key) => merge_key_value(item, key)? == merge_key_value(candidate, key)?,
            };
        }
        if !found {
            let [patch, order] =
                [patch, order].map(|list| go::format_v(&Value::Array(list.to_vec())));
            return Err(StrategicError::Other(format!(
                "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n"
            )));
        }
    }
    Ok(())
}

/// Applies the `$patch` directives of items. Returns the remaining items of both lists.
fn apply_item_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted = Vec::new();
    let mut replace = false;
    for item in patch {
        let Value::Object(map) = &item else { return Err(wrong_type(MAP, &item)) };
        match map.get(DIRECTIVE) {
            None => plain.push(item),
            Some(Value::String(directive)) if directive == "delete" => {
                deleted.push(merge_key_value(&item, key)?.clone());
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(StrategicError::Other(message.into()));
            }
            Some(other) => return Err(unknown_directive(other, map)),
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    if !deleted.is_empty() {
        let deleted: HashSet<&Value> = deleted.iter().collect();
        original.retain(|item| !item.get(key).is_some_and(|value| deleted.contains(value)));
    }
    Ok((original, plain))
}

fn merge_items(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    schema: &dyn PatchSchema,
) -> Result<Vec<Value>, StrategicError> {
    let mut existing: HashMap<Value, usize> = HashMap::with_capacity(original.len());
    for (at, item) in original.iter().enumerate() {
        if let Some(value) = item.get(key) {
            existing.entry(value.clone()).or_insert(at);
        }
    }
    for item in patch {
        let value = merge_key_value(&item, key)?.clone();
        match (existing.get(&value), item) {
            (Some(&at), Value::Object(changes)) => {
                let Value::Object(current) = original[at].take() else { continue };
                original[at] = Value::Object(merge_map(current, changes, schema)?);
            }
            (_, item) => {
                existing.insert(value, original.len());
                original.push(item);
            }
        }
    }
    Ok(original)
}

/// Splits a merged list into items that are in `named` and the others.
fn partition(
    merged: Vec<Value>,
    named: &[Value],
    key: Option<&str>,
) -> Result<(Vec<Value>, Vec<Value>), StrategicError> {
    let mut names = HashSet::with_capacity(named.len());
    for (at, item) in named.iter().enumerate() {
        match (key, item) {
            (None, item) => names.insert(item),
            (Some(key), Value::Object(map)) => {
                map.get(key).is_some_and(|value| names.insert(value))
            }
            (Some(_), _) => {
                return Err(StrategicError::Other(format!("value for key {at} is not a map")));
            }
        };
    }
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for item in merged {
        let is_named = match key {
            None => names.contains(&item),
            Some(key) => names.contains(merge_key_value(&item, key)?),
        };
        if is_named { inside.push(item) } else { outside.push(item) }
    }
    Ok((inside, outside))
}

/// Sorts both parts by their own list and interleaves them: an item that only the server has stays
/// in front of the first item that it preceded.
fn ordered(
    mut from_patch: Vec<Value>,
    mut server_only: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, StrategicError> {
    let patch_rank = ranks(patch_order, key)?;
    let server_rank = ranks(server_order, key)?;
    let rank = |ranks: &HashMap<&Value, usize>, item: &Value| match key {
        None => ranks.get(item).copied(),
        Some(key) => item.get(key).and_then(|value| ranks.get(value).copied()),
    };
    from_patch.sort_by_key(|item| rank(&patch_rank, item));
    server_only.sort_by_key(|item| rank(&server_rank, item));
    let mut merged = Vec::with_capacity(from_patch.len() + server_only.len());
    let mut remaining = server_only.into_iter().peekable();
    for item in from_patch {
        let place = rank(&server_rank, &item);
        let before = |other: &Value| match (rank(&server_rank, other), place) {
            (Some(other), Some(place)) => other < place,
            _ => false,
        };
        while let Some(earlier) = remaining.next_if(before) {
            merged.push(earlier);
        }
        merged.push(item);
    }
    merged.extend(remaining);
    Ok(merged)
}

fn ranks<'v>(
    order: &'v [Value],
    key: Option<&str>,
) -> Result<HashMap<&'v Value, usize>, StrategicError> {
    let mut ranks = HashMap::with_capacity(order.len());
    for (at, item) in order.iter().enumerate() {
        let value = match key {
            None => item,
            Some(key) => merge_key_value(item, key)?,
        };
        ranks.entry(value).or_insert(at);
    }
    Ok(ranks)
}

/// Returns the value of the merge key of an item.
fn merge_key_value<'v>(item: &'v Value, key: &str) -> Result<&'v Value, StrategicError> {
    work::step();
    match item {
        Value::Object(map) => map.get(key).ok_or_else(|| no_merge_key(item, key)),
        other => Err(wrong_type(MAP, other)),
    }
}

/// Reduces an item to its merge key, which is sufficient for ordering.
fn key_only(item: &Value, key: &str) -> Value {
    work::step();
    let mut map = Map::new();
    if let Some(value) = item.get(key) {
        map.insert(key.to_owned(), value.clone());
    }
    Value::Object(map)
}

/// Returns whether the items of all lists are maps. They must have one type and must not be lists.
fn element_type(lists: &[&[Value]]) -> Result<bool, StrategicError> {
    let mut items = lists.iter().copied().flatten();
    let Some(first) = items.next() else {
        return Err(StrategicError::Other("no elements in any of the given slices".into()));
    };
    if first.is_array() {
        return Err(StrategicError::ListOfLists);
    }
    if items.any(|item| go::type_name(item) != go::type_name(first)) {
        let lists = Value::Array(lists.iter().map(|list| Value::Array(list.to_vec())).collect());
        return Err(StrategicError::Other(format!(
            "list element types are not identical: {}",
            go::format_v(&lists)
        )));
    }
    Ok(first.is_object())
}
