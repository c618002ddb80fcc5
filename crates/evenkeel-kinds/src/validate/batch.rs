//! Validates Jobs and CronJobs.

use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::pod::{self, PodOptions};
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update, workloads};
use crate::names::{self, NameRule};

mod cron;
mod cron_job;
mod policies;
mod status;
mod zones;

pub(super) use cron_job::{cron_job, cron_job_update};
use policies::{failure_policy, replacement_policy, success_policy};
pub(super) use status::{count_indexes, job_status_update};

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const INDEXED: &str = "requires indexed completion mode";

pub(super) fn job(errs: &mut Errors, job: &Value) {
    validate_job(errs, job, &PodOptions::CREATE, true);
}

/// Validates a whole Job. `prefixed` is whether the labels with a domain prefix are required, which
/// old Jobs may lack.
fn validate_job(errs: &mut Errors, job: &Value, opts: &PodOptions, prefixed: bool) {
    builtin_create(errs, job, true, NameRule::Subdomain);
    generated_selector(errs, job, prefixed);
    let spec = job.at("spec");
    let path = Path::root("spec");
    spec_with_selector(errs, path, spec, opts);
    if let Some(completions) = spec.int("completions").filter(|c| *c > 0)
        && spec.text("completionMode") == "Indexed"
    {
        let name = job.at("metadata").text("name");
        let host = format!("{name}-{}", completions - 1);
        if !names::dns1123_label(&host).is_empty() {
            let path = Path::root("metadata");
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            errs.invalid(path.child("name"), name, detail);
        }
    }
}

