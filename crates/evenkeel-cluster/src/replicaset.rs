//! The ReplicaSet and ReplicationController controllers: keep the desired number of pods.
//!
//! A summary of each pod is kept between reconciles, so that a set of thousands decodes only the
//! pods that changed. The cache reads this process's own writes, so pods created a moment ago are
//! counted without upstream's expectations.

mod summary;

mod set;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::Entry;
use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result, Uid};
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};

use crate::controller_ref;
use crate::options::ClusterOptions;
use crate::pods;
use crate::versions::{Workload, field, text};
use set::ReplicaSetLike;
use summary::{PodSummaries, PodSummary};

pub(crate) const NAME: &str = "replicaset-controller";
pub(crate) const REPLICATION_CONTROLLER: &str = "replicationcontroller-controller";

/// How many pods one reconcile creates or deletes at most, as upstream.
const BURST: usize = 500;

struct ReplicaSets<S> {
    summaries: PodSummaries,
    marker: PhantomData<fn() -> S>,
}

pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    register_kind::<ReplicaSet>(manager)
}

pub(crate) fn register_replication_controllers(
    manager: &Manager,
    _: &ClusterOptions,
) -> Result<(), BoxError> {
    register_kind::<ReplicationController>(manager)
}

fn register_kind<S: ReplicaSetLike>(manager: &Manager) -> Result<(), BoxError> {
    manager
        .controller(ReplicaSets::<S> { summaries: PodSummaries::default(), marker: PhantomData })
        .named(S::CONTROLLER)
        .owns::<Pod>()
        .watch(controller_ref::watch_orphans::<Pod, S>())
        .workers(4)
        .register()?;
    Ok(())
}

/// A pod of the ReplicaSet.
struct SetPod {
    entry: Arc<Entry>,
    summary: PodSummary,
}

impl<S: ReplicaSetLike> Reconciler for ReplicaSets<S> {
    type Object = S;

    async fn reconcile(&self, cx: &Context<S>) -> Result<Action> {
        let Some(set) = cx.object() else {
            self.summaries.forget(cx.key());
            return Ok(Action::done());
        };
        let Some(selector) = set.selector() else { return Ok(Action::done()) };
        let entries = controller_ref::claim::<_, Pod>(cx, &*set, &selector).await?;
        let mut set_pods = self.summaries.of(cx.key(), entries)?;
        let mut managed = Ok(());
        if set.meta().deletion_timestamp.is_none() {
            managed = self.manage(cx, &set, &mut set_pods).await;
        }
        let failure = managed.as_ref().err().map(Failure::reason_and_message);
        let next = self.update_status(cx, &set, &set_pods, failure).await?;
        match managed {
            Ok(()) => Ok(next),
            Err(failure) => Err(failure.error.into()),
        }
    }
}

/// Why pods could not be created or deleted.
struct Failure {
    reason: &'static str,
    error: BoxError,
}

impl Failure {
    fn reason_and_message(&self) -> (&'static str, String) {
        (self.reason, self.error.to_string())
    }
}

impl<S: ReplicaSetLike> ReplicaSets<S> {
    async fn manage(
        &self,
        cx: &Context<S>,
        set: &S,
        set_pods: &mut Vec<SetPod>,
    ) -> Result<(), Failure> {
        let wanted = usize::try_from(set.replicas()).unwrap_or(0);
        let active = set_pods.iter().filter(|set_pod| set_pod.summary.active).count();
        if active < wanted {
            self.create(cx, set, (wanted - active).min(BURST), set_pods).await
        } else {
            self.delete(cx, (active - wanted).min(BURST), set_pods).await
        }
    }

    async fn create(
        &self,
        cx: &Context<S>,
        set: &S,
        count: usize,
        set_pods: &mut Vec<SetPod>,
    ) -> Result<(), Failure> {
        let failed = |error: BoxError| Failure { reason: "FailedCreate", error };
        let Some(template) = set.template() else { return Ok(()) };
        let mut pod = pods::from_template(template, set).map_err(failed)?;
        pod.metadata.generate_name = Some(pods::name_prefix(cx.key().name()));
        for _ in 0..count {
            let made = match cx.client().create(&pod).await {
                Ok(made) => {
                    let name = made.metadata.name.as_deref().unwrap_or_default();
                    cx.event("SuccessfulCreate", &format!("Created pod: {name}"));
                    made
                }
                // The namespace is terminating, and the set with it.
                Err(error) if error.is_forbidden() && is_terminating(&error) => return Ok(()),
                Err(error) => {
                    cx.warning_event("FailedCreate", &format!("Error creating: {error}"));
                    return Err(failed(error.into()));
                }
            };
            if let Some(entry) =
                cx.client().peek::<Pod>(&Key::of(&*made)).await.map_err(|e| failed(e.into()))?
            {
                set_pods.push(SetPod { summary: PodSummary::of(&made), entry });
            }
        }
        Ok(())
    }

