//! Validates admission policies and their bindings.

use std::collections::HashSet;

use evenkeel_cel::admission::{Compiler, Purpose};
use serde_json::Value;

use super::super::checks::{self, SelectorValues};
use super::super::printed::{self, Printed, Ty};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::{
    FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, compiled, match_conditions, metadata,
    rule_with_operations, selector,
};
use crate::names;

pub(super) fn validate(errs: &mut Errors, kind: &str, object: &Value, old: Option<&Value>) {
    metadata(errs, object);
    let spec = object.at("spec");
    match kind {
        "ValidatingAdmissionPolicy" => {
            let compiler = policy(errs, spec, old, false);
            validations(errs, object, &compiler);
        }
        "MutatingAdmissionPolicy" => {
            let compiler = policy(errs, spec, old, true);
            mutations(errs, spec, &compiler);
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            binding(errs, spec, kind.starts_with("Mutating"));
        }
        _ => {}
    }
}

/// Validates what validating and mutating policies have in common. Returns a compiler with the
/// variables of the policy.
fn policy(errs: &mut Errors, spec: &Value, old: Option<&Value>, mutating: bool) -> Compiler {
    let path = Path::root("spec");
    if spec.has("failurePolicy") {
        let policy = spec.at("failurePolicy");
        checks::one_of_if_set(errs, path.child("failurePolicy"), policy, FAILURE_POLICIES);
    } else {
        errs.required(path.child("failurePolicy"), "");
    }
    let param = spec.at("paramKind");
    if !param.is_null() {
        param_kind(errs, path.child("paramKind"), param);
    }
    let constraints = spec.at("matchConstraints");
    let at = path.child("matchConstraints");
    if constraints.is_null() {
        errs.required(at, "");
    } else {
        match_resources(errs, at, constraints);
        if constraints.list("resourceRules").is_empty() {
            errs.required(at.child("resourceRules"), "");
        }
        if mutating {
            mutating_operations(errs, at, constraints);
        }
    }
    let unchanged = old.is_some_and(|old| {
        ["paramKind", "matchConditions"]
            .into_iter()
            .all(|field| spec.at(field) == old.at("spec").at(field))
    });
    if !unchanged {
        let conditions = spec.list("matchConditions");
        match_conditions(errs, path.child("matchConditions"), conditions, !param.is_null());
    }
    let variables = spec.list("variables");
    // Without variables, validating policies cannot use `variables` at all.
    let mut compiler = match mutating || !variables.is_empty() {
        true => Compiler::of_policy(!param.is_null()),
        false => Compiler::new(!param.is_null()),
    };
    for (i, variable) in variables.iter().enumerate() {
        let path = path.child("variables");
        let path = path.index(i);
        let name = variable.text("name");
        if name.trim().is_empty() {
            errs.required(path.child("name"), "name is not specified");
        } else if !is_cel_identifier(name) {
            errs.invalid(path.child("name"), name, "must be a valid CEL identifier");
        }
        let expression = variable.text("expression");
        if expression.trim().is_empty() {
            errs.required(path.child("expression"), "expression is not specified");
        } else if let Err(invalid) = compiler.variable(name, expression) {
            compiled(errs, path.child("expression"), expression, Err(invalid));
        }
    }
    compiler
}

fn is_cel_identifier(name: &str) -> bool {
    names::c_identifier(name).is_empty() && !evenkeel_cel::is_reserved(name)
}

fn param_kind(errs: &mut Errors, path: Path<'_>, param: &Value) {
    let (version, kind) = (param.text("apiVersion"), param.text("kind"));
    let at = path.child("apiVersion");
    if version.is_empty() {
        errs.required(at, "");
    } else if version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {version}");
        errs.invalid(at, version, detail);
    } else {
        let (group, short) = match version.split_once('/') {
            _ if version == "/" => ("", ""),
            Some(parts) => parts,
            None => ("", version),
        };
        let reasons = names::dns1123_subdomain(group);
        if !group.is_empty() && !reasons.is_empty() {
            errs.invalid(at, group, reasons.join(","));
        }
        let reasons = names::dns1035_label(short);
        if short.is_empty() {
            errs.invalid(at, version, "version must be specified");
        } else if !reasons.is_empty() {
            errs.invalid(at, short, reasons.join(","));
        }
    }
    let reasons = names::dns1035_label(&kind.to_lowercase());
    if kind.is_empty() {
        errs.required(path.child("kind"), "");
    } else if !reasons.is_empty() {
        let detail =
            format!("may have mixed case, but should otherwise match: {}", reasons.join(","));
        errs.invalid(path.child("kind"), kind, detail);
    }
}

