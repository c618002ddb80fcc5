//! Validates LimitRanges.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Errors, NameRule, Path, Quantity, Read, builtin_create, checks, resources};

pub(in crate::validate) fn limit_range(errs: &mut Errors, range: &Value) {
    builtin_create(errs, range, true, NameRule::Subdomain);
    let path = Path::root("spec");
    let path = path.child("limits");
    let mut kinds = BTreeSet::new();
    for (i, limit) in range.at("spec").list("limits").iter().enumerate() {
        let path = path.index(i);
        let kind = limit.text("type");
        type_name(errs, path.child("type"), kind);
        if !kinds.insert(kind) {
            errs.duplicate(path.child("type"), kind);
        }
        item(errs, path, limit, kind);
    }
}

fn type_name(errs: &mut Errors, path: Path<'_>, kind: &str) {
    let before = errs.len();
    checks::qualified_name(errs, path, kind);
    let standard = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
    if errs.len() == before && !kind.contains('/') && !standard {
        errs.invalid(path, kind, "must be a standard limit type or fully qualified");
    }
}

fn item(errs: &mut Errors, path: Path<'_>, limit: &Value, kind: &str) {
    let mut names = BTreeSet::new();
    let mut list = |errs: &mut Errors, field: &str| {
        for (name, _) in limit.entries(field) {
            let path = path.child(field);
            if matches!(kind, "Pod" | "Container") {
                resources::container_resource_name(errs, path.key(name), name);
            } else {
                resources::resource_name(errs, path.key(name), name);
            }
            names.insert(name.to_owned());
        }
    };
    list(errs, "max");
    list(errs, "min");
    let defaults = ["default", "defaultRequest"];
    for field in defaults {
        if kind != "Pod" {
            list(errs, field);
        } else if limit.map(field).is_some_and(|m| !m.is_empty()) {
            errs.forbidden(path.child(field), "may not be specified when `type` is 'Pod'");
        }
    }
    if kind == "PersistentVolumeClaim"
        && !["min", "max"].into_iter().any(|field| limit.at(field).has("storage"))
    {
        let detail =
            "either minimum or maximum storage value is required, but neither was provided";
        errs.required(path.child("limits"), detail);
    }
    list(errs, "maxLimitRequestRatio");
    for name in &names {
        bounds_and_defaults(errs, path, limit, kind, name);
    }
}

/// Validates that the bounds and defaults of one resource are consistent.
fn bounds_and_defaults(errs: &mut Errors, path: Path<'_>, limit: &Value, kind: &str, name: &str) {
    let read = |field: &str| Quantity::from_json(limit.at(field).at(name));
    let (min, max, ratio) = (read("min"), read("max"), read("maxLimitRequestRatio"));
    let (default, request) =
        if kind == "Pod" { (None, None) } else { (read("default"), read("defaultRequest")) };
    let mut wrong = |field: &str, value: &Quantity, detail: String| {
        errs.invalid(path.child(field).key(name), value.to_string(), detail);
    };
    if let (Some(min), Some(max)) = (&min, &max)
        && min > max
    {
        wrong("min", min, format!("min value {min} is greater than max value {max}"));
    }
    if let (Some(request), Some(min)) = (&request, &min)
        && min > request
    {
        let detail = format!("min value {min} is greater than default request value {request}");
        wrong("defaultRequest", request, detail);
    }
    if let (Some(request), Some(max)) = (&request, &max)
        && request > max
    {
        let detail = format!("default request value {request} is greater than max value {max}");
        wrong("defaultRequest", request, detail);
    }
    if let (Some(request), Some(default)) = (&request, &default)
        && request > default
    {
        let detail = format!(
            "default request value {request} is greater than default limit value {default}"
        );
        wrong("defaultRequest", request, detail);
    }
    if let (Some(default), Some(min)) = (&default, &min)
        && min > default
    {
        let detail = format!("min value {min} is greater than default value {default}");
        wrong("default", min, detail);
    }
    if let (Some(default), Some(max)) = (&default, &max)
        && default > max
    {
        let detail = format!("default value {default} is greater than max value {max}");
        wrong("default", max, detail);
    }
    if let Some(ratio) = &ratio
        && *ratio < Quantity::ONE
    {
        wrong("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
    }
    if let (Some(ratio), Some(min), Some(max)) = (&ratio, &min, &max) {
        #[expect(clippy::cast_precision_loss, reason = "a ratio of amounts, compared and printed")]
        let bound = max.milli_value() as f64 / min.milli_value() as f64;
        #[expect(clippy::cast_precision_loss, reason = "a ratio of amounts, compared and printed")]
        let actual = ratio.milli_value() as f64 / 1000.0;
        if actual > bound {
            let detail = format!("ratio {ratio} is greater than max/min = {bound:.6}");
            wrong("maxLimitRequestRatio", ratio, detail);
        }
    }
    if let (Some(default), Some(request)) = (&default, &request)
        && !resources::is_overcommit_allowed(name)
        && default != request
    {
        let detail = format!(
            "default value {default} must equal to defaultRequest value {request} in {name}"
        );
        wrong("defaultRequest", request, detail);
    }
}
