//! The StatefulSet controller: pods with a stable name, ordinal and storage.
//!
//! With ordered pod management one pod is handled at a time: each waits until its predecessors are
//! available. The next step depends on the state of the pods only; the controller keeps no state.

mod pvcs;

mod pod;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result, Watch};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use crate::deployment::resolve;
use crate::history::{self, History};
use crate::options::ClusterOptions;
use crate::versions::Workload;
use crate::{controller_ref, pods};
use pod::{Slot, ordinal, revision_of};

pub(crate) const NAME: &str = "statefulset-controller";

struct StatefulSets;

pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    // A pod may wait for the deletion of a former PVC: PVCs are named after their pod.
    let claims = Watch::mapped_metadata::<PersistentVolumeClaim>(|claim, _| {
        let owners = claim.owners().iter().filter(|owner| &*owner.kind == "StatefulSet");
        owners.map(|owner| Key::new(claim.key().namespace(), &owner.name)).collect()
    });
    manager
        .controller(StatefulSets)
        .named(NAME)
        .owns::<Pod>()
        .watch(controller_ref::watch_orphans::<Pod, StatefulSet>())
        .watch(claims)
        .reads::<ControllerRevision>()
        .reads::<PersistentVolumeClaim>()
        .workers(2)
        .register()?;
    Ok(())
}

impl Reconciler for StatefulSets {
    type Object = StatefulSet;

    async fn reconcile(&self, cx: &Context<StatefulSet>) -> Result<Action> {
        let Some(set) = cx.object() else { return Ok(Action::done()) };
        let Some(spec) = set.spec().cloned() else { return Ok(Action::done()) };
        let Some(selector) = controller_ref::selector(&spec.selector) else {
            return Ok(Action::done());
        };
        let old = set.status.clone().unwrap_or_default();
        let collisions = old.collision_count.unwrap_or(0);
        let history = History::sync(cx, &*set, &selector, &spec.template, collisions).await?;
        let current = old.current_revision.as_deref().and_then(|name| history.named(name));
        let current = current.unwrap_or(&history.latest).clone();
        let mut found = controller_ref::claimed::<_, Pod>(cx, &*set, &selector).await?;
        found.retain(|pod| ordinal(cx.key().name(), pod).is_some());
        let now = cx.clock().now();
        let mut work =
            Work { cx, set: &set, spec: &spec, history: &history, current, now, deleted: 0 };
        let (slots, condemned) = work.assign_slots(found)?;
        let outcome = work.run(slots, condemned).await?;
        let wait = work.update_status(&outcome, &old).await?;
        let names: Vec<String> =
            outcome.iter().filter_map(|pod| revision_of(pod).map(str::to_owned)).collect();
        let limit = spec.revision_history_limit.unwrap_or(10);
        let (latest, current) = (history::name(&history.latest), history::name(&work.current));
        let live = |revision: &ControllerRevision| {
            let name = history::name(revision);
            name == latest || name == current || names.iter().any(|other| other == name)
        };
        history.truncate(cx, limit, live).await?;
        Ok(wait.map_or(Action::done(), Action::requeue_after))
    }
}

/// The state of one reconcile.
struct Work<'a> {
    cx: &'a Context<StatefulSet>,
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    history: &'a History,
    /// The revision of pods that the update has not reached.
    current: Arc<ControllerRevision>,
    now: Timestamp,
    /// Pods of the current revision that this reconcile deleted for the update.
    deleted: i32,
}

