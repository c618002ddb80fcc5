//! The scheduler: selects a node for each pod and binds the pod to it.
//!
//! The [`SchedulerCache`] holds what the pods of each node request. It changes with every pod that is
//! bound, terminates or is deleted. A pod is assumed on its node as soon as the node is selected,
//! before the binding is written, so two pods never get the same capacity. Unschedulable pods wait
//! until a node changes or capacity is released.

mod node_affinity;

mod cache;

mod fit;

mod topology;

mod preempt;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel::queue::{AddOptions, Cause};
use evenkeel::{
    Action, BoxError, Context, ControllerHandle, EventRecorder, Key, Kind, Manager, ObjectEvent,
    Reconciler, Result,
};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Taint, Toleration};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::options::ClusterOptions;
use crate::pods;
use cache::{PodPlacement, SchedulerCache};
use fit::PodRequirements;
use topology::PodLister;

pub(crate) use node_affinity::selects as affinity_selects;

pub(crate) const NAME: &str = "scheduler";

/// The scheduler name of pods that set none.
const PROFILE: &str = "default-scheduler";

/// The name of the part that observes nodes.
const NODES: &str = "scheduler-nodes";

/// What schedules pods, and observes nodes.
struct Scheduler {
    cache: Mutex<SchedulerCache>,
    /// The controller of pods, to enqueue unschedulable pods.
    pods: OnceLock<ControllerHandle>,
    loaded: OnceCell<()>,
    delay: Duration,
    /// Records events about preempted pods.
    event_recorder: EventRecorder,
    /// When a pod was first seen, while scheduling is delayed.
    seen: Mutex<HashMap<Key, Instant>>,
}

pub(crate) fn register(manager: &Manager, options: &ClusterOptions) -> Result<(), BoxError> {
    let scheduler = Arc::new(Scheduler {
        cache: Mutex::default(),
        pods: OnceLock::new(),
        loaded: OnceCell::new(),
        delay: options.delays.schedule,
        event_recorder: manager.event_recorder(PROFILE),
        seen: Mutex::default(),
    });
    let handle = manager
        .controller(Pods(scheduler.clone()))
        .named(NAME)
        .reads::<Node>()
        .reads::<Namespace>()
        .workers(4)
        .register()?;
    // Set once, here: the reconcilers start later.
    let _ = scheduler.pods.set(handle);
    let cache = manager.cache().clone();
    manager.spawn(NODES, |stop| async move {
        let observe = move |event: ObjectEvent| scheduler.observe_node(&event);
        let _subscription = cache.informer(&Kind::of::<Node>())?.subscribe(observe);
        stop.requested().await;
        Ok(())
    })?;
    Ok(())
}

impl Scheduler {
    fn cache(&self) -> parking_lot::MutexGuard<'_, SchedulerCache> {
        self.cache.lock()
    }

    /// Fills the cache once, so that nothing is scheduled before all bound pods are counted.
    async fn load(&self, cx: &Context<Pod>) -> Result<()> {
        let load = async {
            let nodes = cx.client().list::<Node>().await?;
            let pods = cx.client().list::<Pod>().await?;
            let mut cache = self.cache();
            for node in nodes {
                cache.put_node(&node);
            }
            for pod in pods {
                cache.put_pod(&Key::of(&*pod), &pod);
            }
            Ok::<_, BoxError>(())
        };
        self.loaded.get_or_try_init(|| load).await?;
        Ok(())
    }

    /// Returns how much longer the scheduling of a pod is delayed, counted from when it was first
    /// seen.
    fn remaining_delay(&self, key: &Key) -> Option<Duration> {
        if self.delay.is_zero() {
            return None;
        }
        let now = Instant::now();
        let mut seen = self.seen.lock();
        let due = *seen.entry(key.clone()).or_insert(now) + self.delay;
        if due > now {
            return Some(due - now);
        }
        seen.remove(key);
        None
    }

    /// Updates a node of the cache. It is not queued as pods are: a pod that is created after a node
    /// has changed must not be scheduled before the change is observed, as far as the watches of
    /// both deliver them in order.
    fn observe_node(&self, event: &ObjectEvent) {
        let Some(entry) = event.new() else {
            self.cache().remove_node(event.object().meta().key().name());
            return;
        };
        match entry.decode::<Node>() {
            Ok(node) => {
                let better = self.cache().put_node(&node);
                if better {
                    self.enqueue_unschedulable("node changed");
                }
            }
            Err(error) => tracing::warn!(%error, "cannot decode a node, it is not updated"),
        }
    }

    /// Enqueues the unschedulable pods.
    fn enqueue_unschedulable(&self, why: &str) {
        let waiting = self.cache().take_unschedulable();
        self.enqueue(waiting, why);
    }

    /// Enqueues pods, those of higher priority first.
    fn enqueue(&self, waiting: BTreeMap<Key, i32>, why: &str) {
        let Some(pods) = self.pods.get() else { return };
        for (key, priority) in waiting {
            let options = AddOptions::new().priority(priority);
            pods.queue().add_with(key, options, Cause::External(why.into()));
        }
    }
}

