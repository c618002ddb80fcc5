//! The Job controller: runs pods to completion.
//!
//! A terminated pod is counted exactly once, however often the controller is interrupted: its uid
//! is added to `status.uncountedTerminatedPods`, then its finalizer is removed, and only then does
//! the uid become part of a count. A pod with the finalizer cannot be deleted uncounted. The
//! controller in `orphans` removes the finalizer from pods that no Job counts any more.

mod backoff;

mod indexes;

mod orphans;

mod per_index;

mod policy;

mod track;

mod ttl;

mod finish;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::Meta;
use evenkeel::predicate::Predicate;
use evenkeel::{Action, BoxError, Context, Key, Manager, MapContext, Reconciler, Result, Watch};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, Namespace, ObjectFieldSelector, Pod};

use crate::options::ClusterOptions;
use crate::{controller_ref, finalizers, pods};
use backoff::Backoffs;
use finish::Finish;
use indexes::Indexes;
use policy::Failure;

pub(crate) use ttl::{NAME as TTL, register as register_ttl};

pub(crate) const NAME: &str = "job-controller";

/// Keeps a pod until it is counted.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// How many pods one reconcile creates or deletes at most, as upstream.
const BURST: usize = 500;

#[derive(Default)]
struct Jobs {
    backoffs: Backoffs,
}

pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager
        .controller(Jobs::default())
        .named(NAME)
        .owns::<Pod>()
        .watch(controller_ref::watch_orphans::<Pod, Job>())
        .watch(terminating_namespaces())
        .workers(2)
        .register()?;
    orphans::register(manager)
}

/// Reconciles all Jobs of a namespace that starts terminating: no pod is replaced there any more.
fn terminating_namespaces() -> Watch {
    let map =
        |meta: &Meta, cx: &MapContext| cx.select::<Job>().in_namespace(meta.key().name()).keys();
    let begins = Predicate::new(|event| {
        let deleting = |meta: &Meta| meta.is_deleting();
        event.new().is_some_and(|new| deleting(new.meta()))
            && !event.old().is_some_and(|old| deleting(old.meta()))
    });
    Watch::mapped_metadata::<Namespace>(map).filter(begins)
}

/// Whether a condition has status True.
pub(crate) fn has_condition(job: &Job, name: &str) -> bool {
    condition(job, name).is_some_and(|condition| condition.status == "True")
}

fn condition<'a>(job: &'a Job, name: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == name)
}

/// Whether `spec.managedBy` names another controller.
fn is_managed_elsewhere(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|name| name != "kubernetes.io/job-controller")
}

/// Whether the Job is complete or failed.
pub(crate) fn is_finished(job: &Job) -> bool {
    has_condition(job, "Complete") || has_condition(job, "Failed")
}

impl Reconciler for Jobs {
    type Object = Job;

    async fn reconcile(&self, cx: &Context<Job>) -> Result<Action> {
        let Some(job) = cx.object() else {
            self.backoffs.forget(cx.key());
            return Ok(Action::done());
        };
        let Some(spec) = &job.spec else { return Ok(Action::done()) };
        if is_managed_elsewhere(&job) {
            return Ok(Action::done());
        }
        if is_finished(&job) {
            self.backoffs.forget(cx.key());
            return Ok(Action::done());
        }
        let selector = spec.selector.as_ref().and_then(controller_ref::selector);
        let Some(selector) = selector else { return Ok(Action::done()) };
        let found =
            controller_ref::claimed_with_finalizer::<_, Pod>(cx, &*job, &selector, FINALIZER)
                .await?;
        let now = cx.clock().now();
        let status = job.status.clone().unwrap_or_default();
        let (last_failed, deleted_on_finish, namespace_terminating, wait, finish) =
            Default::default();
        let mut work = Work {
            cx,
            job: &job,
            spec,
            status,
            pods: found,
            now,
            last_failed,
            deleted_on_finish,
            namespace_terminating,
            wait,
            finish,
        };
        work.run(&self.backoffs).await?;
        Ok(work.wait.map_or(Action::done(), Action::requeue_after))
    }
}

