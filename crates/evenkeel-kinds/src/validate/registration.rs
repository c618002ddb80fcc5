//! Validates Leases, PriorityClasses, RuntimeClasses, APIServices and other kinds alone in their
//! group.

use std::collections::HashSet;

use evenkeel_schema::metadata::check_labels;
use evenkeel_types::Gvk;
use serde_json::Value;

use super::checks;
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update, config, resources, scheduling};
use crate::meta;
use crate::names::{self, NameRule, Reasons};

pub(super) fn create(errs: &mut Errors, gvk: Gvk<'_>, object: &Value) {
    match (gvk.group, gvk.kind) {
        ("coordination.k8s.io", "Lease") => {
            generic_create(errs, object, true, NameRule::Subdomain);
            lease(errs, object.at("spec"));
        }
        ("coordination.k8s.io", "LeaseCandidate") => {
            generic_create(errs, object, true, NameRule::ConfigKey);
        }
        ("scheduling.k8s.io", "PriorityClass") => priority_class(errs, object),
        ("node.k8s.io", "RuntimeClass") => runtime_class(errs, object),
        ("apiregistration.k8s.io", "APIService") => api_service(errs, object),
        ("storagemigration.k8s.io", "StorageVersionMigration") => migration(errs, object),
        _ => generic_create(errs, object, super::is_namespaced(gvk), names::rule(gvk)),
    }
}

pub(super) fn update(errs: &mut Errors, gvk: Gvk<'_>, new: &Value, old: &Value) {
    match (gvk.group, gvk.kind) {
        ("coordination.k8s.io", "Lease") => {
            generic_update(errs, new, old);
            lease(errs, new.at("spec"));
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            builtin_update(errs, new, old);
            if new.num("value") != old.num("value") {
                errs.forbidden(Path::root("value"), "may not be changed in an update.");
            }
            let (now, was) = (new.at("preemptionPolicy"), old.at("preemptionPolicy"));
            let path = Path::root("preemptionPolicy");
            checks::immutable(errs, path, Ty::Opt(&Ty::Str), now, was);
        }
        ("node.k8s.io", "RuntimeClass") => {
            runtime_class(errs, new);
            generic_update(errs, new, old);
            let (now, was) = (new.at("handler"), old.at("handler"));
            checks::immutable(errs, Path::root("handler"), Ty::Str, now, was);
        }
        ("apiregistration.k8s.io", "APIService") => {
            generic_update(errs, new, old);
            api_service(errs, new);
        }
        ("storagemigration.k8s.io", "StorageVersionMigration") => {
            migration(errs, new);
            builtin_update(errs, new, old);
            let ty = Ty::Struct(printed::STORAGE_VERSION_MIGRATION_SPEC);
            checks::immutable(errs, Path::root("spec"), ty, new.at("spec"), old.at("spec"));
        }
        _ => generic_update(errs, new, old),
    }
}

/// Validates the metadata of a new object without the finalizer rule of built-in kinds, as for
/// custom resources.
fn generic_create(errs: &mut Errors, object: &Value, namespaced: bool, rule: NameRule) {
    let reasons = |name: &str, prefix| rule.check(name, prefix);
    meta::check_create(errs, object.at("metadata"), namespaced, reasons);
}

fn generic_update(errs: &mut Errors, new: &Value, old: &Value) {
    meta::check_update(errs, new.at("metadata"), old.at("metadata"));
}