/// Updates the pods of the cache, and schedules pods without a node.
struct Pods(Arc<Scheduler>);

impl Reconciler for Pods {
    type Object = Pod;

    async fn reconcile(&self, cx: &Context<Pod>) -> Result<Action> {
        let scheduler = &self.0;
        scheduler.load(cx).await?;
        let Some(pod) = cx.object() else {
            scheduler.seen.lock().remove(cx.key());
            if scheduler.cache().remove_pod(cx.key()) {
                scheduler.enqueue_unschedulable("pod deleted");
            }
            return Ok(Action::done());
        };
        let placed = scheduler.cache().put_pod(cx.key(), &pod);
        match placed {
            PodPlacement::Assigned => return Ok(Action::done()),
            PodPlacement::Released => {}
            PodPlacement::Unassigned => {
                return match self.is_responsible(&pod) {
                    true => self.schedule(cx, &pod).await,
                    false => Ok(Action::done()),
                };
            }
        }
        scheduler.enqueue_unschedulable("pod terminated");
        Ok(Action::done())
    }
}

impl Pods {
    fn is_responsible(&self, pod: &Pod) -> bool {
        let Some(spec) = &pod.spec else { return false };
        spec.scheduler_name.as_deref().unwrap_or(PROFILE) == PROFILE
            && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
            && !pods::is_terminating(pod)
            && !pods::is_terminal(pod)
    }

    async fn schedule(&self, cx: &Context<Pod>, pod: &Pod) -> Result<Action> {
        let scheduler = &self.0;
        if let Some(wait) = scheduler.remaining_delay(cx.key()) {
            return Ok(Action::requeue_after(wait));
        }
        let requirements = PodRequirements::of(pod);
        let chosen = scheduler.cache().schedule(
            cx.key(),
            pod,
            &requirements,
            &PodLister(cx.client().cache()),
        );
        let node = match chosen {
            Ok(node) => node,
            Err(reasons) => {
                let nominated_node = self.preempt(cx, pod, &requirements).await?;
                return self.set_unschedulable(cx, pod, reasons, nominated_node).await;
            }
        };
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": cx.key().name(),
                "namespace": cx.key().namespace(),
                "uid": pod.metadata.uid,
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        match cx.client().subresource::<Pod>(cx.key(), "binding").create::<Value>(&binding).await {
            Ok(_) => {
                let message = format!("Successfully assigned {} to {node}", cx.key());
                cx.event("Scheduled", &message);
                let waiting = scheduler.cache().take_waiting_for_pods();
                scheduler.enqueue(waiting, "another pod was bound");
                Ok(Action::done())
            }
            // Deleted, replaced or bound by another client: the pod's next event handles it.
            Err(error) if error.is_not_found() || error.is_conflict() => {
                scheduler.cache().remove_pod(cx.key());
                Ok(Action::done())
            }
            Err(error) => {
                scheduler.cache().remove_pod(cx.key());
                Err(error.into())
            }
        }
    }

    /// Records on the pod why it is unschedulable.
    async fn set_unschedulable(
        &self,
        cx: &Context<Pod>,
        pod: &Pod,
        message: String,
        nominated_node: Option<String>,
    ) -> Result<Action> {
        let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_ref());
        let present = pods::condition(pod, "PodScheduled");
        let same = present.is_some_and(|present| {
            present.status == "False" && present.message.as_deref() == Some(message.as_str())
        });
        if same && nominated == nominated_node.as_ref() {
            return Ok(Action::done());
        }
        cx.warning_event("FailedScheduling", &message);
        let since = present
            .filter(|present| present.status == "False")
            .and_then(|present| present.last_transition_time.clone())
            .unwrap_or_else(|| pods::timestamp(cx.clock()));
        let status = json!({
            "nominatedNodeName": nominated_node,
            "conditions": [{
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
                "lastTransitionTime": since,
                "observedGeneration": pod.metadata.generation,
            }],
        });
        pods::patch_status(cx, pod, &status).await?;
        Ok(Action::done())
    }
}

/// Whether a toleration matches a taint. Mirrors `ToleratesTaint`.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    let key = toleration.key.as_deref().unwrap_or_default();
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => {
            toleration.value.as_deref().unwrap_or_default()
                == taint.value.as_deref().unwrap_or_default()
        }
        _ => false,
    }
}