fn match_resources(errs: &mut Errors, path: Path<'_>, resources: &Value) {
    if resources.has("matchPolicy") {
        let policy = resources.at("matchPolicy");
        checks::one_of_if_set(errs, path.child("matchPolicy"), policy, MATCH_POLICIES);
    } else {
        errs.required(path.child("matchPolicy"), "");
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if resources.has(field) {
            let values = SelectorValues::Validated;
            selector(errs, path.child(field), resources.at(field), values);
        } else {
            errs.required(path.child(field), "");
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in resources.list(list).iter().enumerate() {
            let path = path.child(list);
            let path = path.index(i);
            let mut names = HashSet::new();
            for (j, name) in rule.texts("resourceNames").enumerate() {
                let path = path.child("resourceNames");
                checks::path_segment(errs, path.index(j), name);
                if !names.insert(name) {
                    errs.duplicate(path.index(j), name);
                }
            }
            rule_with_operations(errs, path, rule);
        }
    }
}

/// Validates the operations of a mutating policy, which cannot include DELETE.
fn mutating_operations(errs: &mut Errors, path: Path<'_>, resources: &Value) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
    for rule in resources.list("resourceRules") {
        for operation in rule.texts("operations") {
            if !OPERATIONS.contains(&operation) {
                let path = path.child("resourceRules");
                errs.not_supported(path.child("operations"), operation, OPERATIONS);
            }
        }
    }
}

fn validations(errs: &mut Errors, policy: &Value, compiler: &Compiler) {
    let path = Path::root("spec");
    let spec = policy.at("spec");
    let (validations, annotations) = (spec.list("validations"), spec.list("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errs.required(path.child("validations"), detail);
        errs.required(path.child("auditAnnotations"), detail);
        return;
    }
    for (i, validation) in validations.iter().enumerate() {
        self::validation(errs, path.child("validations").index(i), validation, compiler);
    }
    let path = path.child("auditAnnotations");
    if annotations.len() > 20 {
        let shown =
            Printed(Ty::List(&Ty::Struct(printed::AUDIT_ANNOTATION)), spec.at("auditAnnotations"));
        errs.invalid_printed(path, shown, "must not have more than 20 auditAnnotations");
    }
    let mut keys = HashSet::new();
    for (i, annotation) in annotations.iter().enumerate() {
        let path = path.index(i);
        let key = annotation.text("key");
        let name = policy.at("metadata").text("name");
        if name.is_empty() {
            errs.invalid(path.child("key"), key, "requires metadata.name be non-empty");
        } else {
            let full = format!("{name}/{key}");
            checks::qualified_name(errs, path.child("key"), &full);
        }
        let expression = annotation.text("valueExpression").trim();
        if expression.is_empty() {
            let detail = "valueExpression is not specified";
            errs.required(path.child("valueExpression"), detail);
        } else if expression.len() > 5 * 1024 {
            let detail = "must not exceed 5120 bytes in length";
            errs.required(path.child("valueExpression"), detail);
        } else {
            let result = compiler.compile(expression, Purpose::AuditAnnotation);
            let shown = annotation.text("valueExpression");
            compiled(errs, path.child("valueExpression"), shown, result);
        }
        if !keys.insert(key) {
            errs.duplicate(path.child("key"), key);
        }
    }
}

fn validation(errs: &mut Errors, path: Path<'_>, validation: &Value, compiler: &Compiler) {
    let expression = validation.text("expression");
    if expression.trim().is_empty() {
        errs.required(path.child("expression"), "expression is not specified");
    } else {
        let result = compiler.compile(expression, Purpose::Condition);
        compiled(errs, path.child("expression"), expression, result);
    }
    let expression = validation.text("messageExpression");
    if !expression.trim().is_empty() {
        let result = compiler.compile(expression, Purpose::Message);
        compiled(errs, path.child("messageExpression"), expression, result);
    } else if !expression.is_empty() {
        let detail = "must be non-empty if specified";
        errs.invalid(path.child("messageExpression"), expression, detail);
    }
    let message = validation.text("message");
    if !message.is_empty() && message.trim().is_empty() {
        errs.invalid(path.child("message"), message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errs.invalid(path.child("message"), message, "must not contain line breaks");
    }
    const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
    checks::one_of_if_set(errs, path.child("reason"), validation.at("reason"), REASONS);
}

fn mutations(errs: &mut Errors, spec: &Value, compiler: &Compiler) {
    let path = Path::root("spec");
    let mutations = spec.list("mutations");
    if mutations.is_empty() {
        let detail = "mutations must contain at least one item";
        errs.required(path.child("mutations"), detail);
    }
    for (i, mutation) in mutations.iter().enumerate() {
        let path = path.child("mutations");
        let path = path.index(i);
        let kind = mutation.text("patchType");
        let (own, other, purpose) = match kind {
            "" => {
                errs.required(path.child("patchType"), "");
                continue;
            }
            "JSONPatch" => ("jsonPatch", "applyConfiguration", Purpose::JsonPatch),
            "ApplyConfiguration" => {
                ("applyConfiguration", "jsonPatch", Purpose::ApplyConfiguration)
            }
            _ => {
                let supported = &["ApplyConfiguration", "JSONPatch"];
                errs.not_supported(path.child("patchType"), kind, supported);
                continue;
            }
        };
        let patch = mutation.at(own);
        let expression = patch.text("expression").trim();
        if patch.is_null() {
            let detail = format!("must be specified when patchType is {kind}");
            errs.required(path.child(own), detail);
        } else if expression.is_empty() {
            errs.required(path.child(own).child("expression"), "");
        } else {
            let result = compiler.compile(expression, purpose);
            compiled(errs, path.child(own).child("expression"), expression, result);
        }
        if mutation.has(other) {
            let detail = format!("must not be specified when patchType is {kind}");
            errs.invalid(path.child(other), format!("{{{other}}}"), detail);
        }
    }
    let policy = spec.text("reinvocationPolicy");
    checks::one_of(errs, path.child("reinvocationPolicy"), policy, REINVOCATION_POLICIES);
}

fn binding(errs: &mut Errors, spec: &Value, mutating: bool) {
    let path = Path::root("spec");
    let policy = spec.text("policyName");
    if policy.is_empty() {
        errs.required(path.child("policyName"), "");
    } else {
        checks::dns1123_subdomain(errs, path.child("policyName"), policy);
    }
    let param = spec.at("paramRef");
    if !param.is_null() {
        param_ref(errs, path.child("paramRef"), param);
    }
    let resources = spec.at("matchResources");
    if !resources.is_null() {
        match_resources(errs, path.child("matchResources"), resources);
    }
    if mutating {
        mutating_operations(errs, path.child("matchResources"), resources);
    } else {
        actions(errs, path.child("validationActions"), spec);
    }
}

fn actions(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
    let actions: Vec<&str> = spec.texts("validationActions").collect();
    let mut seen = HashSet::new();
    for (i, action) in actions.iter().enumerate() {
        if !ACTIONS.contains(action) {
            errs.not_supported(path.index(i), *action, ACTIONS);
        }
        if !seen.insert(action) {
            errs.duplicate(path.index(i), *action);
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure \
                      information in the API response and headers serves no purpose)";
        errs.invalid(path, actions.clone(), detail);
    }
    if actions.is_empty() {
        errs.required(path, "at least one validation action is required");
    }
}

fn param_ref(errs: &mut Errors, path: Path<'_>, param: &Value) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let name = param.text("name");
    let labels = param.at("selector");
    if !name.is_empty() {
        checks::path_segment(errs, path.child("name"), name);
        if !labels.is_null() {
            errs.forbidden(path.child("name"), EXCLUSIVE);
        }
    }
    if !labels.is_null() {
        selector(errs, path.child("selector"), labels, SelectorValues::Validated);
        if !name.is_empty() {
            errs.forbidden(path.child("selector"), EXCLUSIVE);
        }
    }
    if name.is_empty() && labels.is_null() {
        errs.required(path, "one of name or selector must be specified");
    }
    let action = param.text("parameterNotFoundAction");
    checks::one_of(errs, path.child("parameterNotFoundAction"), action, &["Deny", "Allow"]);
}

pub(in crate::validate) fn policy_status(errs: &mut Errors, policy: &Value) {
    let path = Path::root("status");
    let status = policy.at("status");
    let warnings = status.at("typeChecking").list("expressionWarnings");
    for (i, warning) in warnings.iter().enumerate() {
        let path = path.child("typeChecking");
        let path = path.child("expressionWarnings");
        let path = path.index(i);
        checks::required_text(errs, path, warning, "warning");
        if warning.text("fieldRef").trim().is_empty() {
            errs.required(path.child("fieldRef"), "");
        }
    }
    checks::conditions(errs, path.child("conditions"), status.list("conditions"));
}
