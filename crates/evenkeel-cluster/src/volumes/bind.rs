//! Binds PVCs to existing or newly provisioned volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel::{Action, Context, Key, Reconciler, Result};
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};

use super::{matching, provision};

/// Set on a PVC once both sides of the binding are written.
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Set on the side that the controller, not the user, bound.
pub(super) const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

pub(super) struct Claims;

/// Whether a PVC is bound.
pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Bound")
}

fn has_annotation(claim: &PersistentVolumeClaim, name: &str) -> bool {
    claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(name))
}

impl Reconciler for Claims {
    type Object = PersistentVolumeClaim;

    async fn reconcile(&self, cx: &Context<PersistentVolumeClaim>) -> Result<Action> {
        let Some(claim) = cx.object() else { return Ok(Action::done()) };
        let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
        let named = named.filter(|name| !name.is_empty());
        if has_annotation(&claim, COMPLETED) {
            return self.check_bound(cx, &claim, named).await;
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let Some(name) = named else { return self.bind_or_provision(cx, &claim).await };
        let volume = cx.client().get::<PersistentVolume>(&Key::cluster(name)).await?;
        match volume {
            Some(volume)
                if is_available_to(&volume, &claim) && matching::satisfies(&volume, &claim) =>
            {
                bind(cx, &claim, &volume).await?;
            }
            Some(volume) if !is_available_to(&volume, &claim) => {
                let text = format!("volume {name:?} already bound to a different claim.");
                cx.warning_event("FailedBinding", &text);
                set_pending(cx, &claim).await?;
            }
            Some(_) => {
                let text = format!("Cannot bind to requested volume {name:?}: it does not fit");
                cx.warning_event("VolumeMismatch", &text);
                set_pending(cx, &claim).await?;
            }
            None => set_pending(cx, &claim).await?,
        }
        Ok(Action::done())
    }
}

impl Claims {
    /// Checks a bound PVC: its volume has to exist and reference it.
    async fn check_bound(
        &self,
        cx: &Context<PersistentVolumeClaim>,
        claim: &PersistentVolumeClaim,
        named: Option<&str>,
    ) -> Result<Action> {
        let volume = match named {
            Some(name) => cx.client().get::<PersistentVolume>(&Key::cluster(name)).await?,
            None => None,
        };
        let lost = match volume {
            Some(volume) if is_available_to(&volume, claim) => {
                bind(cx, claim, &volume).await?;
                return Ok(Action::done());
            }
            Some(_) => (
                "ClaimMisbound",
                "Two claims are bound to the same volume, this one is bound incorrectly",
            ),
            None if named.is_some() => (
                "ClaimLost",
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ),
            None => (
                "ClaimLost",
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            ),
        };
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase != Some("Lost") {
            let mut next = claim.clone();
            let status = next.status.get_or_insert_default();
            status.phase = Some("Lost".to_owned());
            status.access_modes = None;
            status.capacity = None;
            write_status(cx, &next).await?;
            cx.warning_event(lost.0, lost.1);
        }
        Ok(Action::done())
    }

    /// Binds a PVC without `volumeName` to a volume that matches, or provisions one.
    async fn bind_or_provision(
        &self,
        cx: &Context<PersistentVolumeClaim>,
        claim: &Arc<PersistentVolumeClaim>,
    ) -> Result<Action> {
        let claim = provision::with_default_class(cx, claim).await?;
        let volumes = cx.client().list::<PersistentVolume>().await?;
        if let Some(volume) = matching::find_best(&volumes, &claim)? {
            bind(cx, &claim, volume).await?;
            return Ok(Action::done());
        }
        set_pending(cx, &claim).await?;
        provision::provision(cx, &claim).await?;
        Ok(Action::done())
    }
}

/// Whether the volume is unbound, or reserved for this PVC.
fn is_available_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_none() || matching::is_reserved_for(volume, claim)
}

/// Binds volume and PVC, the volume first, so that no volume is bound to two PVCs.
async fn bind(
    cx: &Context<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<()> {
    let volume = bind_volume(cx, claim, volume).await?;
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase != Some("Bound") {
        let mut next = (*volume).clone();
        next.status.get_or_insert_default().phase = Some("Bound".to_owned());
        let key = Key::of(&next);
        cx.client().subresource::<PersistentVolume>(&key, "status").update(&next).await?;
    }
    let mut next = claim.clone();
    let spec = next.spec.get_or_insert_default();
    let annotations = next.metadata.annotations.get_or_insert_default();
    if spec.volume_name != volume.metadata.name {
        spec.volume_name = volume.metadata.name.clone();
        annotations.insert(BY_CONTROLLER.to_owned(), "yes".to_owned());
    }
    annotations.insert(COMPLETED.to_owned(), "yes".to_owned());
    let mut next = if next == *claim { next } else { (*cx.client().update(&next).await?).clone() };
    let before = next.status.clone();
    let offered = volume.spec.as_ref();
    let status = next.status.get_or_insert_default();
    status.phase = Some("Bound".to_owned());
    status.access_modes = offered.and_then(|spec| spec.access_modes.clone());
    status.capacity = offered.and_then(|spec| spec.capacity.clone());
    if next.status != before {
        write_status(cx, &next).await?;
    }
    Ok(())
}

/// Writes the `claimRef` of the volume.
async fn bind_volume(
    cx: &Context<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<Arc<PersistentVolume>> {
    let mut next = volume.clone();
    let spec = next.spec.get_or_insert_default();
    let chosen = spec.claim_ref.is_none();
    let known = spec.claim_ref.as_ref().and_then(|reference| reference.uid.as_ref());
    if known.is_some() && known == claim.metadata.uid.as_ref() {
        return Ok(Arc::new(next));
    }
    spec.claim_ref = Some(reference(claim));
    if chosen {
        let annotations = next.metadata.annotations.get_or_insert_with(BTreeMap::new);
        annotations.insert(BY_CONTROLLER.to_owned(), "yes".to_owned());
    }
    Ok(cx.client().update(&next).await?)
}

/// Returns the `claimRef` for a PVC.
pub(super) fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    let meta = &claim.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: None,
    }
}

async fn set_pending(
    cx: &Context<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
) -> Result<()> {
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    if phase == Some("Pending") {
        return Ok(());
    }
    let mut next = claim.clone();
    let status = next.status.get_or_insert_default();
    status.phase = Some("Pending".to_owned());
    status.access_modes = None;
    status.capacity = None;
    write_status(cx, &next).await
}

async fn write_status(
    cx: &Context<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
) -> Result<()> {
    cx.client().subresource::<PersistentVolumeClaim>(cx.key(), "status").update(claim).await?;
    Ok(())
}
