//! Validates HorizontalPodAutoscalers and the `scale` subresource.

use evenkeel_types::Gvk;
use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update, checks, resources};
use crate::names::NameRule;

/// Requirements on the `apiVersion` of a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ApiVersion {
    Grouped,
    AnyGroup,
    Unchecked,
}

fn api_version_error(version: &str, rule: ApiVersion) -> Option<String> {
    let slashes = version.matches('/').count();
    match rule {
        ApiVersion::Unchecked => None,
        _ if slashes > 1 => Some(format!("unexpected GroupVersion string: {version}")),
        ApiVersion::Grouped if slashes == 0 || version.starts_with('/') => {
            Some("apiVersion must specify API group".to_owned())
        }
        _ => None,
    }
}

/// Returns the rule for the scale target. A ReplicationController has no group.
fn target_rule(spec: &Value) -> ApiVersion {
    if spec.at("scaleTargetRef").text("kind") == "ReplicationController" {
        ApiVersion::AnyGroup
    } else {
        ApiVersion::Grouped
    }
}

pub(super) fn create(errs: &mut Errors, gvk: Gvk<'_>, scaler: &Value) {
    builtin_create(errs, scaler, true, NameRule::Subdomain);
    let spec = scaler.at("spec");
    self::spec(errs, gvk, spec, 1, target_rule(spec), ApiVersion::AnyGroup);
}

pub(super) fn update(errs: &mut Errors, gvk: Gvk<'_>, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let bound = if old_spec.int("minReplicas") == Some(0) { 0 } else { 1 };
    let (target, old_target) = (spec.at("scaleTargetRef"), old_spec.at("scaleTargetRef"));
    let unchanged = ["apiVersion", "kind"]
        .into_iter()
        .all(|field| target.text(field) == old_target.text(field));
    let target = if unchanged { ApiVersion::Unchecked } else { target_rule(spec) };
    let invalid = old_spec.list("metrics").iter().any(|metric| {
        let version = metric.at("object").at("describedObject").text("apiVersion");
        metric.text("type") == "Object"
            && api_version_error(version, ApiVersion::AnyGroup).is_some()
    });
    let objects = if invalid { ApiVersion::Unchecked } else { ApiVersion::AnyGroup };
    self::spec(errs, gvk, spec, bound, target, objects);
}

pub(super) fn status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    let status = new.at("status");
    checks::non_negatives(errs, path, status, &["currentReplicas", "desiredReplicas"]);
}

pub(super) fn scale(errs: &mut Errors, scale: &Value) {
    builtin_create(errs, scale, true, NameRule::Subdomain);
    let replicas = scale.at("spec").int("replicas");
    checks::non_negative(errs, Path::root("spec").child("replicas"), replicas);
}

fn spec(
    errs: &mut Errors,
    gvk: Gvk<'_>,
    spec: &Value,
    min_bound: i64,
    target: ApiVersion,
    objects: ApiVersion,
) {
    let path = Path::root("spec");
    let (min, max) = (spec.int("minReplicas"), spec.num("maxReplicas"));
    if let Some(min) = min.filter(|min| *min < min_bound) {
        let detail = format!("must be greater than or equal to {min_bound}");
        errs.invalid(path.child("minReplicas"), min, detail);
    }
    if max == 0 {
        errs.required(path.child("maxReplicas"), "must be set and greater than 0");
    } else if max < 0 {
        errs.invalid(path.child("maxReplicas"), max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        let detail = "must be greater than or equal to `minReplicas`";
        errs.invalid(path.child("maxReplicas"), max, detail);
    }
    reference(errs, path.child("scaleTargetRef"), spec.at("scaleTargetRef"), target);
    if gvk.version == "v1" {
        // The percentage of v1 is the CPU metric of the internal type.
        if let Some(percent) = spec.int("targetCPUUtilizationPercentage").filter(|p| *p < 1) {
            let path = path.child("metrics");
            let path = path.index(0);
            let path = path.child("resource");
            let path = path.child("target");
            errs.invalid(path.child("averageUtilization"), percent, "must be greater than 0");
        }
        metrics(errs, path.child("metrics"), &[], min, objects);
    } else {
        metrics(errs, path.child("metrics"), spec.list("metrics"), min, objects);
    }
    let behavior = spec.at("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        let rules = behavior.at(direction);
        if !rules.is_null() {
            scaling_rules(errs, path.child("behavior").child(direction), rules);
        }
    }
}

fn reference(errs: &mut Errors, path: Path<'_>, reference: &Value, rule: ApiVersion) {
    for field in ["kind", "name"] {
        let value = reference.text(field);
        if value.is_empty() {
            errs.required(path.child(field), "");
        } else {
            checks::path_segment(errs, path.child(field), value);
        }
    }
    let version = reference.text("apiVersion");
    if let Some(error) = api_version_error(version, rule) {
        errs.invalid(path.child("apiVersion"), version, error);
    }
}

fn scaling_rules(errs: &mut Errors, path: Path<'_>, rules: &Value) {
    if let Some(window) = rules.int("stabilizationWindowSeconds") {
        let path = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errs.invalid(path, window, "must be greater than or equal to zero");
        }
        if window > 3600 {
            errs.invalid(path, window, "must be less than or equal to 3600");
        }
    }
    const SELECT: &[&str] = &["Disabled", "Max", "Min"];
    let select = rules.at("selectPolicy");
    checks::one_of_if_set(errs, path.child("selectPolicy"), select, SELECT);
    let policies = rules.list("policies");
    if policies.is_empty() {
        errs.required(path.child("policies"), "must specify at least one Policy");
    }
    for (i, policy) in policies.iter().enumerate() {
        let path = path.child("policies");
        let path = path.index(i);
        let kind = policy.text("type");
        if !matches!(kind, "Pods" | "Percent") {
            errs.not_supported(path.child("type"), kind, &["Percent", "Pods"]);
        }
        checks::positive(errs, path.child("value"), policy.num("value"));
        let period = policy.num("periodSeconds");
        checks::positive(errs, path.child("periodSeconds"), period);
        if period > 1800 {
            errs.invalid(path.child("periodSeconds"), period, "must be less than or equal to 1800");
        }
    }
    if let Some(tolerance) = Quantity::from_json(rules.at("tolerance")) {
        resources::non_negative(errs, path.child("tolerance"), &tolerance);
    }
}

