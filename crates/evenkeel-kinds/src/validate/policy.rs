//! Validates PodDisruptionBudgets.

use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};

pub(super) fn budget(errs: &mut Errors, budget: &Value, old: Option<&Value>) {
    let path = Path::root("spec");
    let spec = budget.at("spec");
    if spec.has("minAvailable") && spec.has("maxUnavailable") {
        let shown = Printed(Ty::Struct(printed::POD_DISRUPTION_BUDGET_SPEC), spec);
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errs.invalid_printed(path, shown, detail);
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let bound = spec.at(field);
        if !bound.is_null() {
            checks::int_or_percent(errs, path.child(field), bound);
            checks::not_more_than_100_percent(errs, path.child(field), bound);
        }
    }
    let values = old.map_or(SelectorValues::Validated, |old| {
        checks::selector_values(old.at("spec").at("selector"))
    });
    checks::label_selector(errs, path.child("selector"), spec.at("selector"), values);
    const EVICTION: &[&str] = &["AlwaysAllow", "IfHealthyBudget"];
    let policy = spec.at("unhealthyPodEvictionPolicy");
    checks::one_of_if_set(errs, path.child("unhealthyPodEvictionPolicy"), policy, EVICTION);
}

pub(super) fn budget_status_update(errs: &mut Errors, new: &Value) {
    let path = Path::root("status");
    let status = new.at("status");
    checks::conditions(errs, path.child("conditions"), status.list("conditions"));
    const COUNTS: &[&str] =
        &["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    checks::non_negatives(errs, path, status, COUNTS);
}
