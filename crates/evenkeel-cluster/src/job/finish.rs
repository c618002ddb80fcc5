//! Whether a Job has finished, by its conditions or by the state of its pods.

use std::time::Duration;

use jiff::SignedDuration;

use super::policy::{self, Failure};
use super::{Work, condition};
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
    pub(super) fn check_finished(&mut self, failed: i32) -> Option<Finish> {
        let finish = self.finish_condition().or_else(|| self.pod_failure_policy_failure());
        let finish = finish
            .or_else(|| self.backoff_limit_exceeded(failed))
            .or_else(|| self.deadline_exceeded());
        finish.or_else(|| self.failed_indexes_exceeded()).or_else(|| self.success_policy_met())
    }

    fn finish_condition(&self) -> Option<Finish> {
        let finish = |(name, failed)| {
            let condition =
                condition(self.job, name).filter(|condition| condition.status == "True")?;
            let (reason, message) = (condition.reason.clone(), condition.message.clone());
            let (reason, message) = (reason.unwrap_or_default(), message.unwrap_or_default());
            Some(Finish { failed, reason, message })
        };
        [("SuccessCriteriaMet", false), ("FailureTarget", true)].into_iter().find_map(finish)
    }

    /// A pod failure policy rule with the action FailJob matched.
    fn pod_failure_policy_failure(&self) -> Option<Finish> {
        let failed = self.pods.iter().filter(|pod| self.has_failed(pod));
        let mut failures = failed.map(|pod| policy::failure(self.spec, pod));
        failures.find_map(|failure| match failure {
            Failure::FailsJob(message) => Some(Finish::failed("PodFailurePolicy", &message)),
            _ => None,
        })
    }

    fn backoff_limit_exceeded(&self, failed: i32) -> Option<Finish> {
        let limit = self.spec.backoff_limit.unwrap_or(6);
        let message = "Job has reached the specified backoff limit";
        (failed > limit || self.restarts_exceed(limit))
            .then(|| Finish::failed("BackoffLimitExceeded", message))
    }

    fn deadline_exceeded(&mut self) -> Option<Finish> {
        let deadline = self.spec.active_deadline_seconds.filter(|_| !self.suspended())?;
        let started = self.status.start_time.as_ref()?.0;
        let end = started.checked_add(SignedDuration::from_secs(deadline)).ok()?;
        let left = Duration::try_from(end.duration_since(self.now)).unwrap_or_default();
        if left.is_zero() {
            let message = "Job was active longer than specified deadline";
            return Some(Finish::failed("DeadlineExceeded", message));
        }
        self.requeue_after(left);
        None
    }

    fn failed_indexes_exceeded(&self) -> Option<Finish> {
        let failed = self.failed_indexes()?.len();
        let max = self.spec.max_failed_indexes.and_then(|max| usize::try_from(max).ok());
        if max.is_some_and(|max| failed > max) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Some(Finish::failed("MaxFailedIndexesExceeded", message));
        }
        let over = failed + self.succeeded_indexes().len();
        let all = usize::try_from(self.completions()).unwrap_or(usize::MAX);
        (failed > 0 && over >= all)
            .then(|| Finish::failed("FailedIndexes", "Job has failed indexes"))
    }

    fn success_policy_met(&self) -> Option<Finish> {
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
        let running =
            self.pods.iter().filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
        let statuses = running.filter_map(|pod| pod.status.as_ref()).flat_map(|status| {
            let inits = status.init_container_statuses.iter().flatten();
            inits.chain(status.container_statuses.iter().flatten())
        });
        let restarts = statuses.map(|status| status.restart_count).fold(0, i32::saturating_add);
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }
}