fn metrics(
    errs: &mut Errors,
    path: Path<'_>,
    metrics: &[Value],
    min: Option<i64>,
    objects: ApiVersion,
) {
    for (i, spec) in metrics.iter().enumerate() {
        metric(errs, path.index(i), spec, objects);
    }
    let can_be_zero = metrics.iter().any(|m| matches!(m.text("type"), "Object" | "External"));
    if min == Some(0) && !can_be_zero {
        let detail = "must specify at least one Object or External metric to support scaling to \
                      zero replicas";
        errs.forbidden(path, detail);
    }
}

/// Metric sources: field and type, in upstream's order.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

fn metric(errs: &mut Errors, path: Path<'_>, spec: &Value, objects: ApiVersion) {
    const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
    let kind = spec.text("type");
    if kind.is_empty() {
        errs.required(path.child("type"), "must specify a metric source type");
    }
    if !TYPES.contains(&kind) {
        errs.not_supported(path.child("type"), kind, TYPES);
    }
    let present: Vec<&str> =
        SOURCES.iter().map(|(field, _)| *field).filter(|field| spec.has(field)).collect();
    if let Some(first) = present.first() {
        source(errs, path.child(first), first, spec.at(first), objects);
    }
    let expected = SOURCES.iter().find(|(_, t)| *t == kind).map(|(field, _)| *field);
    match expected {
        Some(field) if !spec.has(field) => {
            let detail = "must populate information for the given metric source";
            errs.required(path.child(field), detail);
        }
        Some(_) => {}
        None => errs.not_supported(path.child("type"), kind, TYPES),
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| Some(**field) != expected) {
            errs.forbidden(path.child(field), "must populate the given metric source only");
        }
    }
}

fn source(errs: &mut Errors, path: Path<'_>, field: &str, source: &Value, objects: ApiVersion) {
    let target = source.at("target");
    let at = path.child("target");
    let (value, average, utilization) =
        (target.has("value"), target.has("averageValue"), target.has("averageUtilization"));
    match field {
        "object" | "external" | "pods" => {
            if field == "object" {
                let described = source.at("describedObject");
                reference(errs, path.child("describedObject"), described, objects);
            }
            let name = source.at("metric").text("name");
            let metric = path.child("metric");
            if name.is_empty() {
                errs.required(metric.child("name"), "must specify a metric name");
            } else {
                checks::path_segment(errs, metric.child("name"), name);
            }
            metric_target(errs, at, target);
            match field {
                "object" if !value && !average => {
                    let detail = "must set either a target value or averageValue";
                    errs.required(at.child("averageValue"), detail);
                }
                "external" if !value && !average => {
                    let detail = "must set either a target value for metric or a per-pod target";
                    errs.required(at.child("averageValue"), detail);
                }
                "external" if value && average => {
                    let detail = "may not set both a target value for metric and a per-pod target";
                    errs.forbidden(at.child("value"), detail);
                }
                "pods" if !average => {
                    let detail = "must specify a positive target averageValue";
                    errs.required(at.child("averageValue"), detail);
                }
                _ => {}
            }
        }
        _ => {
            let name = source.text("name");
            if name.is_empty() {
                errs.required(path.child("name"), "must specify a resource name");
            } else if field == "containerResource" {
                resources::container_resource_name(errs, path.child("name"), name);
            }
            if field == "containerResource" {
                let container = source.text("container");
                if container.is_empty() {
                    errs.required(path.child("container"), "must specify a container");
                } else {
                    checks::dns1123_label(errs, path.child("container"), container);
                }
            }
            metric_target(errs, at, target);
            if !utilization && !average {
                let detail = "must set either a target raw value or a target utilization";
                errs.required(at.child("averageUtilization"), detail);
            }
            if utilization && average {
                let detail = "may not set both a target raw value and a target utilization";
                errs.forbidden(at.child("averageValue"), detail);
            }
        }
    }
}

fn metric_target(errs: &mut Errors, path: Path<'_>, target: &Value) {
    let kind = target.text("type");
    if kind.is_empty() {
        errs.required(path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errs.invalid(path.child("type"), kind, detail);
    }
    for field in ["value", "averageValue"] {
        if let Some(amount) = Quantity::from_json(target.at(field)).filter(|q| q.sign().is_le()) {
            errs.invalid(path.child(field), amount.to_string(), "must be positive");
        }
    }
    if let Some(percent) = target.int("averageUtilization").filter(|p| *p < 1) {
        errs.invalid(path.child("averageUtilization"), percent, "must be greater than 0");
    }
}
