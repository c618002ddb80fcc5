//! Conversions between the served versions of a stored object.
//!
//! Most kinds are served in a single version and need no conversion. Others are stored in one of
//! their versions: writes are converted to [`storage_gvk`] and reads from it. Conversion is
//! lossless: fields that a version does not have are kept in its annotations.

mod autoscaler;
mod devices;
mod event;
mod go_json;

#[cfg(test)]
mod tests;

use std::fmt;

use evenkeel_types::Gvk;
use serde_json::Value;

/// The two kinds do not share a storage version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoConversion {
    from: String,
    to: String,
}

/// All served versions of each stored kind, storage version first.
///
/// The storage version need not be the newest: a new version becomes the storage version only once
/// every server that may read it supports it.
const SERVED_VERSIONS: &[&[Gvk<'static>]] = &[
    &[Gvk::new("", "v1", "Event"), Gvk::new("events.k8s.io", "v1", "Event")],
    &[
        Gvk::new("admissionregistration.k8s.io", "v1beta1", "MutatingAdmissionPolicy"),
        Gvk::new("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy"),
        Gvk::new("admissionregistration.k8s.io", "v1alpha1", "MutatingAdmissionPolicy"),
    ],
    &[
        Gvk::new("admissionregistration.k8s.io", "v1beta1", "MutatingAdmissionPolicyBinding"),
        Gvk::new("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding"),
        Gvk::new("admissionregistration.k8s.io", "v1alpha1", "MutatingAdmissionPolicyBinding"),
    ],
    &[
        Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler"),
        Gvk::new("autoscaling", "v1", "HorizontalPodAutoscaler"),
    ],
    &[
        Gvk::new("certificates.k8s.io", "v1beta1", "ClusterTrustBundle"),
        Gvk::new("certificates.k8s.io", "v1alpha1", "ClusterTrustBundle"),
    ],
    &[
        Gvk::new("coordination.k8s.io", "v1beta1", "LeaseCandidate"),
        Gvk::new("coordination.k8s.io", "v1alpha2", "LeaseCandidate"),
    ],
    &[
        Gvk::new("networking.k8s.io", "v1", "IPAddress"),
        Gvk::new("networking.k8s.io", "v1beta1", "IPAddress"),
    ],
    &[
        Gvk::new("networking.k8s.io", "v1", "ServiceCIDR"),
        Gvk::new("networking.k8s.io", "v1beta1", "ServiceCIDR"),
    ],
    &[
        Gvk::new("resource.k8s.io", "v1", "DeviceClass"),
        Gvk::new("resource.k8s.io", "v1beta2", "DeviceClass"),
        Gvk::new("resource.k8s.io", "v1beta1", "DeviceClass"),
    ],
    &[
        Gvk::new("resource.k8s.io", "v1alpha3", "DeviceTaintRule"),
        Gvk::new("resource.k8s.io", "v1beta2", "DeviceTaintRule"),
    ],
    &[
        Gvk::new("resource.k8s.io", "v1", "ResourceClaim"),
        Gvk::new("resource.k8s.io", "v1beta2", "ResourceClaim"),
        Gvk::new("resource.k8s.io", "v1beta1", "ResourceClaim"),
    ],
    &[
        Gvk::new("resource.k8s.io", "v1", "ResourceClaimTemplate"),
        Gvk::new("resource.k8s.io", "v1beta2", "ResourceClaimTemplate"),
        Gvk::new("resource.k8s.io", "v1beta1", "ResourceClaimTemplate"),
    ],
    &[
        Gvk::new("resource.k8s.io", "v1", "ResourceSlice"),
        Gvk::new("resource.k8s.io", "v1beta2", "ResourceSlice"),
        Gvk::new("resource.k8s.io", "v1beta1", "ResourceSlice"),
    ],
    &[
        Gvk::new("storage.k8s.io", "v1", "VolumeAttributesClass"),
        Gvk::new("storage.k8s.io", "v1beta1", "VolumeAttributesClass"),
    ],
];

/// Returns all kinds with the same storage version as this one, the storage version first.
///
/// Empty for a kind served in a single version.
pub fn convertible_kinds(gvk: Gvk<'_>) -> &'static [Gvk<'static>] {
    SERVED_VERSIONS.iter().find(|storage| storage.contains(&gvk)).copied().unwrap_or_default()
}

/// Returns the storage version of the kind.
pub fn storage_gvk(gvk: Gvk<'_>) -> Gvk<'_> {
    convertible_kinds(gvk).first().copied().unwrap_or(gvk)
}

/// Converts an object from the kind `from` to the kind `to`, including `apiVersion` and `kind`.
///
/// Conversion to the same kind may change the object: it removes annotations of a
/// HorizontalPodAutoscaler that only a conversion may set.
pub fn to(from: Gvk<'_>, to: Gvk<'_>, object: &mut Value) -> Result<(), NoConversion> {
    if storage_gvk(from) != storage_gvk(to) {
        return Err(NoConversion { from: from.to_string(), to: to.to_string() });
    }
    match (to.group, to.kind) {
        ("autoscaling", "HorizontalPodAutoscaler") => {
            autoscaler::convert(from.version, to.version, object);
        }
        ("" | "events.k8s.io", "Event") => event::convert(from.group, to.group, object),
        ("resource.k8s.io", _) => devices::convert(from.version, to, object),
        _ => {}
    }
    if let Some(object) = object.as_object_mut().filter(|_| from != to) {
        object.insert("apiVersion".to_owned(), to.api_version().into());
    }
    Ok(())
}

impl fmt::Display for NoConversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "converting ({}) to ({}): unknown conversion", self.from, self.to)
    }
}

impl std::error::Error for NoConversion {}
