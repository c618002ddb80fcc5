//! Prepares objects for storage: create, update, status update and other subresource updates.

use evenkeel_types::Gvk;
use serde_json::{Value, json};

use super::{
    Context, Generation, Strategy, certificate_signing_request, core, disabled, others, pod,
    semantic, service,
};
use super::{table, workloads};
use crate::defaults;
use crate::defaults::set::{self, Object};

/// Prepares a new object. Its name and UID must already be set.
///
/// The server must have allocated the addresses and ports of a Service, see
/// [`before_allocation_on_create`](super::before_allocation_on_create).
pub fn prepare_for_create(gvk: Gvk<'_>, object: &mut Value, cx: &Context<'_>) {
    let Some(object) = object.as_object_mut() else { return };
    if is_prepared_elsewhere(gvk) {
        return;
    }
    match table::of(gvk).generation {
        Generation::AlwaysOne | Generation::Incremented(_) | Generation::IncrementedExactly(_) => {
            if let Some(metadata) = set::structure(object, "metadata") {
                metadata.insert("generation".to_owned(), 1.into());
            }
        }
        Generation::Unset | Generation::IncrementedOnUpdate(_) => {}
    }
    match (gvk.group, gvk.kind) {
        ("", "Pod") => pod::create(object, cx),
        // The kubelet registers its node including the status.
        ("", "Node") => core::create_node(object),
        _ => {
            if let Some(status) = initial_status(gvk) {
                object.insert("status".to_owned(), status);
            }
        }
    }
    match (gvk.group, gvk.kind) {
        ("", "Namespace") => core::create_namespace(object),
        ("", "PersistentVolume") => core::create_volume(object, cx),
        ("", "PersistentVolumeClaim") => core::prepare_claim(None, object),
        ("", "ServiceAccount") => core::trim_secret_references(object),
        ("", "LimitRange") => core::name_after_uid(object),
        ("batch", "Job") => workloads::generate_selector(object, cx),
        ("apps", "DaemonSet") => workloads::create_daemon_set(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            certificate_signing_request::create(object, cx)
        }
        ("apiregistration.k8s.io", "APIService") => others::create_api_service(object, cx),
        _ => {}
    }
    disabled::drop_fields(gvk, None, object);
    if gvk.kind == "ResourceSlice" {
        others::set_taint_times(object, cx);
    }
}

/// Completes the object of a bookmark, which has only a type: fields that are plain numbers in
/// upstream's types are written even if unset.
pub fn complete_bookmark(gvk: Gvk<'_>, object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    match (gvk.group, gvk.kind) {
        ("apps", "DaemonSet") => workloads::set_template_generation(object, 0),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => {
            if let Some(spec) = set::structure(object, "spec") {
                spec.insert("replicas".to_owned(), 0.into());
            }
        }
        _ => {}
    }
}

/// Returns whether [`remove_versioned_metadata`] may change objects of this kind.
pub fn has_versioned_metadata(gvk: Gvk<'_>) -> bool {
    (gvk.group, gvk.kind) == ("apps", "DaemonSet")
}

/// Removes metadata that only the versioned form of an object has, for metadata-only responses.
pub fn remove_versioned_metadata(gvk: Gvk<'_>, metadata: &mut Value) {
    if !has_versioned_metadata(gvk) {
        return;
    }
    let Some(metadata) = metadata.as_object_mut() else { return };
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove(super::TEMPLATE_GENERATION);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// Prepares an update. Both objects must have the same API version.
pub fn prepare_for_update(gvk: Gvk<'_>, old: &Value, new: &mut Value, cx: &Context<'_>) {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object_mut()) else { return };
    if is_prepared_elsewhere(gvk) {
        return;
    }
    let strategy = table::of(gvk);
    keep_generation(old, new);
    if strategy.has_status {
        copy_field(old, new, "status");
    }
    match (gvk.group, gvk.kind) {
        ("", "Namespace") => core::keep_finalizers(old, new),
        ("", "Service") => service::update(old, new),
        ("", "PersistentVolumeClaim") => core::prepare_claim(Some(old), new),
        ("", "ServiceAccount") => core::trim_secret_references(new),
        ("", "Node") => core::update_node(old, new),
        ("certificates.k8s.io", "CertificateSigningRequest") => copy_field(old, new, "spec"),
        _ => {}
    }
    match (gvk.group, gvk.kind) {
        // A field that is dropped counts as a change of these two.
        ("discovery.k8s.io", "EndpointSlice") | ("resource.k8s.io", "ResourceSlice") => {
            if gvk.kind == "ResourceSlice" {
                others::set_taint_times(new, cx);
            }
            increment_generation(strategy, old, new);
            disabled::drop_fields(gvk, Some(old), new);
        }
        _ => {
            disabled::drop_fields(gvk, Some(old), new);
            if (gvk.group, gvk.kind) == ("apps", "DaemonSet") {
                workloads::update_daemon_set(old, new);
            }
            increment_generation(strategy, old, new);
        }
    }
}

