//! The CronJob controller: creates Jobs on a schedule.
//!
//! The name of a Job is derived from its scheduled time, so that no time is started twice, however
//! often the controller is interrupted. Of missed times only the last is started, if its deadline
//! allows.

mod schedule;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result, Uid, owner};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PropagationPolicy;

use crate::job::{has_condition, is_finished};
use crate::options::ClusterOptions;
use schedule::{Missed, Schedule};

pub(crate) const NAME: &str = "cronjob-controller";

struct CronJobs;

pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager.controller(CronJobs).named(NAME).owns::<Job>().register()?;
    Ok(())
}

impl Reconciler for CronJobs {
    type Object = CronJob;

    async fn reconcile(&self, cx: &Context<CronJob>) -> Result<Action> {
        let Some(cron) = cx.object() else { return Ok(Action::done()) };
        let spec = &cron.spec;
        let uid = Uid::new(cron.metadata.uid.as_deref().unwrap_or_default());
        let namespace = cx.key().namespace().unwrap_or_default();
        let mut jobs = cx.client().list::<Job>().in_namespace(namespace).owned_by(&uid).await?;
        jobs.retain(|job| owner::is_controller(&*cron, &**job));
        let status = cron.status.clone().unwrap_or_default();
        let mut work = Work { cx, cron: &cron, spec, status, now: cx.clock().now(), jobs };
        work.clean_up_history().await?;
        let done = work.run().await;
        // What has been done is recorded even if the rest fails.
        cx.client().patch_status(&*cron, cron.status.as_ref(), &work.status).await?;
        Ok(match done? {
            Some(next) => {
                let wait = next.duration_since(work.now);
                Action::requeue_after(Duration::try_from(wait).unwrap_or_default())
            }
            None => Action::done(),
        })
    }
}

/// The state of one reconcile.
struct Work<'a> {
    cx: &'a Context<CronJob>,
    cron: &'a CronJob,
    spec: &'a CronJobSpec,
    status: CronJobStatus,
    now: Timestamp,
    jobs: Vec<Arc<Job>>,
}

