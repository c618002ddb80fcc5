//! Defaulting of built-in kinds.
//!
//! [`apply`] runs after an object was decoded and conformed to its type, before admission and
//! validation. It does what the versioned defaulting functions of kube-apiserver 1.36 do with every
//! feature gate at its default, and then applies the effects of a round trip through the internal
//! types (`stringData` merged into `data`, both names of the service account, ...). Clients see the
//! two as one step.
//!
//! Invariant: defaulting is idempotent.

mod core;
mod groups;
mod image;
mod pod;
pub(crate) mod resources;
mod secret;
pub(crate) mod set;
mod volume;
mod workloads;

#[cfg(test)]
mod tests;

pub(crate) use core::add_name_label;

use evenkeel_types::Gvk;
use serde_json::Value;

use crate::convert;
use crate::empty::EmptyFields;

/// What defaulting did, for later stages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// A Job got the labels of its pod template.
    ///
    /// In upstream both are the same map at this point, so labels that creation adds to the
    /// template are also added to the Job. Must be passed to `strategy::Context` unless admission
    /// replaced the object.
    pub labels_from_template: bool,
    /// Fields that were sent empty. Set by the decoder.
    pub sent_empty: EmptyFields,
}

/// Sets the defaults of a built-in kind. Other kinds are not changed.
///
/// The object must be conformed to its type: no unknown fields, zero values present exactly where
/// the type always writes them. Values of an unexpected shape are skipped, never rejected.
pub fn apply(gvk: Gvk<'_>, object: &mut Value) -> Applied {
    let mut applied = Applied::default();
    let whole = object;
    let Some(object) = whole.as_object_mut() else { return applied };
    match (gvk.group, gvk.version) {
        ("", "v1") => core::apply(gvk.kind, object),
        ("apps", "v1") => workloads::apply_apps(gvk.kind, object),
        ("batch", "v1") => applied = workloads::apply_batch(gvk.kind, object),
        ("autoscaling", "v1") => groups::autoscaling_v1(gvk.kind, object),
        ("autoscaling", "v2") => groups::autoscaling_v2(gvk.kind, object),
        ("networking.k8s.io", "v1") => groups::networking(gvk.kind, object),
        ("rbac.authorization.k8s.io", "v1") => groups::rbac(gvk.kind, object),
        ("policy", "v1") => groups::policy(gvk.kind, object),
        ("discovery.k8s.io", "v1") => groups::discovery(gvk.kind, object),
        ("storage.k8s.io", "v1") => groups::storage(gvk.kind, object),
        ("scheduling.k8s.io", "v1") => groups::scheduling(gvk.kind, object),
        ("admissionregistration.k8s.io", "v1") => groups::admission(gvk.kind, object),
        ("apiregistration.k8s.io", "v1") => groups::aggregation(gvk.kind, object),
        ("authentication.k8s.io", "v1") => groups::authentication(gvk.kind, object),
        ("flowcontrol.apiserver.k8s.io", "v1") => groups::flowcontrol(gvk.kind, object),
        ("resource.k8s.io", "v1") => groups::resource(gvk.kind, object),
        _ => {}
    }
    if gvk.group == "autoscaling" {
        // Conversion between versions of the same kind cannot fail.
        let _ = convert::to(gvk, gvk, whole);
    }
    applied
}
