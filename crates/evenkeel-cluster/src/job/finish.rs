//! Whether a Job has finished, by its conditions or by the state of its pods.

use std::time::Duration;

use jiff::SignedDuration;

use super::policy::{self, Failure};
use super::{Work, find};
use crate::pods;

/// How a Job finishes.
#[derive(Clone, Debug)]
pub(super) struct Finish {
    pub(super) failed: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Finish {
    fn failed(reason: &str, message: &str) -> Self {
        Self { failed: true, reason: reason.to_owned(), message: message.to_owned() }
    }

    pub(super) fn succeeded(reason: &str, message: &str) -> Self {
        Self { failed: false, ..Self::failed(reason, message) }
    }
}

impl Work<'_> {
    /// Returns whether the Job finishes before all completions. An existing condition takes
    /// precedence, and failure takes precedence over success.
    pub(super) fn verdict(&mut self, failed: i32) -> Option<Finish> {
        let verdict = self.told().or_else(|| self.failed_pod());
        let verdict = verdict.or_else(|| self.too_many(failed)).or_else(|| self.too_long());
        verdict.or_else(|| self.failed_index()).or_else(|| self.enough())
    }

    fn told(&self) -> Option<Finish> {
        let told = |(name, failed)| {
            let told = find(self.job, name).filter(|told| told.status == "True")?;
            let (reason, message) = (told.reason.clone(), told.message.clone());
            let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
            Some(Finish { failed, reason, message })
        };
        [("SuccessCriteriaMet", false), ("FailureTarget", true)].into_iter().find_map(told)
    }

    /// A pod failure policy rule with the action FailJob matched.
    fn failed_pod(&self) -> Option<Finish> {
        let failed = self.pods.iter().filter(|pod| self.has_failed(pod));
        let mut failures = failed.map(|pod| policy::failure(self.spec, pod));
        failures.find_map(|failure| match failure {
            Failure::FailsJob(message) => Some(Finish::failed("PodFailurePolicy", &message)),
            _ => None,
        })
    }

    fn too_many(&self, failed: i32) -> Option<Finish> {
        let limit = self.spec.backoff_limit.unwrap_or(6);
        let message = "Job has reached the specified backoff limit";
        (failed > limit || self.restarts_exceed(limit))
            .then(|| Finish::failed("BackoffLimitExceeded", message))
    }

    fn too_long(&mut self) -> Option<Finish> {
        let deadline = self.spec.active_deadline_seconds.filter(|_| !self.suspended())?;
        let started = self.status.start_time.as_ref()?.0;
        let end = started.checked_add(SignedDuration::from_secs(deadline)).ok()?;
        let left = Duration::try_from(end.duration_since(self.now)).unwrap_or_default();
        if left.is_zero() {
            let message = "Job was active longer than specified deadline";
            return Some(Finish::failed("DeadlineExceeded", message));
        }
        self.look_again(left);
        None
    }

    fn failed_index(&self) -> Option<Finish> {
        let failed = self.failed_indexes()?.len();
        let most = self.spec.max_failed_indexes.and_then(|most| usize::try_from(most).ok());
        if most.is_some_and(|most| failed > most) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(Finish::failed("MaxFailedIndexesExceeded", message));
        }
        let over = failed + self.succeeded_indexes().len();
        let all = usize::try_from(self.completions()).unwrap_or(usize::MAX);
        (failed > 0 && over >= all)
            .then(|| Finish::failed("FailedIndexes", "Job has failed indexes"))
    }

    fn enough(&self) -> Option<Finish> {
        if !self.indexed() {
            return None;
        }
        let met = policy::success(self.spec, &self.succeeded_indexes(), self.completions())?;
        Some(Finish::succeeded("SuccessPolicy", &met))
    }

    /// Whether containers were restarted in place too often.
    fn restarts_exceed(&self, limit: i32) -> bool {
        let policy = self.spec.template.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
        if policy != Some("OnFailure") {
            return false;
        }
        let living =
            self.pods.iter().filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
        let statuses = living.filter_map(|pod| pod.status.as_ref()).flat_map(|status| {
            let inits = status.init_container_statuses.iter().flatten();
            inits.chain(status.container_statuses.iter().flatten())
        });
        let restarts = statuses.map(|status| status.restart_count).fold(0, i32::saturating_add);
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }
}
