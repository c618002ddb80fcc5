//! Selects which checks apply to a CRD. An update is not rejected for what is already invalid in
//! the stored CRD.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::schema::Schema;
use super::spec::Spec;
use super::{columns, conversion, defaults, openapi, shape};

pub(super) struct Options<'a> {
    pub(super) require_recognized_review_version: bool,
    pub(super) immutable_names: bool,
    pub(super) require_schema: bool,
    pub(super) require_valid_types: bool,
    pub(super) require_structural: bool,
    pub(super) require_pruned_defaults: bool,
    pub(super) require_atomic_sets: bool,
    pub(super) require_valid_list_keys: bool,
    pub(super) allow_invalid_ca: bool,
    /// Names of the versions that may keep too many selectable fields; empty for the top level.
    pub(super) allow_many_selectable: HashSet<&'a str>,
    /// Names of the versions whose schema is that of the stored CRD.
    pub(super) unchanged_schemas: HashSet<&'a str>,
}

impl<'a> Options<'a> {
    pub(super) fn create() -> Self {
        Self {
            require_recognized_review_version: true,
            immutable_names: false,
            require_schema: true,
            require_valid_types: true,
            require_structural: true,
            require_pruned_defaults: true,
            require_atomic_sets: true,
            require_valid_list_keys: true,
            allow_invalid_ca: true,
            allow_many_selectable: HashSet::new(),
            unchanged_schemas: HashSet::new(),
        }
    }

    pub(super) fn update(old: &Value, old_spec: &Spec<'_>, spec: &Spec<'a>) -> Self {
        let established = is_established(old);
        let any = |predicate: &dyn Fn(Schema<'_>) -> bool| old_spec.schemas().any(predicate);
        let anywhere =
            |predicate: &dyn Fn(Schema<'_>) -> bool| old_spec.schemas().any(|s| s.has(predicate));
        Self {
            require_recognized_review_version: conversion::has_recognized_review_version(old_spec),
            immutable_names: established,
            require_schema: old_spec.versions.iter().all(|version| version.schema.is_some()),
            require_valid_types: !anywhere(&|schema| {
                !schema.type_name().is_empty() && !openapi::TYPES.contains(&schema.type_name())
            }),
            require_structural: !any(&shape::is_not_structural),
            require_pruned_defaults: !any(&defaults::has_unpruned),
            require_atomic_sets: !anywhere(&openapi::is_set_of_non_atomic),
            require_valid_list_keys: !anywhere(&openapi::has_invalid_list_keys),
            allow_invalid_ca: !established || conversion::has_invalid_ca(old_spec),
            allow_many_selectable: versions_with_many_selectable(old_spec, spec),
            unchanged_schemas: versions_with_unchanged_schemas(old_spec, spec),
        }
    }
}

fn versions_with_unchanged_schemas<'a>(old: &Spec<'_>, new: &Spec<'a>) -> HashSet<&'a str> {
    let before = |name: &str| old.versions.iter().find(|version| version.name == name);
    let unchanged = new.versions.iter().filter(|version| {
        before(version.name).is_some_and(|before| before.schema == version.schema)
    });
    unchanged.map(|version| version.name).collect()
}

fn versions_with_many_selectable<'a>(old: &Spec<'_>, new: &Spec<'a>) -> HashSet<&'a str> {
    let too_many = |list: &[Value]| list.len() > columns::SELECTABLE_MAX;
    let mut allowed = HashSet::new();
    let (before, now) = (old.shared.selectable(), new.shared.selectable());
    if too_many(before) && before == now {
        allowed.insert("");
    }
    // If several versions have the same name, the first one is used.
    let versions = old.versions.iter().rev().map(|version| (version.name, version));
    let versions: HashMap<&str, _> = versions.collect();
    for version in &new.versions {
        let before = versions.get(version.name);
        let before = before.map_or(&[][..], |old| old.parts.selectable());
        if too_many(before) && before == version.parts.selectable() {
            allowed.insert(version.name);
        }
    }
    allowed
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("Established")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    })
}
