//! Validation of built-in kinds, as in kube-apiserver 1.36.
//!
//! Objects must be conformed (types correct, unknown fields dropped), defaulted, and have the
//! fields set that the server manages. The errors have upstream's paths, messages, types and order,
//! including repetitions: an update with invalid labels reports them three times.
//!
//! [`create`], [`update`] and [`status_update`] select the rules of a kind in this file. Each
//! family of kinds has a module, built from the helpers in `checks`. Validation never panics,
//! whatever the shape of the object, and a valid object costs almost no allocation.

use evenkeel_schema::field::Error;
use evenkeel_types::Gvk;
use serde_json::Value;

use crate::meta;
use crate::names::NameRule;

mod admission;
mod autoscaling;
mod batch;
mod certificates;
pub(crate) mod checks;
mod config;
mod container;
mod core;
mod discovery;
mod env;
mod event;
mod flowcontrol;
pub(crate) mod ip;
mod networking;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod policy;
pub(crate) mod printed;
mod probe;
mod rbac;
pub(crate) mod read;
mod registration;
pub(crate) mod report;
mod resource_claims;
pub(crate) mod resources;
mod reviews;
mod scheduling;
mod security;
mod service;
mod storage;
mod volume;
mod workloads;

pub use ip::parse as parse_ip;
use read::Read;
use report::{Errors, Path};

#[cfg(test)]
mod tests;

/// Validates a new object, including its metadata.
///
/// Of kinds that are not built in, only the metadata is validated.
pub fn create(gvk: Gvk<'_>, object: &Value) -> Vec<Error> {
    let mut errs = Errors::new();
    if gvk.group.is_empty() && gvk.kind == "Service" {
        service::cluster_ip_errors(&mut errs, object, &Value::Null);
        if !errs.is_empty() {
            return errs.into_vec();
        }
    }
    kind_create(&mut errs, gvk, object);
    if errs.is_empty() && needs_common_metadata_rules(gvk) {
        let path_segment = |name: &str, prefix| NameRule::PathSegment.check(name, prefix);
        meta::check_create(&mut errs, object.at("metadata"), is_namespaced(gvk), path_segment);
    }
    errs.into_vec()
}

/// Validates the cluster IPs of a Service before addresses are allocated.
pub fn service_cluster_ips(service: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errs = Errors::new();
    service::cluster_ip_errors(&mut errs, service, old.unwrap_or(&Value::Null));
    errs.into_vec()
}

/// Validates a key of the extra fields of an impersonated user.
pub fn user_extra_key(key: &str) -> Vec<Error> {
    let mut errs = Errors::new();
    checks::domain_prefixed_path(&mut errs, Path::root("extra.key"), key);
    errs.into_vec()
}

/// Validates an update through the main resource.
pub fn update(gvk: Gvk<'_>, new: &Value, old: &Value) -> Vec<Error> {
    let mut errs = Errors::new();
    if gvk.group.is_empty() && gvk.kind == "Service" {
        service::cluster_ip_errors(&mut errs, new, old);
        if !errs.is_empty() {
            return errs.into_vec();
        }
    }
    common_fields(&mut errs, gvk, new, old);
    kind_update(&mut errs, gvk, new, old);
    errs.into_vec()
}

/// Validates an update through the `status` subresource.
pub fn status_update(gvk: Gvk<'_>, new: &Value, old: &Value) -> Vec<Error> {
    let mut errs = Errors::new();
    common_fields(&mut errs, gvk, new, old);
    kind_status_update(&mut errs, gvk, new, old);
    errs.into_vec()
}

/// Validates an update through a subresource that takes a whole object.
///
/// Supports `status` of all kinds, `ephemeralcontainers` and `resize` of Pods, `finalize` of
/// Namespaces and `approval` of CertificateSigningRequests.
pub fn subresource_update(gvk: Gvk<'_>, subresource: &str, new: &Value, old: &Value) -> Vec<Error> {
    let mut errs = Errors::new();
    common_fields(&mut errs, gvk, new, old);
    match (gvk.group, gvk.kind, subresource) {
        ("", "Pod", "ephemeralcontainers") => {
            pod::subresources::ephemeral_containers(&mut errs, new, old);
        }
        ("", "Pod", "resize") => pod::resize::resize(&mut errs, new, old),
        ("", "Namespace", "finalize") => core::namespace_finalize(&mut errs, new, old),
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => {
            certificates::request_approval_update(&mut errs, new, old);
        }
        _ => kind_status_update(&mut errs, gvk, new, old),
    }
    errs.into_vec()
}

fn common_fields(errs: &mut Errors, gvk: Gvk<'_>, new: &Value, old: &Value) {
    let (meta, old_meta) = (new.at("metadata"), old.at("metadata"));
    meta::check_common_fields(errs, meta, old_meta, is_namespaced(gvk));
}

