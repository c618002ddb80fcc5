//! Validates admission webhook configurations and admission policies.

use std::collections::HashSet;

use evenkeel_cel::admission::{Compiled, Compiler, Invalid, Purpose};
use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::read::Read;
use super::report::{Errors, Path};
use crate::meta;
use crate::names::{self, NameRule};

mod policy;
mod webhook;

pub(super) use policy::policy_status;

pub(super) fn create(errs: &mut Errors, kind: &str, object: &Value) {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            webhook::configuration(errs, object, None, kind == "MutatingWebhookConfiguration");
        }
        _ => policy::validate(errs, kind, object, None),
    }
}

pub(super) fn update(errs: &mut Errors, kind: &str, new: &Value, old: &Value) {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            webhook::configuration(errs, new, Some(old), kind == "MutatingWebhookConfiguration");
        }
        _ => policy::validate(errs, kind, new, Some(old)),
    }
}

fn metadata(errs: &mut Errors, object: &Value) {
    let reasons = |name: &str, prefix| NameRule::Subdomain.check(name, prefix);
    meta::check_create(errs, object.at("metadata"), false, reasons);
}

fn rule_with_operations(errs: &mut Errors, path: Path<'_>, rule: &Value) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let operations: Vec<&str> = rule.texts("operations").collect();
    let at = path.child("operations");
    if operations.is_empty() {
        errs.required(at, "");
    }
    if operations.len() > 1 && operations.contains(&"*") {
        let detail = "if '*' is present, must not specify other operations";
        errs.invalid(at, operations.clone(), detail);
    }
    for (i, operation) in operations.iter().enumerate() {
        if !OPERATIONS.contains(operation) {
            errs.not_supported(at.index(i), *operation, OPERATIONS);
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let values: Vec<&str> = rule.texts(field).collect();
        if values.is_empty() {
            errs.required(path.child(field), "");
        }
        if values.len() > 1 && values.contains(&"*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            errs.invalid(path.child(field), values, detail);
        }
    }
    for (i, version) in rule.texts("apiVersions").enumerate() {
        if version.is_empty() {
            errs.required(path.child("apiVersions").index(i), "");
        }
    }
    resources(errs, path.child("resources"), rule);
    const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
    checks::one_of_if_set(errs, path.child("scope"), rule.at("scope"), SCOPES);
}

fn resources(errs: &mut Errors, path: Path<'_>, rule: &Value) {
    let resources: Vec<&str> = rule.texts("resources").collect();
    if resources.is_empty() {
        errs.required(path, "");
    }
    let (mut with_all_subresources, mut of_all_resources) = (HashSet::new(), HashSet::new());
    let mut plain = false;
    for (i, resource) in resources.iter().enumerate() {
        if resource.is_empty() {
            errs.required(path.index(i), "");
            continue;
        }
        let Some((name, sub)) = resource.split_once('/') else {
            plain = *resource != "*";
            continue;
        };
        if with_all_subresources.contains(name) {
            let detail = format!("if '{name}/*' is present, must not specify {resource}");
            errs.invalid(path.index(i), *resource, detail);
        }
        if of_all_resources.contains(sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {resource}");
            errs.invalid(path.index(i), *resource, detail);
        }
        if sub == "*" {
            with_all_subresources.insert(name);
        }
        if name == "*" {
            of_all_resources.insert(sub);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errs.invalid(path, resources.clone(), detail);
    }
    if plain && resources.contains(&"*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errs.invalid(path, resources, detail);
    }
}

/// Validates match conditions, which can use `params` if the policy has a `paramKind`.
fn match_conditions(errs: &mut Errors, path: Path<'_>, conditions: &[Value], params: bool) {
    let compiler = Compiler::new(params);
    if conditions.len() > 64 {
        errs.too_many(path, conditions.len(), 64);
    }
    let mut names = HashSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let expression = condition.text("expression").trim();
        if expression.is_empty() {
            errs.required(path.child("expression"), "");
        } else {
            let compiled = compiler.compile(expression, Purpose::Condition);
            self::compiled(errs, path.child("expression"), expression, compiled);
        }
        let name = condition.text("name");
        if name.is_empty() {
            errs.required(path.child("name"), "");
            continue;
        }
        checks::qualified_name(errs, path.child("name"), name);
        if !names.insert(name) {
            errs.duplicate(path.child("name"), name);
        }
    }
}

/// Reports an expression that does not compile.
fn compiled(errs: &mut Errors, path: Path<'_>, shown: &str, compiled: Compiled) {
    match compiled {
        Ok(_) => {}
        Err(Invalid { detail, internal: true }) => errs.internal(path, detail),
        Err(Invalid { detail, internal: false }) => errs.invalid(path, shown, detail),
    }
}

fn selector(errs: &mut Errors, path: Path<'_>, selector: &Value, values: SelectorValues) {
    checks::label_selector(errs, path, selector, values);
}

/// Validates a domain name of at least three segments.
fn fully_qualified_name(errs: &mut Errors, path: Path<'_>, name: &str) {
    if name.is_empty() {
        errs.required(path, "");
        return;
    }
    let reasons = names::dns1123_subdomain(name);
    if !reasons.is_empty() {
        errs.invalid(path, name, reasons.join(","));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errs.invalid(path, name, detail);
    }
}

const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];
