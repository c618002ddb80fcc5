//! Defaults of the groups `apps` and `batch`.

use serde_json::Value;

use super::set::{self, Object};
use super::{Applied, core, pod, volume};
use crate::strategy::TEMPLATE_GENERATION;

/// Sets the defaults of an object of the group `apps`.
pub(super) fn apply_apps(kind: &str, object: &mut Object) {
    if kind == "DaemonSet" {
        template_generation(object);
    }
    let Some(spec) = set::child(object, "spec") else { return };
    match kind {
        "Deployment" => deployment(spec),
        "DaemonSet" => daemon_set(spec),
        "StatefulSet" => stateful_set(spec),
        "ReplicaSet" => set::pointer(spec, "replicas", 1),
        _ => return,
    }
    pod::apply_template(spec, "template");
}

/// Sets the defaults of an object of the group `batch`.
pub(super) fn apply_batch(kind: &str, object: &mut Object) -> Applied {
    match kind {
        "Job" => return job(object),
        "CronJob" => cron_job(object),
        _ => {}
    }
    Applied::default()
}

fn deployment(spec: &mut Object) {
    set::pointer(spec, "replicas", 1);
    if let Some(strategy) = set::structure(spec, "strategy") {
        set::text(strategy, "type", ROLLING_UPDATE);
        if set::string(strategy, "type") == ROLLING_UPDATE
            && let Some(update) = set::structure(strategy, "rollingUpdate")
        {
            set::text_pointer(update, "maxUnavailable", "25%");
            set::text_pointer(update, "maxSurge", "25%");
        }
    }
    set::pointer(spec, "revisionHistoryLimit", 10);
    set::pointer(spec, "progressDeadlineSeconds", 600);
}

const ROLLING_UPDATE: &str = "RollingUpdate";

/// Sets the template generation annotation. The internal type has it as a field, which this version
/// always writes as an annotation.
fn template_generation(object: &mut Object) {
    if let Some(annotations) = set::structure(object, "metadata")
        .and_then(|metadata| set::structure(metadata, "annotations"))
    {
        set::text(annotations, TEMPLATE_GENERATION, "0");
    }
}

fn daemon_set(spec: &mut Object) {
    if let Some(strategy) = set::structure(spec, "updateStrategy") {
        set::text(strategy, "type", ROLLING_UPDATE);
        if set::string(strategy, "type") == ROLLING_UPDATE
            && let Some(update) = set::structure(strategy, "rollingUpdate")
        {
            set::pointer(update, "maxUnavailable", 1);
            set::pointer(update, "maxSurge", 0);
        } else if let Some(update) = set::child(strategy, "rollingUpdate") {
            // Not a default: the internal type always has these fields.
            set::pointer(update, "maxUnavailable", 0);
            set::pointer(update, "maxSurge", 0);
        }
    }
    set::pointer(spec, "revisionHistoryLimit", 10);
}

fn stateful_set(spec: &mut Object) {
    set::text(spec, "podManagementPolicy", "OrderedReady");
    if let Some(strategy) = set::structure(spec, "updateStrategy") {
        // Unlike in other kinds, an explicit type without parameters gets none.
        if set::string(strategy, "type").is_empty() {
            strategy.insert("type".to_owned(), ROLLING_UPDATE.into());
            set::structure(strategy, "rollingUpdate");
        }
        if set::string(strategy, "type") == ROLLING_UPDATE
            && let Some(update) = set::child(strategy, "rollingUpdate")
        {
            set::pointer(update, "partition", 0);
        }
    }
    if let Some(policy) = set::structure(spec, "persistentVolumeClaimRetentionPolicy") {
        set::text(policy, "whenDeleted", "Retain");
        set::text(policy, "whenScaled", "Retain");
    }
    set::pointer(spec, "replicas", 1);
    set::pointer(spec, "revisionHistoryLimit", 10);
    for claim in set::items(spec, "volumeClaimTemplates") {
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        volume::claim(claim);
    }
}

fn job(object: &mut Object) -> Applied {
    let labels = object
        .get("spec")
        .and_then(|spec| spec.pointer("/template/metadata/labels"))
        .filter(|labels| !set::is_empty(Some(labels)))
        .cloned();
    let labels_from_template =
        labels.is_some_and(|labels| core::copy_template_labels(object, &labels));
    let applied = Applied { labels_from_template, ..Applied::default() };
    let Some(spec) = set::child(object, "spec") else { return applied };
    if set::is_unset(spec.get("completions")) && set::is_unset(spec.get("parallelism")) {
        spec.insert("completions".to_owned(), 1.into());
    }
    set::pointer(spec, "parallelism", 1);
    let per_index = !set::is_unset(spec.get("backoffLimitPerIndex"));
    set::pointer(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    set::text_pointer(spec, "completionMode", "NonIndexed");
    set::pointer(spec, "suspend", false);
    let by_failure = !set::is_unset(spec.get("podFailurePolicy"));
    let replacement = if by_failure { "Failed" } else { "TerminatingOrFailed" };
    set::text_pointer(spec, "podReplacementPolicy", replacement);
    set::pointer(spec, "manualSelector", false);
    failure_policy(spec);
    pod::apply_template(spec, "template");
    applied
}

fn cron_job(object: &mut Object) {
    let Some(spec) = set::child(object, "spec") else { return };
    set::text(spec, "concurrencyPolicy", "Allow");
    set::pointer(spec, "suspend", false);
    set::pointer(spec, "successfulJobsHistoryLimit", 3);
    set::pointer(spec, "failedJobsHistoryLimit", 1);
    let template = spec
        .get_mut("jobTemplate")
        .and_then(|template| template.get_mut("spec"))
        .and_then(Value::as_object_mut);
    if let Some(job) = template {
        failure_policy(job);
        pod::apply_template(job, "template");
    }
}

fn failure_policy(job: &mut Object) {
    let Some(policy) = set::child(job, "podFailurePolicy") else { return };
    for rule in set::items(policy, "rules") {
        for condition in set::items(rule, "onPodConditions") {
            set::text(condition, "status", "True");
        }
    }
}