fn lease(errs: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    if let Some(seconds) = spec.int("leaseDurationSeconds").filter(|s| *s <= 0) {
        errs.invalid(path.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    checks::non_negative(errs, path.child("leaseTransitions"), spec.int("leaseTransitions"));
    let strategy = spec.text_opt("strategy");
    if let Some(strategy) = strategy {
        let path = path.child("strategy");
        let path = path.child("strategy");
        if strategy.contains('/') {
            checks::qualified_name(errs, path, strategy);
        } else if strategy != "OldestEmulationVersion" {
            errs.not_supported(path, strategy, &["OldestEmulationVersion"]);
        }
    }
    if !spec.text("preferredHolder").is_empty() && strategy.unwrap_or_default().is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errs.forbidden(path.child("preferredHolder"), detail);
    }
}

fn priority_class(errs: &mut Errors, class: &Value) {
    const HIGHEST: i64 = 1_000_000_000;
    builtin_create(errs, class, false, NameRule::Subdomain);
    let name = class.at("metadata").text("name");
    let value = class.num("value");
    if name.starts_with("system-") {
        let known = [
            ("system-node-critical", 2 * HIGHEST + 1000),
            ("system-cluster-critical", 2 * HIGHEST),
        ];
        let error = match known.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, expected)) if *expected != value => {
                Some(format!("value of {name} PriorityClass must be {expected}"))
            }
            Some(_) if class.is("globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(error) = error {
            let path = Path::root("metadata");
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. \
                 error: {error}"
            );
            errs.forbidden(path.child("name"), detail);
        }
    } else if value > HIGHEST {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        errs.forbidden(Path::root("value"), detail);
    }
    if let Some(policy) = class.text_opt("preemptionPolicy") {
        scheduling::preemption_policy(errs, Path::root("preemptionPolicy"), policy);
    }
}

fn runtime_class(errs: &mut Errors, class: &Value) {
    generic_create(errs, class, false, NameRule::Subdomain);
    let handler = class.text("handler");
    if handler.is_empty() {
        errs.required(Path::root("handler"), "");
    } else {
        checks::dns1123_label(errs, Path::root("handler"), handler);
    }
    let overhead = class.at("overhead");
    if !overhead.is_null() {
        resources::overhead(errs, Path::root("overhead"), overhead.at("podFixed"));
    }
    let scheduling = class.at("scheduling");
    let path = Path::root("scheduling");
    check_labels(scheduling.at("nodeSelector"), path.child("nodeSelector"), errs.list());
    let tolerations = scheduling.list("tolerations");
    let path = path.child("tolerations");
    scheduling::tolerations(errs, path, tolerations);
    let mut seen = HashSet::new();
    for (i, toleration) in tolerations.iter().enumerate() {
        if !seen.insert(scheduling::toleration_identity(toleration)) {
            let shown = Printed(Ty::Struct(printed::TOLERATION), toleration);
            errs.duplicate_printed(path.index(i), shown, "");
        }
    }
}

fn api_service(errs: &mut Errors, service: &Value) {
    let spec = service.at("spec");
    let (group, version) = (spec.text("group"), spec.text("version"));
    let required = format!("{version}.{group}");
    let name_reasons = |name: &str, _prefix: bool| -> Reasons {
        let reasons = names::path_segment(name, false);
        if reasons.is_empty() && name != required {
            let reason = format!("must be `spec.version+\".\"+spec.group`: \"{required}\"");
            return vec![reason.into()];
        }
        reasons
    };
    meta::check_create(errs, service.at("metadata"), false, name_reasons);
    let path = Path::root("spec");
    if group.is_empty() {
        if version != "v1" {
            let detail = "only v1 may have an empty group and it better be legacy kube";
            errs.required(path.child("group"), detail);
        }
    } else {
        checks::dns1123_subdomain(errs, path.child("group"), group);
    }
    errs.reasons(path.child("version"), version, names::dns1035_label(version));
    let (minimum, priority) = (spec.num("groupPriorityMinimum"), spec.num("versionPriority"));
    if !(1..=20_000).contains(&minimum) {
        let detail = "must be positive and less than 20000";
        errs.invalid(path.child("groupPriorityMinimum"), minimum, detail);
    }
    if !(1..=1000).contains(&priority) {
        let detail = "must be positive and less than 1000";
        errs.invalid(path.child("versionPriority"), priority, detail);
    }
    let bundle = config::decoded_len(spec.text("caBundle"));
    let insecure = spec.is("insecureSkipTLSVerify");
    let backend = spec.at("service");
    if backend.is_null() {
        if bundle > 0 {
            let detail = "local APIServices may not have a caBundle";
            errs.invalid(path.child("caBundle"), format!("{bundle} bytes"), detail);
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errs.invalid(path.child("insecureSkipTLSVerify"), true, detail);
        }
        return;
    }
    let at = path.child("service");
    checks::required_text(errs, at, backend, "namespace");
    checks::required_text(errs, at, backend, "name");
    let port = backend.num("port");
    for reason in names::port_number(port) {
        errs.invalid(at.child("port"), port, format!("port is not valid: {reason}"));
    }
    if insecure && bundle > 0 {
        let detail = "may not be true if caBundle is present";
        errs.invalid(path.child("insecureSkipTLSVerify"), true, detail);
    }
}