/// The state of one reconcile.
struct Work<'a> {
    cx: &'a Context<Job>,
    job: &'a Job,
    spec: &'a JobSpec,
    status: JobStatus,
    pods: Vec<Arc<Pod>>,
    now: Timestamp,
    /// The last failed pods of indexes that are to be retried.
    last_failed: BTreeMap<u32, Arc<Pod>>,
    /// Pods deleted in this reconcile because the Job has finished: they do not count as failed.
    deleted_on_finish: HashSet<String>,
    /// Whether the namespace is terminating, so that no pod is retried.
    namespace_terminating: bool,
    /// When to requeue.
    wait: Option<Duration>,
    finish: Option<Finish>,
}

impl Work<'_> {
    fn suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    fn indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    fn requeue_after(&mut self, wait: Duration) {
        self.wait = Some(self.wait.map_or(wait, |present| present.min(wait)));
    }

    fn active(&self) -> Vec<Arc<Pod>> {
        self.pods.iter().filter(|pod| pods::is_active(pod)).cloned().collect()
    }

    /// Whether a pod is replaced only once it is terminal, not when it is terminating.
    fn replaces_failed_only(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed")
            || self.spec.pod_failure_policy.is_some()
    }

    fn has_failed(&self, pod: &Pod) -> bool {
        match pods::phase(pod) {
            "Failed" => true,
            "Succeeded" => false,
            _ => !self.replaces_failed_only() && pods::is_terminating(pod),
        }
    }

    async fn run(&mut self, backoffs: &Backoffs) -> Result<()> {
        if self.status.start_time.is_none() && !self.suspended() {
            self.status.start_time = Some(pods::timestamp(self.cx.clock()));
        }
        let (succeeded, failed) = self.totals();
        backoffs.observe(self.cx.key(), self.job, &self.pods, |pod| self.has_failed(pod));
        self.finish = self.check_finished(failed);
        self.last_failed = self.last_failed();
        let mut active = self.active();
        if self.finish.is_some() {
            for pod in &active {
                self.cx.client().delete(&**pod).await?;
                self.deleted_on_finish.extend(pod.metadata.uid.clone());
            }
            active.clear();
            self.reread_pods().await?;
        } else {
            if self.job.metadata.deletion_timestamp.is_none() {
                let wait = backoffs.wait(self.cx.key(), self.now);
                active = self.manage(active, succeeded, wait).await?;
            }
            let complete = match self.spec.completions {
                None => succeeded > 0,
                Some(wanted) => succeeded >= wanted,
            };
            if complete && active.is_empty() {
                let message = "Reached expected number of succeeded pods";
                self.finish = Some(Finish::succeeded("CompletionsReached", message));
            } else {
                self.update_suspended();
            }
        }
        self.update_counts(&active);
        self.track().await
    }

    /// Reads the pods again, including this reconcile's own writes.
    async fn reread_pods(&mut self) -> Result<()> {
        let mut pods = Vec::with_capacity(self.pods.len());
        for pod in &self.pods {
            let present = self.cx.client().get::<Pod>(&Key::of(&**pod)).await?;
            pods.extend(present.filter(|present| present.metadata.uid == pod.metadata.uid));
        }
        self.pods = pods;
        Ok(())
    }

    /// Returns the numbers of succeeded and failed pods, uncounted ones included.
    fn totals(&self) -> (i32, i32) {
        let uncounted = self.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let (good, bad) =
            (uncounted.succeeded.unwrap_or_default(), uncounted.failed.unwrap_or_default());
        let fresh = |test: &dyn Fn(&Pod) -> bool, seen: &[String]| {
            let fresh = self.pods.iter().filter(|pod| {
                let known = pod.metadata.uid.as_ref().is_some_and(|uid| seen.contains(uid));
                track::is_tracked(pod) && !known && test(pod)
            });
            fresh.count() + seen.len()
        };
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let counts =
            |pod: &Pod| self.has_failed(pod) && policy::failure(self.spec, pod) != Failure::Ignored;
        let failed = number(fresh(&counts, &bad)) + self.status.failed.unwrap_or(0);
        if self.indexed() {
            return (number(self.succeeded_indexes().len()), failed);
        }
        let succeeded = number(fresh(&|pod| pods::phase(pod) == "Succeeded", &good))
            + self.status.succeeded.unwrap_or(0);
        (succeeded, failed)
    }

    fn completions(&self) -> u32 {
        u32::try_from(self.spec.completions.unwrap_or(0)).unwrap_or(0)
    }

    /// Returns the succeeded indexes, from the status and from existing pods.
    fn succeeded_indexes(&self) -> Indexes {
        let text = self.status.completed_indexes.as_deref().unwrap_or_default();
        let mut done = Indexes::parse(text, self.completions());
        let succeeded = self.pods.iter().filter(|pod| pods::phase(pod) == "Succeeded");
        done.extend(succeeded.filter_map(|pod| self.valid_index(pod)));
        done
    }

    /// Returns the completion index of a pod, if it is within the Job's completions.
    fn valid_index(&self, pod: &Pod) -> Option<u32> {
        index_of(pod).filter(|index| *index < self.completions())
    }

    /// Creates or deletes pods until the desired number is active. Returns the active pods.
    async fn manage(
        &mut self,
        mut active: Vec<Arc<Pod>>,
        succeeded: i32,
        wait: Duration,
    ) -> Result<Vec<Arc<Pod>>> {
        let parallelism = self.spec.parallelism.unwrap_or(1).max(0);
        let present = i32::try_from(active.len()).unwrap_or(i32::MAX);
        let wanted = match self.spec.completions {
            _ if self.suspended() => 0,
            None if succeeded > 0 => present,
            None => parallelism,
            Some(completions) => (completions - succeeded).clamp(0, parallelism),
        };
        let wanted = usize::try_from(wanted).unwrap_or(0);
        if active.len() > wanted || self.indexed() {
            let surplus = self.surplus(&active, wanted);
            if !surplus.is_empty() {
                for pod in surplus.iter().take(BURST) {
                    // It did not terminate by itself, so it does not count as failed.
                    finalizers::remove(self.cx.client(), &**pod, FINALIZER).await?;
                    self.cx.client().delete(&**pod).await?;
                    active.retain(|other| other.metadata.uid != pod.metadata.uid);
                }
                self.reread_pods().await?;
                return Ok(active);
            }
        }
        let terminating = match self.replaces_failed_only() {
            true => self
                .pods
                .iter()
                .filter(|p| pods::is_terminating(p) && !pods::is_terminal(p))
                .count(),
            false => 0,
        };
        let missing = wanted.saturating_sub(active.len() + terminating).min(BURST);
        if missing == 0 {
            return Ok(active);
        }
        let each = self.spec.backoff_limit_per_index.is_some();
        if !wait.is_zero() && !each {
            self.requeue_after(wait);
            return Ok(active);
        }
        let indexes = if self.indexed() {
            let free = self.free_indexes(&active, missing);
            let due = if each { self.due(free) } else { free };
            due.into_iter().map(Some).collect()
        } else {
            vec![None; missing]
        };
        for index in indexes {
            let made = match self.cx.client().create(&self.build_pod(index)?).await {
                Err(error) if crate::replicaset::is_terminating(&error) => break,
                made => made?,
            };
            let name = made.metadata.name.as_deref().unwrap_or_default();
            self.cx.event("SuccessfulCreate", &format!("Created pod: {name}"));
            self.pods.push(made.clone());
            active.push(made);
        }
        Ok(active)
    }

    /// Returns the surplus pods: duplicates and those of finished or removed indexes, then the pods
    /// that have progressed least.
    fn surplus(&self, active: &[Arc<Pod>], wanted: usize) -> Vec<Arc<Pod>> {
        let mut surplus = Vec::new();
        let mut rest: Vec<&Arc<Pod>> = Vec::new();
        if self.indexed() && !self.suspended() {
            let done = self.succeeded_indexes();
            let mut taken = HashSet::new();
            for pod in active {
                match self.valid_index(pod) {
                    Some(index) if !done.contains(index) && taken.insert(index) => rest.push(pod),
                    _ => surplus.push(pod.clone()),
                }
            }
        } else {
            rest.extend(active);
        }
        rest.sort_by_key(|pod| {
            let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (bound, pods::is_ready(pod), std::cmp::Reverse(created), pod.metadata.name.clone())
        });
        let more =
            (surplus.len() + rest.len()).saturating_sub(wanted).saturating_sub(surplus.len());
        surplus.extend(rest.into_iter().take(more).cloned());
        surplus
    }

    /// Returns the first indexes that are neither finished nor active.
    fn free_indexes(&self, active: &[Arc<Pod>], count: usize) -> Vec<u32> {
        let done = self.succeeded_indexes();
        let mut taken: HashSet<u32> = active.iter().filter_map(|pod| index_of(pod)).collect();
        if self.replaces_failed_only() {
            let terminating = self.pods.iter().filter(|pod| !pods::is_terminal(pod));
            taken.extend(terminating.filter_map(|pod| index_of(pod)));
        }
        let failed = self.failed_indexes().unwrap_or_default();
        let over = |index: u32| done.contains(index) || failed.contains(index);
        let free = |index: &u32| !over(*index) && !taken.contains(index);
        (0..self.completions()).filter(free).take(count).collect()
    }

    fn build_pod(&self, index: Option<u32>) -> Result<Pod> {
        let mut pod = pods::from_template(&self.spec.template, self.job)?;
        let name = self.cx.key().name();
        pod.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
        pod.metadata.generate_name = Some(pods::name_prefix(name));
        let Some(index) = index else { return Ok(pod) };
        pod.metadata.generate_name = Some(pods::name_prefix(&format!("{name}-{index}")));
        self.set_failure_counts(&mut pod, index);
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(INDEX.to_owned(), index.to_string());
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(INDEX.to_owned(), index.to_string());
        let spec = pod.spec.get_or_insert_default();
        spec.hostname = Some(format!("{name}-{index}"));
        let inits = spec.init_containers.iter_mut().flatten();
        for container in inits.chain(&mut spec.containers) {
            let env = container.env.get_or_insert_default();
            if !env.iter().any(|variable| variable.name == "JOB_COMPLETION_INDEX") {
                let field_ref = ObjectFieldSelector {
                    api_version: None,
                    field_path: format!("metadata.labels['{INDEX}']"),
                };
                let source = EnvVarSource { field_ref: Some(field_ref), ..EnvVarSource::default() };
                env.push(EnvVar {
                    name: "JOB_COMPLETION_INDEX".to_owned(),
                    value: None,
                    value_from: Some(source),
                });
            }
        }
        Ok(pod)
    }

    fn update_suspended(&mut self) {
        let present = condition(self.job, "Suspended").map(|present| present.status == "True");
        match (self.suspended(), present) {
            (true, Some(true)) | (false, None | Some(false)) => {}
            (true, _) => {
                self.set_condition("Suspended", "True", "JobSuspended", "Job suspended");
                self.cx.event("Suspended", "Job suspended");
                self.status.start_time = None;
            }
            (false, Some(true)) => {
                self.set_condition("Suspended", "False", "JobResumed", "Job resumed");
                self.cx.event("Resumed", "Job resumed");
                self.status.start_time = Some(pods::timestamp(self.cx.clock()));
            }
        }
    }

    fn update_counts(&mut self, active: &[Arc<Pod>]) {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let ready = active.iter().filter(|pod| pods::is_ready(pod)).count();
        let terminating =
            self.pods.iter().filter(|p| pods::is_terminating(p) && !pods::is_terminal(p));
        self.status.terminating = Some(number(terminating.count()));
        self.status.active = Some(number(active.len())).filter(|&count| count > 0);
        self.status.ready = Some(number(ready));
    }

    /// Sets a condition unless it already has this status.
    fn set_condition(&mut self, name: &str, status: &str, reason: &str, message: &str) {
        let now = pods::timestamp(self.cx.clock());
        let conditions = self.status.conditions.get_or_insert_default();
        if conditions.iter().any(|present| present.type_ == name && present.status == status) {
            return;
        }
        conditions.retain(|present| present.type_ != name);
        conditions.push(JobCondition {
            type_: name.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
            message: Some(message.to_owned()).filter(|message| !message.is_empty()),
            last_probe_time: Some(now.clone()),
            last_transition_time: Some(now),
        });
    }
}

/// Returns the completion index of a pod.
fn index_of(pod: &Pod) -> Option<u32> {
    pod.metadata.annotations.as_ref()?.get(INDEX)?.parse().ok()
}
