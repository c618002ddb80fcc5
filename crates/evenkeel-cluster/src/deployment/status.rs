//! The status of a Deployment: counts, and the conditions Available, Progressing and
//! ReplicaFailure.

use std::time::Duration;

use evenkeel::{Action, Result};
use jiff::SignedDuration;
use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus, ReplicaSet};

use super::{Rollout, limits};
use crate::pods;
use crate::versions::{field, text};

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";
/// The reason of a completed rollout.
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

fn find<'a>(status: &'a DeploymentStatus, name: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_deref().unwrap_or_default().iter().find(|c| text(&c.type_) == name)
}

fn remove(status: &mut DeploymentStatus, name: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| text(&condition.type_) != name);
    }
}

/// Sets a condition unless it already has this status and reason.
fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    if let Some(present) = find(status, text(&condition.type_)) {
        if present.status == condition.status && present.reason == condition.reason {
            return;
        }
        if present.status == condition.status {
            condition.last_transition_time = present.last_transition_time.clone();
        }
    }
    remove(status, text(&condition.type_));
    status.conditions.get_or_insert_default().push(condition);
}

impl Rollout<'_> {
    fn condition(
        &self,
        name: &str,
        status: &str,
        reason: &str,
        message: String,
    ) -> DeploymentCondition {
        let now = pods::timestamp(self.cx.clock());
        DeploymentCondition {
            type_: field(name.to_owned()),
            status: field(status.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_update_time: Some(now.clone()),
            last_transition_time: Some(now),
        }
    }

    /// Returns the progress deadline.
    fn deadline(&self) -> Option<SignedDuration> {
        let seconds = self.spec.progress_deadline_seconds.filter(|&s| s != i32::MAX)?;
        Some(SignedDuration::from_secs(seconds.into()))
    }

    /// Whether all pods are updated and available, and no old pods are left.
    pub(super) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let wanted = Some(self.replicas()).filter(|&count| count > 0);
        status.updated_replicas == wanted
            && status.replicas == wanted
            && status.available_replicas == wanted
            && status.observed_generation >= self.deployment.metadata.generation
    }

    /// Sets the Progressing condition when the rollout is paused or resumed.
    pub(super) fn update_paused(&mut self) {
        let reason = find(&self.status, PROGRESSING).and_then(|present| present.reason.as_deref());
        let is_paused = reason == Some("DeploymentPaused");
        match self.spec.paused == Some(true) {
            _ if reason == Some(TIMED_OUT) => {}
            true if !is_paused => {
                self.set_progress("Unknown", "DeploymentPaused", "Deployment is paused".into());
            }
            false if is_paused => {
                self.set_progress("Unknown", "DeploymentResumed", "Deployment is resumed".into());
            }
            _ => {}
        }
    }

    pub(super) fn set_progress(&mut self, status: &str, reason: &str, message: String) {
        if self.deadline().is_some() {
            let condition = self.condition(PROGRESSING, status, reason, message);
            set(&mut self.status, condition);
        }
    }

    /// Writes the status if it changed. Requeues at the progress deadline.
    pub(super) async fn update_status(&mut self, new: Option<&ReplicaSet>) -> Result<Action> {
        let mut next = self.calculate_status(new);
        if self.deadline().is_none() {
            remove(&mut next, PROGRESSING);
        } else if self.deployment.metadata.deletion_timestamp.is_none()
            && self.spec.paused != Some(true)
            && !self.is_scaling()
        {
            self.update_progress(&mut next, new);
        }
        self.copy_replica_failure(&mut next, new);
        let wait = self.time_to_deadline(&next);
        let old = self.deployment.status.as_ref();
        if let Some(written) = self.cx.client().patch_status(&*self.deployment, old, &next).await? {
            self.deployment = written;
        }
        Ok(wait.map_or(Action::done(), Action::requeue_after))
    }

    fn calculate_status(&self, new: Option<&ReplicaSet>) -> DeploymentStatus {
        let all = || self.sets.iter().map(|set| &**set);
        let available = limits::sum_status(all(), |status| status.available_replicas);
        let positive = |count: i32| Some(count).filter(|&count| count > 0);
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: positive(limits::sum_status(all(), |status| Some(status.replicas))),
            updated_replicas: positive(limits::sum_status(new, |status| Some(status.replicas))),
            ready_replicas: positive(limits::sum_status(all(), |status| status.ready_replicas)),
            available_replicas: positive(available),
            unavailable_replicas: positive(self.desired_replicas() - available),
            terminating_replicas: Some(limits::sum_status(all(), |s| s.terminating_replicas)),
            collision_count: self.status.collision_count,
            conditions: self.status.conditions.clone(),
        };
        let condition = if available >= self.replicas() - self.max_unavailable() {
            let message = "Deployment has minimum availability.".to_owned();
            self.condition(AVAILABLE, "True", "MinimumReplicasAvailable", message)
        } else {
            let message = "Deployment does not have minimum availability.".to_owned();
            self.condition(AVAILABLE, "False", "MinimumReplicasUnavailable", message)
        };
        set(&mut status, condition);
        status
    }

    /// Sets the Progressing condition: complete, progressing, or timed out.
    fn update_progress(&self, next: &mut DeploymentStatus, new: Option<&ReplicaSet>) {
        let present = find(&self.status, PROGRESSING);
        let old = self.deployment.status.clone().unwrap_or_default();
        let complete = next.replicas == next.updated_replicas
            && present.is_some_and(|present| present.reason.as_deref() == Some(COMPLETE));
        if complete {
            return;
        }
        let what = match new.and_then(|new| new.metadata.name.as_deref()) {
            Some(name) => format!("ReplicaSet \"{name}\""),
            None => format!("Deployment \"{}\"", self.cx.key().name()),
        };
        if self.is_complete(next) {
            let message = format!("{what} has successfully progressed.");
            set(next, self.condition(PROGRESSING, "True", COMPLETE, message));
        } else if has_progressed(&old, next) {
            let message = format!("{what} is progressing.");
            let mut condition = self.condition(PROGRESSING, "True", "ReplicaSetUpdated", message);
            if let Some(present) = present.filter(|present| text(&present.status) == "True") {
                condition.last_transition_time = present.last_transition_time.clone();
            }
            // Not through `set`: the update time has to change even if the reason does not.
            remove(next, PROGRESSING);
            next.conditions.get_or_insert_default().push(condition);
        } else if present.is_some() && self.time_to_deadline(next) == Some(Duration::ZERO) {
            let message = format!("{what} has timed out progressing.");
            set(next, self.condition(PROGRESSING, "False", TIMED_OUT, message));
        }
    }

    /// Returns the time until the progress deadline, unless the rollout is complete, timed out or
    /// paused.
    fn time_to_deadline(&self, status: &DeploymentStatus) -> Option<Duration> {
        let deadline = self.deadline()?;
        let present = find(status, PROGRESSING)?;
        let final_reasons = [COMPLETE, TIMED_OUT, "DeploymentPaused"];
        if self.is_complete(status)
            || present.reason.as_deref().is_some_and(|r| final_reasons.contains(&r))
        {
            return None;
        }
        let since = present.last_update_time.as_ref()?.0;
        let then = since.checked_add(deadline).ok()?;
        Some(Duration::try_from(then.duration_since(self.cx.clock().now())).unwrap_or_default())
    }

    /// Copies the ReplicaFailure condition of a ReplicaSet, the new one first.
    fn copy_replica_failure(&self, next: &mut DeploymentStatus, new: Option<&ReplicaSet>) {
        let sets = new.into_iter().chain(self.sets.iter().map(|set| &**set));
        let failure = sets
            .filter_map(|set| set.status.as_ref()?.conditions.as_ref())
            .flatten()
            .find(|condition| text(&condition.type_) == FAILURE);
        match failure {
            None => remove(next, FAILURE),
            Some(failure) => {
                let reason = failure.reason.clone().unwrap_or_default();
                let message = failure.message.clone().unwrap_or_default();
                set(next, self.condition(FAILURE, text(&failure.status), &reason, message));
            }
        }
    }
}

/// Whether the rollout has progressed: more updated, ready or available pods, or fewer old ones.
fn has_progressed(old: &DeploymentStatus, next: &DeploymentStatus) -> bool {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let outdated =
        |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(next.updated_replicas) > count(old.updated_replicas)
        || outdated(next) < outdated(old)
        || count(next.ready_replicas) > count(old.ready_replicas)
        || count(next.available_replicas) > count(old.available_replicas)
}
