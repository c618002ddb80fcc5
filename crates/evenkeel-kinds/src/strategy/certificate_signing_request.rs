//! Prepares CertificateSigningRequests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Context;
use super::prepare::copy_field;
use crate::defaults::set::{self, Object};

/// Sets the requesting user in the spec of a new request.
pub(super) fn create(request: &mut Object, cx: &Context<'_>) {
    let Some(spec) = set::structure(request, "spec") else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    let user = cx.user;
    if !user.name.is_empty() {
        spec.insert("username".to_owned(), user.name.into());
    }
    if !user.uid.is_empty() {
        spec.insert("uid".to_owned(), user.uid.into());
    }
    if !user.groups.is_empty() {
        spec.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(user.extra));
    }
}

/// Prepares a status update, which cannot change the approval conditions.
pub(super) fn update_status(old: &Object, new: &mut Object, cx: &Context<'_>) {
    for kind in ["Approved", "Denied"] {
        let was: Vec<Value> = conditions(old).filter(|c| has_type(c, kind)).cloned().collect();
        let mut now: Vec<&mut Value> = conditions_mut(new).filter(|c| has_type(c, kind)).collect();
        if was.len() == now.len() {
            for (now, was) in now.iter_mut().zip(was) {
                **now = was;
            }
        }
    }
    set_condition_times(old, new, cx);
}

/// Takes only the conditions from the new object.
pub(super) fn update_approval(old: &Object, new: &mut Object, cx: &Context<'_>) {
    set_condition_times(old, new, cx);
    let conditions = set::child(new, "status").and_then(|status| status.remove("conditions"));
    copy_field(old, new, "spec");
    copy_field(old, new, "status");
    let Some(status) = set::structure(new, "status") else { return };
    match conditions {
        Some(conditions) => status.insert("conditions".to_owned(), conditions),
        None => status.remove("conditions"),
    };
}

fn set_condition_times(old: &Object, new: &mut Object, cx: &Context<'_>) {
    let key = |condition: &Object| {
        ["type", "status"].map(|field| set::string(condition, field).to_owned())
    };
    let mut since: BTreeMap<[String; 2], &str> = BTreeMap::new();
    for condition in conditions(old).filter_map(Value::as_object) {
        let time = set::string(condition, "lastTransitionTime");
        if !time.is_empty() {
            since.entry(key(condition)).or_insert(time);
        }
    }
    for condition in conditions_mut(new).filter_map(Value::as_object_mut) {
        set::text(condition, "lastUpdateTime", cx.now);
        if set::string(condition, "lastTransitionTime").is_empty() {
            let time = since.get(&key(condition)).copied().unwrap_or(cx.now);
            condition.insert("lastTransitionTime".to_owned(), time.into());
        }
    }
}

fn has_type(condition: &Value, kind: &str) -> bool {
    condition.get("type").and_then(Value::as_str) == Some(kind)
}

fn conditions(object: &Object) -> impl Iterator<Item = &Value> {
    set::get(object, "status")
        .and_then(|status| status.get("conditions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn conditions_mut(object: &mut Object) -> impl Iterator<Item = &mut Value> {
    set::child(object, "status")
        .and_then(|status| status.get_mut("conditions"))
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}
