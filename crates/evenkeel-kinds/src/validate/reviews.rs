//! Validates access reviews, which are evaluated and not stored.

use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::volume::token_expiration;

pub(super) fn create(errs: &mut Errors, kind: &str, review: &Value) {
    let spec = review.at("spec");
    match kind {
        "TokenRequest" => token_expiration(errs, Path::root("spec"), spec),
        "SelfSubjectAccessReview" => {
            attributes(errs, spec);
            resource_attributes(errs, spec);
            empty_meta(errs, review, false);
        }
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            attributes(errs, spec);
            if spec.text("user").is_empty() && spec.list("groups").is_empty() {
                let path = Path::root("spec");
                let detail = "at least one of user or group must be specified";
                errs.invalid(path.child("user"), "", detail);
            }
            resource_attributes(errs, spec);
            let local = kind == "LocalSubjectAccessReview";
            empty_meta(errs, review, local);
            if local {
                local_attributes(errs, review);
            }
        }
        _ => {}
    }
}

fn non_resource(spec: &Value) -> Printed<'_> {
    let ty = Ty::Opt(&Ty::Struct(printed::NON_RESOURCE_ATTRIBUTES));
    Printed(ty, spec.at("nonResourceAttributes"))
}

fn attributes(errs: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    match (spec.has("resourceAttributes"), spec.has("nonResourceAttributes")) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            errs.invalid_printed(path.child("nonResourceAttributes"), non_resource(spec), detail);
        }
        (false, false) => {
            let detail =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errs.invalid_printed(path.child("resourceAttributes"), non_resource(spec), detail);
        }
        _ => {}
    }
}

fn resource_attributes(errs: &mut Errors, spec: &Value) {
    let attributes = spec.at("resourceAttributes");
    let path = Path::root("spec.resourceAttributes");
    for field in ["fieldSelector", "labelSelector"] {
        let selector = attributes.at(field);
        if selector.is_null() {
            continue;
        }
        let path = path.child(field);
        let raw = selector.text("rawSelector");
        let requirements = selector.list("requirements");
        if !raw.is_empty() && !requirements.is_empty() {
            let detail = "may not specified at the same time as requirements";
            errs.invalid(path.child("rawSelector"), raw, detail);
        }
        if raw.is_empty() && requirements.is_empty() {
            let detail =
                format!("when {path} is specified, requirements or rawSelector is required");
            errs.required(path.child("requirements"), detail);
        }
        for (i, requirement) in requirements.iter().enumerate() {
            let path = path.child("requirements");
            let path = path.index(i);
            if field == "labelSelector" {
                let values = SelectorValues::Validated;
                checks::selector_requirement(errs, path, requirement, values, true);
            } else {
                field_requirement(errs, path, requirement);
            }
        }
    }
}

fn field_requirement(errs: &mut Errors, path: Path<'_>, requirement: &Value) {
    if requirement.text("key").is_empty() {
        errs.required(path.child("key"), "must be specified");
    }
    let values = requirement.list("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errs.required(path.child("values"), detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errs.forbidden(path.child("values"), detail);
        }
        _ => {}
    }
}

fn empty_meta(errs: &mut Errors, review: &Value, allow_namespace: bool) {
    let meta = review.at("metadata");
    let filled = meta.as_object().into_iter().flatten().any(|(key, value)| {
        let ignored = key == "managedFields" || (allow_namespace && key == "namespace");
        !ignored && !value.is_null() && value.as_str() != Some("")
    });
    if filled {
        let shown = Printed(Ty::Struct(printed::OBJECT_META), meta);
        let detail =
            if allow_namespace { "must be empty except for namespace" } else { "must be empty" };
        errs.invalid_printed(Path::root("metadata"), shown, detail);
    }
}

fn local_attributes(errs: &mut Errors, review: &Value) {
    let spec = review.at("spec");
    let attributes = spec.at("resourceAttributes");
    let namespace = attributes.text("namespace");
    if !attributes.is_null() && namespace != review.at("metadata").text("namespace") {
        let path = Path::root("spec.resourceAttributes.namespace");
        errs.invalid(path, namespace, "must match metadata.namespace");
    }
    if spec.has("nonResourceAttributes") {
        let path = Path::root("spec.nonResourceAttributes");
        let detail = "disallowed on this kind of request";
        errs.invalid_printed(path, non_resource(spec), detail);
    }
}
