//! Nodes that stop reporting, and their pods.
//!
//! Three controllers, as in `kube-controller-manager`: the `node-lifecycle-controller` sets
//! conditions and taints from the node lease, the `taint-eviction-controller` deletes pods that do
//! not tolerate taints, and the `pod-garbage-collector-controller` deletes pods of nodes that no
//! longer exist.

mod zones;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel::client::Patch;
use evenkeel::predicate::Predicate;
use evenkeel::{
    Action, BoxError, Context, ControllerHandle, EventRecorder, Key, Manager, Object, Reconciler,
    Result, Watch, object_reference,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, ObjectReference, Pod, Taint, Toleration};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::controller_ref::{BY_NODE, node_of};
use crate::options::ClusterOptions;
use crate::pods;
use crate::scheduler::tolerates;
use zones::{Admission, Zones};

pub(crate) const NAME: &str = "node-lifecycle-controller";
/// The reporting component of its events, which is not the controller name.
const COMPONENT: &str = "node-controller";
pub(crate) const EVICTION: &str = "taint-eviction-controller";
pub(crate) const POD_GC: &str = "pod-garbage-collector-controller";
/// The part that handles unscheduled pods.
const UNSCHEDULED: &str = "pod-garbage-collector-controller-unscheduled";
/// The grace for unscheduled terminating pods; the interval of upstream's collector.
const UNSCHEDULED_GRACE: Duration = Duration::from_secs(20);

/// How long a node may stop reporting before it is Unknown.
const MONITOR_GRACE_PERIOD: Duration = Duration::from_secs(50);

/// How long after the deletion of a node its pods are deleted.
const QUARANTINE_TIME: Duration = Duration::from_secs(40);

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(crate) fn register(manager: &Manager, options: &ClusterOptions) -> Result<(), BoxError> {
    let handle: Arc<OnceLock<ControllerHandle>> = Arc::default();
    let lifecycle = Lifecycle {
        heartbeats: options.heartbeats,
        zones: Mutex::default(),
        known: Mutex::default(),
        handle: handle.clone(),
        event_recorder: manager.event_recorder(COMPONENT),
    };
    let registered = manager
        .controller(lifecycle)
        .named(NAME)
        .reads::<Lease>()
        .reads::<Pod>()
        .workers(2)
        .register()?;
    handle.get_or_init(|| registered);
    Ok(())
}

pub(crate) fn register_eviction(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    let arrivals = Watch::mapped::<Pod>(|pod, _| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        node.map(Key::cluster).into_iter().collect()
    });
    // Only the binding of a pod matters, not its status.
    let fresh = Predicate::new(|event| match (event.old(), event.new()) {
        (Some(old), Some(new)) => {
            old.meta().uid() != new.meta().uid() || node_of(old) != node_of(new)
        }
        (_, new) => new.is_some(),
    });
    let eviction = Eviction { event_recorder: manager.event_recorder(EVICTION) };
    manager.controller(eviction).named(EVICTION).watch(arrivals.filter(fresh)).register()?;
    Ok(())
}

pub(crate) fn register_pod_gc(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    let reconciler = PodGc { deleted: Mutex::default() };
    manager.controller(reconciler).named(POD_GC).reads::<Pod>().register()?;
    let terminating =
        Predicate::new(|event| event.new().is_some_and(|new| new.meta().is_deleting()));
    manager.controller(Unscheduled).named(UNSCHEDULED).filter_object(terminating).register()?;
    Ok(())
}

/// Sets conditions and taints of nodes.
struct Lifecycle {
    /// Whether nodes renew their leases.
    heartbeats: bool,
    zones: Mutex<Zones>,
    /// The nodes whose registration has been recorded.
    known: Mutex<HashMap<Key, ObjectReference>>,
    event_recorder: EventRecorder,
    /// The handle of this controller, once it is registered.
    handle: Arc<OnceLock<ControllerHandle>>,
}

impl Reconciler for Lifecycle {
    type Object = Node;

