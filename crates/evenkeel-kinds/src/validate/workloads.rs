//! Validates Deployments, ReplicaSets, ReplicationControllers and related kinds; submodules
//! validate StatefulSets and DaemonSets.

use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::pod::{self, PodOptions};
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update};
use crate::names::NameRule;

mod daemon_set;
mod stateful_set;

pub(super) use daemon_set::{daemon_set, daemon_set_status_update, daemon_set_update};
pub(super) use stateful_set::{stateful_set, stateful_set_status_update, stateful_set_update};

const MISMATCH: &str = "`selector` does not match template `labels`";
const OVER_REPLICAS: &str = "cannot be greater than status.replicas";

fn pod_options(old: Option<&Value>) -> PodOptions {
    old.map_or(PodOptions::CREATE, |old| PodOptions::for_update(old.at("spec").at("template")))
}

/// Adds an error for template labels that do not match the selector.
pub(super) fn selector_mismatch(errs: &mut Errors, path: Path<'_>, template: &Value) {
    let path = path.child("metadata");
    let labels = template.at("metadata").at("labels");
    errs.invalid_printed(path.child("labels"), Printed(Ty::Map(&Ty::Str), labels), MISMATCH);
}

/// Validates the template of pods that always restart.
fn restart_always_template(errs: &mut Errors, path: Path<'_>, template: &Value, kind: &str) {
    let spec = template.at("spec");
    let path = path.child("spec");
    let policy = spec.text("restartPolicy");
    if policy != "Always" {
        errs.not_supported(path.child("restartPolicy"), policy, &["Always"]);
    }
    if spec.has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errs.forbidden(path.child("activeDeadlineSeconds"), detail);
    }
}

/// Validates a selector that must be set and not empty.
fn required_selector(errs: &mut Errors, path: Path<'_>, selector: &Value, kind: &str) {
    if selector.is_null() {
        errs.required(path, "");
        return;
    }
    checks::label_selector(errs, path, selector, SelectorValues::Validated);
    if checks::is_empty_selector(selector) {
        let detail = format!("empty selector is invalid for {kind}");
        errs.invalid_printed(path, printed::label_selector(selector), detail);
    }
}

/// Validates the selector and template of Deployments and ReplicaSets.
fn selector_and_template(errs: &mut Errors, path: Path<'_>, spec: &Value, opts: &PodOptions) {
    let selector = spec.at("selector");
    required_selector(errs, path.child("selector"), selector, "deployment");
    let template = spec.at("template");
    match checks::selects(selector, template.at("metadata").at("labels")) {
        None => {
            let shown = printed::label_selector(selector);
            errs.invalid_printed(path.child("selector"), shown, "invalid label selector");
        }
        Some(selected) => {
            let path = path.child("template");
            if !selected && !checks::selects_all(selector) {
                selector_mismatch(errs, path, template);
            }
            pod::template(errs, path, template, opts);
            restart_always_template(errs, path, template, "ReplicaSet");
        }
    }
}

pub(super) fn deployment(errs: &mut Errors, deployment: &Value) {
    builtin_create(errs, deployment, true, NameRule::Subdomain);
    deployment_spec(errs, deployment.at("spec"), &PodOptions::CREATE);
}

fn deployment_spec(errs: &mut Errors, spec: &Value, opts: &PodOptions) {
    let path = Path::root("spec");
    checks::non_negative(errs, path.child("replicas"), spec.int("replicas"));
    selector_and_template(errs, path, spec, opts);
    deployment_strategy(errs, path.child("strategy"), spec.at("strategy"));
    checks::non_negatives(errs, path, spec, &["minReadySeconds", "revisionHistoryLimit"]);
    if let Some(deadline) = spec.int("progressDeadlineSeconds") {
        let path = path.child("progressDeadlineSeconds");
        checks::non_negative(errs, path, Some(deadline));
        if deadline <= spec.num("minReadySeconds") {
            errs.invalid(path, deadline, "must be greater than minReadySeconds");
        }
    }
}

