//! Validates DeviceClasses, ResourceClaims and ResourceSlices.
//!
//! CEL expressions that select devices are not compiled.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::checks;
use super::printed::{self, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::volume::sources;
use super::{builtin_create, builtin_update};
use crate::names::{self, NameRule};

pub(super) fn create(errs: &mut Errors, kind: &str, object: &Value) {
    let path = Path::root("spec");
    let spec = object.at("spec");
    match kind {
        "ResourceClaim" => {
            builtin_create(errs, object, true, NameRule::Subdomain);
            device_claim(errs, path.child("devices"), spec.at("devices"));
        }
        "ResourceClaimTemplate" => {
            builtin_create(errs, object, true, NameRule::Subdomain);
            let path = path.child("spec");
            device_claim(errs, path.child("devices"), spec.at("spec").at("devices"));
        }
        "DeviceClass" => {
            builtin_create(errs, object, false, NameRule::Subdomain);
            selectors(errs, path.child("selectors"), spec.list("selectors"));
            configs(errs, path.child("config"), spec.list("config"), None);
        }
        "ResourceSlice" => {
            builtin_create(errs, object, false, NameRule::Subdomain);
            slice(errs, path, spec, None);
        }
        _ => {}
    }
}

pub(super) fn update(errs: &mut Errors, kind: &str, new: &Value, old: &Value) {
    let path = Path::root("spec");
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    match kind {
        "ResourceClaim" => {
            builtin_create(errs, new, true, NameRule::Subdomain);
            builtin_update(errs, new, old);
            let ty = Ty::Struct(printed::RESOURCE_CLAIM_SPEC);
            checks::immutable(errs, path, ty, spec, old_spec);
        }
        "ResourceClaimTemplate" => {
            builtin_update(errs, new, old);
            let ty = Ty::Struct(printed::RESOURCE_CLAIM_TEMPLATE_SPEC);
            checks::immutable(errs, path, ty, spec, old_spec);
        }
        "DeviceClass" => {
            create(errs, kind, new);
            builtin_update(errs, new, old);
        }
        "ResourceSlice" => {
            builtin_update(errs, new, old);
            slice(errs, path, spec, Some(old_spec));
        }
        _ => builtin_update(errs, new, old),
    }
}

const NOT_A_REQUEST: &str = "must be the name of a request in the claim or the name of a request \
                             and a subrequest separated by '/'";

fn device_claim(errs: &mut Errors, path: Path<'_>, devices: &Value) {
    let requests = devices.list("requests");
    let by_name = requests_by_name(requests);
    set(errs, path.child("requests"), requests, 32, |errs, path, request| {
        device_request(errs, path, request);
    });
    for (i, constraint) in devices.list("constraints").iter().enumerate() {
        let path = path.child("constraints");
        let path = path.index(i);
        request_names(errs, path.child("requests"), constraint, &by_name);
        let attributes = ["matchAttribute", "distinctAttribute"];
        if let Some(field) = attributes.into_iter().find(|field| constraint.has(field)) {
            fully_qualified_name(errs, path.child(field), constraint.text(field));
        } else {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, \
                          but multiple fields are set";
            errs.required(path, detail);
        }
    }
    configs(errs, path.child("config"), devices.list("config"), Some(&by_name));
}

/// Validates an attribute name: a domain, a slash and an identifier.
fn fully_qualified_name(errs: &mut Errors, path: Path<'_>, name: &str) {
    const DOMAIN_MAX: usize = 63;
    const ID_MAX: usize = 32;
    let identifier = |errs: &mut Errors, id: &str| {
        if id.len() > ID_MAX {
            errs.too_long(path, ID_MAX);
        }
        errs.reasons(path, id, names::c_identifier(id));
    };
    match name.split_once('/') {
        None => {
            identifier(errs, name);
            let detail = "a fully qualified name must be a domain and a name separated by a slash";
            errs.invalid(path, name, detail);
        }
        Some((_, rest)) if rest.contains('/') => {}
        Some((domain, id)) => {
            if domain.is_empty() {
                errs.invalid(path, "", "the domain must not be empty");
            } else {
                if domain.len() > DOMAIN_MAX {
                    errs.too_long(path, DOMAIN_MAX);
                }
                checks::dns1123_subdomain(errs, path, domain);
            }
            if id.is_empty() {
                errs.invalid(path, "", "the name must not be empty");
            } else {
                identifier(errs, id);
            }
        }
    }
}

/// Validates a list of at most `max` items with unique names.
fn set(
    errs: &mut Errors,
    path: Path<'_>,
    items: &[Value],
    max: usize,
    check: impl Fn(&mut Errors, Path<'_>, &Value),
) {
    if items.len() > max {
        errs.too_many(path, items.len(), max);
    }
    let mut names = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        check(errs, path.index(i), item);
        let name = item.text("name");
        if !names.insert(name) {
            errs.duplicate(path.index(i), name);
        }
    }
}

fn device_request(errs: &mut Errors, path: Path<'_>, request: &Value) {
    checks::dns1123_label(errs, path.child("name"), request.text("name"));
    let alternatives = request.list("firstAvailable");
    let exactly = request.at("exactly");
    match (exactly.is_null(), alternatives.is_empty()) {
        (true, true) => {
            errs.required(path, "exactly one of `exactly` or `firstAvailable` is required");
        }
        (false, false) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple \
                          fields are set";
            errs.invalid(path, Value::Null, detail);
        }
        (false, true) => exact_request(errs, path.child("exactly"), exactly),
        (true, false) => {
            set(errs, path.child("firstAvailable"), alternatives, 8, |errs, path, request| {
                checks::dns1123_label(errs, path.child("name"), request.text("name"));
                exact_request(errs, path, request);
            });
        }
    }
}

