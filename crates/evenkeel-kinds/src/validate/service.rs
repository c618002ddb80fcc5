//! Validates Services.

use std::collections::HashSet;

use evenkeel_schema::metadata::check_labels;
use serde_json::Value;

use super::container::PROTOCOLS;
use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update, checks, ip};
use crate::names::{self, NameRule};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const ONCE: &str = "may not change once set";

/// Validates the cluster IPs of a Service.
///
/// Addresses are allocated before the rest is validated, so errors here are the only ones reported.
pub(super) fn cluster_ip_errors(errs: &mut Errors, service: &Value, old: &Value) {
    cluster_ips(errs, Path::root("spec"), service.at("spec"), old.at("spec"));
}

pub(super) fn create(errs: &mut Errors, service: &Value) {
    builtin_create(errs, service, true, NameRule::Label);
    validate(errs, service, &Value::Null);
}

pub(super) fn update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    check_cluster_ips_change(errs, spec, old_spec);
    check_ip_families_change(errs, spec, old_spec);
    load_balancer_class(errs, spec, old_spec);
    if needs_health_check(old_spec)
        && needs_health_check(spec)
        && spec.num("healthCheckNodePort") != old_spec.num("healthCheckNodePort")
    {
        errs.forbidden(Path::root("spec").child("healthCheckNodePort"), checks::IMMUTABLE);
    }
    validate(errs, new, old);
}

pub(super) fn status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("status");
    let path = path.child("loadBalancer");
    let path = path.child("ingress");
    let points = new.at("status").at("loadBalancer").list("ingress");
    if new.at("spec").text("type") != "LoadBalancer" && !points.is_empty() {
        errs.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    let before = old.at("status").at("loadBalancer").list("ingress");
    let stored = before.iter().map(|point| point.text("ip")).collect();
    for (i, point) in points.iter().enumerate() {
        let path = path.index(i);
        let address = point.text("ip");
        load_balancer_ingress(errs, path, point, &stored, |errs| {
            const MODES: &[&str] = &["Proxy", "VIP"];
            let at = path.child("ipMode");
            match point.text_opt("ipMode") {
                None if !address.is_empty() => {
                    errs.required(at, "must be specified when `ip` is set");
                }
                None => {}
                Some(_) if address.is_empty() => {
                    errs.forbidden(at, "may not be specified when `ip` is not set");
                }
                Some(mode) if !MODES.contains(&mode) => errs.not_supported(at, mode, MODES),
                Some(_) => {}
            }
        });
    }
}

/// Validates an IP or host name of a load balancer, also of Ingresses.
pub(super) fn load_balancer_ingress(
    errs: &mut Errors,
    path: Path<'_>,
    point: &Value,
    stored: &ip::StoredValues<'_>,
    between: impl FnOnce(&mut Errors),
) {
    let address = point.text("ip");
    if !address.is_empty() {
        ip::legacy(errs, path.child("ip"), address, stored);
    }
    between(errs);
    let host = point.text("hostname");
    if !host.is_empty() {
        checks::dns1123_subdomain(errs, path.child("hostname"), host);
        if ip::parse(host).is_some() {
            let detail = "must be a DNS name, not an IP address";
            errs.invalid(path.child("hostname"), host, detail);
        }
    }
}

fn is_headless(spec: &Value) -> bool {
    matches!(spec.list("clusterIPs"), [only] if only.as_str() == Some("None"))
}

fn is_external(spec: &Value) -> bool {
    matches!(spec.text("type"), "LoadBalancer" | "NodePort")
        || (spec.text("type") == "ClusterIP" && !spec.list("externalIPs").is_empty())
}

fn needs_health_check(spec: &Value) -> bool {
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}