/// Prepares an update through the status subresource.
pub fn prepare_for_status_update(gvk: Gvk<'_>, old: &Value, new: &mut Value, cx: &Context<'_>) {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object_mut()) else { return };
    if is_prepared_elsewhere(gvk) {
        return;
    }
    keep_generation(old, new);
    copy_field(old, new, "spec");
    let keeps = table::of(gvk).status_keeps_metadata;
    keep_metadata(old, new, keeps);
    match (gvk.group, gvk.kind) {
        ("", "Pod") => pod::update_status(old, new),
        ("", "Node") => core::update_node_status(old, new),
        ("", "PersistentVolume") => core::update_volume_status(old, new, cx),
        ("apps", "DaemonSet") => workloads::keep_template_generation(old, new),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            certificate_signing_request::update_status(old, new, cx);
        }
        ("resource.k8s.io", "ResourceClaim") => others::remove_deallocated_devices(old, new),
        _ => {}
    }
}

/// Prepares an update through another subresource.
///
/// A subresource without rules of its own uses those of the main resource. So does `scale`, after
/// the replicas have been written to the object.
pub fn prepare_for_subresource_update(
    gvk: Gvk<'_>,
    subresource: &str,
    old: &Value,
    new: &mut Value,
    cx: &Context<'_>,
) {
    if subresource == "status" {
        return prepare_for_status_update(gvk, old, new, cx);
    }
    let known = matches!(
        (gvk.group, gvk.kind, subresource),
        ("", "Namespace", "finalize")
            | ("", "Pod", "ephemeralcontainers" | "resize")
            | ("certificates.k8s.io", "CertificateSigningRequest", "approval")
    );
    if !known {
        return prepare_for_update(gvk, old, new, cx);
    }
    let (Some(old), Some(new)) = (old.as_object(), new.as_object_mut()) else { return };
    keep_generation(old, new);
    match subresource {
        "finalize" => copy_field(old, new, "status"),
        "approval" => certificate_signing_request::update_approval(old, new, cx),
        "ephemeralcontainers" => pod::update_ephemeral_containers(old, new),
        _ => pod::resize(old, new),
    }
    if gvk.kind == "Pod" {
        disabled::drop_fields(gvk, Some(old), new);
        increment_generation(table::of(gvk), old, new);
    }
}

/// Canonicalizes an object after validation, before it is stored.
pub fn canonicalize(gvk: Gvk<'_>, object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    match (gvk.group, gvk.kind) {
        ("", "Namespace") => {
            if let Some(metadata) = set::child(object, "metadata") {
                defaults::add_name_label(metadata);
            }
        }
        ("", "Service") => service::canonicalize(object),
        _ => {}
    }
}

fn is_prepared_elsewhere(gvk: Gvk<'_>) -> bool {
    gvk.group == "apiextensions.k8s.io"
}

/// Returns the initial status of an object, in the form that its type writes.
fn initial_status(gvk: Gvk<'_>) -> Option<Value> {
    if !table::of(gvk).has_status {
        return None;
    }
    Some(match (gvk.group, gvk.kind) {
        ("", "Namespace") => json!({ "phase": "Active" }),
        ("", "PersistentVolume" | "PersistentVolumeClaim") => json!({ "phase": "Pending" }),
        ("", "Service") | ("networking.k8s.io", "Ingress") => json!({ "loadBalancer": {} }),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => json!({ "replicas": 0 }),
        ("apps", "StatefulSet") => json!({ "replicas": 0, "availableReplicas": 0 }),
        ("apps", "DaemonSet") => json!({
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        }),
        ("autoscaling", _) if gvk.version == "v1" => {
            json!({ "currentReplicas": 0, "desiredReplicas": 0 })
        }
        ("autoscaling", _) => json!({ "desiredReplicas": 0, "currentMetrics": null }),
        ("policy", _) => json!({
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }),
        ("storage.k8s.io", "VolumeAttachment") => json!({ "attached": false }),
        _ => json!({}),
    })
}

/// Copies a field from the old object, or removes it if the old object does not have it.
pub(super) fn copy_field(old: &Object, new: &mut Object, key: &str) {
    match old.get(key) {
        Some(value) => new.insert(key.to_owned(), value.clone()),
        None => new.remove(key),
    };
}

/// Copies metadata fields from the old object.
pub(super) fn keep_metadata(old: &Object, new: &mut Object, keys: &[&str]) {
    if keys.is_empty() {
        return;
    }
    let Some(old) = old.get("metadata").and_then(Value::as_object) else { return };
    let Some(new) = set::structure(new, "metadata") else { return };
    for key in keys {
        copy_field(old, new, key);
    }
}

/// Keeps the stored generation. Clients cannot set it.
fn keep_generation(old: &Object, new: &mut Object) {
    keep_metadata(old, new, &["generation"]);
}

fn increment_generation(strategy: &Strategy, old: &Object, new: &mut Object) {
    let same = |path: &&str| semantic::equal(field(old, path), field(new, path));
    let identical = |path: &&str| field(old, path) == field(new, path);
    let is_unchanged = match strategy.generation {
        Generation::Unset | Generation::AlwaysOne => true,
        Generation::Incremented(fields) | Generation::IncrementedOnUpdate(fields) => {
            fields.iter().all(same)
        }
        Generation::IncrementedExactly(fields) => fields.iter().all(identical),
    };
    if is_unchanged {
        return;
    }
    let generation = field(old, "metadata.generation").and_then(Value::as_i64).unwrap_or(0);
    if let Some(metadata) = set::structure(new, "metadata") {
        metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
    }
}

fn field<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let mut steps = path.split('.');
    let first = object.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}
