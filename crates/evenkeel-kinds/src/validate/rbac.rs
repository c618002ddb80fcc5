//! Validates Roles, ClusterRoles and their bindings.

use serde_json::Value;

use super::builtin_update;
use super::checks::{self, SelectorValues};
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use crate::names::{self, NameRule, Reasons};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn create(errs: &mut Errors, kind: &str, object: &Value) {
    validate(errs, kind, object, SelectorValues::Validated);
}

fn validate(errs: &mut Errors, kind: &str, object: &Value, values: SelectorValues) {
    let namespaced = matches!(kind, "Role" | "RoleBinding");
    let meta = object.at("metadata");
    let name_reasons = |name: &str, _prefix: bool| -> Reasons { names::path_segment(name, false) };
    crate::meta::check_create(errs, meta, namespaced, name_reasons);
    crate::meta::check_builtin_finalizers(errs, meta);
    match kind {
        "Role" | "ClusterRole" => {
            for (i, rule) in object.list("rules").iter().enumerate() {
                policy_rule(errs, Path::root("rules").index(i), rule, namespaced);
            }
            if kind == "ClusterRole" {
                aggregation(errs, object.at("aggregationRule"), values);
            }
        }
        "RoleBinding" | "ClusterRoleBinding" => binding(errs, object, namespaced),
        _ => {}
    }
}

fn policy_rule(errs: &mut Errors, path: Path<'_>, rule: &Value, namespaced: bool) {
    if rule.list("verbs").is_empty() {
        errs.required(path.child("verbs"), "verbs must contain at least one value");
    }
    let urls = rule.list("nonResourceURLs");
    if !urls.is_empty() {
        let path = path.child("nonResourceURLs");
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errs.invalid(path, urls.to_vec(), detail);
        }
        let resources = ["apiGroups", "resources", "resourceNames"];
        if resources.iter().any(|field| !rule.list(field).is_empty()) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errs.invalid(path, urls.to_vec(), detail);
        }
        return;
    }
    if rule.list("apiGroups").is_empty() {
        let detail = "resource rules must supply at least one api group";
        errs.required(path.child("apiGroups"), detail);
    }
    if rule.list("resources").is_empty() {
        let detail = "resource rules must supply at least one resource";
        errs.required(path.child("resources"), detail);
    }
}

fn aggregation(errs: &mut Errors, rule: &Value, values: SelectorValues) {
    if rule.is_null() {
        return;
    }
    let path = Path::root("aggregationRule");
    let path = path.child("clusterRoleSelectors");
    let selectors = rule.list("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errs.required(path, detail);
    }
    for (i, selector) in selectors.iter().enumerate() {
        checks::label_selector(errs, path.index(i), selector, values);
        if checks::selects(selector, &Value::Null).is_none() {
            // Upstream reports the selector that failed to convert.
            errs.invalid_printed(path.index(i), "null", "invalid label selector.");
        }
    }
}

fn binding(errs: &mut Errors, binding: &Value, namespaced: bool) {
    let path = Path::root("roleRef");
    let role = binding.at("roleRef");
    let group = role.text("apiGroup");
    if group != GROUP {
        errs.not_supported(path.child("apiGroup"), group, &[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = role.text("kind");
    if !kinds.contains(&kind) {
        errs.not_supported(path.child("kind"), kind, kinds);
    }
    let name = role.text("name");
    if name.is_empty() {
        errs.required(path.child("name"), "");
    } else {
        checks::path_segment(errs, path.child("name"), name);
    }
    for (i, subject) in binding.list("subjects").iter().enumerate() {
        self::subject(errs, Path::root("subjects").index(i), subject, namespaced);
    }
}

fn subject(errs: &mut Errors, path: Path<'_>, subject: &Value, namespaced: bool) {
    let (name, group) = (subject.text("name"), subject.text("apiGroup"));
    if name.is_empty() {
        errs.required(path.child("name"), "");
    }
    match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errs.reasons(path.child("name"), name, NameRule::Subdomain.check(name, false));
            }
            if !group.is_empty() {
                errs.not_supported(path.child("apiGroup"), group, &[""]);
            }
            if !namespaced && subject.text("namespace").is_empty() {
                errs.required(path.child("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errs.not_supported(path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => {
            errs.not_supported(path.child("kind"), other, &["ServiceAccount", "User", "Group"]);
        }
    }
}

pub(super) fn update(errs: &mut Errors, kind: &str, new: &Value, old: &Value) {
    let allow_invalid = old
        .at("aggregationRule")
        .list("clusterRoleSelectors")
        .iter()
        .any(|selector| checks::selector_values(selector) == SelectorValues::AllowInvalid);
    let values =
        if allow_invalid { SelectorValues::AllowInvalid } else { SelectorValues::Validated };
    validate(errs, kind, new, values);
    builtin_update(errs, new, old);
    if matches!(kind, "RoleBinding" | "ClusterRoleBinding") {
        let ty = Ty::Struct(printed::ROLE_REF);
        let (now, before) = (new.at("roleRef"), old.at("roleRef"));
        if !printed::same(ty, now, before) {
            errs.invalid_printed(Path::root("roleRef"), Printed(ty, now), "cannot change roleRef");
        }
    }
}
