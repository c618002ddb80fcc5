//! Conversions between the served versions of one stored object.
//!
//! Most kinds are served in one version and need none of this. The others are stored in one of
//! their versions: writes are converted to [`storage_gvk`], reads from it. A conversion may lose
//! nothing: what one version cannot say, its annotations carry.

mod autoscaler;
mod devices;
mod event;
mod go_json;

#[cfg(test)]
mod tests;

use std::fmt;

use evenkeel_types::Gvk;
use serde_json::Value;

/// The two kinds do not share a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrelated {
    from: String,
    to: String,
}

/// All served versions of one stored kind, the stored one first.
///
/// New versions are not stored before every server that may have to read them knows them, so the
/// stored version need not be the newest.
const STORAGES: &[&[Gvk<'static>]] = &[
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

/// All kinds that share the storage of this one, the stored one first.
///
/// Empty for a kind that has its storage to itself.
pub fn siblings(gvk: Gvk<'_>) -> &'static [Gvk<'static>] {
    STORAGES.iter().find(|storage| storage.contains(&gvk)).copied().unwrap_or_default()
}

/// The kind under which objects of this kind are stored.
pub fn storage_gvk(gvk: Gvk<'_>) -> Gvk<'_> {
    siblings(gvk).first().copied().unwrap_or(gvk)
}

/// Turns an object of the kind `from` into one of the kind `to`, and renames it.
///
/// Not always idle between equal kinds: an autoscaler sheds annotations that only a conversion
/// may set.
pub fn to(from: Gvk<'_>, to: Gvk<'_>, object: &mut Value) -> Result<(), Unrelated> {
    if storage_gvk(from) != storage_gvk(to) {
        return Err(Unrelated { from: from.to_string(), to: to.to_string() });
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

impl fmt::Display for Unrelated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "converting ({}) to ({}): unknown conversion", self.from, self.to)
    }
}

impl std::error::Error for Unrelated {}