impl Work<'_> {
    fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn start(&self) -> i32 {
        self.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0)
    }

    fn min_ready(&self) -> i32 {
        self.spec.min_ready_seconds.unwrap_or(0)
    }

    fn partition(&self) -> i32 {
        let rolling = self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        rolling.and_then(|rolling| rolling.partition).unwrap_or(0)
    }

    fn on_delete(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
        strategy == Some("OnDelete")
    }

    fn ordered(&self) -> bool {
        self.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    fn available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, self.min_ready(), self.now)
    }

    fn unavailable(&self, pod: &Pod) -> bool {
        !self.available(pod) || pods::is_terminating(pod)
    }

    /// Returns a slot for each ordinal, and the condemned pods, highest ordinal first.
    fn assign_slots(&self, found: Vec<Arc<Pod>>) -> Result<(Vec<Slot>, Vec<Arc<Pod>>)> {
        let name = self.cx.key().name();
        let range = self.start()..self.start().saturating_add(self.replicas());
        let (inside, mut condemned): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|pod| ordinal(name, pod).is_some_and(|at| range.contains(&at)));
        condemned.sort_by_key(|pod| std::cmp::Reverse(ordinal(name, pod)));
        let mut slots = Vec::new();
        for at in range {
            let present = inside.iter().find(|pod| ordinal(name, pod) == Some(at));
            slots.push(match present {
                Some(pod) => Slot::Filled(pod.clone()),
                None => Slot::Empty(Box::new(self.build_pod(at)?)),
            });
        }
        Ok((slots, condemned))
    }

    /// Takes the steps that are possible now. Returns the resulting pods.
    async fn run(
        &mut self,
        mut slots: Vec<Slot>,
        condemned: Vec<Arc<Pod>>,
    ) -> Result<Vec<Arc<Pod>>> {
        let filled = |slots: &[Slot], condemned: &[Arc<Pod>]| {
            let pods = slots.iter().filter_map(Slot::pod).chain(condemned);
            pods.cloned().collect::<Vec<_>>()
        };
        if self.set.metadata.deletion_timestamp.is_some() {
            return Ok(filled(&slots, &condemned));
        }
        // Scaling down may proceed past a single unhealthy pod, if it is the first.
        let first_unhealthy = slots.iter().find(|slot| match slot {
            Slot::Filled(pod) => self.unavailable(pod),
            Slot::Empty(_) => true,
        });
        let first_unhealthy = match first_unhealthy {
            Some(slot) => slot.pod().map(|pod| pod.metadata.uid.clone()),
            None => {
                let last = condemned.iter().rev().find(|pod| self.unavailable(pod));
                last.map(|pod| pod.metadata.uid.clone())
            }
        };
        for slot in &mut slots {
            if self.process_replica(slot).await? && self.ordered() {
                return Ok(filled(&slots, &condemned));
            }
        }
        for pod in &condemned {
            self.update_pvc_owners(pod, true).await?;
        }
        for pod in &condemned {
            if self.process_condemned(pod, first_unhealthy.as_ref()).await? && self.ordered() {
                return Ok(filled(&slots, &condemned));
            }
        }
        if !self.on_delete() {
            self.update(&slots).await?;
        }
        Ok(filled(&slots, &condemned))
    }

    /// Creates or replaces the pod of one slot. Returns true if later ordinals have to wait.
    /// Mirrors `processReplica`.
    async fn process_replica(&self, slot: &mut Slot) -> Result<bool> {
        let pod = match slot {
            Slot::Filled(pod) => pod.clone(),
            Slot::Empty(pod) => {
                if !self.create_missing_pvcs(pod).await? {
                    return Ok(true);
                }
                let made = self.cx.client().create(&**pod).await?;
                self.record_event("SuccessfulCreate", "create", &made);
                *slot = Slot::Filled(made);
                return Ok(true);
            }
        };
        if pods::is_terminal(&pod) {
            // A terminal pod is recreated once it is deleted.
            if !pods::is_terminating(&pod) {
                self.delete(&pod).await?;
            }
            return Ok(true);
        }
        if pods::phase(&pod) == "Pending" {
            self.create_missing_pvcs(&pod).await?;
        }
        let healthy =
            !pods::is_terminating(&pod) && pods::is_running_and_ready(&pod) && self.available(&pod);
        if healthy {
            self.update_pvc_owners(&pod, false).await?;
        }
        Ok(!healthy)
    }

    /// Deletes a pod beyond the replica count. Returns true if lower ordinals have to wait. Mirrors
    /// `processCondemned`.
    async fn process_condemned(
        &self,
        pod: &Pod,
        first_unhealthy: Option<&Option<String>>,
    ) -> Result<bool> {
        if pods::is_terminating(pod) {
            return Ok(true);
        }
        let healthy = pods::is_running_and_ready(pod) && self.available(pod);
        if self.ordered() && !healthy && first_unhealthy != Some(&pod.metadata.uid) {
            return Ok(true);
        }
        self.delete(pod).await?;
        Ok(true)
    }

    async fn delete(&self, pod: &Pod) -> Result<()> {
        self.cx.client().delete(pod).await?;
        self.record_event("SuccessfulDelete", "delete", pod);
        Ok(())
    }

    fn record_event(&self, reason: &str, verb: &str, pod: &Pod) {
        let (pod, set) = (pod.metadata.name.as_deref().unwrap_or_default(), self.cx.key().name());
        let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
        self.cx.event(reason, &message);
    }

    /// Deletes pods of other revisions, highest ordinal first, within `maxUnavailable`.
    async fn update(&mut self, slots: &[Slot]) -> Result<()> {
        let latest = history::name(&self.history.latest);
        let rolling = self.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        let most = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let most = most.map_or(1, |most| resolve(Some(most), self.replicas(), false).max(1));
        let pods: Vec<_> = slots.iter().filter_map(Slot::pod).collect();
        let missing = pods.iter().filter(|pod| self.unavailable(pod)).count();
        let mut left = usize::try_from(most).unwrap_or(1).saturating_sub(missing);
        let from = usize::try_from(self.partition()).unwrap_or(0);
        for pod in pods.iter().skip(from).rev() {
            if left == 0 {
                break;
            }
            if revision_of(pod) != Some(latest) && !pods::is_terminating(pod) {
                self.delete(pod).await?;
                left -= 1;
                self.deleted += 1;
            }
        }
        Ok(())
    }

    /// Writes the status if it changed. Returns when the next pod becomes available.
    async fn update_status(
        &mut self,
        found: &[Arc<Pod>],
        old: &StatefulSetStatus,
    ) -> Result<Option<Duration>> {
        let count = |test: &dyn Fn(&Pod) -> bool| {
            i32::try_from(found.iter().filter(|pod| test(pod)).count()).unwrap_or(i32::MAX)
        };
        let latest = history::name(&self.history.latest).to_owned();
        let mut current = history::name(&self.current).to_owned();
        let of = |name: &str| {
            count(&|pod: &Pod| revision_of(pod) == Some(name) && !pods::is_terminating(pod))
        };
        let ready = count(&|pod| pods::is_running_and_ready(pod));
        let available = count(&|pod| pods::is_running_and_ready(pod) && self.available(pod));
        let replicas = count(&|_| true);
        let updated = of(&latest);
        let mut of_current = of(&current) - self.deleted;
        let wanted = self.replicas();
        let done = updated == wanted && ready == wanted && replicas == wanted;
        if !self.on_delete() && done {
            of_current = updated;
            current.clone_from(&latest);
            self.current = self.history.latest.clone();
        }
        let positive = |count: i32| Some(count).filter(|&count| count > 0);
        let status = StatefulSetStatus {
            replicas,
            ready_replicas: positive(ready),
            available_replicas: Some(available),
            current_replicas: positive(of_current),
            updated_replicas: positive(updated),
            current_revision: Some(current),
            update_revision: Some(latest),
            collision_count: Some(self.history.collisions),
            observed_generation: self.set.metadata.generation,
            conditions: old.conditions.clone(),
        };
        self.cx.client().patch_status(self.set, self.set.status.as_ref(), &status).await?;
        let waits = found.iter().filter_map(|pod| pods::ready_since(pod));
        let waits = waits.map(|since| pods::available_in(since, self.min_ready(), self.now));
        Ok(waits.filter(|wait| !wait.is_zero()).min())
    }
}
