//! Failures counted per index, with `backoffLimitPerIndex`.
//!
//! The failure count of an index is an annotation of the pod that retries it, so the last failed
//! pod is kept until then.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::indexes::Indexes;
use super::policy::{self, Failure};
use super::{Work, backoff, index_of, track};

const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Reads a count from an annotation; an invalid value is 0.
fn number(pod: &Pod, name: &str) -> i32 {
    let text = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(name));
    text.and_then(|text| text.parse().ok()).filter(|&number| number >= 0).unwrap_or(0)
}

/// Returns how often the index had failed, counted or ignored, before this pod.
fn attempts(pod: &Pod) -> i32 {
    number(pod, FAILURES).saturating_add(number(pod, IGNORED))
}

impl Work<'_> {
    /// Returns the indexes that are not retried; `None` if failures are not counted per index.
    pub(super) fn failed_indexes(&self) -> Option<Indexes> {
        let limit = self.spec.backoff_limit_per_index?;
        let text = self.status.failed_indexes.as_deref().unwrap_or_default();
        let mut failed = Indexes::parse(text, self.completions());
        let given_up = |pod: &&Arc<Pod>| {
            track::is_tracked(pod)
                && self.has_failed(pod)
                && match policy::failure(self.spec, pod) {
                    Failure::FailsIndex => true,
                    Failure::Ignored => false,
                    Failure::Counts | Failure::FailsJob(_) => number(pod, FAILURES) >= limit,
                }
        };
        failed.extend(self.pods.iter().filter(given_up).filter_map(|pod| self.valid_index(pod)));
        Some(failed)
    }

    /// Returns the last failed pods of the indexes that have not been retried yet.
    pub(super) fn last_failed(&self) -> BTreeMap<u32, Arc<Pod>> {
        let mut last: BTreeMap<u32, Arc<Pod>> = BTreeMap::new();
        let Some(failed) = self.failed_indexes() else { return last };
        let done = self.succeeded_indexes();
        let active: HashSet<u32> = self.active().iter().filter_map(|pod| index_of(pod)).collect();
        let order = |pod: &Pod| (attempts(pod), backoff::ended_at(pod));
        for pod in self.pods.iter().filter(|pod| track::is_tracked(pod) && self.has_failed(pod)) {
            let Some(index) = self.valid_index(pod) else { continue };
            if done.contains(index) || failed.contains(index) || active.contains(&index) {
                continue;
            }
            let newer = last.get(&index).is_none_or(|present| order(present) <= order(pod));
            if newer {
                last.insert(index, pod.clone());
            }
        }
        last
    }

    /// Returns those of `indexes` that may be retried now. Requeues the Job for the next one.
    pub(super) fn due(&mut self, indexes: Vec<u32>) -> Vec<u32> {
        let waits = |pod: &Arc<Pod>| {
            let failures = u32::try_from(attempts(pod)).unwrap_or(0).saturating_add(1);
            backoff::remaining(failures, backoff::ended_at(pod), self.now)
        };
        let wait = |index: &u32| self.last_failed.get(index).map_or(Duration::ZERO, waits);
        let (due, later): (Vec<u32>, Vec<u32>) =
            indexes.into_iter().partition(|index| wait(index).is_zero());
        if let Some(next) = later.iter().map(wait).min() {
            self.requeue_after(next);
        }
        due
    }

    /// Sets the failure count annotations of a pod that retries an index.
    pub(super) fn set_failure_counts(&self, pod: &mut Pod, index: u32) {
        if self.spec.backoff_limit_per_index.is_none() {
            return;
        }
        let (mut failures, mut ignored) = (0, 0);
        if let Some(last) = self.last_failed.get(&index) {
            (failures, ignored) = (number(last, FAILURES), number(last, IGNORED));
            match policy::failure(self.spec, last) {
                Failure::Ignored => ignored += 1,
                _ => failures += 1,
            }
        }
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(FAILURES.to_owned(), failures.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED.to_owned(), ignored.to_string());
        }
    }
}
