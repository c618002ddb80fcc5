//! Validates DaemonSets.

use serde_json::Value;

use super::super::checks;
use super::super::pod::{self, PodOptions};
use super::super::printed::{self, Printed, Ty};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::{builtin_create, builtin_update};
use super::{
    check_collision_count, check_selector_unchanged, pod_options, restart_always_template,
    selector_mismatch,
};
use crate::names::NameRule;

pub(in crate::validate) fn daemon_set(errs: &mut Errors, set: &Value) {
    builtin_create(errs, set, true, NameRule::Subdomain);
    daemon_set_spec(errs, set.at("spec"), &PodOptions::CREATE);
}

fn daemon_set_spec(errs: &mut Errors, spec: &Value, opts: &PodOptions) {
    let path = Path::root("spec");
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    checks::label_selector(errs, path.child("selector"), selector, opts.affinity_values);
    let at = path.child("template");
    if checks::selects(selector, template.at("metadata").at("labels")) == Some(false) {
        selector_mismatch(errs, at, template);
    }
    if checks::selects_all(selector) {
        let detail = "empty selector is invalid for daemonset";
        errs.invalid_printed(path.child("selector"), printed::label_selector(selector), detail);
    }
    pod::template(errs, at, template, opts);
    restart_always_template(errs, at, template, "DaemonSet");
    checks::non_negative(errs, path.child("minReadySeconds"), spec.int("minReadySeconds"));
    daemon_set_strategy(errs, path.child("updateStrategy"), spec.at("updateStrategy"));
    let limit = spec.int("revisionHistoryLimit");
    checks::non_negative(errs, path.child("revisionHistoryLimit"), limit);
}

fn daemon_set_strategy(errs: &mut Errors, path: Path<'_>, strategy: &Value) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => errs.required(path.child("rollingUpdate"), ""),
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let bounds = [
                ("maxUnavailable", rolling.at("maxUnavailable")),
                ("maxSurge", rolling.at("maxSurge")),
            ];
            for (field, value) in bounds {
                checks::int_or_percent(errs, path.child(field), value);
            }
            for (field, value) in bounds {
                checks::not_more_than_100_percent(errs, path.child(field), value);
            }
            match bounds.map(|(_, value)| checks::int_or_percent_value(value) != 0) {
                [true, true] => {
                    let shown = Printed(Ty::IntOrString, rolling.at("maxSurge"));
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errs.invalid_printed(path.child("maxSurge"), shown, detail);
                }
                [false, false] => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errs.required(path.child("maxUnavailable"), detail);
                }
                _ => {}
            }
        }
        _ => {
            let shown = Printed(Ty::Struct(printed::DAEMON_SET_UPDATE_STRATEGY), strategy);
            errs.not_supported_printed(path, shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

pub(in crate::validate) fn daemon_set_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    check_selector_unchanged(errs, new.at("spec"), old.at("spec"));
    daemon_set_spec(errs, new.at("spec"), &pod_options(Some(old)));
}

pub(in crate::validate) fn daemon_set_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    const COUNTS: &[&str] = &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    checks::non_negatives(errs, path, new.at("status"), COUNTS);
    check_collision_count(errs, path, new.at("status"), old.at("status"));
}
