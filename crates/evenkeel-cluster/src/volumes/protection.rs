//! Protection of objects in use: PVCs while pods use them, volumes while they are bound, and
//! VolumeAttributesClasses while PVCs or volumes name them.
//!
//! Admission adds the finalizers; these controllers remove them from deleted objects that are no
//! longer in use.

use evenkeel::predicate::Predicate;
use evenkeel::{Action, BoxError, Context, Key, Manager, Object, Reconciler, Result};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;

use super::used_claims;
use crate::finalizers;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";
const CLASS: &str = "kubernetes.io/vac-protection";

/// Pods by the PVCs they use.
const PODS: &str = "protection-claim";
/// PVCs and volumes by the VolumeAttributesClasses they name.
const CLASSES: &str = "protection-attributes-class";

pub(super) fn register_claims(manager: &Manager) -> Result<(), BoxError> {
    manager
        .controller(Claims)
        .named(super::CLAIM_PROTECTION)
        .filter_object(deleting())
        .watches::<Pod>(|pod, _| used_claims(pod))
        .register()?;
    manager.index::<Pod>(PODS, |pod| {
        used_claims(pod).iter().map(|key| key.as_str().to_owned()).collect()
    })?;
    Ok(())
}

pub(super) fn register_volumes(manager: &Manager) -> Result<(), BoxError> {
    manager
        .controller(Volumes)
        .named(super::VOLUME_PROTECTION)
        .filter_object(deleting())
        .register()?;
    Ok(())
}

pub(super) fn register_classes(manager: &Manager) -> Result<(), BoxError> {
    let keys = |names: Vec<String>| names.iter().map(|name| Key::cluster(name)).collect();
    manager
        .controller(Classes)
        .named(super::CLASS_PROTECTION)
        .filter_object(deleting())
        .watches::<PersistentVolumeClaim>(move |claim, _| keys(classes_of_claim(claim)))
        .watches::<PersistentVolume>(move |volume, _| keys(classes_of_volume(volume)))
        .register()?;
    manager.index::<PersistentVolumeClaim>(CLASSES, classes_of_claim)?;
    manager.index::<PersistentVolume>(CLASSES, classes_of_volume)?;
    Ok(())
}

fn deleting() -> Predicate {
    Predicate::new(|event| event.object().meta().is_deleting())
}

/// Returns the VolumeAttributesClasses that a PVC requests, has, or is being modified to.
fn classes_of_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let requested = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
    let status = claim.status.as_ref();
    let present = status.and_then(|status| status.current_volume_attributes_class_name.clone());
    let change = status.and_then(|status| status.modify_volume_status.as_ref());
    let target = change.and_then(|change| change.target_volume_attributes_class_name.clone());
    let mut names: Vec<String> = requested.into_iter().chain(present).chain(target).collect();
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

fn classes_of_volume(volume: &PersistentVolume) -> Vec<String> {
    let name = volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.clone());
    name.into_iter().filter(|name| !name.is_empty()).collect()
}

struct Claims;

impl Reconciler for Claims {
    type Object = PersistentVolumeClaim;

    async fn reconcile(&self, cx: &Context<PersistentVolumeClaim>) -> Result<Action> {
        let Some(claim) = cx.object() else { return Ok(Action::done()) };
        if !is_protected(&*claim, CLAIM) {
            return Ok(Action::done());
        }
        let pods = cx.client().list::<Pod>().index(PODS, cx.key().as_str()).await?;
        if pods.iter().any(|pod| uses(pod, &claim)) {
            return Ok(Action::done());
        }
        // Pods and PVCs are watched separately: the cache may lack a pod that exists.
        let namespace = cx.key().namespace().unwrap_or_default();
        let pods = cx.client().live().list::<Pod>().in_namespace(namespace).await?;
        if !pods.iter().any(|pod| uses(pod, &claim)) {
            finalizers::remove_by_update(cx.client(), &*claim, CLAIM).await?;
        }
        Ok(Action::done())
    }
}

/// Whether a pod prevents deletion of the PVC. A pod without a node does not: the kubelet starts no
/// pod whose PVC is being deleted.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let Some(spec) = &pod.spec else { return false };
    if spec.node_name.as_deref().unwrap_or_default().is_empty() {
        return false;
    }
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let mut volumes = spec.volumes.iter().flatten();
    volumes.any(|volume| {
        if let Some(source) = &volume.persistent_volume_claim {
            return source.claim_name == name;
        }
        let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
        // A pod that is shut down may wait, by a finalizer, for the PVC of its own ephemeral
        // volume.
        volume.ephemeral.is_some()
            && !is_shut_down(pod)
            && name == format!("{pod_name}-{}", volume.name)
            && evenkeel::owner::is_controller(pod, claim)
    })
}

/// Whether the kubelet has shut down the pod, or it was force deleted.
fn is_shut_down(pod: &Pod) -> bool {
    let meta = &pod.metadata;
    meta.deletion_timestamp.is_some() && meta.deletion_grace_period_seconds == Some(0)
}

struct Volumes;

impl Reconciler for Volumes {
    type Object = PersistentVolume;

    async fn reconcile(&self, cx: &Context<PersistentVolume>) -> Result<Action> {
        let Some(volume) = cx.object() else { return Ok(Action::done()) };
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        if is_protected(&*volume, VOLUME) && phase != Some("Bound") {
            finalizers::remove_by_update(cx.client(), &*volume, VOLUME).await?;
        }
        Ok(Action::done())
    }
}

struct Classes;

impl Reconciler for Classes {
    type Object = VolumeAttributesClass;

    async fn reconcile(&self, cx: &Context<VolumeAttributesClass>) -> Result<Action> {
        let Some(class) = cx.object() else { return Ok(Action::done()) };
        if !is_protected(&*class, CLASS) {
            return Ok(Action::done());
        }
        let name = cx.key().name();
        let volumes = cx.client().list::<PersistentVolume>().index(CLASSES, name).entries().await?;
        let claims =
            cx.client().list::<PersistentVolumeClaim>().index(CLASSES, name).entries().await?;
        if volumes.is_empty() && claims.is_empty() {
            finalizers::remove_by_update(cx.client(), &*class, CLASS).await?;
        }
        Ok(Action::done())
    }
}

/// Whether the object is being deleted and has the finalizer.
fn is_protected<K: Object>(object: &K, finalizer: &str) -> bool {
    object.meta().deletion_timestamp.is_some() && finalizers::has(object, finalizer)
}
