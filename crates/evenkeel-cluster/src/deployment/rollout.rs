//! One step of a rollout, for both strategies.

use std::sync::Arc;

use evenkeel::{Action, Result};
use k8s_openapi::api::apps::v1::ReplicaSet;

use super::revisions::age;
use super::{Rollout, limits};
use crate::pods;
use crate::replicaset::replicas;

impl Rollout<'_> {
    /// Deletes old pods before new ones are created.
    pub(super) async fn recreate(&mut self) -> Result<Action> {
        let (new, old) = self.sync_replica_sets(false).await?;
        let mut scaled = false;
        for set in old.iter().filter(|set| replicas(set) > 0) {
            scaled |= self.scale_to(set, 0).await?;
        }
        if scaled || self.has_running_old_pods(&old).await? {
            return self.update_status(new.as_deref()).await;
        }
        let new = match new {
            Some(new) => Some(new),
            None => self.sync_replica_sets(true).await?.0,
        };
        if let Some(new) = &new {
            self.scale_to(new, self.replicas()).await?;
        }
        self.finish(&old).await
    }

    /// Whether pods of old ReplicaSets still run. A terminating pod is counted in the status of its
    /// ReplicaSet, whose change triggers the next reconcile.
    async fn has_running_old_pods(&self, old: &[Arc<ReplicaSet>]) -> Result<bool> {
        if limits::sum_status(old.iter().map(|set| &**set), |status| Some(status.replicas)) > 0 {
            return Ok(true);
        }
        for set in old {
            if self.pods_of(set).await?.iter().any(|pod| !pods::is_terminal(pod)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Creates new pods within `maxSurge` and deletes old ones within `maxUnavailable`.
    pub(super) async fn rolling_update(&mut self) -> Result<Action> {
        let (new, old) = self.sync_replica_sets(true).await?;
        let Some(new) = new else { return self.update_status(None).await };
        if self.scale_up(&new).await? || self.scale_down(&new, &old).await? {
            let new = self.new_and_old().0;
            return self.update_status(new.as_deref()).await;
        }
        self.finish(&old).await
    }

    async fn finish(&mut self, old: &[Arc<ReplicaSet>]) -> Result<Action> {
        if self.deployment.status.as_ref().is_some_and(|status| self.is_complete(status)) {
            self.clean_up(old).await?;
        }
        let new = self.new_and_old().0;
        self.update_status(new.as_deref()).await
    }

    async fn scale_up(&mut self, new: &Arc<ReplicaSet>) -> Result<bool> {
        let size = replicas(new);
        if size == self.replicas() {
            return Ok(false);
        }
        let wanted = if size > self.replicas() { self.replicas() } else { self.new_replicas(size) };
        self.scale_to(new, wanted).await
    }

    async fn scale_down(&mut self, new: &ReplicaSet, old: &[Arc<ReplicaSet>]) -> Result<bool> {
        let mut old: Vec<_> = old.iter().filter(|set| replicas(set) > 0).cloned().collect();
        if old.is_empty() {
            return Ok(false);
        }
        old.sort_by_key(|set| age(set));
        let min_available = self.replicas() - self.max_unavailable();
        let unavailable = replicas(new) - limits::available(new);
        let spare = self.desired_replicas() - min_available - unavailable;
        if spare <= 0 {
            return Ok(false);
        }
        // Unhealthy pods are deleted first: that does not reduce availability.
        let mut scaled = false;
        let mut cleaned = 0;
        for set in &mut old {
            let unhealthy = replicas(set) - limits::available(set);
            let remove = unhealthy.min(spare - cleaned);
            if remove > 0 {
                let size = replicas(set) - remove;
                scaled |= self.scale_to(set, size).await?;
                cleaned += remove;
                self.reload(set);
            }
        }
        let available = limits::available(new)
            + old.iter().map(|set| limits::available(set)).fold(0, i32::saturating_add);
        let mut surplus = available - min_available;
        for set in &old {
            let remove = replicas(set).min(surplus);
            if remove > 0 {
                scaled |= self.scale_to(set, replicas(set) - remove).await?;
                surplus -= remove;
            }
        }
        Ok(scaled)
    }

    /// Updates `set` to its last written state.
    fn reload(&self, set: &mut Arc<ReplicaSet>) {
        if let Some(present) = self.sets.iter().find(|s| s.metadata.uid == set.metadata.uid) {
            *set = present.clone();
        }
    }
}
