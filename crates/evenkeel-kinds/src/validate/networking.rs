//! Validates Ingresses, IngressClasses, IPAddresses and ServiceCIDRs; a submodule validates
//! NetworkPolicies.

use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update, ip, service};
use crate::names::{self, NameRule};

mod policy;

pub(super) fn create(errs: &mut Errors, kind: &str, object: &Value) {
    match kind {
        "Ingress" => ingress(errs, object),
        "IngressClass" => ingress_class(errs, object),
        "NetworkPolicy" => policy::create(errs, object),
        "IPAddress" => ip_address(errs, object),
        "ServiceCIDR" => {
            builtin_create(errs, object, false, NameRule::Subdomain);
            service_cidr(errs, object.at("spec"));
        }
        _ => {}
    }
}

pub(super) fn update(errs: &mut Errors, kind: &str, new: &Value, old: &Value) {
    match kind {
        "Ingress" => ingress_update(errs, new, old),
        "IngressClass" => {
            builtin_update(errs, new, old);
            let controller = new.at("spec").text("controller");
            if controller != old.at("spec").text("controller") {
                let path = Path::root("spec");
                errs.invalid(path.child("controller"), controller, checks::IMMUTABLE);
            }
            ingress_class(errs, new);
        }
        "NetworkPolicy" => policy::update(errs, new, old),
        "IPAddress" => {
            ip_address(errs, new);
            builtin_update(errs, new, old);
            let ty = Ty::Opt(&Ty::Struct(printed::PARENT_REFERENCE));
            let (now, before) = (new.at("spec").at("parentRef"), old.at("spec").at("parentRef"));
            checks::immutable(errs, Path::root("spec").child("parentRef"), ty, now, before);
        }
        "ServiceCIDR" => service_cidr_update(errs, new, old),
        _ => {}
    }
}

/// Checks that are relaxed because the stored Ingress already violates them.
#[derive(Clone, Copy, Default)]
struct Relaxed {
    secret_names: bool,
    wildcard_rules: bool,
}

fn ingress(errs: &mut Errors, ingress: &Value) {
    validate_ingress(errs, ingress, Relaxed::default());
    const CLASS: &str = "kubernetes.io/ingress.class";
    let annotation = ingress.at("metadata").at("annotations").text_opt(CLASS);
    let class = ingress.at("spec").text_opt("ingressClassName");
    if let (Some(annotation), Some(class)) = (annotation, class)
        && annotation != class
    {
        let path = Path::root("annotations");
        let detail = "must match `ingressClassName` when both are specified";
        errs.invalid(path.child(CLASS), annotation, detail);
    }
}

fn ingress_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let spec = old.at("spec");
    let secret_names = spec.list("tls").iter().any(|tls| {
        let name = tls.text("secretName");
        !name.is_empty() && !names::dns1123_subdomain(name).is_empty()
    });
    let wildcard_rules = spec.list("rules").iter().any(|rule| {
        let mut path_errors = Errors::new();
        http_paths(&mut path_errors, Path::root("rules"), rule);
        rule.text("host").contains('*') && !path_errors.is_empty()
    });
    validate_ingress(errs, new, Relaxed { secret_names, wildcard_rules });
}

fn validate_ingress(errs: &mut Errors, ingress: &Value, relaxed: Relaxed) {
    builtin_create(errs, ingress, true, NameRule::Subdomain);
    let path = Path::root("spec");
    let spec = ingress.at("spec");
    let rules = spec.list("rules");
    let default = spec.at("defaultBackend");
    if rules.is_empty() && default.is_null() {
        let shown = if spec.has("rules") { "[]" } else { "null" };
        let detail = "either `defaultBackend` or `rules` must be specified";
        errs.invalid_printed(path, shown, detail);
    }
    if !default.is_null() {
        backend(errs, path.child("defaultBackend"), default);
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = path.child("rules");
        ingress_rule(errs, path.index(i), rule, relaxed);
    }
    for (i, tls) in spec.list("tls").iter().enumerate() {
        let path = path.child("tls");
        let path = path.index(i);
        for (j, host) in tls.texts("hosts").enumerate() {
            self::host(errs, path.child("hosts").index(j), host);
        }
        let secret = tls.text("secretName");
        if !relaxed.secret_names && !secret.is_empty() {
            checks::dns1123_subdomain(errs, path.child("secretName"), secret);
        }
    }
    if let Some(class) = spec.text_opt("ingressClassName") {
        checks::dns1123_subdomain(errs, path.child("ingressClassName"), class);
    }
}

