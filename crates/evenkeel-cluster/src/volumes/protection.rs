//! What is in use stays: claims while pods use them, volumes while claims are bound to them.
//!
//! Admission puts a finalizer on each; here it is taken off once a deleted one is no longer needed.

use evenkeel::client::Patch;
use evenkeel::predicate::Predicate;
use evenkeel::{Action, BoxError, Context, Manager, Object, Reconciler, Result};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::json;

use super::used_claims;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

/// Pods by the claims they use.
const PODS: &str = "protection-claim";

pub(super) fn register_claims(manager: &Manager) -> Result<(), BoxError> {
    manager
        .controller(Claims)
        .named(super::CLAIM_PROTECTION)
        .filter_object(Predicate::new(|event| event.object().meta().is_deleting()))
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
        .filter_object(Predicate::new(|event| event.object().meta().is_deleting()))
        .register()?;
    Ok(())
}

struct Claims;

impl Reconciler for Claims {
    type Object = PersistentVolumeClaim;

    async fn reconcile(&self, cx: &Context<PersistentVolumeClaim>) -> Result<Action> {
        let Some(claim) = cx.object() else { return Ok(Action::done()) };
        if !is_held(&*claim, CLAIM) {
            return Ok(Action::done());
        }
        let pods = cx.list::<Pod>().index(PODS, cx.key().as_str()).await?;
        let uses = |pod: &Pod| {
            let spec = pod.spec.as_ref();
            let node = spec.and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
            !node.is_empty()
        };
        if !pods.iter().any(|pod| uses(pod)) {
            let_go(cx, &*claim, CLAIM).await?;
        }
        Ok(Action::done())
    }
}

struct Volumes;

impl Reconciler for Volumes {
    type Object = PersistentVolume;

    async fn reconcile(&self, cx: &Context<PersistentVolume>) -> Result<Action> {
        let Some(volume) = cx.object() else { return Ok(Action::done()) };
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        if is_held(&*volume, VOLUME) && phase != Some("Bound") {
            let_go(cx, &*volume, VOLUME).await?;
        }
        Ok(Action::done())
    }
}

/// Whether the object is to go and only this keeps it.
fn is_held<K: Object>(object: &K, finalizer: &str) -> bool {
    let meta = object.meta();
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    meta.deletion_timestamp.is_some() && finalizers.iter().any(|name| name == finalizer)
}

async fn let_go<K: Object>(cx: &Context<K>, object: &K, finalizer: &str) -> Result<()> {
    let meta = object.meta();
    let mut left = meta.finalizers.clone().unwrap_or_default();
    left.retain(|name| name != finalizer);
    let patch = Patch::Merge(json!({ "metadata": {
        "finalizers": left,
        "resourceVersion": meta.resource_version,
        "uid": meta.uid,
    }}));
    match cx.patch::<K>(cx.key(), &patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
