//! The phase of volumes: Available, Bound, or Released once their PVC is deleted.
//!
//! A volume that is being deleted gets its phase like any other: its protection finalizer is
//! removed only when the phase is no longer `Bound`.

use std::sync::Arc;

use evenkeel::{Action, Context, Key, Reconciler, Result};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};

use super::bind::BY_CONTROLLER;

/// Names the provisioner of a volume.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

pub(super) struct Volumes;

impl Reconciler for Volumes {
    type Object = PersistentVolume;

    async fn reconcile(&self, cx: &Context<PersistentVolume>) -> Result<Action> {
        let Some(volume) = cx.object() else { return Ok(Action::done()) };
        let Some(spec) = &volume.spec else { return Ok(Action::done()) };
        let bound = spec.claim_ref.as_ref().filter(|reference| is_set(reference.uid.as_ref()));
        let Some(reference) = bound else {
            // Unused, or reserved for a PVC that is not bound to it yet.
            set_phase(cx, &volume, "Available").await?;
            return Ok(Action::done());
        };
        let Some(claim) = find(cx, reference).await? else {
            return release(cx, &volume).await;
        };
        let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref());
        if !is_set(named) {
            // The PVC side of the binding is written when the PVC is reconciled.
            return Ok(Action::done());
        }
        if named == volume.metadata.name.as_ref() {
            set_phase(cx, &volume, "Bound").await?;
            return Ok(Action::done());
        }
        // The PVC is bound to another volume.
        let policy = spec.persistent_volume_reclaim_policy.as_deref();
        if has_annotation(&volume, PROVISIONED_BY) && policy == Some("Delete") {
            return release(cx, &volume).await;
        }
        unbind(cx, &volume).await
    }
}

fn is_set(text: Option<&String>) -> bool {
    text.is_some_and(|text| !text.is_empty())
}

fn has_annotation(volume: &PersistentVolume, name: &str) -> bool {
    volume.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(name))
}

/// Returns the PVC a volume is bound to, if it exists.
async fn find(
    cx: &Context<PersistentVolume>,
    reference: &ObjectReference,
) -> Result<Option<Arc<PersistentVolumeClaim>>> {
    let name = reference.name.as_deref().unwrap_or_default();
    let key = Key::new(reference.namespace.as_deref(), name);
    let same = |claim: &PersistentVolumeClaim| claim.metadata.uid == reference.uid;
    if let Some(claim) =
        cx.client().get::<PersistentVolumeClaim>(&key).await?.filter(|claim| same(claim))
    {
        return Ok(Some(claim));
    }
    // Volumes and PVCs are watched separately: the cache may have a volume before its PVC.
    let live = cx.client().live().get::<PersistentVolumeClaim>(&key).await?;
    Ok(live.filter(same).map(Arc::new))
}

/// Handles the deletion of the PVC: the reclaim policy decides whether the volume is deleted.
async fn release(cx: &Context<PersistentVolume>, volume: &PersistentVolume) -> Result<Action> {
    // The phase `Failed` is kept.
    if phase(volume) != Some("Failed") {
        set_phase(cx, volume, "Released").await?;
    }
    let policy = volume.spec.as_ref();
    let policy = policy.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    if policy == Some("Delete") && volume.metadata.deletion_timestamp.is_none() {
        cx.client().delete(volume).await?;
    }
    Ok(Action::done())
}

/// Reverts a binding to a PVC that is bound to another volume. A PVC that a user referenced stays
/// referenced.
async fn unbind(cx: &Context<PersistentVolume>, volume: &PersistentVolume) -> Result<Action> {
    let mut next = volume.clone();
    let by_controller =
        next.metadata.annotations.as_mut().and_then(|all| all.remove(BY_CONTROLLER));
    if let Some(spec) = &mut next.spec {
        match by_controller {
            Some(_) => spec.claim_ref = None,
            None => spec.claim_ref.get_or_insert_default().uid = None,
        }
    }
    let next = cx.client().update(&next).await?;
    set_phase(cx, &next, "Available").await?;
    Ok(Action::done())
}

fn phase(volume: &PersistentVolume) -> Option<&str> {
    volume.status.as_ref().and_then(|status| status.phase.as_deref())
}

async fn set_phase(
    cx: &Context<PersistentVolume>,
    volume: &PersistentVolume,
    wanted: &str,
) -> Result<()> {
    if phase(volume) == Some(wanted) {
        return Ok(());
    }
    let mut next = volume.clone();
    next.status.get_or_insert_default().phase = Some(wanted.to_owned());
    match cx.client().subresource::<PersistentVolume>(cx.key(), "status").update(&next).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
