//! Makes Jobs at times.
//!
//! A Job's name follows from the time it is for, so that no time is served twice however often the
//! controller is interrupted. Of times that were missed only the last is made up for, if its
//! deadline allows.

mod schedule;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::{Action, BoxError, Context, Manager, Reconciler, Result, Uid, owner};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PropagationPolicy;

use crate::job::{holds, is_finished};
use crate::settings::Settings;
use schedule::Schedule;

pub(crate) const NAME: &str = "cronjob-controller";

struct CronJobs;

pub(crate) fn register(manager: &Manager, _: &Settings) -> Result<(), BoxError> {
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
        let mut jobs = cx.list::<Job>().in_namespace(namespace).owned_by(&uid).await?;
        jobs.retain(|job| owner::is_controller(&*cron, &**job));
        let status = cron.status.clone().unwrap_or_default();
        let mut work = Work { cx, cron: &cron, spec, status, now: cx.clock().now(), jobs };
        work.take_stock();
        work.forget_history().await?;
        let next = work.run().await?;
        cx.replace_status(&*cron, cron.status.as_ref(), &work.status).await?;
        Ok(match next {
            Some(next) => {
                let wait = next.duration_since(work.now);
                Action::requeue_after(Duration::try_from(wait).unwrap_or_default())
            }
            None => Action::done(),
        })
    }
}

/// One reconcile.
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
    /// Which Jobs run, and when one last succeeded.
    fn take_stock(&mut self) {
        let running = self.jobs.iter().filter(|job| !is_finished(job));
        let running: Vec<ObjectReference> = running.map(|job| reference(job)).collect();
        self.status.active = Some(running).filter(|list| !list.is_empty());
        for job in self.jobs.iter().filter(|job| holds(job, "Complete")) {
            let ended = job.status.as_ref().and_then(|status| status.completion_time.clone());
            if ended > self.status.last_successful_time {
                self.status.last_successful_time = ended;
            }
        }
    }

    /// Deletes finished Jobs beyond the history limits, the oldest first.
    async fn forget_history(&self) -> Result<()> {
        let kinds = [
            ("Complete", self.spec.successful_jobs_history_limit),
            ("Failed", self.spec.failed_jobs_history_limit),
        ];
        for (name, limit) in kinds {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let mut finished: Vec<_> = self.jobs.iter().filter(|job| holds(job, name)).collect();
            finished.sort_by_key(|job| (started(job), job.metadata.name.clone()));
            let beyond = finished.len().saturating_sub(limit);
            for job in finished.into_iter().take(beyond) {
                self.delete(job).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, job: &Job) -> Result<()> {
        self.cx.delete(job).propagation(PropagationPolicy::Background).await?;
        Ok(())
    }

    /// Makes a Job if it is time; gives the next time.
    async fn run(&mut self) -> Result<Option<Timestamp>> {
        if self.cron.metadata.deletion_timestamp.is_some() || self.spec.suspend == Some(true) {
            return Ok(None);
        }
        // A schedule or a zone that nobody knows is nothing a retry helps with.
        let Ok(schedule) = self.spec.schedule.parse::<Schedule>() else {
            let message = format!("unparseable schedule: {:?}", self.spec.schedule);
            self.cx.warn("UnparseableSchedule", &message);
            return Ok(None);
        };
        let Some(zone) = self.zone() else {
            let name = self.spec.time_zone.as_deref().unwrap_or_default();
            self.cx.warn("UnknownTimeZone", &format!("invalid timeZone: {name:?}: unknown"));
            return Ok(None);
        };
        let next = schedule.next(self.now, &zone);
        let Some(time) = self.due(&schedule, &zone) else { return Ok(next) };
        let name = format!("{}-{}", self.cx.key().name(), time.as_second() / 60);
        if self.jobs.iter().any(|job| job.metadata.name.as_deref() == Some(&name)) {
            self.status.last_schedule_time = Some(Time(time));
            return Ok(next);
        }
        let running: Vec<Arc<Job>> =
            self.jobs.iter().filter(|job| !is_finished(job)).cloned().collect();
        match self.spec.concurrency_policy.as_deref() {
            Some("Forbid") if !running.is_empty() => {
                let message = "Not starting job because prior execution is running and \
                               concurrency policy is Forbid";
                self.cx.announce("JobAlreadyActive", message);
                return Ok(next);
            }
            Some("Replace") => {
                for job in &running {
                    self.delete(job).await?;
                    let active = self.status.active.get_or_insert_default();
                    active.retain(|present| present.uid != job.metadata.uid);
                }
            }
            _ => {}
        }
        let job = self.make(&name, time, &zone)?;
        match self.cx.create(&job).await {
            Ok(job) => {
                self.cx.announce("SuccessfulCreate", &format!("Created job {name}"));
                self.status.active.get_or_insert_default().push(reference(&job));
            }
            Err(error) if error.is_already_exists() => {}
            Err(error) if crate::replicaset::is_terminating(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        self.status.last_schedule_time = Some(Time(time));
        Ok(next)
    }

    fn zone(&self) -> Option<TimeZone> {
        match self.spec.time_zone.as_deref() {
            None | Some("UTC" | "Etc/UTC") => Some(TimeZone::UTC),
            Some(name) => TimeZone::get(name).ok(),
        }
    }

    /// The last time that has come and not been served, unless it is too late for it.
    fn due(&self, schedule: &Schedule, zone: &TimeZone) -> Option<Timestamp> {
        let served = self.status.last_schedule_time.as_ref();
        let made = self.cron.metadata.creation_timestamp.as_ref();
        let mut since = served.or(made)?.0;
        if let Some(deadline) = self.spec.starting_deadline_seconds {
            let earliest = self.now.checked_sub(SignedDuration::from_secs(deadline)).ok()?;
            since = since.max(earliest);
        }
        schedule.last(since, self.now, zone)
    }

    fn make(&self, name: &str, time: Timestamp, zone: &TimeZone) -> Result<Job> {
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
        owner::set_controller(self.cron, &mut job)?;
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