    async fn reconcile(&self, cx: &Context<Node>) -> Result<Action> {
        let Some(mut node) = cx.object() else {
            self.record_removal(cx.key());
            self.observe(cx, None).await?;
            return Ok(Action::done());
        };
        self.record_registration(&node);
        let now = cx.clock().now();
        let heartbeat = match self.heartbeats {
            true => self.last_heartbeat(cx, &node).await?,
            false => Some(now),
        };
        let left = heartbeat.map_or(Duration::ZERO, |heartbeat| {
            let silent = Duration::try_from(now.duration_since(heartbeat)).unwrap_or_default();
            MONITOR_GRACE_PERIOD.saturating_sub(silent)
        });
        if left.is_zero() {
            let before = ready(&node).map(|ready| ready.status.clone());
            if before.as_deref() != Some("Unknown") {
                node = self.mark_unknown(cx, &node, heartbeat.is_some()).await?;
            }
            if before.as_deref() == Some("True") {
                let message = format!("Node {} status is now: NodeNotReady", cx.key().name());
                self.event_recorder.event(&object_reference(&*node), "NodeNotReady", &message);
            }
            // Also when the node is already Unknown: an earlier attempt may have failed halfway.
            self.mark_pods_not_ready(cx).await?;
        }
        self.observe(cx, Some(&node)).await?;
        let (evict, wait) = self.may_evict(cx, &node);
        self.taint(cx, &node, evict).await?;
        let left = Some(left).filter(|left| self.heartbeats && !left.is_zero());
        Ok(match left.into_iter().chain(wait).min() {
            Some(wait) => Action::requeue_after(wait),
            None => Action::done(),
        })
    }
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == "Ready")
}

impl Lifecycle {
    fn zones(&self) -> MutexGuard<'_, Zones> {
        self.zones.lock()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, ObjectReference>> {
        self.known.lock()
    }

    /// Records an event for a node that this controller has not seen before.
    fn record_registration(&self, node: &Node) {
        let (key, about) = (Key::of(node), object_reference(node));
        if self.known().insert(key.clone(), about.clone()).is_none() {
            let name = key.name();
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            self.event_recorder.event(&about, "RegisteredNode", &message);
        }
    }

    /// Records an event for a deleted node.
    fn record_removal(&self, key: &Key) {
        let Some(about) = self.known().remove(key) else { return };
        let name = key.name();
        let message = format!("Node {name} event: Removing Node {name} from Controller");
        self.event_recorder.event(&about, "RemovingNode", &message);
    }

    /// Updates the zone of the node, and enqueues the nodes whose evictions start or stop because
    /// of it.
    async fn observe(&self, cx: &Context<Node>, node: Option<&Node>) -> Result<()> {
        if !self.zones().is_complete() {
            let nodes = cx.client().list::<Node>().await?;
            self.zones().add_all(nodes.iter().map(|node| &**node), Instant::now());
        }
        let changed = self.zones().observe(cx.key(), node, Instant::now());
        if let Some(handle) = self.handle.get() {
            for key in changed.into_iter().filter(|key| key != cx.key()) {
                handle.enqueue(key, "zone disruption state changed");
            }
        }
        Ok(())
    }

    /// Returns whether the node gets, or keeps, the NoExecute taint, and when to requeue if it has
    /// to wait.
    fn may_evict(&self, cx: &Context<Node>, node: &Node) -> (bool, Option<Duration>) {
        if ready(node).is_some_and(|ready| ready.status == "True") {
            return (false, None);
        }
        let mut zones = self.zones();
        if zones.is_disrupted() {
            return (false, None);
        }
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
        let is_evicted = taints.unwrap_or_default().iter().any(|taint| {
            taint.effect == "NoExecute" && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
        });
        if is_evicted {
            return (true, None);
        }
        match zones.admit(cx.key(), Instant::now()) {
            Admission::Now => (true, None),
            Admission::Later(wait) => (false, Some(wait)),
            Admission::Stopped => (false, None),
        }
    }

