//! Validates affinity, topology spread constraints, tolerations and node selectors.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::pod::PodOptions;
use super::read::Read;
use super::report::{Errors, Path};
use crate::names;

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(errs: &mut Errors, path: Path<'_>, affinity: &Value, opts: &PodOptions) {
    if affinity.is_null() {
        return;
    }
    let node = affinity.at("nodeAffinity");
    if !node.is_null() {
        let path = path.child("nodeAffinity");
        let required = node.at(REQUIRED);
        if !required.is_null() {
            node_selector(errs, path.child(REQUIRED), required, opts.node_affinity_values);
        }
        for (i, term) in node.list(PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED);
            let path = path.index(i);
            weight(errs, path, term);
            let preference = term.at("preference");
            node_selector_term(
                errs,
                path.child("preference"),
                preference,
                SelectorValues::AllowInvalid,
            );
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.at(kind);
        if pods.is_null() {
            continue;
        }
        let path = path.child(kind);
        for (i, term) in pods.list(REQUIRED).iter().enumerate() {
            pod_affinity_term(errs, path.child(REQUIRED).index(i), term, opts.affinity_values);
        }
        for (i, weighted) in pods.list(PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED);
            let path = path.index(i);
            weight(errs, path, weighted);
            let term = weighted.at("podAffinityTerm");
            pod_affinity_term(errs, path.child("podAffinityTerm"), term, opts.affinity_values);
        }
    }
}

fn weight(errs: &mut Errors, path: Path<'_>, term: &Value) {
    let weight = term.num("weight");
    if !(1..=100).contains(&weight) {
        errs.invalid(path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn pod_affinity_term(errs: &mut Errors, path: Path<'_>, term: &Value, values: SelectorValues) {
    for field in ["labelSelector", "namespaceSelector"] {
        checks::label_selector(errs, path.child(field), term.at(field), values);
    }
    for namespace in term.texts("namespaces") {
        checks::dns1123_label(errs, path.child("namespace"), namespace);
    }
    label_keys(errs, path, term);
    let key = term.text("topologyKey");
    if key.is_empty() {
        errs.required(path.child("topologyKey"), "can not be empty");
    }
    checks::qualified_name(errs, path.child("topologyKey"), key);
}

/// Validates label keys whose values are merged into a selector.
fn label_keys(errs: &mut Errors, path: Path<'_>, term: &Value) {
    let selector = term.at("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        if term.list(field).is_empty() {
            continue;
        }
        if selector.is_null() {
            let detail = "must not be specified when labelSelector is not set";
            errs.forbidden(path.child(field), detail);
            continue;
        }
        for (i, key) in term.texts(field).enumerate() {
            checks::qualified_name(errs, path.child(field).index(i), key);
        }
    }
    // If a key is repeated, upstream reports the last index.
    let keys = term.texts("matchLabelKeys").enumerate().map(|(i, key)| (key, i));
    let indexes: HashMap<&str, usize> = keys.collect();
    let mut seen: HashSet<&str> = selector.entries("matchLabels").map(|(key, _)| key).collect();
    for expression in selector.list("matchExpressions") {
        let key = expression.text("key");
        if !seen.insert(key)
            && let Some(i) = indexes.get(key)
        {
            errs.invalid(path.index(*i), key, "exists in both matchLabelKeys and labelSelector");
        }
    }
    let mismatched: HashSet<&str> = term.texts("mismatchLabelKeys").collect();
    for (i, key) in term.texts("matchLabelKeys").enumerate() {
        if mismatched.contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errs.invalid(path.child("matchLabelKeys").index(i), key, detail);
        }
    }
}

pub(super) fn node_selector(
    errs: &mut Errors,
    path: Path<'_>,
    selector: &Value,
    values: SelectorValues,
) {
    let path = path.child("nodeSelectorTerms");
    let terms = selector.list("nodeSelectorTerms");
    if terms.is_empty() {
        errs.required(path, "must have at least one node selector term");
        return;
    }
    for (i, term) in terms.iter().enumerate() {
        node_selector_term(errs, path.index(i), term, values);
    }
}

fn node_selector_term(errs: &mut Errors, path: Path<'_>, term: &Value, values: SelectorValues) {
    for (i, requirement) in term.list("matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions");
        let path = path.index(i);
        let operator = requirement.text("operator");
        let count = requirement.list("values").len();
        match operator {
            "In" | "NotIn" if count == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errs.required(path.child("values"), detail);
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errs.forbidden(path.child("values"), detail);
            }
            "Gt" | "Lt" if count != 1 => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errs.required(path.child("values"), detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            _ => errs.invalid(path.child("operator"), operator, "not a valid selector operator"),
        }
        checks::qualified_name(errs, path.child("key"), requirement.text("key"));
        if values == SelectorValues::Validated {
            for (j, value) in requirement.texts("values").enumerate() {
                errs.reasons(path.child("values").index(j), value, names::label_value(value));
            }
        }
    }
    for (i, requirement) in term.list("matchFields").iter().enumerate() {
        let path = path.child("matchFields");
        let path = path.index(i);
        let (operator, key) = (requirement.text("operator"), requirement.text("key"));
        match operator {
            "In" | "NotIn" => {
                if requirement.list("values").len() != 1 {
                    let detail = "must be only one value when `operator` is 'In' or 'NotIn' for \
                                  node field selector";
                    errs.required(path.child("values"), detail);
                }
            }
            _ => errs.invalid(path.child("operator"), operator, "not a valid selector operator"),
        }
        if key == "metadata.name" {
            for (j, value) in requirement.texts("values").enumerate() {
                checks::dns1123_subdomain(errs, path.child("values").index(j), value);
            }
        } else {
            errs.invalid(path.child("key"), key, "not a valid field selector key");
        }
    }
}

