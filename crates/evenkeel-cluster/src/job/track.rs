//! Counts terminated pods, each exactly once. Mirrors `trackJobStatusAndRemoveFinalizers`.

use std::collections::HashSet;
use std::sync::Arc;

use evenkeel::{Error, Key, Result};
use k8s_openapi::api::batch::v1::{Job, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::{Namespace, Pod};

use super::indexes::Indexes;
use super::policy::{self, Failure};
use super::{FINALIZER, Work, index_of};
use crate::{finalizers, pods};

/// The maximum number of uncounted pods, so that the status stays small.
const MAX_UNCOUNTED: usize = 500;

/// Whether a pod is kept until it is counted.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    finalizers::has(pod, FINALIZER)
}

impl Work<'_> {
    /// Counts terminated pods, removes their finalizers and finishes the Job.
    pub(super) async fn track(&mut self) -> Result<()> {
        self.count_released(is_tracked);
        self.namespace_terminating = self.namespace_terminating().await?;
        let (ended, all) = self.record_terminated();
        if let Some(finish) = self.finish.clone() {
            let interim = if finish.failed { "FailureTarget" } else { "SuccessCriteriaMet" };
            self.set_condition(interim, "True", &finish.reason, &finish.message);
        }
        if ended.is_empty() {
            return self.write_final_status(all).await;
        }
        self.write().await?;
        let (released, failure) = self.remove_finalizers(&ended).await;
        self.count_released(|pod| is_tracked(pod) && !released.contains(&pod.metadata.uid));
        if let Some(failure) = failure {
            // The released pods are counted now. The others stay in the status, by uid, until the
            // retry.
            self.write().await?;
            return Err(failure);
        }
        self.reread_pods().await?;
        self.update_counts(&self.active());
        self.write_final_status(all).await
    }

    /// Removes the finalizer from each of these pods. Returns the uids of the released pods and the
    /// last error.
    async fn remove_finalizers(
        &self,
        ended: &[Arc<Pod>],
    ) -> (HashSet<Option<String>>, Option<Error>) {
        let mut released = HashSet::with_capacity(ended.len());
        let mut failure = None;
        for pod in ended {
            match finalizers::remove(self.cx.client(), &**pod, FINALIZER).await {
                Ok(()) => drop(released.insert(pod.metadata.uid.clone())),
                Err(error) => failure = Some(error),
            }
        }
        (released, failure)
    }

    /// Whether the Job's namespace is terminating: no pod can be created there any more.
    async fn namespace_terminating(&self) -> Result<bool> {
        if self.last_failed.is_empty() {
            return Ok(false);
        }
        let namespace = self.cx.key().namespace().unwrap_or_default();
        let namespace = self.cx.client().peek::<Namespace>(&Key::cluster(namespace)).await?;
        Ok(namespace.is_some_and(|namespace| namespace.meta().is_deleting()))
    }

    /// Counts the uncounted pods that no longer have the finalizer. Mirrors
    /// `cleanUncountedPodsWithoutFinalizers`.
    fn count_released(&mut self, is_tracked: impl Fn(&Pod) -> bool) {
        let held: Vec<&String> = self
            .pods
            .iter()
            .filter(|p| is_tracked(p))
            .filter_map(|p| p.metadata.uid.as_ref())
            .collect();
        let Some(uncounted) = &mut self.status.uncounted_terminated_pods else { return };
        let counted = |uids: &mut Option<Vec<String>>| {
            let Some(list) = uids else { return 0 };
            let before = list.len();
            list.retain(|uid| held.contains(&uid));
            let counted = before - list.len();
            if list.is_empty() {
                *uids = None;
            }
            i32::try_from(counted).unwrap_or(i32::MAX)
        };
        let (succeeded, failed) =
            (counted(&mut uncounted.succeeded), counted(&mut uncounted.failed));
        let add = |number: &mut Option<i32>, more: i32| {
            if more > 0 {
                *number = Some(number.unwrap_or(0) + more);
            }
        };
        add(&mut self.status.succeeded, succeeded);
        add(&mut self.status.failed, failed);
    }

    /// Whether a pod can be released once the status is written. `recorded` is whether its uid is
    /// already in the status; the state of the pod does not matter then.
    fn can_release(&self, pod: &Pod, recorded: bool) -> bool {
        let deleting = self.job.metadata.deletion_timestamp.is_some();
        if recorded || deleting || self.finish.is_some() || pods::phase(pod) == "Succeeded" {
            return true;
        }
        let last = index_of(pod).and_then(|index| self.last_failed.get(&index));
        let is_last = last.is_some_and(|last| last.metadata.uid == pod.metadata.uid);
        // The pod that retries the index gets the failure count of this one.
        self.has_failed(pod) && (!is_last || self.namespace_terminating)
    }

    /// Adds terminated pods to the status. Returns those to release after it is written, and
    /// whether these are all.
    fn record_terminated(&mut self) -> (Vec<Arc<Pod>>, bool) {
        let mut uncounted = self.status.uncounted_terminated_pods.take().unwrap_or_default();
        let mut succeeded = uncounted.succeeded.take().unwrap_or_default();
        let mut failed = uncounted.failed.take().unwrap_or_default();
        let mut done = self.succeeded_indexes_in_status();
        let failed_indexes = self.failed_indexes().map(|failed| failed.to_string());
        let job_failed = self.finish.as_ref().is_some_and(|finish| finish.failed);
        let (mut ended, mut all) = (Vec::new(), true);
        for pod in self.pods.iter().filter(|pod| is_tracked(pod)) {
            let Some(uid) = &pod.metadata.uid else { continue };
            let recorded = failed.contains(uid) || succeeded.contains(uid);
            if !self.can_release(pod, recorded) {
                continue;
            }
            ended.push(pod.clone());
            if recorded {
                continue;
            }
            let bad = self.has_failed(pod) && !self.deleted_on_finish.contains(uid);
            if pods::phase(pod) == "Succeeded" {
                if self.indexed() {
                    done.extend(self.valid_index(pod));
                } else {
                    succeeded.push(uid.clone());
                }
            } else if bad || job_failed {
                let ignored = policy::failure(self.spec, pod) == Failure::Ignored;
                let counts = !self.indexed() || self.valid_index(pod).is_some();
                if counts && !ignored {
                    failed.push(uid.clone());
                }
            }
            if succeeded.len() + failed.len() >= MAX_UNCOUNTED {
                all = false;
                break;
            }
        }
        if self.indexed() {
            self.status.succeeded = i32::try_from(done.len()).ok().filter(|&count| count > 0);
            self.status.completed_indexes = Some(done.to_string()).filter(|text| !text.is_empty());
            self.status.failed_indexes = failed_indexes;
        }
        let some = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
        let (succeeded, failed) = (some(succeeded), some(failed));
        self.status.uncounted_terminated_pods = Some(UncountedTerminatedPods { succeeded, failed });
        (ended, all)
    }

    fn succeeded_indexes_in_status(&self) -> Indexes {
        let text = self.status.completed_indexes.as_deref().unwrap_or_default();
        Indexes::parse(text, self.completions())
    }

    /// Writes the status, with the final condition once every pod is counted and none is
    /// terminating, and records its event.
    async fn write_final_status(&mut self, all: bool) -> Result<()> {
        let uncounted = self.status.uncounted_terminated_pods.as_ref();
        let open = uncounted.is_some_and(|u| u.succeeded.is_some() || u.failed.is_some());
        let open = open || !all || self.status.terminating.is_some_and(|count| count > 0);
        let Some(finish) = self.finish.clone().filter(|_| !open) else { return self.write().await };
        let name = if finish.failed { "Failed" } else { "Complete" };
        self.set_condition(name, "True", &finish.reason, &finish.message);
        if !finish.failed {
            self.status.completion_time.get_or_insert_with(|| pods::timestamp(self.cx.clock()));
        }
        self.write().await?;
        if finish.failed {
            self.cx.warning_event(&finish.reason, &finish.message);
        } else {
            self.cx.event("Completed", "Job completed");
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<()> {
        // Earlier writes of this reconcile are already in the cache.
        let present = self.cx.client().get::<Job>(self.cx.key()).await?;
        let Some(present) = present.filter(|p| p.metadata.uid == self.job.metadata.uid) else {
            return Ok(());
        };
        self.cx.client().patch_status(&*present, present.status.as_ref(), &self.status).await?;
        Ok(())
    }
}
