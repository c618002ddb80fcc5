//! Validates ResourceQuotas.

use serde_json::Value;

use super::{
    Errors, NameRule, Path, Printed, Quantity, Read, Ty, builtin_create, builtin_update, checks,
    printed, resources,
};

pub(in crate::validate) fn quota(errs: &mut Errors, quota: &Value) {
    builtin_create(errs, quota, true, NameRule::Subdomain);
    spec(errs, quota.at("spec"));
    status(errs, quota.at("status"));
}

fn spec(errs: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    resource_list(errs, path.child("hard"), spec.at("hard"));
    scopes(errs, path.child("scopes"), spec);
    if spec.has("scopeSelector") {
        scope_selector(errs, path.child("scopeSelector"), spec);
    }
}

fn status(errs: &mut Errors, status: &Value) {
    let path = Path::root("status");
    resource_list(errs, path.child("hard"), status.at("hard"));
    resource_list(errs, path.child("used"), status.at("used"));
}

fn resource_list(errs: &mut Errors, path: Path<'_>, list: &Value) {
    for (name, value) in list.as_object().into_iter().flatten() {
        resources::quota_resource_name(errs, path.key(name), name);
        let amount = Quantity::from_json(value).unwrap_or(Quantity::ZERO);
        resources::resource_quantity(errs, path.key(name), name, &amount);
    }
}

fn is_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | "CrossNamespacePodAffinity"
    )
}

fn scope_supports(scope: &str, resource: &str) -> bool {
    let pods = resource == "pods";
    let compute = matches!(
        resource,
        "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory"
    );
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => pods || compute,
        "BestEffort" => pods,
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => true,
    }
}

fn count_conflicts(scopes: &[&str]) -> usize {
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]]
        .iter()
        .filter(|pair| pair.iter().all(|scope| scopes.contains(scope)))
        .count()
}

fn scopes(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let scopes: Vec<&str> = spec.texts("scopes").collect();
    let standard = standard_resources(spec);
    let shown = scopes.iter().map(|scope| scope.len() + 3).sum();
    for scope in &scopes {
        if errs.is_full(shown) {
            break;
        }
        if !is_scope(scope) {
            errs.invalid(path, scopes.clone(), "unsupported scope");
        }
        for _ in standard.iter().filter(|resource| !scope_supports(scope, resource)) {
            if errs.is_full(shown) {
                break;
            }
            errs.invalid(path, scopes.clone(), "unsupported scope applied to resource");
        }
    }
    for _ in 0..count_conflicts(&scopes) {
        errs.invalid(path, scopes.clone(), "conflicting scopes");
    }
}

/// Returns the standard resources that a quota limits.
fn standard_resources(spec: &Value) -> Vec<&str> {
    let resources = spec.entries("hard").map(|(resource, _)| resource);
    resources.filter(|resource| resources::is_standard_quota(resource)).collect()
}

fn scope_selector(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let selector = spec.at("scopeSelector");
    let path = path.child("matchExpressions");
    let standard = standard_resources(spec);
    let shown = Printed(Ty::Struct(printed::SCOPE_SELECTOR), selector).to_string();
    let mut seen = Vec::new();
    for requirement in selector.list("matchExpressions") {
        let (scope, operator) = (requirement.text("scopeName"), requirement.text("operator"));
        if !is_scope(scope) {
            errs.invalid(path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in standard.iter().filter(|resource| !scope_supports(scope, resource)) {
            if errs.is_full(shown.len()) {
                break;
            }
            errs.invalid_printed(path, &shown, "unsupported scope applied to resource");
        }
        let plain = is_scope(scope) && !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if plain && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or \
                          ResourceQuotaScopeCrossNamespacePodAffinity";
            errs.invalid(path.child("operator"), operator, detail);
        }
        let values = requirement.list("values");
        match operator {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let detail = "must be at least one value when `operator` is 'In' or 'NotIn' \
                                  for scope selector";
                    errs.required(path.child("values"), detail);
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' \
                                  for scope selector";
                    errs.invalid(path.child("values"), values.to_vec(), detail);
                }
            }
            _ => errs.invalid(path.child("operator"), operator, "not a valid selector operator"),
        }
        seen.push(scope);
    }
    for _ in 0..count_conflicts(&seen) {
        let shown = Printed(Ty::List(&Ty::Str), spec.at("scopes"));
        errs.invalid_printed(path, shown, "conflicting scopes");
    }
}

pub(in crate::validate) fn quota_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    spec(errs, new.at("spec"));
    let scopes = |quota: &Value| -> Vec<String> {
        let mut scopes: Vec<String> = quota.at("spec").texts("scopes").map(str::to_owned).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    };
    if scopes(new) != scopes(old) {
        let shown = Printed(Ty::List(&Ty::Str), new.at("spec").at("scopes"));
        let path = Path::root("spec");
        errs.invalid_printed(path.child("scopes"), shown, checks::IMMUTABLE);
    }
}

pub(in crate::validate) fn quota_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    if new.at("metadata").text("resourceVersion").is_empty() {
        errs.required(Path::root("resourceVersion"), "");
    }
    status(errs, new.at("status"));
}