/// Returns whether a node selector has values that are not valid label values.
pub(super) fn node_selector_values(selector: &Value) -> SelectorValues {
    let invalid = selector.list("nodeSelectorTerms").iter().any(|term| {
        term.list("matchExpressions")
            .iter()
            .any(|e| e.texts("values").any(|v| !names::label_value(v).is_empty()))
    });
    if invalid { SelectorValues::AllowInvalid } else { SelectorValues::Validated }
}

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(super) fn taint_effect(errs: &mut Errors, path: Path<'_>, effect: &str) {
    checks::one_of(errs, path, effect, EFFECTS);
}

pub(super) fn tolerations(errs: &mut Errors, path: Path<'_>, tolerations: &[Value]) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let path = path.index(i);
        let (key, operator) = (toleration.text("key"), toleration.text("operator"));
        let (value, effect) = (toleration.text("value"), toleration.text("effect"));
        if !key.is_empty() {
            checks::qualified_name(errs, path.child("key"), key);
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all \
                          values and all keys\"";
            errs.invalid(path.child("operator"), operator, detail);
        }
        if toleration.has("tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errs.invalid(path.child("effect"), effect, detail);
        }
        match operator {
            "Equal" | "" => {
                let reasons = names::label_value(value);
                if !reasons.is_empty() {
                    errs.invalid(path.child("operator"), value, reasons.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errs.invalid(path.child("operator"), value, detail);
                }
            }
            "Lt" | "Gt" => {
                let supported = &["Equal", "Exists", "Lt", "Gt"];
                errs.not_supported(path.child("operator"), operator, supported);
            }
            _ => errs.not_supported(path.child("operator"), operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            taint_effect(errs, path.child("effect"), effect);
        }
    }
}

pub(super) fn topology_spread(
    errs: &mut Errors,
    path: Path<'_>,
    constraints: &[Value],
    opts: &PodOptions,
) {
    let pairs = constraints.iter().map(|c| (c.text("topologyKey"), c.text("whenUnsatisfiable")));
    let last: HashMap<(&str, &str), usize> = pairs.zip(0..).collect();
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.index(i);
        checks::positive(errs, path.child("maxSkew"), constraint.num("maxSkew"));
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if key.is_empty() {
            errs.required(path.child("topologyKey"), "can not be empty");
        }
        const ACTIONS: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];
        if !ACTIONS.contains(&action) {
            errs.not_supported(path.child("whenUnsatisfiable"), action, ACTIONS);
        }
        if last.get(&(key, action)) != Some(&i) {
            let path = path.child("{topologyKey, whenUnsatisfiable}");
            errs.duplicate(path, format!("{{{key}, {action}}}"));
        }
        if let Some(domains) = constraint.int("minDomains") {
            let path = path.child("minDomains");
            checks::positive(errs, path, domains);
            if action != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                errs.invalid(path, domains, detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.at(field);
            checks::one_of_if_set(errs, path.child(field), policy, &["Honor", "Ignore"]);
        }
        label_keys(errs, path, constraint);
        if !opts.allow_invalid_spread_selector {
            let selector = constraint.at("labelSelector");
            let values = SelectorValues::Validated;
            checks::label_selector(errs, path.child("labelSelector"), selector, values);
        }
    }
}

/// Returns the fields that identify a toleration. Tolerations with the same ones differ only in
/// their seconds.
pub(super) fn toleration_identity(toleration: &Value) -> [&str; 4] {
    ["key", "operator", "value", "effect"].map(|field| toleration.text(field))
}

pub(super) fn preemption_policy(errs: &mut Errors, path: Path<'_>, policy: &str) {
    checks::one_of(errs, path, policy, &["PreemptLowerPriority", "Never"]);
}
