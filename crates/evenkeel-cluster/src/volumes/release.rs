//! Volumes: available, bound, or released when their claim is gone.

use evenkeel::{Action, Context, Key, Reconciler, Result};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

pub(super) struct Volumes;

impl Reconciler for Volumes {
    type Object = PersistentVolume;

    async fn reconcile(&self, cx: &Context<PersistentVolume>) -> Result<Action> {
        let Some(volume) = cx.object() else { return Ok(Action::done()) };
        let Some(spec) = &volume.spec else { return Ok(Action::done()) };
        let Some(reference) = &spec.claim_ref else {
            set_phase(cx, &volume, "Available").await?;
            return Ok(Action::done());
        };
        let name = reference.name.as_deref().unwrap_or_default();
        let key = Key::new(reference.namespace.as_deref(), name);
        let claim = cx.get::<PersistentVolumeClaim>(&key).await?;
        let Some(uid) = reference.uid.as_ref().filter(|uid| !uid.is_empty()) else {
            // Set aside for a claim that may come.
            set_phase(cx, &volume, "Available").await?;
            return Ok(Action::done());
        };
        let claim = claim.filter(|claim| claim.metadata.uid.as_ref() == Some(uid));
        match claim {
            // Whether it is bound, the claim's side decides.
            Some(_) => Ok(Action::done()),
            None => self.release(cx, &volume).await,
        }
    }
}

impl Volumes {
    /// The claim is gone: the volume goes with it or waits for a person.
    async fn release(
        &self,
        cx: &Context<PersistentVolume>,
        volume: &PersistentVolume,
    ) -> Result<Action> {
        set_phase(cx, volume, "Released").await?;
        let policy = volume.spec.as_ref();
        let policy = policy.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        if policy == Some("Delete") && volume.metadata.deletion_timestamp.is_none() {
            cx.delete(volume).await?;
        }
        Ok(Action::done())
    }
}

async fn set_phase(
    cx: &Context<PersistentVolume>,
    volume: &PersistentVolume,
    phase: &str,
) -> Result<()> {
    let present = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    if present == Some(phase) || volume.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let mut next = volume.clone();
    next.status.get_or_insert_default().phase = Some(phase.to_owned());
    cx.subresource::<PersistentVolume>(cx.key(), "status").update(&next).await?;
    Ok(())
}