    /// Returns the last heartbeat: of the lease, the status, or the creation of the node.
    async fn last_heartbeat(&self, cx: &Context<Node>, node: &Node) -> Result<Option<Timestamp>> {
        let key = Key::namespaced("kube-node-lease", cx.key().name());
        let lease = cx.client().get::<Lease>(&key).await?;
        let renewed = lease.and_then(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0));
        let reported = ready(node).filter(|ready| ready.status != "Unknown");
        let reported = reported.and_then(|ready| Some(ready.last_heartbeat_time.as_ref()?.0));
        let made = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Ok(renewed.max(reported).max(made))
    }

    /// Sets the conditions of a node that stopped reporting to Unknown.
    async fn mark_unknown(
        &self,
        cx: &Context<Node>,
        node: &Node,
        heartbeat: bool,
    ) -> Result<Arc<Node>> {
        let now = pods::timestamp(cx.clock());
        let (reason, message) = if heartbeat && ready(node).is_some() {
            ("NodeStatusUnknown", "Kubelet stopped posting node status.")
        } else {
            ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
        };
        let present = node.status.as_ref().and_then(|status| status.conditions.clone());
        let mut conditions = present.unwrap_or_default();
        for name in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
            if !conditions.iter().any(|condition| condition.type_ == name) {
                conditions
                    .push(NodeCondition { type_: name.to_owned(), ..NodeCondition::default() });
            }
        }
        let known = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
        for condition in conditions.iter_mut().filter(|c| known.contains(&c.type_.as_str())) {
            if condition.status != "Unknown" {
                condition.status = "Unknown".to_owned();
                condition.reason = Some(reason.to_owned());
                condition.message = Some(message.to_owned());
                condition.last_transition_time = Some(now.clone());
            }
        }
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": node.metadata.uid},
            "status": {"conditions": conditions},
        }));
        Ok(cx.client().subresource::<Node>(cx.key(), "status").patch::<Node>(&patch).await?)
    }

    /// Marks the pods of an unreachable node as not ready.
    async fn mark_pods_not_ready(&self, cx: &Context<Node>) -> Result<()> {
        for pod in cx.client().list::<Pod>().index(BY_NODE, cx.key().name()).await? {
            if !pods::is_ready(&pod) {
                continue;
            }
            let status = json!({"conditions": [{
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": pods::timestamp(cx.clock()),
            }]});
            if pods::patch_status(cx, &pod, &status).await? {
                let about = object_reference(&*pod);
                self.event_recorder.warning_event(&about, "NodeNotReady", "Node is not ready");
            }
        }
        Ok(())
    }

    /// Sets the taints for readiness, NoExecute only if `evict`, and for `kubectl cordon`.
    async fn taint(&self, cx: &Context<Node>, node: &Node, evict: bool) -> Result<()> {
        let spec = node.spec.clone().unwrap_or_default();
        let name = match ready(node).map_or("Unknown", |ready| ready.status.as_str()) {
            "True" => None,
            "False" => Some(NOT_READY),
            _ => Some(UNREACHABLE),
        };
        let mut wanted: Vec<(&str, &str)> = Vec::new();
        wanted.extend(name.map(|name| (name, "NoSchedule")));
        wanted.extend(name.filter(|_| evict).map(|name| (name, "NoExecute")));
        if spec.unschedulable == Some(true) {
            wanted.push((UNSCHEDULABLE, "NoSchedule"));
        }
        let present = spec.taints.unwrap_or_default();
        let ours =
            |taint: &Taint| [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str());
        let mut taints: Vec<Taint> = present
            .iter()
            .filter(|taint| !ours(taint) || wanted.contains(&(&taint.key, &taint.effect)))
            .cloned()
            .collect();
        for (key, effect) in wanted {
            if taints.iter().any(|taint| taint.key == key && taint.effect == effect) {
                continue;
            }
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                value: None,
                time_added: Some(pods::timestamp(cx.clock())),
            });
        }
        if taints == present {
            return Ok(());
        }
        let patch = Patch::Merge(json!({
            "metadata": {
                "uid": node.metadata.uid,
                "resourceVersion": node.metadata.resource_version,
            },
            "spec": {"taints": taints},
        }));
        cx.client().patch::<Node>(cx.key(), &patch).await?;
        Ok(())
    }
}

/// Deletes pods that do not, or no longer, tolerate the NoExecute taints of their node.
struct Eviction {
    event_recorder: EventRecorder,
}

impl Eviction {
    /// Deletes a pod whose toleration has expired.
    async fn evict(&self, cx: &Context<Node>, pod: &Pod) -> Result<()> {
        let message = format!("Marking for deletion Pod {}", Key::of(pod));
        self.event_recorder.event(&object_reference(pod), "TaintManagerEviction", &message);
        let condition = pods::disruption_target(
            cx.clock(),
            pod,
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        );
        if pods::patch_status(cx, pod, &json!({"conditions": [condition]})).await? {
            cx.client().delete(pod).await?;
        }
        Ok(())
    }
}

impl Reconciler for Eviction {
    type Object = Node;

