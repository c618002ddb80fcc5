//! Pod summaries: what a ReplicaSet needs to count and rank a pod, kept between reconciles.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use evenkeel::cache::Entry;
use evenkeel::{Key, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

use super::{KnownPods, SetPod};
use crate::pods;

/// The summary of one pod.
#[derive(Clone, Debug)]
pub(super) struct PodSummary {
    pub(super) active: bool,
    pub(super) terminal: bool,
    pub(super) terminating: bool,
    pub(super) ready: Option<Timestamp>,
    pub(super) node: String,
    phase: u8,
    cost: i32,
    restarts: i32,
    created: Timestamp,
}

/// The deletion order of surplus pods, smallest first.
pub(super) type Rank =
    (bool, u8, bool, i32, Reverse<i32>, Reverse<Timestamp>, Reverse<i32>, Reverse<Timestamp>);

impl PodSummary {
    pub(super) fn of(pod: &Pod) -> Self {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        let restarts = statuses.into_iter().flatten().map(|status| status.restart_count).max();
        let annotations = pod.metadata.annotations.as_ref();
        let cost = annotations
            .and_then(|annotations| annotations.get("controller.kubernetes.io/pod-deletion-cost"))
            .and_then(|cost| cost.parse().ok());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Self {
            active: pods::is_active(pod),
            terminal: pods::is_terminal(pod),
            terminating: pods::is_terminating(pod),
            ready: pods::ready_since(pod),
            node: node.unwrap_or_default(),
            phase: match pods::phase(pod) {
                "Pending" => 0,
                "Unknown" => 1,
                _ => 2,
            },
            cost: cost.unwrap_or(0),
            restarts: restarts.unwrap_or(0),
            created: created.unwrap_or(Timestamp::MIN),
        }
    }

    /// Marks the pod as terminating.
    pub(super) fn terminate(&mut self) {
        self.active = false;
        self.terminating = true;
    }

    /// The order of `ActivePodsWithRanks`: without a node, not running, not ready, low deletion
    /// cost, on a node with many pods of the same set (`pods_on_node`), ready for a short time, restarted
    /// often, young.
    pub(super) fn rank(&self, pods_on_node: i32) -> Rank {
        (
            !self.node.is_empty(),
            self.phase,
            self.ready.is_some(),
            self.cost,
            Reverse(pods_on_node),
            Reverse(self.ready.unwrap_or(Timestamp::MIN)),
            Reverse(self.restarts),
            Reverse(self.created),
        )
    }
}

/// The pod summaries of all sets.
#[derive(Default)]
pub(super) struct PodSummaries(Mutex<HashMap<Key, KnownPods>>);

impl PodSummaries {
    /// Returns the pods of a set. Decodes only pods that are new or have changed, and drops the
    /// summaries of pods that are not among `entries`.
    pub(super) fn of(&self, set: &Key, entries: Vec<Arc<Entry>>) -> Result<Vec<SetPod>> {
        let mut known = self.lock().remove(set).unwrap_or_default();
        let mut set_pods = Vec::with_capacity(entries.len());
        let mut kept = KnownPods::with_capacity(entries.len());
        for entry in entries {
            let (uid, version) = (entry.meta().uid().clone(), entry.meta().version());
            let summary = match known.remove(&uid) {
                Some((seen, summary)) if seen == version => summary,
                _ => PodSummary::of(&*entry.decode::<Pod>()?),
            };
            kept.insert(uid, (version, summary.clone()));
            set_pods.push(SetPod { entry, summary });
        }
        self.lock().insert(set.clone(), kept);
        Ok(set_pods)
    }

    pub(super) fn forget(&self, set: &Key) {
        self.lock().remove(set);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<Key, KnownPods>> {
        self.0.lock()
    }
}
