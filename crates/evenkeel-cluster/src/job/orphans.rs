//! Removes the tracking finalizer from pods that no Job counts any more.
//!
//! The Job was deleted or has finished, or the pod has lost its owner reference. Each such pod is
//! reconciled by itself, so that a failed removal is retried.

use evenkeel::cache::Meta;
use evenkeel::predicate::Predicate;
use evenkeel::{Action, BoxError, Context, Key, Manager, MapContext, Reconciler, Result, Watch};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use super::{FINALIZER, is_finished, is_managed_elsewhere};
use crate::{controller_ref, finalizers};

const NAME: &str = "job-controller-orphans";

struct Orphans;

pub(super) fn register(manager: &Manager) -> Result<(), BoxError> {
    manager
        .controller(Orphans)
        .named(NAME)
        .filter_object(tracked_pods())
        .watch(pods_of_finished_jobs())
        .register()?;
    Ok(())
}

/// Selects pods with the finalizer that are new, are being deleted, or whose owners, labels or
/// finalizers change. Status changes do not matter.
fn tracked_pods() -> Predicate {
    let has = |meta: &Meta| meta.finalizers().any(|name| name == FINALIZER);
    Predicate::new(move |event| {
        let Some(new) = event.new().map(|new| new.meta()).filter(|meta| has(meta)) else {
            return false;
        };
        event.old().map(|old| old.meta()).is_none_or(|old| {
            old.version() == new.version()
                || old.uid() != new.uid()
                || old.owners() != new.owners()
                || old.is_deleting() != new.is_deleting()
                || !old.labels().eq(new.labels())
                || !has(old)
        })
    })
}

/// Selects the pods of Jobs that are deleted or finished.
fn pods_of_finished_jobs() -> Watch {
    let map = |meta: &Meta, cx: &MapContext| {
        let namespace = meta.key().namespace().unwrap_or_default();
        cx.select::<Pod>().in_namespace(namespace).owned_by(meta.uid()).keys()
    };
    let ended = Predicate::new(|event| match (event.old(), event.new()) {
        (_, None) => true,
        (Some(old), Some(new)) if old.meta().uid() != new.meta().uid() => true,
        (_, Some(new)) => {
            let finished = || new.decode::<Job>().is_ok_and(|job| is_finished(&job));
            new.meta().is_deleting() || finished()
        }
    });
    Watch::mapped_metadata::<Job>(map).filter(ended)
}

impl Reconciler for Orphans {
    type Object = Pod;

    async fn reconcile(&self, cx: &Context<Pod>) -> Result<Action> {
        let Some(pod) = cx.object() else { return Ok(Action::done()) };
        if !still_counts(cx, &pod).await? {
            finalizers::remove(cx.client(), &*pod, FINALIZER).await?;
        }
        Ok(Action::done())
    }
}

/// Whether the finalizer is left to the pod's controller.
async fn still_counts(cx: &Context<Pod>, pod: &Pod) -> Result<bool> {
    let owners = pod.metadata.owner_references.iter().flatten();
    let Some(owner) = { owners }.find(|owner| owner.controller == Some(true)) else {
        return Ok(false);
    };
    if owner.kind != "Job" || owner.api_version != "batch/v1" {
        return Ok(true);
    }
    let key = Key::new(cx.key().namespace(), &owner.name);
    let job = cx.client().get::<Job>(&key).await?;
    let Some(job) = job.filter(|job| job.metadata.uid.as_ref() == Some(&owner.uid)) else {
        return Ok(false);
    };
    if is_managed_elsewhere(&job) {
        return Ok(true);
    }
    // A Job that is being deleted neither releases nor counts pods that its selector no longer
    // matches: they would block its own foreground deletion.
    let left_out = job.metadata.deletion_timestamp.is_some() && !selects(&job, pod);
    Ok(!is_finished(&job) && !left_out)
}

fn selects(job: &Job, pod: &Pod) -> bool {
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    let selector = selector.and_then(controller_ref::selector);
    selector.is_some_and(|selector| kube::core::SelectorExt::matches(&selector, &labels))
}