fn host(errs: &mut Errors, path: Path<'_>, host: &str) {
    let reasons = if host.contains('*') {
        names::wildcard_dns1123_subdomain(host)
    } else {
        names::dns1123_subdomain(host)
    };
    errs.reasons(path, host, reasons);
}

fn ingress_rule(errs: &mut Errors, path: Path<'_>, rule: &Value, relaxed: Relaxed) {
    let name = rule.text("host");
    if !name.is_empty() {
        if ip::parse(name).is_some() {
            errs.invalid(path.child("host"), name, "must be a DNS name, not an IP address");
        }
        host(errs, path.child("host"), name);
    }
    if !name.contains('*') || !relaxed.wildcard_rules {
        http_paths(errs, path, rule);
    }
}

fn http_paths(errs: &mut Errors, path: Path<'_>, rule: &Value) {
    let http = rule.at("http");
    if http.is_null() {
        return;
    }
    let path = path.child("http");
    let path = path.child("paths");
    let paths = http.list("paths");
    if paths.is_empty() {
        errs.required(path, "");
    }
    for (i, http_path) in paths.iter().enumerate() {
        self::http_path(errs, path.index(i), http_path);
    }
}

fn http_path(errs: &mut Errors, path: Path<'_>, http_path: &Value) {
    const ABSOLUTE: &str = "must be an absolute path";
    let Some(kind) = http_path.text_opt("pathType") else {
        errs.required(path.child("pathType"), "pathType must be specified");
        return;
    };
    let text = http_path.text("path");
    let at = path.child("path");
    match kind {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errs.invalid(at, text, ABSOLUTE);
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(sequence) {
                    errs.invalid(at, text, format!("must not contain '{sequence}'"));
                }
            }
            for suffix in ["/..", "/."] {
                if text.ends_with(suffix) {
                    errs.invalid(at, text, format!("cannot end with '{suffix}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                errs.invalid(at, text, ABSOLUTE);
            }
        }
        other => {
            let supported = &["Exact", "ImplementationSpecific", "Prefix"];
            errs.not_supported(path.child("pathType"), other, supported);
        }
    }
    backend(errs, path.child("backend"), http_path.at("backend"));
}

fn backend(errs: &mut Errors, path: Path<'_>, backend: &Value) {
    let (resource, service) = (backend.at("resource"), backend.at("service"));
    match (resource.is_null(), service.is_null()) {
        (false, false) => errs.invalid(path, "", "cannot set both resource and service backends"),
        (false, true) => typed_reference(errs, path.child("resource"), resource),
        (true, true) => errs.invalid(path, "", "resource or service backend is required"),
        (true, false) => {
            let at = path.child("service");
            let name = service.text("name");
            if name.is_empty() {
                errs.required(at.child("name"), "");
            } else {
                super::service::name(errs, at.child("name"), name);
            }
            let port = service.at("port");
            let (name, number) = (port.text("name"), port.num("number"));
            let at = at.child("port");
            match (name.is_empty(), number == 0) {
                (false, false) => errs.invalid(path, "", "cannot set both port name & port number"),
                (false, true) => errs.reasons(at.child("name"), name, names::port_name(name)),
                (true, false) => checks::port_number(errs, at.child("number"), number),
                (true, true) => errs.required(path, "port name or number is required"),
            }
        }
    }
}

fn typed_reference(errs: &mut Errors, path: Path<'_>, reference: &Value) {
    if let Some(group) = reference.text_opt("apiGroup") {
        checks::dns1123_subdomain(errs, path.child("apiGroup"), group);
    }
    for field in ["kind", "name"] {
        let value = reference.text(field);
        if value.is_empty() {
            errs.required(path.child(field), "");
        } else {
            checks::path_segment(errs, path.child(field), value);
        }
    }
}

pub(super) fn ingress_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    let path = path.child("loadBalancer");
    let path = path.child("ingress");
    let before = old.at("status").at("loadBalancer").list("ingress");
    let stored = before.iter().map(|point| point.text("ip")).collect();
    let points = new.at("status").at("loadBalancer").list("ingress");
    for (i, point) in points.iter().enumerate() {
        service::load_balancer_ingress(errs, path.index(i), point, &stored, |_| {});
    }
}