fn deployment_strategy(errs: &mut Errors, path: Path<'_>, strategy: &Value) {
    let rolling = strategy.at("rollingUpdate");
    let at = path.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" => {
            if !rolling.is_null() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errs.forbidden(at, detail);
            }
        }
        "RollingUpdate" if rolling.is_null() => {
            errs.required(at, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            let path = at;
            checks::int_or_percent(errs, path.child("maxUnavailable"), unavailable);
            checks::int_or_percent(errs, path.child("maxSurge"), surge);
            let zero = |value| checks::int_or_percent_value(value) == 0;
            if zero(unavailable) && zero(surge) {
                let shown = Printed(Ty::IntOrString, unavailable);
                let detail = "may not be 0 when `maxSurge` is 0";
                errs.invalid_printed(path.child("maxUnavailable"), shown, detail);
            }
            let path = path.child("maxUnavailable");
            checks::not_more_than_100_percent(errs, path, unavailable);
        }
        _ => {
            let shown = Printed(Ty::Struct(printed::DEPLOYMENT_STRATEGY), strategy);
            errs.not_supported_printed(path, shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

pub(super) fn deployment_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    deployment_spec(errs, spec, &pod_options(Some(old)));
    check_selector_unchanged(errs, spec, old_spec);
}

fn check_selector_unchanged(errs: &mut Errors, spec: &Value, old: &Value) {
    let path = Path::root("spec");
    let (now, before) = (spec.at("selector"), old.at("selector"));
    checks::immutable_selector(errs, path.child("selector"), now, before);
}

pub(super) fn deployment_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    let status = new.at("status");
    const COUNTS: &[&str] = &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    checks::non_negatives(errs, path, status, COUNTS);
    at_most_replicas(
        errs,
        path,
        status,
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
    );
    available_at_most_ready(errs, path, status, "cannot be greater than readyReplicas");
    check_collision_count(errs, path, status, old.at("status"));
}

fn at_most_replicas(errs: &mut Errors, path: Path<'_>, status: &Value, fields: &[&str]) {
    for field in fields {
        let count = status.num(field);
        if count > status.num("replicas") {
            errs.invalid(path.child(field), count, OVER_REPLICAS);
        }
    }
}

fn available_at_most_ready(errs: &mut Errors, path: Path<'_>, status: &Value, detail: &str) {
    let available = status.num("availableReplicas");
    if available > status.num("readyReplicas") {
        errs.invalid(path.child("availableReplicas"), available, detail);
    }
}

fn check_collision_count(errs: &mut Errors, path: Path<'_>, status: &Value, old: &Value) {
    let (now, before) = (status.int("collisionCount"), old.int("collisionCount"));
    if before.is_some_and(|before| now.is_none_or(|now| now < before)) {
        errs.invalid(path.child("collisionCount"), now.unwrap_or(0), "cannot be decremented");
    }
}

pub(super) fn replica_set(errs: &mut Errors, set: &Value) {
    builtin_create(errs, set, true, NameRule::Subdomain);
    replica_set_spec(errs, set.at("spec"), &PodOptions::CREATE);
}

fn replica_set_spec(errs: &mut Errors, spec: &Value, opts: &PodOptions) {
    let path = Path::root("spec");
    checks::non_negatives(errs, path, spec, &["replicas", "minReadySeconds"]);
    selector_and_template(errs, path, spec, opts);
}

pub(super) fn replica_set_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    replica_set_spec(errs, new.at("spec"), &pod_options(Some(old)));
    check_selector_unchanged(errs, new.at("spec"), old.at("spec"));
}

pub(super) fn replica_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    let status = new.at("status");
    const COUNTS: &[&str] = &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    checks::non_negatives(errs, path, status, COUNTS);
    at_most_replicas(
        errs,
        path,
        status,
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    );
    available_at_most_ready(errs, path, status, "cannot be greater than readyReplicas");
}

pub(super) fn replication_controller(errs: &mut Errors, controller: &Value, old: Option<&Value>) {
    match old {
        None => builtin_create(errs, controller, true, NameRule::Subdomain),
        Some(old) => builtin_update(errs, controller, old),
    }
    let path = Path::root("spec");
    let spec = controller.at("spec");
    checks::non_negative(errs, path.child("minReadySeconds"), spec.int("minReadySeconds"));
    let selector = spec.map("selector").filter(|s| !s.is_empty());
    if selector.is_none() {
        errs.required(path.child("selector"), "");
    }
    if spec.has("replicas") {
        checks::non_negative(errs, path.child("replicas"), spec.int("replicas"));
    } else {
        errs.required(path.child("replicas"), "");
    }
    let template = spec.at("template");
    let path = path.child("template");
    if template.is_null() {
        errs.required(path, "");
        return;
    }
    let labels = template.at("metadata").at("labels");
    if selector.into_iter().flatten().any(|(key, value)| labels.at(key) != value) {
        selector_mismatch(errs, path, template);
    }
    pod::template(errs, path, template, &pod_options(old));
    restart_always_template(errs, path, template, "ReplicationController");
}

pub(super) fn controller_revision(errs: &mut Errors, revision: &Value) {
    revision_common(errs, revision);
    let path = Path::root("data");
    match revision.at("data") {
        Value::Null => errs.required(path, "data is mandatory"),
        Value::Object(_) => {}
        _ => errs.required(path, "data must be a valid JSON object"),
    }
}

fn revision_common(errs: &mut Errors, revision: &Value) {
    builtin_create(errs, revision, true, NameRule::Subdomain);
    checks::non_negative(errs, Path::root("revision"), revision.int("revision"));
}

pub(super) fn controller_revision_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    revision_common(errs, new);
    let (data, before) = (new.at("data"), old.at("data"));
    if data != before {
        let shown = Printed(Ty::Any, data);
        errs.invalid_printed(Path::root("data"), shown, checks::IMMUTABLE);
    }
}

pub(super) fn pod_template(errs: &mut Errors, template: &Value, old: Option<&Value>) {
    match old {
        None => builtin_create(errs, template, true, NameRule::Subdomain),
        Some(old) => builtin_update(errs, template, old),
    }
    let opts = old.map_or(PodOptions::CREATE, |old| PodOptions::for_update(old.at("template")));
    pod::template(errs, Path::root("template"), template.at("template"), &opts);
}