fn validate(errs: &mut Errors, service: &Value, old: &Value) {
    let (spec, old_spec) = (service.at("spec"), old.at("spec"));
    let path = Path::root("spec");
    topology_annotations(errs, service);
    let headless = is_headless(spec);
    let kind = spec.text("type");
    let port_list = spec.list("ports");
    if port_list.is_empty() && !headless && kind != "ExternalName" {
        errs.required(path.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errs.invalid(path.child("clusterIPs").index(0), "None", detail);
        }
        "ExternalName" => external_name(errs, path, spec),
        _ => {}
    }
    let mut names = HashSet::new();
    for (i, port) in port_list.iter().enumerate() {
        let repeated = !names.insert(port.text("name"));
        self::port(errs, path.child("ports").index(i), port, repeated, port_list.len() > 1);
    }
    check_labels(spec.at("selector"), path.child("selector"), errs.list());
    session_affinity(errs, path, spec);
    cluster_ips(errs, path, spec, old_spec);
    let stored = old_spec.texts("externalIPs").collect();
    for (i, address) in spec.texts("externalIPs").enumerate() {
        let path = path.child("externalIPs");
        if ip::legacy(errs, path.index(i), address, &stored) {
            ip::endpoint(errs, path.index(i), address);
        }
    }
    checks::one_of(errs, path.child("type"), kind, TYPES);
    port_numbers(errs, path.child("ports"), port_list, kind);
    source_ranges(errs, service, old);
    if spec.has("allocateLoadBalancerNodePorts") && kind != "LoadBalancer" {
        errs.forbidden(path.child("allocateLoadBalancerNodePorts"), ONLY_LOAD_BALANCER);
    }
    if kind == "LoadBalancer" && !spec.has("allocateLoadBalancerNodePorts") {
        errs.required(Path::root("allocateLoadBalancerNodePorts"), "");
    }
    load_balancer_class(errs, spec, &Value::Null);
    traffic(errs, path, spec);
}

fn topology_annotations(errs: &mut Errors, service: &Value) {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const MODE: &str = "service.kubernetes.io/topology-mode";
    let annotations = service.at("metadata").at("annotations");
    if let (Some(hints), Some(mode)) = (annotations.text_opt(HINTS), annotations.text_opt(MODE))
        && hints != mode
    {
        let path = Path::root("metadata");
        let detail = format!("must match annotations[{HINTS}] when both are specified");
        errs.invalid(path.child("annotations").key(MODE), mode, detail);
    }
}

fn external_name(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    const DETAIL: &str = "may not be set for ExternalName services";
    for field in ["clusterIPs", "ipFamilies"] {
        if !spec.list(field).is_empty() {
            errs.forbidden(path.child(field), DETAIL);
        }
    }
    if spec.has("ipFamilyPolicy") {
        errs.forbidden(path.child("ipFamilyPolicy"), DETAIL);
    }
    let name = spec.text("externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errs.required(path.child("externalName"), "");
    } else {
        checks::dns1123_subdomain(errs, path.child("externalName"), name);
    }
}

fn port(errs: &mut Errors, path: Path<'_>, port: &Value, repeated: bool, named: bool) {
    let name = port.text("name");
    if !name.is_empty() {
        checks::dns1123_label(errs, path.child("name"), name);
        if repeated {
            errs.duplicate(path.child("name"), name);
        }
    } else if named {
        errs.required(path.child("name"), "");
    }
    checks::port_number(errs, path.child("port"), port.num("port"));
    checks::one_of(errs, path.child("protocol"), port.text("protocol"), PROTOCOLS);
    checks::port(errs, path.child("targetPort"), port.at("targetPort"));
    if let Some(protocol) = port.text_opt("appProtocol") {
        checks::qualified_name(errs, path.child("appProtocol"), protocol);
    }
}