fn kind_create(errs: &mut Errors, gvk: Gvk<'_>, object: &Value) {
    match (gvk.group, gvk.kind) {
        ("", "Binding") => pod::subresources::binding(errs, object),
        ("", "ConfigMap") => config::config_map(errs, object),
        ("", "Endpoints") => core::endpoints(errs, object, None),
        ("" | "events.k8s.io", "Event") => event::create(errs, gvk, object),
        ("", "LimitRange") => core::limit_range(errs, object),
        ("", "Namespace") => core::namespace(errs, object),
        ("", "Node") => core::node(errs, object),
        ("", "PersistentVolume") => persistent_volume::create(errs, object),
        ("", "PersistentVolumeClaim") => persistent_volume_claim::create(errs, object),
        ("", "Pod") => pod::create(errs, object),
        ("", "PodTemplate") => workloads::pod_template(errs, object, None),
        ("", "ReplicationController") => workloads::replication_controller(errs, object, None),
        ("", "ResourceQuota") => core::quota(errs, object),
        ("", "Secret") => config::secret(errs, object),
        ("", "Service") => service::create(errs, object),
        ("", "ServiceAccount") => core::service_account(errs, object),
        ("apps", "ControllerRevision") => workloads::controller_revision(errs, object),
        ("apps", "DaemonSet") => workloads::daemon_set(errs, object),
        ("apps", "Deployment") => workloads::deployment(errs, object),
        ("apps", "ReplicaSet") => workloads::replica_set(errs, object),
        ("apps", "StatefulSet") => workloads::stateful_set(errs, object),
        ("batch", "CronJob") => batch::cron_job(errs, object),
        ("batch", "Job") => batch::job(errs, object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::create(errs, gvk, object),
        ("autoscaling", "Scale") => autoscaling::scale(errs, object),
        ("policy", "PodDisruptionBudget") => policy::budget(errs, object, None),
        ("networking.k8s.io", kind) => networking::create(errs, kind, object),
        ("discovery.k8s.io", "EndpointSlice") => discovery::slice(errs, object, None),
        ("rbac.authorization.k8s.io", kind) => rbac::create(errs, kind, object),
        ("storage.k8s.io", kind) => storage::create(errs, kind, object),
        ("admissionregistration.k8s.io", kind) => admission::create(errs, kind, object),
        ("flowcontrol.apiserver.k8s.io", kind) => flowcontrol::create(errs, kind, object),
        ("certificates.k8s.io", kind) => certificates::create(errs, kind, object),
        ("resource.k8s.io", kind) => resource_claims::create(errs, kind, object),
        ("authorization.k8s.io" | "authentication.k8s.io", kind) => {
            reviews::create(errs, kind, object);
        }
        _ => registration::create(errs, gvk, object),
    }
}

fn kind_update(errs: &mut Errors, gvk: Gvk<'_>, new: &Value, old: &Value) {
    match (gvk.group, gvk.kind) {
        ("", "ConfigMap") => config::config_map_update(errs, new, old),
        ("", "Endpoints") => core::endpoints(errs, new, Some(old)),
        ("" | "events.k8s.io", "Event") => event::update(errs, gvk, new, old),
        ("", "LimitRange") => core::limit_range(errs, new),
        ("", "Namespace") => core::namespace_update(errs, new, old),
        ("", "Node") => core::node_update(errs, new, old),
        ("", "PersistentVolume") => persistent_volume::update(errs, new, old),
        ("", "PersistentVolumeClaim") => persistent_volume_claim::update(errs, new, old),
        ("", "Pod") => pod::update(errs, new, old),
        ("", "PodTemplate") => workloads::pod_template(errs, new, Some(old)),
        ("", "ReplicationController") => workloads::replication_controller(errs, new, Some(old)),
        ("", "ResourceQuota") => core::quota_update(errs, new, old),
        ("", "Secret") => config::secret_update(errs, new, old),
        ("", "Service") => service::update(errs, new, old),
        ("", "ServiceAccount") => core::service_account_update(errs, new, old),
        ("apps", "ControllerRevision") => workloads::controller_revision_update(errs, new, old),
        ("apps", "DaemonSet") => workloads::daemon_set_update(errs, new, old),
        ("apps", "Deployment") => workloads::deployment_update(errs, new, old),
        ("apps", "ReplicaSet") => workloads::replica_set_update(errs, new, old),
        ("apps", "StatefulSet") => workloads::stateful_set_update(errs, new, old),
        ("batch", "CronJob") => batch::cron_job_update(errs, new, old),
        ("batch", "Job") => batch::job_update(errs, new, old),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::update(errs, gvk, new, old),
        ("policy", "PodDisruptionBudget") => policy::budget(errs, new, Some(old)),
        ("networking.k8s.io", kind) => networking::update(errs, kind, new, old),
        ("discovery.k8s.io", "EndpointSlice") => discovery::slice(errs, new, Some(old)),
        ("rbac.authorization.k8s.io", kind) => rbac::update(errs, kind, new, old),
        ("storage.k8s.io", kind) => storage::update(errs, kind, new, old),
        ("admissionregistration.k8s.io", kind) => admission::update(errs, kind, new, old),
        ("flowcontrol.apiserver.k8s.io", kind) => flowcontrol::create(errs, kind, new),
        ("certificates.k8s.io", kind) => certificates::update(errs, kind, new, old),
        ("resource.k8s.io", kind) => resource_claims::update(errs, kind, new, old),
        _ => registration::update(errs, gvk, new, old),
    }
}

fn kind_status_update(errs: &mut Errors, gvk: Gvk<'_>, new: &Value, old: &Value) {
    match (gvk.group, gvk.kind) {
        ("", "Namespace") => core::namespace_status_update(errs, new, old),
        ("", "Node") => core::node_status_update(errs, new, old),
        ("", "PersistentVolume") => persistent_volume::status_update(errs, new, old),
        ("", "PersistentVolumeClaim") => persistent_volume_claim::status_update(errs, new, old),
        ("", "Pod") => pod::status_update(errs, new, old),
        ("", "ReplicationController") | ("apps", "ReplicaSet") => {
            workloads::replica_status_update(errs, new, old);
        }
        ("", "ResourceQuota") => core::quota_status_update(errs, new, old),
        ("", "Service") => service::status_update(errs, new, old),
        ("apps", "DaemonSet") => workloads::daemon_set_status_update(errs, new, old),
        ("apps", "Deployment") => workloads::deployment_status_update(errs, new, old),
        ("apps", "StatefulSet") => workloads::stateful_set_status_update(errs, new, old),
        ("batch", "Job") => batch::job_status_update(errs, new, old),
        // Upstream has only the rules common to all kinds here.
        ("batch", "CronJob") => {}
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::status_update(errs, new, old),
        ("policy", "PodDisruptionBudget") => policy::budget_status_update(errs, new),
        ("networking.k8s.io", "Ingress") => networking::ingress_status_update(errs, new, old),
        ("storage.k8s.io", "VolumeAttachment") => storage::update(errs, gvk.kind, new, old),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            admission::policy_status(errs, new);
        }
        ("flowcontrol.apiserver.k8s.io", _) => flowcontrol::status(errs, new),
        ("certificates.k8s.io", kind) => certificates::status_update(errs, kind, new, old),
        ("apiregistration.k8s.io", "APIService") => {
            registration::api_service_status(errs, new, old);
        }
        ("storagemigration.k8s.io", "StorageVersionMigration") => {
            registration::migration_status(errs, new, old);
        }
        _ => builtin_update(errs, new, old),
    }
}

