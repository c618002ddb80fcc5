//! Validates the pod failure, success and pod replacement policies of Jobs.

use std::collections::HashSet;

use serde_json::Value;

use super::super::checks;
use super::super::printed::{Printed, Ty};
use super::super::read::Read;
use super::super::report::{Errors, Path};

pub(super) fn failure_policy(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let rules = spec.at("podFailurePolicy").list("rules");
    let path = path.child("rules");
    if rules.len() > 20 {
        errs.too_many(path, rules.len(), 20);
    }
    for (i, rule) in rules.iter().enumerate() {
        failure_rule(errs, path.index(i), rule, spec);
    }
}

fn failure_rule(errs: &mut Errors, path: Path<'_>, rule: &Value, spec: &Value) {
    const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
    let at = path.child("action");
    match rule.text("action") {
        "" => {
            let detail = "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]";
            errs.required(at, detail);
        }
        "FailIndex" if !spec.has("backoffLimitPerIndex") => {
            let detail = "requires the backoffLimitPerIndex to be set";
            errs.invalid(at, "FailIndex", detail);
        }
        action if !ACTIONS.contains(&action) => errs.not_supported(at, action, ACTIONS),
        _ => {}
    }
    let (codes, conditions) = (rule.at("onExitCodes"), rule.list("onPodConditions"));
    if !codes.is_null() {
        exit_codes(errs, path.child("onExitCodes"), codes, spec);
    }
    if !conditions.is_empty() {
        pod_conditions(errs, path.child("onPodConditions"), conditions);
    }
    match (codes.is_null(), conditions.is_empty()) {
        (false, false) => {
            let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
            errs.invalid_omitted(path, detail);
        }
        (true, true) => {
            let detail = "specifying one of OnExitCodes and OnPodConditions is required";
            errs.invalid_omitted(path, detail);
        }
        _ => {}
    }
}

fn pod_conditions(errs: &mut Errors, path: Path<'_>, patterns: &[Value]) {
    if patterns.len() > 20 {
        errs.too_many(path, patterns.len(), 20);
    }
    for (i, pattern) in patterns.iter().enumerate() {
        let path = path.index(i);
        checks::qualified_name(errs, path.child("type"), pattern.text("type"));
        let path = path.child("status");
        match pattern.text("status") {
            "" => errs.required(path, "valid values: [\"False\" \"True\" \"Unknown\"]"),
            "False" | "True" | "Unknown" => {}
            other => errs.not_supported(path, other, &["False", "True", "Unknown"]),
        }
    }
}

fn exit_codes(errs: &mut Errors, path: Path<'_>, codes: &Value, spec: &Value) {
    let operator = codes.text("operator");
    let at = path.child("operator");
    match operator {
        "" => errs.required(at, "valid values: [\"In\" \"NotIn\"]"),
        "In" | "NotIn" => {}
        other => errs.not_supported(at, other, &["In", "NotIn"]),
    }
    if let Some(name) = codes.text_opt("containerName") {
        let pod = spec.at("template").at("spec");
        let mut all = pod.list("containers").iter().chain(pod.list("initContainers"));
        if !all.any(|c| c.text("name") == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            errs.invalid(path.child("containerName"), name, detail);
        }
    }
    let values = codes.list("values");
    let path = path.child("values");
    if values.is_empty() {
        let shown = Printed(Ty::List(&Ty::Int), codes.at("values"));
        errs.invalid_printed(path, shown, "at least one value is required");
    } else if values.len() > 255 {
        errs.too_many(path, values.len(), 255);
    }
    let (mut ordered, mut seen) = (true, HashSet::new());
    let numbers: Vec<i64> = values.iter().map(|v| v.as_i64().unwrap_or_default()).collect();
    for (i, number) in numbers.iter().enumerate() {
        if operator == "In" && *number == 0 {
            errs.invalid(path.index(i), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(number) {
            errs.duplicate(path.index(i), *number);
        }
        ordered &= i == 0 || numbers[i - 1] <= *number;
    }
    if !ordered {
        errs.invalid(path, values.to_vec(), "must be ordered");
    }
}

pub(super) fn success_policy(errs: &mut Errors, path: Path<'_>, policy: &Value, spec: &Value) {
    let rules = policy.list("rules");
    let path = path.child("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errs.required(path, detail);
    }
    if rules.len() > 20 {
        errs.too_many(path, rules.len(), 20);
    }
    let completions = spec.num("completions");
    for (i, rule) in rules.iter().enumerate() {
        let path = path.index(i);
        let (count, indexes) = (rule.int("succeededCount"), rule.text_opt("succeededIndexes"));
        if count.is_none() && indexes.is_none() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errs.required(path, detail);
        }
        let mut total = 0;
        if let Some(indexes) = indexes {
            let path = path.child("succeededIndexes");
            if indexes.len() > 64 * 1024 {
                errs.too_long(path, 64 * 1024);
            }
            match super::count_indexes(indexes, completions) {
                Ok(count) => total = count,
                Err(reason) => {
                    let detail = format!("error parsing succeededIndexes: {reason}");
                    errs.invalid(path, indexes, detail);
                }
            }
        }
        let Some(count) = count else { continue };
        let path = path.child("succeededCount");
        checks::non_negative(errs, path, Some(count));
        if count > completions {
            let detail = format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            );
            errs.invalid(path, count, detail);
        }
        if indexes.is_some() && count > total {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified \
                 succeededIndexes field)"
            );
            errs.invalid(path, count, detail);
        }
    }
}

pub(super) fn replacement_policy(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let Some(policy) = spec.text_opt("podReplacementPolicy") else { return };
    if spec.has("podFailurePolicy") {
        if policy != "Failed" {
            errs.not_supported(path, policy, &["Failed"]);
        }
    } else if !matches!(policy, "Failed" | "TerminatingOrFailed") {
        errs.not_supported(path, policy, &["Failed", "TerminatingOrFailed"]);
    }
}