/// Validates the generated selector, which matches the Job's UID unless `manualSelector` is set.
fn generated_selector(errs: &mut Errors, job: &Value, prefixed: bool) {
    let spec = job.at("spec");
    let selector = spec.at("selector");
    if spec.is("manualSelector") || selector.is_null() {
        return;
    }
    let meta = job.at("metadata");
    let (uid, name) = (meta.text("uid"), meta.text("name"));
    if uid.is_empty() {
        errs.required(Path::root("metadata").child("uid"), "");
    }
    let expected =
        [("controller-uid", uid), ("job-name", name), (CONTROLLER_UID, uid), (JOB_NAME, name)];
    let expected = &expected[..if prefixed { 4 } else { 2 }];
    let path = Path::root("spec");
    let path = path.child("template");
    let path = path.child("metadata");
    let path = path.child("labels");
    let labels = spec.at("template").at("metadata").at("labels");
    for (key, value) in expected.iter().copied() {
        match labels.text_opt(key) {
            None => errs.required(path.key(key), format!("must be '{value}'")),
            Some(actual) if actual != value => {
                let shown = Printed(Ty::Map(&Ty::Str), labels);
                errs.invalid_printed(path.key(key), shown, format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let expected: Value =
        expected.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
    if checks::selects(selector, &expected) == Some(false) {
        let path = Path::root("spec");
        let shown = printed::label_selector(selector);
        errs.invalid_printed(path.child("selector"), shown, "`selector` not auto-generated");
    }
}

fn spec_with_selector(errs: &mut Errors, path: Path<'_>, spec: &Value, opts: &PodOptions) {
    job_spec(errs, path, spec, opts);
    let selector = spec.at("selector");
    if selector.is_null() {
        errs.required(path.child("selector"), "");
    } else {
        checks::label_selector(errs, path.child("selector"), selector, opts.affinity_values);
    }
    let template = spec.at("template");
    if checks::selects(selector, template.at("metadata").at("labels")) == Some(false) {
        workloads::selector_mismatch(errs, path.child("template"), template);
    }
}

fn job_spec(errs: &mut Errors, path: Path<'_>, spec: &Value, opts: &PodOptions) {
    const COUNTS: &[&str] = &[
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    checks::non_negatives(errs, path, spec, COUNTS);
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        let detail = "when maxFailedIndexes is specified";
        errs.required(path.child("backoffLimitPerIndex"), detail);
    }
    if let Some(manager) = spec.text_opt("managedBy") {
        checks::domain_prefixed_path(errs, path.child("managedBy"), manager);
        if manager.len() > 63 {
            errs.too_long(path.child("managedBy"), 63);
        }
    }
    let mode = spec.text_opt("completionMode");
    if let Some(mode) = mode.filter(|mode| !matches!(*mode, "NonIndexed" | "Indexed")) {
        errs.not_supported(path.child("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    if mode == Some("Indexed") {
        indexed_spec(errs, path, spec);
    }
    if matches!(mode, None | Some("NonIndexed")) {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = spec.int(field) {
                errs.invalid(path.child(field), value, INDEXED);
            }
        }
    }
    if spec.has("podFailurePolicy") {
        failure_policy(errs, path.child("podFailurePolicy"), spec);
    }
    let success = spec.at("successPolicy");
    if !success.is_null() {
        let path = path.child("successPolicy");
        if mode == Some("Indexed") {
            success_policy(errs, path, success, spec);
        } else {
            let shown = Printed(Ty::Struct(printed::SUCCESS_POLICY), success);
            errs.invalid_printed(path, shown, INDEXED);
        }
    }
    replacement_policy(errs, path.child("podReplacementPolicy"), spec);
    let template = spec.at("template");
    let path = path.child("template");
    pod::template(errs, path, template, opts);
    let path = path.child("spec");
    let path = path.child("restartPolicy");
    match template.at("spec").text("restartPolicy") {
        "Always" | "" => errs.required(path, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" => {
            if spec.has("podFailurePolicy") {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                errs.invalid(path, "OnFailure", detail);
            }
        }
        other => errs.not_supported(path, other, &["OnFailure", "Never"]),
    }
}

fn indexed_spec(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    const SOFT_LIMIT: i64 = 100_000;
    const HIGH_LIMIT: i64 = 10_000;
    let (completions, parallelism) = (spec.int("completions"), spec.int("parallelism"));
    let failed = spec.int("maxFailedIndexes");
    if completions.is_none() {
        errs.required(path.child("completions"), "when completion mode is Indexed");
    }
    if let Some(parallelism) = parallelism.filter(|p| *p > SOFT_LIMIT) {
        let detail = "must be less than or equal to 100000 when completion mode is Indexed";
        errs.invalid(path.child("parallelism"), parallelism, detail);
    }
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        let detail = "must be less than or equal to completions";
        errs.invalid(path.child("maxFailedIndexes"), failed, detail);
    }
    if let Some(failed) = failed.filter(|f| *f > SOFT_LIMIT) {
        let detail = "must be less than or equal to 100000";
        errs.invalid(path.child("maxFailedIndexes"), failed, detail);
    }
    if completions.is_some_and(|c| c > SOFT_LIMIT) && spec.has("backoffLimitPerIndex") {
        if failed.is_none() {
            let detail = "must be specified when completions is above 100000";
            errs.required(path.child("maxFailedIndexes"), detail);
        }
        for (field, value) in [("parallelism", parallelism), ("maxFailedIndexes", failed)] {
            if let Some(value) = value.filter(|v| *v > HIGH_LIMIT) {
                let detail = "must be less than or equal to 10000 when completions are above \
                              100000 and used with backoff limit per index";
                errs.invalid(path.child(field), value, detail);
            }
        }
    }
}

pub(super) fn job_update(errs: &mut Errors, new: &Value, old: &Value) {
    let mut opts = PodOptions::for_update(old.at("spec").at("template"));
    let selector = checks::selector_values(old.at("spec").at("selector"));
    if selector == SelectorValues::AllowInvalid {
        opts.affinity_values = selector;
    }
    let labels = old.at("spec").at("template").at("metadata").at("labels");
    validate_job(errs, new, &opts, labels.has(JOB_NAME) && labels.has(CONTROLLER_UID));
    builtin_update(errs, new, old);
    let path = Path::root("spec");
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    spec_with_selector(errs, path, spec, &opts);
    check_completions_unchanged(errs, path, spec, old_spec);
    let (selector, before) = (spec.at("selector"), old_spec.at("selector"));
    checks::immutable_selector(errs, path.child("selector"), selector, before);
    check_template_unchanged(errs, path, new, old);
    for (field, ty) in [
        ("completionMode", Ty::Opt(&Ty::Str)),
        ("podFailurePolicy", Ty::Opt(&Ty::Struct(printed::POD_FAILURE_POLICY))),
        ("backoffLimitPerIndex", Ty::Opt(&Ty::Int)),
        ("managedBy", Ty::Opt(&Ty::Str)),
        ("successPolicy", Ty::Opt(&Ty::Struct(printed::SUCCESS_POLICY))),
    ] {
        checks::immutable(errs, path.child(field), ty, spec.at(field), old_spec.at(field));
    }
}

fn check_completions_unchanged(errs: &mut Errors, path: Path<'_>, spec: &Value, old: &Value) {
    let path = path.child("completions");
    let (now, before) = (spec.at("completions"), old.at("completions"));
    if spec.text("completionMode") != "Indexed" {
        checks::immutable(errs, path, Ty::Opt(&Ty::Int), now, before);
    } else if now != before && !now.is_null() && now != spec.at("parallelism") {
        let detail = "can only be modified in tandem with spec.parallelism";
        errs.invalid(path, now.clone(), detail);
    }
}

/// Validates the immutability of the template. Scheduling directives and resources of a suspended
/// Job may change.
fn check_template_unchanged(errs: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let template = printed::internal_pod_template(spec.at("template"));
    let mut before = printed::internal_pod_template(old_spec.at("template"));
    let mutable = allows_scheduling_changes(old);
    if mutable {
        copy_scheduling_fields(&mut before, &template);
    }
    let ty = Ty::Struct(printed::POD_TEMPLATE_SPEC);
    let path = path.child("template");
    if !old_spec.is("suspend") || !mutable {
        checks::immutable(errs, path, ty, &template, &before);
        return;
    }
    let mut before = before.at("spec").clone();
    for list in ["containers", "initContainers"] {
        let now = template.at("spec").list(list);
        let containers = before.get_mut(list).and_then(Value::as_array_mut);
        let Some(containers) = containers.filter(|c| c.len() == now.len()) else { continue };
        for (container, now) in containers.iter_mut().zip(now) {
            if container.text("name") == now.text("name")
                && let Some(container) = container.as_object_mut()
            {
                container.insert("resources".to_owned(), now.at("resources").clone());
            }
        }
    }
    let ty = Ty::Struct(printed::POD_SPEC);
    let now = template.at("spec");
    if !printed::same(ty, now, &before) {
        let path = Path::root("spec");
        let path = path.child("template.spec");
        errs.invalid_printed(path, Printed(ty, now), checks::IMMUTABLE);
    }
}

fn allows_scheduling_changes(old: &Value) -> bool {
    let status = old.at("status");
    let suspended = status
        .list("conditions")
        .iter()
        .any(|c| c.text("type") == "Suspended" && c.text("status") == "True");
    old.at("spec").is("suspend")
        && (!status.has("startTime") || suspended)
        && status.num("active") == 0
}

/// Copies the scheduling fields from one pod template to another.
fn copy_scheduling_fields(into: &mut Value, from: &Value) {
    let (meta, spec) = (from.at("metadata"), from.at("spec"));
    if let Some(into) = into.as_object_mut() {
        let own = into.entry("metadata").or_insert_with(|| Value::Object(Default::default()));
        if let Some(own) = own.as_object_mut() {
            for field in ["annotations", "labels"] {
                own.insert(field.to_owned(), meta.at(field).clone());
            }
        }
    }
    let Some(own) = into.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        own.insert(field.to_owned(), spec.at(field).clone());
    }
    let node = spec.at("affinity").at("nodeAffinity").clone();
    let had_affinity = own.get("affinity").is_some_and(|a| !a.is_null());
    match (spec.has("affinity"), had_affinity) {
        (false, false) => {}
        (true, false) => {
            let affinity = Value::from_iter([("nodeAffinity".to_owned(), node)]);
            own.insert("affinity".to_owned(), affinity);
        }
        (now, true) => {
            if let Some(affinity) = own.get_mut("affinity").and_then(Value::as_object_mut) {
                affinity.insert("nodeAffinity".to_owned(), node);
                let empty = affinity.values().all(Value::is_null);
                if !now && empty {
                    own.insert("affinity".to_owned(), Value::Null);
                }
            }
        }
    }
}
