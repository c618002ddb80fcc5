//! The DaemonSet controller: runs one pod on each eligible node.
//!
//! Pods are created for a node by node affinity and bound by the scheduler like any other pod. A
//! rolling update deletes old pods within `maxUnavailable`, or creates new ones first within
//! `maxSurge`.

mod pod;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::predicate::Predicate;
use evenkeel::{Action, BoxError, Context, Manager, Reconciler, Result, Watch};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::deployment::resolve;
use crate::history::{self, History};
use crate::options::ClusterOptions;
use crate::versions::Workload;
use crate::{controller_ref, pods};
use pod::{Eligibility, eligibility, target_node};

pub(crate) const NAME: &str = "daemonset-controller";

struct DaemonSets;

pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    // Node heartbeats do not matter.
    let matters = Predicate::new(|event| {
        let (Some(old), Some(new)) = (event.old(), event.new()) else { return true };
        let spec = |node: &Node| node.spec.clone();
        let specs = (old.decode::<Node>(), new.decode::<Node>());
        !old.meta().labels().eq(new.meta().labels())
            || matches!(specs, (Ok(old), Ok(new)) if spec(&old) != spec(&new))
    });
    let nodes = Watch::mapped::<Node>(|_, cx| cx.select::<DaemonSet>().keys());
    manager
        .controller(DaemonSets)
        .named(NAME)
        .owns::<Pod>()
        .watch(controller_ref::watch_orphans::<Pod, DaemonSet>())
        .watch(nodes.filter(matters))
        .reads::<ControllerRevision>()
        .workers(2)
        .register()?;
    Ok(())
}

/// The state of one reconcile.
struct Work<'a> {
    cx: &'a Context<DaemonSet>,
    set: &'a DaemonSet,
    spec: &'a DaemonSetSpec,
    history: History,
    now: Timestamp,
    nodes: Vec<(Arc<Node>, Eligibility)>,
    /// Pods by the node they are on or created for, oldest first.
    pods: BTreeMap<String, Vec<Arc<Pod>>>,
}

impl Reconciler for DaemonSets {
    type Object = DaemonSet;

    async fn reconcile(&self, cx: &Context<DaemonSet>) -> Result<Action> {
        let Some(set) = cx.object() else { return Ok(Action::done()) };
        let Some(spec) = set.spec().cloned() else { return Ok(Action::done()) };
        let Some(selector) = controller_ref::selector(&spec.selector) else {
            return Ok(Action::done());
        };
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        let history = History::sync(cx, &*set, &selector, &spec.template, collisions).await?;
        let nodes = cx.client().list::<Node>().await?;
        let nodes = nodes.into_iter().map(|node| {
            let eligibility = eligibility(&spec.template, &node);
            (node, eligibility)
        });
        let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in controller_ref::claimed::<_, Pod>(cx, &*set, &selector).await? {
            by_node.entry(target_node(&pod).unwrap_or_default().to_owned()).or_default().push(pod);
        }
        for pods in by_node.values_mut() {
            pods.sort_by_key(|pod| {
                let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
                let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
                (!bound, created, pod.metadata.name.clone())
            });
        }
        let mut work = Work {
            cx,
            set: &set,
            spec: &spec,
            history,
            now: cx.clock().now(),
            nodes: nodes.collect(),
            pods: by_node,
        };
        work.manage().await?;
        let strategy = spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
        if strategy != Some("OnDelete") {
            work.update().await?;
        }
        work.clean_up().await?;
        let wait = work.update_status().await?;
        Ok(wait.map_or(Action::done(), Action::requeue_after))
    }
}