fn ingress_class(errs: &mut Errors, class: &Value) {
    builtin_create(errs, class, false, NameRule::Subdomain);
    let path = Path::root("spec");
    let spec = class.at("spec");
    let controller = spec.text("controller");
    if controller.len() > 250 {
        errs.too_long(path.child("controller"), 250);
    }
    checks::domain_prefixed_path(errs, path.child("controller"), controller);
    let parameters = spec.at("parameters");
    if parameters.is_null() {
        return;
    }
    let path = path.child("parameters");
    typed_reference(errs, path, parameters);
    let Some(scope) = parameters.text_opt("scope") else {
        errs.required(path.child("scope"), "");
        return;
    };
    let namespace = parameters.text_opt("namespace");
    let at = path.child("namespace");
    match (scope, namespace) {
        ("Namespace", None) => errs.required(at, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(namespace)) => checks::dns1123_label(errs, at, namespace),
        ("Cluster", Some(_)) => errs.forbidden(at, "`parameters.scope` is set to 'Cluster'"),
        ("Cluster", None) => {}
        (other, _) => errs.not_supported(path.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

fn ip_address(errs: &mut Errors, address: &Value) {
    builtin_create(errs, address, false, NameRule::Ip);
    let path = Path::root("spec");
    let path = path.child("parentRef");
    let parent = address.at("spec").at("parentRef");
    if parent.is_null() {
        errs.required(path, "");
        return;
    }
    let group = parent.text("group");
    if !group.is_empty() {
        checks::dns1123_subdomain(errs, path.child("group"), group);
    }
    for field in ["resource", "name"] {
        let value = parent.text(field);
        if value.is_empty() {
            errs.required(path.child(field), "");
        } else {
            checks::path_segment(errs, path.child(field), value);
        }
    }
    let namespace = parent.text("namespace");
    if !namespace.is_empty() {
        checks::path_segment(errs, path.child("namespace"), namespace);
    }
}

fn service_cidr(errs: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    let path = path.child("cidrs");
    let cidrs: Vec<&str> = spec.texts("cidrs").collect();
    if cidrs.is_empty() {
        errs.required(path, "at least one CIDR required");
        return;
    }
    if cidrs.len() > 2 {
        let shown = Printed(Ty::Struct(printed::SERVICE_CIDR_SPEC), spec);
        errs.invalid_printed(path, shown, "may only hold up to 2 values");
        return;
    }
    for (i, cidr) in cidrs.iter().enumerate() {
        ip::canonical_cidr(errs, path.index(i), cidr);
    }
    if let [first, second] = cidrs.as_slice()
        && let (Some(first), Some(second)) = (ip::Cidr::parse(first), ip::Cidr::parse(second))
        && first.is_v6() == second.is_v6()
    {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
                      2001:db8::/64";
        errs.invalid(path, cidrs, detail);
    }
}

fn service_cidr_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("spec");
    let path = path.child("cidrs");
    let (now, before) = (new.at("spec").list("cidrs"), old.at("spec").list("cidrs"));
    match (before.len(), now.len()) {
        (a, b) if a == b => {
            for (i, (now, before)) in now.iter().zip(before).enumerate() {
                if now != before {
                    errs.invalid(path.index(i), now.clone(), checks::IMMUTABLE);
                }
            }
        }
        (1, 2) => {
            if now[0] != before[0] {
                errs.invalid(path.index(0), now[0].clone(), checks::IMMUTABLE);
            }
            service_cidr(errs, new.at("spec"));
        }
        _ => errs.invalid(path, now.to_vec(), checks::IMMUTABLE),
    }
}

/// Returns whether the selectors of a stored policy have invalid values.
fn selector_values(old: &Value) -> SelectorValues {
    checks::selector_values(old.at("spec").at("podSelector"))
}