pub(super) fn api_service_status(errs: &mut Errors, new: &Value, old: &Value) {
    generic_update(errs, new, old);
    let path = Path::root("status");
    for (i, condition) in new.at("status").list("conditions").iter().enumerate() {
        let status = condition.text("status");
        if !matches!(status, "True" | "False" | "Unknown") {
            let path = path.child("conditions");
            let supported = &["True", "False", "Unknown"];
            errs.not_supported(path.index(i).child("status"), status, supported);
        }
    }
}

/// Validates the status of a StorageVersionMigration: its resourceVersion stays, and so does its
/// outcome.
pub(super) fn migration_status(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let (path, status, before) = (Path::root("status"), new.at("status"), old.at("status"));
    let version = status.text("resourceVersion");
    if !version.is_empty() && !is_comparable(version) {
        let why = format!("resource version is not well formed: {version}");
        errs.invalid(path.child("resourceVersion"), version, why);
    }
    checks::conditions(errs, path.child("conditions"), status.list("conditions"));
    let version_before = before.text("resourceVersion");
    if !version_before.is_empty() && version != version_before {
        errs.invalid(path.child("resourceVersion"), version, "field is immutable");
    }
    let is_true = |status: &Value, kind: &str| {
        let mut conditions = status.list("conditions").iter();
        let found = conditions.find(|condition| condition.text("type") == kind);
        found.is_some_and(|condition| condition.text("status") == "True")
    };
    let mut refuse = |why: &str| {
        let ty = Ty::List(&Ty::Struct(printed::CONDITION));
        let conditions = Printed(ty, status.at("conditions"));
        errs.invalid_printed(path.child("conditions"), conditions, why);
    };
    if is_true(status, "Succeeded") && is_true(status, "Failed") {
        refuse("Both success and failed conditions cannot be true at the same time");
    }
    for (kind, name) in [("Succeeded", "Success"), ("Failed", "Failed")] {
        if is_true(before, kind) && !is_true(status, kind) {
            refuse(&format!("{name} condition cannot be set to false once it is true"));
        }
    }
}

/// Returns whether a resourceVersion can be compared with others.
fn is_comparable(version: &str) -> bool {
    !version.starts_with('0') && version.bytes().all(|byte| byte.is_ascii_digit())
}

fn migration(errs: &mut Errors, migration: &Value) {
    builtin_create(errs, migration, false, NameRule::Subdomain);
    let path = Path::root("spec");
    let path = path.child("resource");
    let resource = migration.at("spec").at("resource");
    let (name, group) = (resource.text("resource"), resource.text("group"));
    let reasons = names::dns1035_label(name);
    if name.is_empty() {
        errs.required(path.child("resource"), "resource is required to be set");
    } else if !reasons.is_empty() {
        errs.invalid(path.child("resource"), name, reasons.join(","));
    }
    let reasons = names::dns1123_subdomain(group);
    if !group.is_empty() && !reasons.is_empty() {
        errs.invalid(path.child("group"), group, reasons.join(","));
    }
}