/// Returns whether the rules of a kind do not validate all of its metadata, so that the common
/// rules must.
fn needs_common_metadata_rules(gvk: Gvk<'_>) -> bool {
    matches!(
        (gvk.group, gvk.kind),
        ("", "Event")
            | ("policy", "PodDisruptionBudget")
            | ("certificates.k8s.io", "CertificateSigningRequest")
    )
}

/// Returns whether a kind is namespaced. Unknown kinds are treated as namespaced.
fn is_namespaced(gvk: Gvk<'_>) -> bool {
    match gvk.group {
        "" => !matches!(gvk.kind, "Namespace" | "Node" | "PersistentVolume" | "ComponentStatus"),
        "rbac.authorization.k8s.io" => matches!(gvk.kind, "Role" | "RoleBinding"),
        "networking.k8s.io" => matches!(gvk.kind, "Ingress" | "NetworkPolicy"),
        "storage.k8s.io" => gvk.kind == "CSIStorageCapacity",
        "resource.k8s.io" => matches!(gvk.kind, "ResourceClaim" | "ResourceClaimTemplate"),
        "certificates.k8s.io" => gvk.kind == "PodCertificateRequest",
        "scheduling.k8s.io" => gvk.kind != "PriorityClass",
        "admissionregistration.k8s.io"
        | "apiregistration.k8s.io"
        | "apiextensions.k8s.io"
        | "flowcontrol.apiserver.k8s.io"
        | "internal.apiserver.k8s.io"
        | "node.k8s.io"
        | "storagemigration.k8s.io" => false,
        _ => true,
    }
}

/// Validates the metadata of a new object of a built-in kind.
fn builtin_create(errs: &mut Errors, object: &Value, namespaced: bool, rule: NameRule) {
    let meta = object.at("metadata");
    meta::check_create(errs, meta, namespaced, |name, prefix| rule.check(name, prefix));
    meta::check_builtin_finalizers(errs, meta);
}

/// Validates the metadata of an update of a built-in kind.
fn builtin_update(errs: &mut Errors, new: &Value, old: &Value) {
    meta::check_update(errs, new.at("metadata"), old.at("metadata"));
    meta::check_builtin_finalizers(errs, new.at("metadata"));
}
