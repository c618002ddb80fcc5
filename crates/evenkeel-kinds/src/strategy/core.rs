//! Prepares the kinds of the core group other than Pods and Services.

use serde_json::{Value, json};

use super::Context;
use super::prepare::copy_field;
use crate::defaults::set::{self, Object};

/// Adds the `kubernetes` finalizer to `spec`. The namespace is emptied before it is removed.
pub(super) fn create_namespace(namespace: &mut Object) {
    let Some(spec) = set::structure(namespace, "spec") else { return };
    if set::is_unset(spec.get("finalizers")) {
        spec.insert("finalizers".to_owned(), json!([]));
    }
    let Some(Value::Array(finalizers)) = spec.get_mut("finalizers") else { return };
    if !finalizers.iter().any(|name| name == "kubernetes") {
        finalizers.push("kubernetes".into());
    }
}

/// Keeps `spec.finalizers` of a namespace, which change only through the `finalize` subresource.
pub(super) fn keep_finalizers(old: &Object, new: &mut Object) {
    let empty = Object::new();
    let old = set::get(old, "spec").unwrap_or(&empty);
    if let Some(new) = set::structure(new, "spec") {
        copy_field(old, new, "finalizers");
    }
}

/// Drops the fields of dynamic kubelet configuration, a removed feature.
pub(super) fn create_node(node: &mut Object) {
    if let Some(spec) = set::child(node, "spec") {
        spec.remove("configSource");
    }
    if let Some(status) = set::child(node, "status") {
        status.remove("config");
    }
}

/// Drops `spec.configSource` unless the stored node has it.
pub(super) fn update_node(old: &Object, new: &mut Object) {
    drop_unless_used(old, new, "spec", "configSource");
}

/// Drops `status.config` unless the stored node has it.
pub(super) fn update_node_status(old: &Object, new: &mut Object) {
    drop_unless_used(old, new, "status", "config");
}

fn drop_unless_used(old: &Object, new: &mut Object, part: &str, field: &str) {
    if !set::get(old, part).is_some_and(|old| old.contains_key(field))
        && let Some(new) = set::child(new, part)
    {
        new.remove(field);
    }
}

/// Sets the phase transition time of a new volume.
pub(super) fn create_volume(volume: &mut Object, cx: &Context<'_>) {
    if let Some(status) = set::child(volume, "status") {
        status.insert(TRANSITION_TIME.to_owned(), cx.now.into());
    }
}

const TRANSITION_TIME: &str = "lastPhaseTransitionTime";

/// Updates the phase transition time when the phase changes, unless the client sets it.
pub(super) fn update_volume_status(old: &Object, new: &mut Object, cx: &Context<'_>) {
    let empty = Object::new();
    let old = set::get(old, "status").unwrap_or(&empty);
    let Some(new) = set::structure(new, "status") else { return };
    let unset = set::is_unset(new.get(TRANSITION_TIME));
    if old.get("phase") == new.get("phase") {
        if unset {
            copy_field(old, new, TRANSITION_TIME);
        }
    } else if unset || new.get(TRANSITION_TIME) == old.get(TRANSITION_TIME) {
        new.insert(TRANSITION_TIME.to_owned(), cx.now.into());
    }
}

/// Makes `dataSource` and `dataSourceRef` of a PersistentVolumeClaim consistent.
pub(super) fn prepare_claim(old: Option<&Object>, claim: &mut Object) {
    let old = old.and_then(|old| set::get(old, "spec"));
    let used = |field: &str| old.is_some_and(|old| !set::is_unset(old.get(field)));
    let Some(spec) = set::child(claim, "spec") else { return };

    // Data sources in other namespaces are disabled by default.
    let is_cross_namespace = set::get(spec, "dataSourceRef")
        .is_some_and(|source| !set::string(source, "namespace").is_empty());
    if is_cross_namespace && !used("dataSourceRef") {
        spec.remove("dataSourceRef");
    }

    let has_reference = !set::is_unset(spec.get("dataSourceRef"));
    if !used("dataSource") && !used("dataSourceRef") && !has_reference {
        let supported = set::get(spec, "dataSource").is_some_and(|source| {
            matches!(
                (set::string(source, "apiGroup"), set::string(source, "kind")),
                ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
            )
        });
        if !supported {
            spec.remove("dataSource");
        }
    }

    let (source, reference) = (set::get(spec, "dataSource"), set::get(spec, "dataSourceRef"));
    let (key, copied) = match (source, reference) {
        (Some(source), None) => ("dataSourceRef", source),
        (None, Some(reference)) if set::string(reference, "namespace").is_empty() => {
            ("dataSource", reference)
        }
        _ => return,
    };
    let mut copy = Object::new();
    for field in ["apiGroup", "kind", "name"] {
        if let Some(value) = copied.get(field) {
            copy.insert(field.to_owned(), value.clone());
        }
    }
    spec.insert(key.to_owned(), Value::Object(copy));
}

/// Drops all fields but the name from the secret references of a ServiceAccount.
pub(super) fn trim_secret_references(account: &mut Object) {
    for secret in set::items(account, "secrets") {
        secret.retain(|key, _| key == "name");
    }
}

/// Names a LimitRange without a name after its UID.
pub(super) fn name_after_uid(object: &mut Object) {
    if let Some(metadata) = set::child(object, "metadata")
        && set::string(metadata, "name").is_empty()
        && let Some(uid) = metadata.get("uid").cloned()
    {
        metadata.insert("name".to_owned(), uid);
    }
}