impl Work<'_> {
    fn hash(&self) -> &str {
        history::hash_of(&self.history.latest)
    }

    fn is_new(&self, pod: &Pod) -> bool {
        let labels = pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(history::HASH)).is_some_and(|d| d == self.hash())
    }

    fn available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, self.spec.min_ready_seconds.unwrap_or(0), self.now)
    }

    /// Returns `maxSurge` and `maxUnavailable`, resolved against the number of eligible nodes.
    fn limits(&self) -> (usize, usize) {
        let wanted =
            self.nodes.iter().filter(|(_, eligibility)| *eligibility == Eligibility::Run).count();
        let total = i32::try_from(wanted).unwrap_or(i32::MAX);
        let rolling = self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        let part = |value| usize::try_from(resolve(value, total, true)).unwrap_or(0);
        let surge = part(rolling.and_then(|rolling| rolling.max_surge.as_ref()));
        let unavailable = match rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) {
            Some(value) => part(Some(value)),
            None => 1,
        };
        (surge, if surge == 0 { unavailable.max(1) } else { unavailable })
    }

    async fn create_pod(&mut self, node: &str) -> Result<()> {
        let pod = pod::build(self.set, self.spec, node, self.hash())?;
        let made = self.cx.client().create(&pod).await?;
        let name = made.metadata.name.as_deref().unwrap_or_default();
        self.cx.event("SuccessfulCreate", &format!("Created pod: {name}"));
        self.pods.entry(node.to_owned()).or_default().push(made);
        Ok(())
    }

    async fn delete_pod(&mut self, pod: &Pod) -> Result<()> {
        self.cx.client().delete(pod).await?;
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        self.cx.event("SuccessfulDelete", &format!("Deleted pod: {name}"));
        for pods in self.pods.values_mut() {
            for present in pods.iter_mut().filter(|p| p.metadata.uid == pod.metadata.uid) {
                let mut deleted = (**present).clone();
                deleted.metadata.deletion_timestamp.get_or_insert(pods::timestamp(self.cx.clock()));
                *present = Arc::new(deleted);
            }
        }
        Ok(())
    }

    /// Creates missing pods and deletes pods that are not eligible or surplus.
    async fn manage(&mut self) -> Result<()> {
        let surges = self.limits().0 > 0;
        let (mut nodes_without_pod, mut surplus) = (Vec::new(), Vec::new());
        let known: Vec<(String, Eligibility)> = self
            .nodes
            .iter()
            .map(|(node, eligibility)| (node_name(node).to_owned(), *eligibility))
            .collect();
        for (node, eligibility) in &known {
            let present = self.pods.get(node).map(Vec::as_slice).unwrap_or_default();
            let (ended, running): (Vec<_>, Vec<_>) = present
                .iter()
                .filter(|pod| !pods::is_terminating(pod))
                .cloned()
                .partition(|pod| pods::is_terminal(pod));
            match eligibility {
                Eligibility::Run if present.is_empty() => nodes_without_pod.push(node.clone()),
                Eligibility::Exclude => surplus.extend(ended.into_iter().chain(running)),
                Eligibility::Run | Eligibility::KeepRunning => {
                    surplus.extend(ended);
                    // During a surge a node may have one old and one new pod.
                    let (new, old): (Vec<_>, Vec<_>) =
                        running.into_iter().partition(|pod| surges && self.is_new(pod));
                    if surges
                        && new.is_empty()
                        && old.is_empty()
                        && *eligibility == Eligibility::Run
                    {
                        nodes_without_pod.push(node.clone());
                    }
                    surplus.extend(new.into_iter().skip(1).chain(old.into_iter().skip(1)));
                }
            }
        }
        // Unbound pods of deleted nodes: the pod garbage collector does not find them.
        for (node, pods) in &self.pods {
            let node_deleted = !known.iter().any(|(name, _)| name == node);
            let unbound =
                |pod: &&Arc<Pod>| pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none());
            surplus.extend(pods.iter().filter(|_| node_deleted).filter(unbound).cloned());
        }
        for pod in surplus {
            self.delete_pod(&pod).await?;
        }
        for node in nodes_without_pod {
            self.create_pod(&node).await?;
        }
        Ok(())
    }

    /// Replaces pods of an older template.
    async fn update(&mut self) -> Result<()> {
        let (surge, max_unavailable) = self.limits();
        let (mut missing, mut surging) = (0, 0);
        let (mut unavailable_old, mut available_old, mut replaced) =
            (Vec::new(), Vec::new(), Vec::new());
        for (node, eligibility) in &self.nodes {
            let name = node_name(node);
            let present = self.pods.get(name).map(Vec::as_slice).unwrap_or_default();
            let running: Vec<_> = present.iter().filter(|pod| !pods::is_terminating(pod)).collect();
            let new = running.iter().find(|pod| self.is_new(pod));
            let old = running.iter().find(|pod| !self.is_new(pod));
            match (new, old) {
                (None, None) => missing += usize::from(*eligibility == Eligibility::Run),
                (Some(new), None) => missing += usize::from(!self.available(new)),
                (None, Some(old)) if self.available(old) => {
                    available_old.push((name, (*old).clone()))
                }
                (None, Some(old)) => unavailable_old.push((name, (*old).clone())),
                (Some(new), Some(old)) if self.available(new) => replaced.push((*old).clone()),
                (Some(_), Some(_)) => surging += 1,
            }
        }
        if surge == 0 {
            missing += unavailable_old.len();
            let left = max_unavailable.saturating_sub(missing);
            let chosen = unavailable_old.into_iter().chain(available_old.into_iter().take(left));
            for pod in chosen.map(|(_, pod)| pod).collect::<Vec<_>>() {
                self.delete_pod(&pod).await?;
            }
            return Ok(());
        }
        let left = surge.saturating_sub(surging);
        let chosen = unavailable_old.into_iter().chain(available_old.into_iter().take(left));
        for node in chosen.map(|(node, _)| node.to_owned()).collect::<Vec<_>>() {
            self.create_pod(&node).await?;
        }
        for pod in replaced {
            self.delete_pod(&pod).await?;
        }
        Ok(())
    }

    async fn clean_up(&self) -> Result<()> {
        let mut hashes = vec![self.hash().to_owned()];
        for pod in self.pods.values().flatten() {
            let labels = pod.metadata.labels.as_ref();
            hashes.extend(labels.and_then(|labels| labels.get(history::HASH).cloned()));
        }
        let live = |revision: &ControllerRevision| {
            hashes.iter().any(|hash| hash == history::hash_of(revision))
        };
        let limit = self.spec.revision_history_limit.unwrap_or(10);
        self.history.truncate(self.cx, limit, live).await
    }

    /// Writes the status if it changed. Returns when the next pod becomes available.
    async fn update_status(&self) -> Result<Option<Duration>> {
        let old = self.set.status.clone().unwrap_or_default();
        let mut status = DaemonSetStatus {
            collision_count: Some(self.history.collisions).filter(|&count| count > 0),
            observed_generation: self.set.metadata.generation,
            conditions: old.conditions,
            ..DaemonSetStatus::default()
        };
        let (mut updated, mut available) = (0, 0);
        let mut next: Option<Duration> = None;
        for (node, eligibility) in &self.nodes {
            let pod = self.pods.get(node_name(node)).and_then(|pods| pods.first());
            if *eligibility != Eligibility::Run {
                status.number_misscheduled += i32::from(pod.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(pod) = pod else { continue };
            status.current_number_scheduled += 1;
            updated += i32::from(self.is_new(pod));
            let Some(since) = pods::ready_since(pod) else { continue };
            status.number_ready += 1;
            let min_ready = self.spec.min_ready_seconds.unwrap_or(0);
            let wait = pods::available_in(since, min_ready, self.now);
            if wait.is_zero() {
                available += 1;
            } else {
                next = Some(next.map_or(wait, |next| next.min(wait)));
            }
        }
        let positive = |count: i32| Some(count).filter(|&count| count > 0);
        status.updated_number_scheduled = positive(updated);
        status.number_available = positive(available);
        status.number_unavailable = positive(status.desired_number_scheduled - available);
        self.cx.client().patch_status(self.set, self.set.status.as_ref(), &status).await?;
        Ok(next)
    }
}

fn node_name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}
