//! The pod failure backoff of a Job: it grows with each failure since the last success.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::Key;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::{Mutex, MutexGuard};

use super::track;
use crate::pods;

const INITIAL_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(600);

/// The backoff records of all Jobs. After a restart of the process there is no backoff.
#[derive(Default)]
pub(super) struct Backoffs(Mutex<HashMap<Key, Record>>);

#[derive(Default)]
struct Record {
    job: String,
    seen: HashSet<String>,
    failures: u32,
    last: Option<Timestamp>,
}

impl Backoffs {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Record>> {
        self.0.lock()
    }

    /// Records pods that terminated and are not counted yet, each once, in the order they
    /// terminated.
    pub(super) fn observe(
        &self,
        key: &Key,
        job: &Job,
        found: &[Arc<Pod>],
        has_failed: impl Fn(&Pod) -> bool,
    ) {
        let uid = job.metadata.uid.clone().unwrap_or_default();
        let mut records = self.lock();
        let record = records.entry(key.clone()).or_default();
        if record.job != uid {
            *record = Record { job: uid, ..Record::default() };
        }
        let held = found.iter().filter(|pod| track::is_tracked(pod));
        let mut ended: Vec<_> = held
            .filter(|pod| has_failed(pod) || pods::phase(pod) == "Succeeded")
            .filter_map(|pod| Some((ended_at(pod), pod, pod.metadata.uid.clone()?)))
            .collect();
        ended.sort_by_key(|(at, _, uid)| (*at, uid.clone()));
        for (at, pod, uid) in ended {
            if !record.seen.insert(uid) {
                continue;
            }
            if has_failed(pod) {
                record.failures += 1;
                record.last = Some(at);
            } else {
                record.failures = 0;
                record.last = None;
            }
        }
        let present: HashSet<&String> =
            found.iter().filter_map(|pod| pod.metadata.uid.as_ref()).collect();
        record.seen.retain(|uid| present.contains(uid));
    }

    /// Returns the remaining backoff.
    pub(super) fn wait(&self, key: &Key, now: Timestamp) -> Duration {
        let records = self.lock();
        let Some(record) = records.get(key) else { return Duration::ZERO };
        let Some(last) = record.last.filter(|_| record.failures > 0) else { return Duration::ZERO };
        remaining(record.failures, last, now)
    }

    pub(super) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }
}

/// Returns the remaining backoff after `failures`, the last of them at `last`.
pub(super) fn remaining(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    let doubled = failures.saturating_sub(1).min(10);
    let delay = INITIAL_BACKOFF.saturating_mul(1 << doubled).min(MAX_BACKOFF);
    let passed = Duration::try_from(now.duration_since(last)).unwrap_or_default();
    delay.saturating_sub(passed)
}

/// When the last container of a pod terminated; without one, when the pod was deleted.
pub(super) fn ended_at(pod: &Pod) -> Timestamp {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends = statuses.filter_map(|status| {
        Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
    });
    let deleted = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    ends.max().or(deleted).unwrap_or(Timestamp::MIN)
}