fn session_affinity(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let affinity = spec.text("sessionAffinity");
    checks::one_of(errs, path.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    let config = spec.at("sessionAffinityConfig");
    let path = path.child("sessionAffinityConfig");
    const DETAIL: &str = "when session affinity type is ClientIP";
    match affinity {
        "ClientIP" => {
            let client = config.at("clientIP");
            if config.is_null() {
                errs.required(path, DETAIL);
            } else if client.is_null() {
                errs.required(path.child("clientIP"), DETAIL);
            } else {
                let path = path.child("clientIP");
                let path = path.child("timeoutSeconds");
                match client.int("timeoutSeconds") {
                    None => errs.required(path, DETAIL),
                    Some(timeout) if !(1..=86_400).contains(&timeout) => {
                        errs.invalid(path, timeout, "must be greater than 0 and less than 86400");
                    }
                    Some(_) => {}
                }
            }
        }
        "None" if !config.is_null() => {
            errs.forbidden(path, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

fn cluster_ips(errs: &mut Errors, path: Path<'_>, spec: &Value, old: &Value) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    let shown = spec.at("clusterIPs").clone();
    let (first, ips) = (spec.text("clusterIP"), spec.list("clusterIPs"));
    let at = path.child("clusterIPs");
    if first.is_empty() {
        if !ips.is_empty() {
            let detail = "must be empty when `clusterIP` is not specified";
            errs.invalid(at, shown.clone(), detail);
        }
    } else if ips.is_empty() {
        errs.required(at, "");
    } else if spec.texts("clusterIPs").next() != Some(first) {
        errs.invalid(at, shown.clone(), "first value must match `clusterIP`");
    }
    let families: Vec<&str> = spec.texts("ipFamilies").collect();
    let mut seen = HashSet::new();
    for (i, family) in families.iter().enumerate() {
        let path = path.child("ipFamilies");
        if !matches!(*family, "IPv4" | "IPv6") {
            errs.not_supported(path.index(i), *family, &["IPv4", "IPv6"]);
        }
        if !seen.insert(family) {
            errs.duplicate(path.index(i), *family);
        }
    }
    const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
    let policy = spec.at("ipFamilyPolicy");
    checks::one_of_if_set(errs, path.child("ipFamilyPolicy"), policy, POLICIES);
    let mut valid = true;
    let stored = old.texts("clusterIPs").collect();
    for (i, address) in spec.texts("clusterIPs").enumerate() {
        if i == 0 && address == "None" {
            if ips.len() > 1 {
                valid = false;
                errs.invalid(at, shown.clone(), "'None' must be the first and only value");
            }
            continue;
        }
        valid &= ip::legacy(errs, at.index(i), address, &stored);
    }
    if ips.len() > 2 {
        errs.invalid(at, shown.clone(), "may only hold up to 2 values");
    }
    if !valid {
        return;
    }
    if ips.len() > 1 && !ip::is_dual_stack(spec.texts("clusterIPs")) {
        let detail = "may specify no more than one IP for each IP family";
        errs.invalid(at, shown, detail);
    }
    if is_headless(spec) {
        return;
    }
    for (i, (address, family)) in spec.texts("clusterIPs").zip(families).enumerate() {
        let fits = match family {
            "IPv4" => !ip::is_v6(address),
            "IPv6" => ip::is_v6(address),
            _ => true,
        };
        if !fits {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errs.invalid(at.index(i), address, detail);
        }
    }
}

fn port_numbers(errs: &mut Errors, path: Path<'_>, ports: &[Value], kind: &str) {
    if kind == "ClusterIP" {
        for (i, port) in ports.iter().enumerate() {
            if port.num("nodePort") != 0 {
                let detail = "may not be used when `type` is 'ClusterIP'";
                errs.forbidden(path.index(i).child("nodePort"), detail);
            }
        }
    }
    let mut seen = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let number = port.num("nodePort");
        if number != 0 && !seen.insert((number, port.text("protocol"))) {
            errs.duplicate(path.index(i).child("nodePort"), number);
        }
    }
    seen.clear();
    for (i, port) in ports.iter().enumerate() {
        if !seen.insert((port.num("port"), port.text("protocol"))) {
            // Only the fields that make the port a duplicate are printed.
            let key = serde_json::json!({
                "protocol": port.text("protocol"), "port": port.num("port"),
            });
            let shown = Printed(Ty::Struct(printed::SERVICE_PORT), &key);
            errs.duplicate_printed(path.index(i), shown, "");
        }
    }
}

fn source_ranges(errs: &mut Errors, service: &Value, old: &Value) {
    const ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let (spec, old_spec) = (service.at("spec"), old.at("spec"));
    let load_balancer = spec.text("type") == "LoadBalancer";
    if !spec.list("loadBalancerSourceRanges").is_empty() {
        let path = Path::root("spec");
        let path = path.child("LoadBalancerSourceRanges");
        if !load_balancer {
            errs.forbidden(path, ONLY_LOAD_BALANCER);
        }
        let stored = old_spec.texts("loadBalancerSourceRanges").map(str::trim).collect();
        for (i, range) in spec.texts("loadBalancerSourceRanges").enumerate() {
            ip::legacy_cidr(errs, path.index(i), range.trim(), &stored);
        }
        return;
    }
    let annotation = |s: &'_ Value| -> Option<String> {
        s.at("metadata").at("annotations").text_opt(ANNOTATION).map(str::to_owned)
    };
    let Some(ranges) = annotation(service) else { return };
    let path = Path::root("metadata");
    let path = path.child("annotations");
    let path = path.key(ANNOTATION);
    if !load_balancer {
        errs.forbidden(path, ONLY_LOAD_BALANCER);
    }
    if old.is_null() || annotation(old).unwrap_or_default() != ranges {
        let ranges = ranges.trim();
        for range in ranges.split(',').filter(|_| !ranges.is_empty()) {
            ip::legacy_cidr(errs, path, range.trim(), &ip::StoredValues::new());
        }
    }
}

fn load_balancer_class(errs: &mut Errors, spec: &Value, old: &Value) {
    let path = Path::root("spec");
    let path = path.child("loadBalancerClass");
    let class = spec.at("loadBalancerClass");
    let load_balancer = spec.text("type") == "LoadBalancer";
    if load_balancer && old.text("type") == "LoadBalancer" && class != old.at("loadBalancerClass") {
        errs.invalid(path, class.clone(), ONCE);
    }
    if let Some(class) = class.as_str() {
        if load_balancer {
            checks::qualified_name(errs, path, class);
        } else {
            errs.forbidden(path, ONLY_LOAD_BALANCER);
        }
    }
}

fn traffic(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let policy = spec.text("externalTrafficPolicy");
    let at = path.child("externalTrafficPolicy");
    if is_external(spec) {
        checks::one_of(errs, at, policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        errs.invalid(at, policy, "may only be set for externally-accessible services");
    }
    let port = spec.num("healthCheckNodePort");
    let at = path.child("healthCheckNodePort");
    if needs_health_check(spec) {
        if port == 0 {
            errs.required(at, "");
        } else {
            checks::port_number(errs, at, port);
        }
    } else if port != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` \
                      is 'Local'";
        errs.invalid(at, port, detail);
    }
    let at = path.child("internalTrafficPolicy");
    let internal = spec.at("internalTrafficPolicy");
    let kind = spec.text("type");
    if internal.is_null() && matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        errs.required(at, "");
    }
    checks::one_of_if_set(errs, at, internal, &["Cluster", "Local"]);
    const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
    let distribution = spec.at("trafficDistribution");
    checks::one_of_if_set(errs, path.child("trafficDistribution"), distribution, DISTRIBUTIONS);
}

/// Validates changes of cluster IPs. The secondary IP may be added or removed; the primary cannot
/// change.
fn check_cluster_ips_change(errs: &mut Errors, spec: &Value, old: &Value) {
    let external = |spec: &Value| spec.text("type") == "ExternalName";
    if external(spec) || external(old) || (is_headless(spec) && is_headless(old)) {
        return;
    }
    let path = Path::root("spec");
    let at = path.child("clusterIPs");
    let (now, before) = (spec.list("clusterIPs"), old.list("clusterIPs"));
    let shown = || Printed(Ty::List(&Ty::Str), spec.at("clusterIPs"));
    let changed = !before.is_empty() && !now.is_empty() && now[0] != before[0];
    if now.len() == before.len() {
        for (i, (now, before)) in now.iter().zip(before).enumerate() {
            if now != before {
                errs.invalid_printed(at.index(i), shown(), ONCE);
            }
        }
        return;
    }
    if now.is_empty() {
        errs.invalid_printed(at.index(0), shown(), "primary clusterIP can not be unset");
    }
    if changed {
        errs.invalid_printed(at.index(0), shown(), ONCE);
    }
    if before.len() > now.len() && now.len() == 1 {
        released(errs, path, spec, "clusterIP");
    }
}

fn check_ip_families_change(errs: &mut Errors, spec: &Value, old: &Value) {
    let external = |spec: &Value| spec.text("type") == "ExternalName";
    if external(spec) || external(old) || is_headless(spec) || is_headless(old) {
        return;
    }
    let path = Path::root("spec");
    let at = path.child("ipFamilies");
    let (now, before) = (spec.list("ipFamilies"), old.list("ipFamilies"));
    let list = Ty::List(&Ty::Str);
    let changed = !before.is_empty() && !now.is_empty() && now[0] != before[0];
    if now.len() == before.len() {
        for (now, before) in now.iter().zip(before) {
            if now != before {
                errs.invalid_printed(at.index(0), Printed(list, spec.at("ipFamilies")), ONCE);
            }
        }
        return;
    }
    if before.len() > now.len() && spec.list("clusterIPs").is_empty() {
        let detail = "primary ipFamily can not be unset";
        errs.invalid_printed(at.index(0), Printed(list, spec.at("ipFamilies")), detail);
    }
    if changed {
        // Upstream prints the cluster IPs here.
        errs.invalid_printed(at.index(0), Printed(list, spec.at("clusterIPs")), ONCE);
    }
    if before.len() > now.len() && now.len() == 1 {
        released(errs, path, spec, "ipFamily");
    }
}

fn released(errs: &mut Errors, path: Path<'_>, spec: &Value, what: &str) {
    if spec.text("ipFamilyPolicy") != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errs.invalid(path.child("ipFamilyPolicy"), spec.at("ipFamilyPolicy").clone(), detail);
    }
}

/// Validates the name of a Service in a reference.
pub(super) fn name(errs: &mut Errors, path: Path<'_>, name: &str) {
    errs.reasons(path, name, names::dns1123_label(name));
}
