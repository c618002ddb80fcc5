//! Validates CronJobs.

use serde_json::Value;

use super::super::checks;
use super::super::pod::PodOptions;
use super::super::printed;
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::{builtin_create, builtin_update};
use super::{cron, job_spec};
use crate::names::NameRule;

pub(in crate::validate) fn cron_job(errs: &mut Errors, job: &Value) {
    builtin_create(errs, job, true, NameRule::Subdomain);
    cron_job_spec(errs, job.at("spec"), None);
    let name = job.at("metadata").text("name");
    if name.len() > 52 {
        let path = Path::root("metadata");
        errs.invalid(path.child("name"), name, "must be no more than 52 characters");
    }
}

pub(in crate::validate) fn cron_job_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    cron_job_spec(errs, new.at("spec"), Some(old.at("spec")));
}

fn cron_job_spec(errs: &mut Errors, spec: &Value, old: Option<&Value>) {
    let path = Path::root("spec");
    let schedule = spec.text("schedule");
    let zone = spec.text_opt("timeZone");
    if schedule.is_empty() {
        errs.required(path.child("schedule"), "");
    } else {
        let path = path.child("schedule");
        if let Err(reason) = cron::check(schedule) {
            errs.invalid(path, schedule, reason);
        }
        let allow_time_zone = old.is_some_and(|old| old.text("schedule").contains("TZ"));
        if schedule.contains("TZ") && !allow_time_zone {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errs.invalid(path, schedule, detail);
        } else if schedule.contains("TZ") && zone.is_some() {
            let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
            errs.invalid(path, schedule, detail);
        }
    }
    let deadline = spec.int("startingDeadlineSeconds");
    checks::non_negative(errs, path.child("startingDeadlineSeconds"), deadline);
    if let Some(zone) = zone
        && old.is_none_or(|old| old.text_opt("timeZone") != Some(zone))
    {
        for detail in cron::time_zone_errors(zone) {
            errs.invalid(path.child("timeZone"), zone, detail);
        }
    }
    const POLICIES: &[&str] = &["Allow", "Forbid", "Replace"];
    let policy = spec.text("concurrencyPolicy");
    checks::one_of(errs, path.child("concurrencyPolicy"), policy, POLICIES);
    {
        let path = path.child("jobTemplate");
        let path = path.child("spec");
        let job = spec.at("jobTemplate").at("spec");
        let opts = old.map_or(PodOptions::CREATE, |old| {
            PodOptions::for_update(old.at("jobTemplate").at("spec").at("template"))
        });
        job_spec(errs, path, job, &opts);
        let selector = job.at("selector");
        if !selector.is_null() {
            let shown = printed::label_selector(selector);
            errs.invalid_printed(
                path.child("selector"),
                shown,
                "`selector` will be auto-generated",
            );
        }
        if job.is("manualSelector") {
            errs.not_supported(path.child("manualSelector"), true, &["nil", "false"]);
        }
    }
    const LIMITS: &[&str] = &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    checks::non_negatives(errs, path, spec, LIMITS);
}