fn exact_request(errs: &mut Errors, path: Path<'_>, request: &Value) {
    let class = request.text("deviceClassName");
    if class.is_empty() {
        errs.required(path.child("deviceClassName"), "");
    } else {
        checks::dns1123_subdomain(errs, path.child("deviceClassName"), class);
    }
    selectors(errs, path.child("selectors"), request.list("selectors"));
    let count = request.num("count");
    match request.text("allocationMode") {
        "All" => {
            if count != 0 {
                let detail = "must not be specified when allocationMode is 'All'";
                errs.invalid(path.child("count"), count, detail);
            }
        }
        "ExactCount" => checks::positive(errs, path.child("count"), count),
        other => {
            errs.not_supported(path.child("allocationMode"), other, &["All", "ExactCount"]);
        }
    }
}

fn selectors(errs: &mut Errors, path: Path<'_>, selectors: &[Value]) {
    if selectors.len() > 32 {
        errs.too_many(path, selectors.len(), 32);
    }
    for (i, selector) in selectors.iter().enumerate() {
        let path = path.index(i);
        let path = path.child("cel");
        if !selector.has("cel") {
            errs.required(path, "");
        } else if selector.at("cel").text("expression").len() > 10 * 1024 {
            errs.too_long(path.child("expression"), 10 * 1024);
        }
    }
}

/// The requests of a claim by name, with the names of their subrequests.
type Requests<'a> = HashMap<&'a str, HashSet<&'a str>>;

fn requests_by_name(requests: &[Value]) -> Requests<'_> {
    let mut by_name = Requests::new();
    for request in requests {
        let alternatives = request.list("firstAvailable").iter().map(|a| a.text("name"));
        by_name.entry(request.text("name")).or_default().extend(alternatives);
    }
    by_name
}

fn request_names(errs: &mut Errors, path: Path<'_>, item: &Value, requests: &Requests<'_>) {
    let mut names = HashSet::new();
    for (i, name) in item.texts("requests").enumerate() {
        let path = path.index(i);
        let (request, alternative) = match name.split_once('/') {
            Some((_, rest)) if rest.contains('/') => {
                names.insert(name);
                errs.invalid(path, name, NOT_A_REQUEST);
                continue;
            }
            Some((request, alternative)) => (request, Some(alternative)),
            None => (name, None),
        };
        checks::dns1123_label(errs, path, request);
        if let Some(alternative) = alternative {
            checks::dns1123_label(errs, path, alternative);
        }
        let known = requests.get(request).is_some_and(|alternatives| {
            alternative.is_none_or(|alternative| alternatives.contains(alternative))
        });
        if !known {
            errs.invalid(path, name, NOT_A_REQUEST);
        }
        if !names.insert(name) {
            errs.duplicate(path, name);
        }
    }
}