fn started(job: &Job) -> Option<Timestamp> {
    let status = job.status.as_ref()?.start_time.as_ref();
    status.or(job.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

impl Work<'_> {
    fn is_active(&self, job: &Job) -> bool {
        let active = self.status.active.iter().flatten();
        { active }.any(|present| present.uid == job.metadata.uid)
    }

    fn remove_active(&mut self, uid: Option<&String>) {
        let active = self.status.active.get_or_insert_default();
        active.retain(|present| present.uid.as_ref() != uid);
        if active.is_empty() {
            self.status.active = None;
        }
    }

    /// Removes finished and deleted Jobs from the active list, and records the last successful
    /// time.
    async fn update_active(&mut self) -> Result<()> {
        for job in self.jobs.clone() {
            let name = job.metadata.name.as_deref().unwrap_or_default();
            match (self.is_active(&job), is_finished(&job)) {
                (true, true) => {
                    self.remove_active(job.metadata.uid.as_ref());
                    let condition =
                        if has_condition(&job, "Complete") { "Complete" } else { "Failed" };
                    let message = format!("Saw completed job: {name}, condition: {condition}");
                    self.cx.event("SawCompletedJob", &message);
                }
                (false, false) => {
                    let message =
                        format!("Saw a job that the controller did not create or forgot: {name}");
                    self.cx.warning_event("UnexpectedJob", &message);
                }
                _ => {}
            }
            if has_condition(&job, "Complete") {
                let ended = job.status.as_ref().and_then(|status| status.completion_time.clone());
                self.status.last_successful_time =
                    self.status.last_successful_time.take().max(ended);
            }
        }
        for active in self.status.active.clone().into_iter().flatten() {
            if self.jobs.iter().any(|job| job.metadata.uid == active.uid) {
                continue;
            }
            let name = active.name.as_deref().unwrap_or_default();
            let key = Key::new(self.cx.key().namespace(), name);
            // The active list may be newer than the Job cache.
            if self.cx.client().live().get::<Job>(&key).await?.is_none() {
                self.cx.event("MissingJob", &format!("Active job went missing: {name}"));
                self.remove_active(active.uid.as_ref());
            }
        }
        Ok(())
    }

    /// Deletes finished Jobs beyond the history limits, the oldest first.
    async fn clean_up_history(&mut self) -> Result<()> {
        let kinds = [
            ("Complete", self.spec.successful_jobs_history_limit),
            ("Failed", self.spec.failed_jobs_history_limit),
        ];
        for (name, limit) in kinds {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let finished = self.jobs.iter().filter(|job| has_condition(job, name));
            let mut finished: Vec<_> = finished.cloned().collect();
            finished.sort_by_key(|job| (started(job), job.metadata.name.clone()));
            let beyond = finished.len().saturating_sub(limit);
            for job in finished.into_iter().take(beyond) {
                self.delete(&job).await?;
            }
        }
        Ok(())
    }

    async fn delete(&mut self, job: &Job) -> Result<()> {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        if let Err(error) =
            self.cx.client().delete(job).propagation(PropagationPolicy::Background).await
        {
            self.cx.warning_event("FailedDelete", &format!("Deleted job: {error}"));
            return Err(error.into());
        }
        self.remove_active(job.metadata.uid.as_ref());
        self.jobs.retain(|other| other.metadata.uid != job.metadata.uid);
        self.cx.event("SuccessfulDelete", &format!("Deleted job {name}"));
        Ok(())
    }

    /// Creates a Job if one is due. Returns the time of the next reconcile.
    async fn run(&mut self) -> Result<Option<Timestamp>> {
        self.update_active().await?;
        if self.cron.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let Some(zone) = schedule::zone(self.spec.time_zone.as_deref().unwrap_or_default()) else {
            let name = self.spec.time_zone.as_deref().unwrap_or_default();
            let message = format!("invalid timeZone: {name:?}: unknown time zone {name}");
            self.cx.warning_event("UnknownTimeZone", &message);
            return Ok(None);
        };
        if self.spec.suspend == Some(true) {
            return Ok(None);
        }
        let Some(schedule) = self.schedule(&zone) else { return Ok(None) };
        let due = match schedule.due(self.earliest(true), self.now) {
            Ok(due) => due,
            Err(error) => {
                let message = format!("invalid schedule: {} : {error}", self.spec.schedule);
                self.cx.warning_event("InvalidSchedule", &message);
                return Ok(None);
            }
        };
        if let Some(time) = due.last {
            if due.missed == Missed::Many {
                let message = "too many missed start times. Set or decrease \
                               .spec.startingDeadlineSeconds or check clock skew";
                self.cx.warning_event("TooManyMissedTimes", message);
            }
            if !self.start(time, &zone).await? {
                return Ok(None);
            }
        }
        Ok(schedule.following(self.earliest(false), self.now))
    }

    /// Parses the schedule. A parse error is not retried.
    fn schedule(&self, zone: &TimeZone) -> Option<Schedule> {
        let text = &self.spec.schedule;
        if text.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more \
                 details"
            );
            self.cx.warning_event("UnsupportedSchedule", &message);
        }
        match Schedule::parse(text, zone.clone()) {
            Ok(schedule) => Some(schedule),
            Err(error) => {
                let message = format!("unparseable schedule: {text:?} : {error}");
                self.cx.warning_event("UnparseableSchedule", &message);
                None
            }
        }
    }

    /// Returns the time from which scheduled times count: the last one, or the creation; with a
    /// deadline, none before the deadline.
    ///
    /// A time that is due is therefore never past its deadline, and upstream's `MissSchedule`
    /// event, which is recorded for such a time, cannot occur.
    fn earliest(&self, with_deadline: bool) -> Timestamp {
        let started = self.status.last_schedule_time.as_ref();
        let made = self.cron.metadata.creation_timestamp.as_ref();
        let since = started.or(made).map_or(self.now, |time| time.0);
        let deadline = self.spec.starting_deadline_seconds.filter(|_| with_deadline);
        let deadline = deadline.map(SignedDuration::from_secs);
        match deadline.and_then(|deadline| self.now.checked_sub(deadline).ok()) {
            Some(deadline) => since.max(deadline),
            None => since,
        }
    }

    /// Creates the Job of a scheduled time, unless it exists or the concurrency policy forbids it.
    /// Returns false if nothing can be created any more.
    async fn start(&mut self, time: Timestamp, zone: &TimeZone) -> Result<bool> {
        let name = format!("{}-{}", self.cx.key().name(), time.as_second() / 60);
        let active: Vec<ObjectReference> = self.status.active.iter().flatten().cloned().collect();
        let is_listed = active.iter().any(|job| job.name.as_deref() == Some(&name));
        if is_listed || self.status.last_schedule_time.as_ref().is_some_and(|last| last.0 == time) {
            return Ok(true);
        }
        match self.spec.concurrency_policy.as_deref() {
            Some("Forbid") if !active.is_empty() => {
                let message = "Not starting job because prior execution is running and \
                               concurrency policy is Forbid";
                self.cx.event("JobAlreadyActive", message);
                return Ok(true);
            }
            Some("Replace") => {
                let listed = |job: &&Arc<Job>| self.is_active(job);
                let replaced: Vec<_> = self.jobs.iter().filter(listed).cloned().collect();
                for job in replaced {
                    self.delete(&job).await?;
                }
            }
            _ => {}
        }
        let job = self.build_job(&name, time, zone)?;
        let job = match self.cx.client().create(&job).await {
            Ok(job) => {
                self.cx.event("SuccessfulCreate", &format!("Created job {name}"));
                job
            }
            Err(error) if error.is_already_exists() => {
                let key = Key::new(self.cx.key().namespace(), &name);
                let present = self.cx.client().live().get::<Job>(&key).await?;
                // Created before a restart, or by another client. In the latter case it is not
                // ours.
                match present.filter(|job| owner::is_controller(self.cron, job)) {
                    Some(job) => Arc::new(job),
                    None => return Ok(true),
                }
            }
            Err(error) if crate::replicaset::is_terminating(&error) => return Ok(false),
            Err(error) => {
                self.cx.warning_event("FailedCreate", &format!("Error creating job: {error}"));
                return Err(error.into());
            }
        };
        if !is_finished(&job) {
            self.status.active.get_or_insert_default().push(reference(&job));
        }
        self.status.last_schedule_time = Some(Time(time));
        Ok(true)
    }

    fn build_job(&self, name: &str, time: Timestamp, zone: &TimeZone) -> Result<Job> {
        let template = &self.spec.job_template;
        let meta = template.metadata.clone().unwrap_or_default();
        let mut annotations = meta.annotations.unwrap_or_default();
        let local = time.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        let local = local.strip_suffix("+00:00").map_or(local.clone(), |utc| format!("{utc}Z"));
        annotations.insert("batch.kubernetes.io/cronjob-scheduled-timestamp".to_owned(), local);
        let mut job = Job {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: self.cx.key().namespace().map(str::to_owned),
                labels: meta.labels,
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        };
        owner::set_controller_reference(self.cron, &mut job)?;
        Ok(job)
    }
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}
