//! Scaling of a Deployment, also during a rollout.

use std::cmp::Reverse;
use std::sync::Arc;

use evenkeel::{Action, Result};
use k8s_openapi::api::apps::v1::ReplicaSet;

use super::revisions::{MAX, age, annotation};
use super::{Rollout, Strategy};
use crate::replicaset::replicas;

impl Rollout<'_> {
    /// Scales the ReplicaSets to the Deployment's size without advancing the rollout.
    pub(super) async fn scale_only(&mut self) -> Result<Action> {
        let (new, old) = self.sync_replica_sets(false).await?;
        self.scale(new.as_ref(), &old).await?;
        if self.spec.paused == Some(true) {
            self.clean_up(&old).await?;
        }
        let new = self.new_and_old().0;
        self.update_status(new.as_deref()).await
    }

    async fn scale(
        &mut self,
        new: Option<&Arc<ReplicaSet>>,
        old: &[Arc<ReplicaSet>],
    ) -> Result<()> {
        let mut active: Vec<_> =
            old.iter().chain(new).filter(|set| replicas(set) > 0).cloned().collect();
        // With at most one active ReplicaSet, only that one is scaled.
        let only = match active.as_slice() {
            [] => new.or(old.iter().max_by_key(|set| age(set))),
            [only] => Some(only),
            _ => None,
        };
        if let Some(only) = only.cloned() {
            if replicas(&only) != self.replicas() {
                self.scale_to(&only, self.replicas()).await?;
            }
            return Ok(());
        }
        if let Some(new) = new.filter(|new| self.is_saturated(new)) {
            let new = &new.metadata.uid;
            for set in active.iter().filter(|set| set.metadata.uid != *new) {
                self.scale_to(set, 0).await?;
            }
            return Ok(());
        }
        if self.strategy() != Strategy::Rolling {
            return Ok(());
        }
        let most = match self.replicas() {
            0 => 0,
            size => size.saturating_add(self.max_surge()),
        };
        let add = most - active.iter().map(|set| replicas(set)).fold(0, i32::saturating_add);
        // The rounding remainder goes to the largest ReplicaSet; among equals to the newest when
        // scaling up, to the oldest when scaling down.
        active.sort_by_key(|set| (Reverse(replicas(set)), age(set)));
        if add > 0 {
            active.sort_by_key(|set| (Reverse(replicas(set)), Reverse(age(set))));
        }
        let mut sizes: Vec<i32> = active.iter().map(|set| replicas(set)).collect();
        let mut added = 0;
        for (set, size) in active.iter().zip(&mut sizes) {
            let share = self.proportion(set, add, added);
            *size += share;
            added += share;
        }
        if let Some(first) = sizes.first_mut() {
            *first = (*first + add - added).max(0);
        }
        for (set, size) in active.iter().zip(sizes) {
            self.scale_to(set, size).await?;
        }
        Ok(())
    }

    /// Whether the new ReplicaSet is fully scaled and available.
    fn is_saturated(&self, new: &ReplicaSet) -> bool {
        let wanted = self.replicas();
        let recorded = annotation(new, super::revisions::DESIRED).and_then(|d| d.parse().ok());
        replicas(new) == wanted
            && recorded == Some(wanted)
            && super::limits::available(new) == wanted
    }

    /// Returns the share of `add` for this ReplicaSet, of which `added` is already distributed.
    /// Mirrors `GetReplicaSetProportion`.
    fn proportion(&self, set: &ReplicaSet, add: i32, added: i32) -> i32 {
        let size = replicas(set);
        if size == 0 || add == 0 || add == added {
            return 0;
        }
        let share = if self.replicas() == 0 {
            -size
        } else {
            let most = f64::from(self.replicas().saturating_add(self.max_surge()));
            let recorded = annotation(set, MAX).and_then(|text| text.parse::<i32>().ok());
            let counted = self.deployment.status.as_ref().and_then(|status| status.replicas);
            let before = recorded.filter(|&max| max > 0).or(counted).unwrap_or(0).max(1);
            let scaled = (f64::from(size) * most / f64::from(before)).round();
            #[expect(clippy::cast_possible_truncation, reason = "a share of an i32")]
            let scaled = scaled.clamp(0.0, f64::from(i32::MAX)) as i32;
            scaled - size
        };
        if add > 0 { share.min(add - added) } else { share.max(add - added) }
    }
}
