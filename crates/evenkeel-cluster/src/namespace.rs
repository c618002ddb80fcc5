//! The namespace controller: deletes the content of terminating namespaces.
//!
//! The API server only marks a namespace as terminating and rejects creates in it. This controller
//! deletes its content, pods first, over every namespaced type. Once nothing is left it removes the
//! finalizer `kubernetes`, and the server deletes the namespace. What remains is reported in its
//! conditions.

mod conditions;

mod content;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel::cache::{Subscription, TypeOptions};
use evenkeel::predicate::Predicate;
use evenkeel::queue::{Backoff, QueueOptions};
use evenkeel::{
    Action, BoxError, Context, ControllerHandle, Key, Kind, Manager, ObjectEvent, Reconciler,
    Result,
};
use k8s_openapi::api::core::v1::Namespace;
use parking_lot::Mutex;

use self::conditions::DeletionReport;
use crate::options::ClusterOptions;
use crate::pods;

/// The name in `kube-controller-manager`.
pub(crate) const NAME: &str = "namespace-controller";

/// Keeps a namespace until its content is deleted.
const FINALIZER: &str = "kubernetes";

/// Registers the controller.
pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    let handle: Arc<OnceLock<ControllerHandle>> = Arc::default();
    // A namespace is retried at least every minute.
    let backoff = Backoff::exponential(Duration::from_millis(5), Duration::from_secs(60));
    let registered = manager
        .controller(Namespaces { handle: handle.clone(), waiting: Mutex::default() })
        .named(NAME)
        .filter_object(Predicate::new(|event| event.object().meta().is_deleting()))
        .queue(QueueOptions::new().backoff(backoff))
        .workers(4)
        .register()?;
    handle.get_or_init(|| registered);
    Ok(())
}

struct Namespaces {
    /// The handle of this controller, once it is registered.
    handle: Arc<OnceLock<ControllerHandle>>,
    /// Subscriptions that enqueue a namespace once its content is deleted.
    waiting: Mutex<BTreeMap<Key, Vec<Subscription>>>,
}

impl Reconciler for Namespaces {
    type Object = Namespace;

    async fn reconcile(&self, cx: &Context<Namespace>) -> Result<Action> {
        // The remaining content is determined again.
        let waited = self.waiting.lock().remove(cx.key());
        drop(waited);
        let Some(namespace) = cx.object() else { return Ok(Action::done()) };
        let meta = &namespace.metadata;
        let Some(deleted) = meta.deletion_timestamp.as_ref() else { return Ok(Action::done()) };
        let namespace = self.mark_terminating(cx, &namespace).await?;
        let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref());
        if finalizers.unwrap_or_default().is_empty() {
            return Ok(Action::done());
        }
        let mut report = DeletionReport::default();
        let age = cx.clock().since(deleted.0);
        let left = content::remove(cx.client(), cx.key().name(), age, &mut report).await;
        let namespace = self.update_conditions(cx, namespace, &report).await?;
        if let Some(error) = report.error() {
            return Err(error.into());
        }
        if left.estimate.is_zero() {
            self.finalize(cx, &namespace).await?;
            return Ok(Action::done());
        }
        let is_empty = self.wait(cx, left.kinds).await?;
        Ok(Action::requeue_after(if is_empty {
            Duration::ZERO
        } else {
            left.estimate / 2 + SECOND
        }))
    }
}

const SECOND: Duration = Duration::from_secs(1);

impl Namespaces {
    async fn mark_terminating(
        &self,
        cx: &Context<Namespace>,
        namespace: &Arc<Namespace>,
    ) -> Result<Arc<Namespace>> {
        let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase == Some("Terminating") {
            return Ok(namespace.clone());
        }
        let mut next = (**namespace).clone();
        next.status.get_or_insert_default().phase = Some("Terminating".to_owned());
        Ok(cx.client().subresource::<Namespace>(cx.key(), "status").update(&next).await?)
    }

    /// Writes the conditions.
    async fn update_conditions(
        &self,
        cx: &Context<Namespace>,
        namespace: Arc<Namespace>,
        report: &DeletionReport,
    ) -> Result<Arc<Namespace>> {
        let mut next = (*namespace).clone();
        let conditions = next.status.get_or_insert_default().conditions.get_or_insert_default();
        if !report.set(conditions, &pods::timestamp(cx.clock())) {
            return Ok(namespace);
        }
        Ok(cx.client().subresource::<Namespace>(cx.key(), "status").update(&next).await?)
    }

    /// Removes the finalizer `kubernetes`.
    async fn finalize(&self, cx: &Context<Namespace>, namespace: &Namespace) -> Result<()> {
        let mut next = namespace.clone();
        if let Some(finalizers) = next.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
            finalizers.retain(|name| name != FINALIZER);
            finalizers.sort_unstable();
        }
        match cx.client().subresource::<Namespace>(cx.key(), "finalize").update(&next).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Enqueues the namespace when the last object of one of these types is deleted. Returns true
    /// if one of them has none left already.
    async fn wait(&self, cx: &Context<Namespace>, kinds: Vec<Kind>) -> Result<bool> {
        let cache = cx.client().cache();
        let mut subscriptions = Vec::with_capacity(kinds.len());
        let mut is_empty = false;
        for kind in kinds {
            if !cache.is_declared(&kind) {
                cache.declare(&kind, TypeOptions::new().metadata_only().optional())?;
            }
            let (key, handle) = (cx.key().clone(), self.handle.clone());
            let informer = cache.informer(&kind)?;
            let mut left = 0_usize;
            let subscription = informer.subscribe(move |event: ObjectEvent| {
                if event.object().meta().key().namespace() != Some(key.name()) {
                    return;
                }
                match event {
                    ObjectEvent::Added { .. } => left += 1,
                    ObjectEvent::Deleted { .. } => left = left.saturating_sub(1),
                    _ => return,
                }
                if let Some(handle) = handle.get().filter(|_| left == 0) {
                    handle.enqueue(key.clone(), "content deleted");
                }
            });
            subscription.wait_until_synced().await?;
            is_empty |= informer.list().in_namespace(cx.key().name()).entries()?.is_empty();
            subscriptions.push(subscription);
        }
        self.waiting.lock().insert(cx.key().clone(), subscriptions);
        Ok(is_empty)
    }
}
