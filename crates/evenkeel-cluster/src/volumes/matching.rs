//! Whether a volume satisfies a PVC.

use std::sync::Arc;

use evenkeel::Result;
use evenkeel_types::quantity::Quantity;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::core::{Selector, SelectorExt as _};

/// Returns the storage class of a PVC; `None` if the default class applies.
pub(super) fn class(claim: &PersistentVolumeClaim) -> Option<&str> {
    let annotations = claim.metadata.annotations.as_ref();
    // The annotation predates the field and takes precedence.
    let older = annotations.and_then(|all| all.get("volume.beta.kubernetes.io/storage-class"));
    let named = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    older.or(named).map(String::as_str)
}

fn quantity(
    all: Option<
        &std::collections::BTreeMap<
            String,
            k8s_openapi::apimachinery::pkg::api::resource::Quantity,
        >,
    >,
) -> Option<Quantity> {
    Quantity::parse(&all?.get("storage")?.0).ok()
}

/// Returns the requested size.
fn request(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    quantity(resources.requests.as_ref())
}

fn capacity(volume: &PersistentVolume) -> Option<Quantity> {
    quantity(volume.spec.as_ref()?.capacity.as_ref())
}

/// Whether a volume satisfies a PVC that names it.
pub(super) fn satisfies(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (Some(offered), Some(wanted)) = (&volume.spec, &claim.spec) else { return false };
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let modes = offered.access_modes.as_deref().unwrap_or_default();
    let requested_modes = wanted.access_modes.as_deref().unwrap_or_default();
    let offered_class = offered.storage_class_name.as_deref().unwrap_or_default();
    mode(&offered.volume_mode) == mode(&wanted.volume_mode)
        && requested_modes.iter().all(|mode| modes.contains(mode))
        && offered_class == class(claim).unwrap_or_default()
        && capacity(volume) >= request(claim)
        && volume.metadata.deletion_timestamp.is_none()
}

/// Whether a volume is reserved for a PVC, by a user or by an earlier attempt.
pub(super) fn is_reserved_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        let uid = reference.uid.as_ref().filter(|uid| !uid.is_empty());
        reference.name == claim.metadata.name
            && reference.namespace == claim.metadata.namespace
            && uid.is_none_or(|uid| claim.metadata.uid.as_ref() == Some(uid))
    })
}

/// Returns the smallest volume that satisfies the PVC, a reserved one before all others.
pub(super) fn find_best<'a>(
    volumes: &'a [Arc<PersistentVolume>],
    claim: &PersistentVolumeClaim,
) -> Result<Option<&'a Arc<PersistentVolume>>> {
    if let Some(reserved) =
        volumes.iter().find(|volume| is_reserved_for(volume, claim) && satisfies(volume, claim))
    {
        return Ok(Some(reserved));
    }
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.map(Selector::try_from).transpose()?;
    let free = |volume: &&Arc<PersistentVolume>| {
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let labels = volume.metadata.labels.clone().unwrap_or_default();
        reference.is_none()
            && phase == Some("Available")
            && selector.as_ref().is_none_or(|selector| selector.matches(&labels))
            && satisfies(volume, claim)
    };
    let mut best = None::<&Arc<PersistentVolume>>;
    for volume in volumes.iter().filter(free) {
        if best.is_none_or(|best| capacity(volume) < capacity(best)) {
            best = Some(volume);
        }
    }
    Ok(best)
}
