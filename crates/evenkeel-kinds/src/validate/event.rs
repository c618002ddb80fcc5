//! Validates Events of the core group and of `events.k8s.io`.

use evenkeel_types::Gvk;
use serde_json::Value;

use super::checks;
use super::printed::{self, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update};
use crate::names::NameRule;

/// Field names of an Event in one of its two groups.
struct Fields {
    involved: &'static str,
    message: &'static str,
    source: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    controller: &'static str,
}

const OLD: Fields = Fields {
    involved: "involvedObject",
    message: "message",
    source: "source",
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
    controller: "reportingComponent",
};

const NEW: Fields = Fields {
    involved: "regarding",
    message: "note",
    source: "deprecatedSource",
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    controller: "reportingController",
};

pub(super) fn create(errs: &mut Errors, gvk: Gvk<'_>, event: &Value) {
    if gvk.group.is_empty() {
        legacy(errs, event, &OLD);
        return;
    }
    legacy(errs, event, &NEW);
    builtin_create(errs, event, true, NameRule::Subdomain);
    series(errs, event);
    if !event.has("eventTime") {
        errs.required(Path::root("eventTime"), "");
    }
    let kind = event.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        errs.invalid(Path::root("type"), "", format!("has invalid value: {kind}"));
    }
    const UNSET: &str = "needs to be unset";
    // Upstream reports the names of the internal fields, not those of the client's version.
    for (field, shown) in [(NEW.first, OLD.first), (NEW.last, OLD.last)] {
        if event.has(field) {
            errs.invalid(Path::root(shown), "", UNSET);
        }
    }
    if event.num(NEW.count) != 0 {
        errs.invalid(Path::root(OLD.count), "", UNSET);
    }
    let source = event.at(NEW.source);
    if !source.text("component").is_empty() || !source.text("host").is_empty() {
        errs.invalid(Path::root(OLD.source), "", UNSET);
    }
}

pub(super) fn update(errs: &mut Errors, gvk: Gvk<'_>, new: &Value, old: &Value) {
    if gvk.group.is_empty() {
        legacy(errs, new, &OLD);
        return;
    }
    legacy(errs, new, &NEW);
    builtin_update(errs, new, old);
    if new.at("series") != old.at("series") {
        series(errs, new);
    }
    let reference = Ty::Struct(printed::OBJECT_REFERENCE);
    for (field, shown, ty) in [
        (NEW.involved, OLD.involved, reference),
        ("reason", "reason", Ty::Str),
        (NEW.message, OLD.message, Ty::Str),
        (NEW.source, OLD.source, Ty::Struct(printed::EVENT_SOURCE)),
        (NEW.first, OLD.first, Ty::Time),
        (NEW.last, OLD.last, Ty::Time),
        (NEW.count, OLD.count, Ty::Int),
        ("reason", "reason", Ty::Str),
        ("type", "type", Ty::Str),
        ("eventTime", "eventTime", Ty::Time),
        ("action", "action", Ty::Str),
        ("related", "related", Ty::Opt(&Ty::Struct(printed::OBJECT_REFERENCE))),
        ("reportingController", "reportingController", Ty::Str),
        ("reportingInstance", "reportingInstance", Ty::Str),
    ] {
        checks::immutable(errs, Path::root(shown), ty, new.at(field), old.at(field));
    }
}

fn series(errs: &mut Errors, event: &Value) {
    let series = event.at("series");
    if series.is_null() {
        return;
    }
    if series.num("count") < 2 {
        errs.invalid(Path::root("series.count"), "", "should be at least 2");
    }
    if !series.has("lastObservedTime") {
        errs.required(Path::root("series.lastObservedTime"), "");
    }
}

fn legacy(errs: &mut Errors, event: &Value, fields: &Fields) {
    let namespace = event.at("metadata").text("namespace");
    let involved = event.at(fields.involved).text("namespace");
    let path = Path::root("involvedObject");
    let namespace_mismatch = |errs: &mut Errors| {
        errs.invalid(path.child("namespace"), involved, "does not match event.namespace");
    };
    if event.has("eventTime") {
        if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
            namespace_mismatch(errs);
        }
        reporting_fields(errs, event, fields);
    } else {
        let fits = if involved.is_empty() {
            matches!(namespace, "" | "default")
        } else {
            namespace == involved
        };
        if !fits {
            namespace_mismatch(errs);
        }
    }
    checks::dns1123_subdomain(errs, Path::root("namespace"), namespace);
}

/// Validates the reporting controller, instance and reason, which newer Events must have.
fn reporting_fields(errs: &mut Errors, event: &Value, fields: &Fields) {
    let controller = event.text(fields.controller);
    let path = Path::root(fields.controller);
    if controller.is_empty() {
        errs.required(path, "");
    }
    checks::qualified_name(errs, path, controller);
    for field in ["reportingInstance", "action", "reason"] {
        let value = event.text(field);
        if value.is_empty() {
            errs.required(Path::root(field), "");
        }
        if value.len() > 128 {
            errs.invalid(Path::root(field), "", "can have at most 128 characters");
        }
    }
    if event.text(fields.message).len() > 1024 {
        errs.invalid(Path::root("message"), "", "can have at most 1024 characters");
    }
}