fn configs(errs: &mut Errors, path: Path<'_>, configs: &[Value], requests: Option<&Requests<'_>>) {
    if configs.len() > 32 {
        errs.too_many(path, configs.len(), 32);
    }
    for (i, config) in configs.iter().enumerate() {
        let path = path.index(i);
        if let Some(requests) = requests {
            request_names(errs, path.child("requests"), config, requests);
        }
        let opaque = config.at("opaque");
        let path = path.child("opaque");
        if opaque.is_null() {
            errs.required(path, "");
            continue;
        }
        sources::csi_driver_name(errs, path.child("driver"), opaque.text("driver"));
        match opaque.at("parameters") {
            Value::Null => errs.required(path.child("parameters"), ""),
            Value::Object(_) => {}
            _ => {
                let detail = "must be a valid JSON object";
                errs.invalid_printed(path.child("parameters"), "\"<value omitted>\"", detail);
            }
        }
    }
}

fn slice(errs: &mut Errors, path: Path<'_>, spec: &Value, old: Option<&Value>) {
    sources::csi_driver_name(errs, path.child("driver"), spec.text("driver"));
    let pool = spec.at("pool");
    {
        let path = path.child("pool");
        let name = pool.text("name");
        if name.is_empty() {
            errs.required(path.child("name"), "");
        } else {
            if name.len() > 253 {
                errs.too_long(path.child("name"), 253);
            }
            for part in name.split('/') {
                checks::dns1123_subdomain(errs, path.child("name"), part);
            }
        }
        checks::positive(errs, path.child("resourceSliceCount"), pool.num("resourceSliceCount"));
        if let Some(generation) = pool.int("generation").filter(|g| *g < 0) {
            let detail = "must be greater than or equal to zero";
            errs.invalid(path.child("generation"), generation, detail);
        }
    }
    if let Some(old) = old {
        let (now, was) = (pool.at("name"), old.at("pool").at("name"));
        checks::immutable(errs, path.child("pool").child("name"), Ty::Str, now, was);
        let (now, was) = (spec.at("driver"), old.at("driver"));
        checks::immutable(errs, path.child("driver"), Ty::Str, now, was);
        let (now, was) = (spec.at("nodeName"), old.at("nodeName"));
        checks::immutable(errs, path.child("nodeName"), Ty::Opt(&Ty::Str), now, was);
    }
    const FIELDS: &str = "`nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection`";
    let mut set: Vec<&str> = Vec::new();
    match spec.text_opt("nodeName") {
        None => {}
        Some("") => {
            let detail = "must be either unset or set to a non-empty string";
            errs.invalid(path.child("nodeName"), "", detail);
        }
        Some(name) => {
            set.push("`nodeName`");
            checks::dns1123_subdomain(errs, path.child("nodeName"), name);
        }
    }
    if spec.has("nodeSelector") {
        set.push("`nodeSelector`");
    }
    for (field, shown) in
        [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match spec.flag(field) {
            Some(true) => set.push(shown),
            Some(false) => {
                let detail = "must be either unset or set to true";
                errs.invalid(path.child(field), false, detail);
            }
            None => {}
        }
    }
    if set.is_empty() {
        errs.required(path, format!("exactly one of {FIELDS} is required"));
    } else if set.len() > 1 {
        let detail = format!("exactly one of {FIELDS} is required, but multiple fields are set");
        errs.invalid(path, format!("{{{}}}", set.join(", ")), detail);
    }
    if spec.has("sharedCounters") && spec.has("devices") {
        errs.invalid(path, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    self::set(errs, path.child("devices"), spec.list("devices"), 128, |errs, path, device| {
        checks::dns1123_label(errs, path.child("name"), device.text("name"));
    });
}