    async fn delete(
        &self,
        cx: &Context<S>,
        count: usize,
        set_pods: &mut [SetPod],
    ) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        let failed = |error: BoxError| Failure { reason: "FailedDelete", error };
        let mut per_node: HashMap<String, i32> = HashMap::new();
        for set_pod in set_pods.iter().filter(|set_pod| set_pod.summary.active) {
            *per_node.entry(set_pod.summary.node.clone()).or_default() += 1;
        }
        let mut active: Vec<usize> =
            (0..set_pods.len()).filter(|&at| set_pods[at].summary.active).collect();
        active.sort_by_key(|&at| {
            let summary = &set_pods[at].summary;
            let pods_on_node = per_node.get(&summary.node).copied().unwrap_or(0);
            (summary.rank(pods_on_node), set_pods[at].entry.meta().key().clone())
        });
        for &at in active.iter().take(count) {
            let meta = set_pods[at].entry.meta();
            let delete = cx.client().delete_by_key::<Pod>(meta.key()).uid_precondition(meta.uid());
            delete.await.map_err(|error| failed(error.into()))?;
            cx.event("SuccessfulDelete", &format!("Deleted pod: {}", meta.key().name()));
            set_pods[at].summary.terminate();
        }
        Ok(())
    }

    /// Writes the status if it changed. Requeues when the next pod becomes available.
    async fn update_status(
        &self,
        cx: &Context<S>,
        set: &S,
        set_pods: &[SetPod],
        failure: Option<(&'static str, String)>,
    ) -> Result<Action> {
        let min_ready = set.min_ready_seconds();
        let labels =
            set.template().and_then(|template| template.metadata.as_ref()?.labels.as_ref());
        let now = cx.clock().now();
        let (mut replicas, mut labelled, mut ready, mut available, mut terminating) =
            (0, 0, 0, 0, 0);
        let mut next: Option<Duration> = None;
        for SetPod { entry, summary } in set_pods {
            if summary.terminating && !summary.terminal {
                terminating += 1;
            }
            if !summary.active {
                continue;
            }
            replicas += 1;
            let has = |(name, value): (&String, &String)| {
                entry.meta().label(name) == Some(value.as_str())
            };
            labelled += i32::from(labels.is_none_or(|labels| labels.iter().all(has)));
            let Some(since) = summary.ready else { continue };
            ready += 1;
            let left = pods::available_in(since, min_ready, now);
            if left.is_zero() {
                available += 1;
            } else {
                next = Some(next.map_or(left, |next| next.min(left)));
            }
        }
        let old = set.status();
        let positive = |count: i32| Some(count).filter(|&count| count > 0);
        let status = ReplicaSetStatus {
            replicas,
            fully_labeled_replicas: positive(labelled),
            ready_replicas: positive(ready),
            available_replicas: positive(available),
            terminating_replicas: Some(terminating),
            observed_generation: set.meta().generation,
            conditions: conditions(old.as_deref(), failure, || pods::timestamp(cx.clock())),
        };
        let old = old.map(|old| S::Status::from(old.into_owned()));
        cx.client().patch_status(set, old.as_ref(), &S::Status::from(status)).await?;
        Ok(next.map_or(Action::done(), Action::requeue_after))
    }
}

fn conditions(
    old: Option<&ReplicaSetStatus>,
    failure: Option<(&'static str, String)>,
    now: impl FnOnce() -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time,
) -> Option<Vec<ReplicaSetCondition>> {
    const NAME: &str = "ReplicaFailure";
    let mut conditions = old.and_then(|old| old.conditions.clone()).unwrap_or_default();
    let at = conditions.iter().position(|condition| text(&condition.type_) == NAME);
    match (failure, at) {
        (None, None) | (Some(_), Some(_)) => {}
        (None, Some(at)) => drop(conditions.remove(at)),
        (Some((reason, message)), None) => conditions.push(ReplicaSetCondition {
            type_: field(NAME.to_owned()),
            status: field("True".to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(now()),
        }),
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

/// Returns the desired number of replicas.
pub(crate) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Whether a create was rejected because the namespace is terminating.
pub(crate) fn is_terminating(error: &evenkeel::client::Error) -> bool {
    let causes = error.status().and_then(|status| status.details.as_ref());
    causes.is_some_and(|details| {
        details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
    })
}

/// Pod summaries by uid, with the version they were computed from.
type KnownPods = HashMap<Uid, (evenkeel::cache::Version, PodSummary)>;
