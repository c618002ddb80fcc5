//! PersistentVolumes and PersistentVolumeClaims (PVCs): binding, provisioning, release, and
//! protection while in use.
//!
//! There is no storage behind a volume. Operators wait for PVCs to be bound and volumes to be
//! released, and observe just that.

mod bind;

mod matching;

mod protection;

mod provision;

mod release;

#[cfg(test)]
mod tests;

use evenkeel::cache::Cache;
use evenkeel::{BoxError, Key, Kind, Manager, Result};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;

use crate::options::ClusterOptions;

/// The name of the PV binder in `kube-controller-manager`.
pub(crate) const BINDER: &str = "persistentvolume-binder-controller";
/// The name of the PVC protection controller in `kube-controller-manager`.
pub(crate) const CLAIM_PROTECTION: &str = "persistentvolumeclaim-protection-controller";
/// The name of the PV protection controller in `kube-controller-manager`.
pub(crate) const VOLUME_PROTECTION: &str = "persistentvolume-protection-controller";

/// The name of the VolumeAttributesClass protection controller in `kube-controller-manager`.
pub(crate) const CLASS_PROTECTION: &str = "volumeattributesclass-protection-controller";

/// Pods by the PVCs they use.
const PODS: &str = "volumes-claim";
/// Volumes by the PVC they are bound to or reserved for.
const VOLUMES: &str = "claim";

/// Registers the binder and creates the StorageClass `standard`.
pub(crate) fn register_binder(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager
        .controller(bind::Claims)
        .named(BINDER)
        .watches::<PersistentVolume>({
            let cache = manager.cache().clone();
            move |volume, _| claims_of(&cache, volume)
        })
        .watches::<Pod>(|pod, _| used_claims(pod))
        .watches::<StorageClass>({
            let cache = manager.cache().clone();
            move |_, _| unbound_claims(&cache)
        })
        .register()?;
    manager
        .controller(release::Volumes)
        .named("persistentvolume-binder-controller-volumes")
        .watches::<PersistentVolumeClaim>(|claim, cx| {
            let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
            let name = name.filter(|name| !name.is_empty()).map(Key::cluster);
            // A volume may reference a PVC that does not name it, or not yet.
            let naming =
                cx.select::<PersistentVolume>().index(VOLUMES, Key::of(claim).as_str()).keys();
            name.into_iter().chain(naming).collect()
        })
        .register()?;
    manager.cache().index::<PersistentVolume>(VOLUMES, |volume| {
        named_claim(volume).map(|key| key.as_str().to_owned()).into_iter().collect()
    })?;
    manager.cache().index::<Pod>(PODS, |pod| {
        used_claims(pod).iter().map(|key| key.as_str().to_owned()).collect()
    })?;
    let client = manager.client().with_field_manager(BINDER);
    manager.spawn("default-storage-class", |stop| provision::run_default_class(client, stop))?;
    Ok(())
}

/// Registers the PVC protection controller.
pub(crate) fn register_claim_protection(
    manager: &Manager,
    _: &ClusterOptions,
) -> Result<(), BoxError> {
    protection::register_claims(manager)
}

/// Registers the PV protection controller.
pub(crate) fn register_volume_protection(
    manager: &Manager,
    _: &ClusterOptions,
) -> Result<(), BoxError> {
    protection::register_volumes(manager)
}

/// Registers the VolumeAttributesClass protection controller.
pub(crate) fn register_class_protection(
    manager: &Manager,
    _: &ClusterOptions,
) -> Result<(), BoxError> {
    protection::register_classes(manager)
}

/// Returns the PVCs that a pod uses.
fn used_claims(pod: &Pod) -> Vec<Key> {
    let namespace = pod.metadata.namespace.as_deref();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let names = volumes.iter().filter_map(|volume| {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(claim.claim_name.clone());
        }
        // The PVC of an ephemeral volume is named after the pod and the volume.
        volume.ephemeral.as_ref().map(|_| format!("{pod_name}-{}", volume.name))
    });
    names.map(|name| Key::new(namespace, &name)).collect()
}

/// Returns the PVC that a volume references, or else all PVCs that may bind it.
fn claims_of(cache: &Cache, volume: &PersistentVolume) -> Vec<Key> {
    named_claim(volume).map_or_else(|| unbound_claims(cache), |claim| vec![claim])
}

/// Returns the PVC that a volume is bound to or reserved for.
fn named_claim(volume: &PersistentVolume) -> Option<Key> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(Key::new(claim.namespace.as_deref(), claim.name.as_deref().unwrap_or_default()))
}

/// Returns the PVCs that are not bound.
fn unbound_claims(cache: &Cache) -> Vec<Key> {
    let kind = Kind::of::<PersistentVolumeClaim>();
    let Ok(found) = cache.list(&kind).entries() else { return Vec::new() };
    let waits = |claim: std::sync::Arc<PersistentVolumeClaim>| !bind::is_bound(&claim);
    let waiting = found.iter().filter(|entry| cache.typed(entry).is_ok_and(waits));
    waiting.map(|entry| entry.meta().key().clone()).collect()
}
