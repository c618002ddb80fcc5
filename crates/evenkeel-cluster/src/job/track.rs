//! Counting pods that ended, each exactly once.

use std::sync::Arc;

use evenkeel::{Context, Key, Result};
use k8s_openapi::api::batch::v1::{Job, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::indexes::Indexes;
use super::policy::{self, Failure};
use super::{FINALIZER, Work, finalizers, index_of};
use crate::pods;

/// How many pods may be on the way from ended to counted, so that a status stays small.
const MOST: usize = 500;

/// Whether a pod is kept until it has been counted.
pub(super) fn is_held(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
}

/// Lets a pod go; it has been counted, or need not be.
pub(super) async fn remove_finalizer(cx: &Context<Job>, pod: &Pod) -> Result<()> {
    let key = Key::of(pod);
    // Others write to the pod all the time, and the list must not be based on an old one.
    let Some(fresh) = cx.get::<Pod>(&key).await? else { return Ok(()) };
    if fresh.metadata.uid != pod.metadata.uid || !is_held(&fresh) {
        return Ok(());
    }
    let present = fresh.metadata.finalizers.clone().unwrap_or_default();
    let rest: Vec<String> = present.into_iter().filter(|name| name != FINALIZER).collect();
    match cx.patch::<Pod>(&key, &finalizers(&fresh, &rest)).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Puts the finalizer on living pods that lack it: those that were adopted.
pub(super) async fn hold(cx: &Context<Job>, found: Vec<Arc<Pod>>) -> Result<Vec<Arc<Pod>>> {
    let mut held = Vec::with_capacity(found.len());
    for pod in found {
        if is_held(&pod) || !pods::is_active(&pod) {
            held.push(pod);
            continue;
        }
        let mut names = pod.metadata.finalizers.clone().unwrap_or_default();
        names.push(FINALIZER.to_owned());
        held.push(cx.patch::<Pod>(&Key::of(&*pod), &finalizers(&pod, &names)).await?);
    }
    Ok(held)
}

impl Work<'_> {
    /// From ended pods to numbers, and from numbers to the end of the Job.
    pub(super) async fn track(&mut self) -> Result<()> {
        self.settle(is_held);
        let ended = self.note_ended();
        if let Some(finish) = self.finish.clone() {
            let interim = if finish.failed { "FailureTarget" } else { "SuccessCriteriaMet" };
            self.put(interim, "True", &finish.reason, &finish.message);
        }
        let done = ended.is_empty() && self.conclude();
        self.write().await?;
        if done {
            return Ok(());
        }
        for pod in &ended {
            remove_finalizer(self.cx, pod).await?;
        }
        if ended.is_empty() {
            return Ok(());
        }
        let released: Vec<_> = ended.iter().map(|pod| pod.metadata.uid.clone()).collect();
        self.settle(|pod| is_held(pod) && !released.contains(&pod.metadata.uid));
        self.reread().await?;
        self.count(&self.active());
        self.conclude();
        self.write().await
    }

    /// Turns those into numbers that no pod with a finalizer stands for any more.
    fn settle(&mut self, is_held: impl Fn(&Pod) -> bool) {
        let held: Vec<&String> = self
            .pods
            .iter()
            .filter(|p| is_held(p))
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

    /// Puts pods that ended into the status; gives those that may go after it has been written.
    fn note_ended(&mut self) -> Vec<Arc<Pod>> {
        let mut uncounted = self.status.uncounted_terminated_pods.take().unwrap_or_default();
        let mut succeeded = uncounted.succeeded.take().unwrap_or_default();
        let mut failed = uncounted.failed.take().unwrap_or_default();
        let mut done = self.succeeded_indexes_in_status();
        let failed_indexes = self.failed_indexes().map(|failed| failed.to_string());
        let over = self.finish.as_ref().is_some_and(|finish| finish.failed)
            || self.job.metadata.deletion_timestamp.is_some();
        let mut ended = Vec::new();
        for pod in self.pods.iter().filter(|pod| is_held(pod)) {
            let Some(uid) = &pod.metadata.uid else { continue };
            let bad = self.has_failed(pod) && !self.dismissed.contains(uid);
            let last = index_of(pod).and_then(|index| self.last_failed.get(&index));
            let is_last = last.is_some_and(|last| last.metadata.uid == pod.metadata.uid);
            if is_last && self.finish.is_none() && self.job.metadata.deletion_timestamp.is_none() {
                // What has been tried is written on the pod that tries it next, from this one.
                continue;
            }
            if pods::phase(pod) == "Succeeded" && !failed.contains(uid) {
                if self.indexed() {
                    done.extend(self.valid_index(pod));
                } else if !succeeded.contains(uid) {
                    succeeded.push(uid.clone());
                }
            } else if bad || over {
                let ignored = policy::failure(self.spec, pod) == Failure::Ignored;
                let counts = !self.indexed() || self.valid_index(pod).is_some();
                if counts && !ignored && !failed.contains(uid) {
                    failed.push(uid.clone());
                }
            } else if self.finish.is_none() {
                continue;
            }
            ended.push(pod.clone());
            if succeeded.len() + failed.len() >= MOST {
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
        ended
    }

    fn succeeded_indexes_in_status(&self) -> Indexes {
        let text = self.status.completed_indexes.as_deref().unwrap_or_default();
        Indexes::parse(text, self.completions())
    }

    /// The last word, once every pod has been counted and none is on its way out.
    fn conclude(&mut self) -> bool {
        let Some(finish) = self.finish.clone() else { return false };
        let uncounted = self.status.uncounted_terminated_pods.as_ref();
        let open = uncounted.is_some_and(|u| u.succeeded.is_some() || u.failed.is_some());
        if open || self.status.terminating.is_some_and(|count| count > 0) {
            return false;
        }
        let name = if finish.failed { "Failed" } else { "Complete" };
        self.put(name, "True", &finish.reason, &finish.message);
        if finish.failed {
            self.cx.warn(&finish.reason, &finish.message);
        } else {
            self.cx.announce("Completed", "Job completed");
            self.status.completion_time.get_or_insert_with(|| pods::stamp(self.cx.clock()));
        }
        true
    }

    async fn write(&mut self) -> Result<()> {
        // What was written before in this reconcile is in the cache already.
        let present = self.cx.get::<Job>(self.cx.key()).await?;
        let Some(present) = present.filter(|p| p.metadata.uid == self.job.metadata.uid) else {
            return Ok(());
        };
        self.cx.replace_status(&*present, present.status.as_ref(), &self.status).await?;
        Ok(())
    }
}