    async fn reconcile(&self, cx: &Context<Node>) -> Result<Action> {
        let Some(node) = cx.object() else { return Ok(Action::done()) };
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let taints: Vec<&Taint> = taints.iter().filter(|t| t.effect == "NoExecute").collect();
        if taints.is_empty() {
            return Ok(Action::done());
        }
        let now = cx.clock().now();
        let mut next: Option<Duration> = None;
        for pod in cx.client().list::<Pod>().index(BY_NODE, cx.key().name()).await? {
            if pods::is_terminating(&pod) {
                continue;
            }
            let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref());
            let Some(left) = tolerated_for(&taints, tolerations.unwrap_or_default(), now) else {
                continue;
            };
            if left.is_zero() {
                self.evict(cx, &pod).await?;
            } else {
                next = Some(next.map_or(left, |next| next.min(left)));
            }
        }
        Ok(next.map_or(Action::done(), Action::requeue_after))
    }
}

/// Returns how much longer the taints are tolerated; `None` for unlimited.
fn tolerated_for(
    taints: &[&Taint],
    tolerations: &[Toleration],
    now: Timestamp,
) -> Option<Duration> {
    let mut least: Option<Duration> = None;
    for taint in taints {
        let matching: Vec<_> = tolerations.iter().filter(|t| tolerates(t, taint)).collect();
        if matching.is_empty() {
            return Some(Duration::ZERO);
        }
        let seconds = matching.iter().filter_map(|toleration| toleration.toleration_seconds).min();
        let Some(seconds) = seconds else { continue };
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let until = since.checked_add(SignedDuration::from_secs(seconds.max(0)));
        let left = until.map_or(Duration::MAX, |until| {
            Duration::try_from(until.duration_since(now)).unwrap_or_default()
        });
        least = Some(least.map_or(left, |least| least.min(left)));
    }
    least
}

/// Deletes pods whose node no longer exists.
struct PodGc {
    deleted: Mutex<HashMap<Key, Instant>>,
}

impl Reconciler for PodGc {
    type Object = Node;

    async fn reconcile(&self, cx: &Context<Node>) -> Result<Action> {
        let deleted = || self.deleted.lock();
        if cx.object().is_some() {
            deleted().remove(cx.key());
            return Ok(Action::done());
        }
        let pods = cx.client().list::<Pod>().index(BY_NODE, cx.key().name()).await?;
        if pods.is_empty() {
            deleted().remove(cx.key());
            return Ok(Action::done());
        }
        let now = Instant::now();
        let since = *deleted().entry(cx.key().clone()).or_insert(now);
        if since + QUARANTINE_TIME > now {
            return Ok(Action::requeue_after(since + QUARANTINE_TIME - now));
        }
        for pod in pods {
            let condition = pods::disruption_target(
                cx.clock(),
                &pod,
                "DeletionByPodGC",
                "PodGC: node no longer exists",
            );
            fail(cx, &pod, &json!({"phase": "Failed", "conditions": [condition]})).await?;
            cx.client().delete(&*pod).grace_period(Duration::ZERO).await?;
        }
        deleted().remove(cx.key());
        Ok(Action::done())
    }
}

/// Fails terminating pods that never had a node: no kubelet reports their phase, and controllers
/// that hold them by a finalizer wait for it.
struct Unscheduled;

impl Reconciler for Unscheduled {
    type Object = Pod;

    async fn reconcile(&self, cx: &Context<Pod>) -> Result<Action> {
        let terminating = cx.object().filter(|pod| pods::is_terminating(pod));
        let Some(pod) = terminating else { return Ok(Action::done()) };
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if node.is_some_and(|name| !name.is_empty()) {
            return Ok(Action::done());
        }
        let since = pod.metadata.deletion_timestamp.as_ref().map_or(Timestamp::MIN, |it| it.0);
        let passed = Duration::try_from(cx.clock().now().duration_since(since));
        let left = UNSCHEDULED_GRACE.saturating_sub(passed.unwrap_or_default());
        if !left.is_zero() {
            return Ok(Action::requeue_after(left));
        }
        fail(cx, &pod, &json!({"phase": "Failed"})).await?;
        Ok(Action::done())
    }
}

/// Sets the final status of a pod that no kubelet runs, unless it is terminal.
async fn fail<K: Object>(cx: &Context<K>, pod: &Pod, status: &Value) -> Result<()> {
    if !pods::is_terminal(pod) {
        pods::patch_status(cx, pod, status).await?;
    }
    Ok(())
}
