//! Validates the spec of a Pod or pod template.

use std::collections::{BTreeSet, HashSet};

use evenkeel_schema::metadata::check_labels;
use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::super::container::{self, Pod};
use super::super::printed::{self, Printed, Ty};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::{checks, ip, resources, scheduling, security, volume};
use super::{PodOptions, each_container};
use crate::names;

/// Validates a spec. For a template, `pod_name` is empty and `mirror` is false.
pub(super) fn spec(
    errs: &mut Errors,
    path: Path<'_>,
    spec: &Value,
    pod_name: &str,
    mirror: bool,
    opts: &PodOptions,
) {
    if !spec.has("terminationGracePeriodSeconds") {
        errs.required(path.child("terminationGracePeriodSeconds"), "");
    }
    let volumes = spec.list("volumes");
    let volumes = volume::volumes(errs, path.child("volumes"), volumes, pod_name, opts);
    resource_claims(errs, path.child("resourceClaims"), spec.list("resourceClaims"), mirror);
    let restart_policy = spec.text("restartPolicy");
    let pod = Pod {
        spec,
        volumes,
        claims: claim_names(spec),
        grace: spec.int("terminationGracePeriodSeconds"),
        restart_policy,
        host_users: spec.flag("hostUsers") != Some(false),
        opts,
    };
    let (regular, init) = (spec.list("containers"), spec.list("initContainers"));
    container::containers(errs, path.child("containers"), regular, &pod);
    container::init_containers(errs, path.child("initContainers"), init, regular, &pod);
    let ephemeral = spec.list("ephemeralContainers");
    container::ephemeral_containers(errs, path.child("ephemeralContainers"), ephemeral, &pod);
    pod_resources(errs, path.child("resources"), spec, opts);
    host_ports(errs, path, spec, opts);
    const RESTART: &[&str] = &["Always", "OnFailure", "Never"];
    checks::one_of(errs, path.child("restartPolicy"), restart_policy, RESTART);
    const DNS: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    checks::one_of(errs, path.child("dnsPolicy"), spec.text("dnsPolicy"), DNS);
    check_labels(spec.at("nodeSelector"), path.child("nodeSelector"), errs.list());
    security::pod(errs, path.child("securityContext"), spec, opts);
    scheduling::affinity(errs, path.child("affinity"), spec.at("affinity"), opts);
    dns_config(errs, path.child("dnsConfig"), spec);
    gates(errs, path, spec);
    let spread = spec.list("topologySpreadConstraints");
    scheduling::topology_spread(errs, path.child("topologySpreadConstraints"), spread, opts);
    security::host_process(errs, path, spec);
    host_users(errs, path, spec);
    host_name(errs, path, spec);
    scalar_fields(errs, path, spec);
    os(errs, path, spec);
    let group = spec.at("schedulingGroup");
    if !group.is_null() {
        let path = path.child("schedulingGroup");
        match group.text_opt("podGroupName") {
            Some(name) => checks::dns1123_subdomain(errs, path.child("podGroupName"), name),
            None => {
                let detail = "must specify one of: `podGroupName`";
                errs.invalid(path.child("podGroupName"), Value::Null, detail);
            }
        }
    }
    file_keys(errs, path, spec);
}

fn scalar_fields(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    for field in ["serviceAccountName", "nodeName"] {
        let name = spec.text(field);
        if !name.is_empty() {
            checks::dns1123_subdomain(errs, path.child(field), name);
        }
    }
    if let Some(deadline) = spec.int("activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&deadline)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        errs.invalid(path.child("activeDeadlineSeconds"), deadline, detail);
    }
    for field in ["hostname", "subdomain"] {
        let name = spec.text(field);
        if !name.is_empty() {
            checks::dns1123_label(errs, path.child(field), name);
        }
    }
    scheduling::tolerations(errs, path.child("tolerations"), spec.list("tolerations"));
    for (i, alias) in spec.list("hostAliases").iter().enumerate() {
        let path = path.child("hostAliases");
        let path = path.index(i);
        ip::legacy(errs, path.child("ip"), alias.text("ip"), &ip::StoredValues::new());
        for (j, name) in alias.texts("hostnames").enumerate() {
            checks::dns1123_subdomain(errs, path.child("hostnames").index(j), name);
        }
    }
    let priority_class = spec.text("priorityClassName");
    if !priority_class.is_empty() {
        checks::dns1123_subdomain(errs, path.child("priorityClassName"), priority_class);
    }
    if let Some(name) = spec.text_opt("runtimeClassName") {
        checks::dns1123_subdomain(errs, path.child("runtimeClassName"), name);
    }
    if let Some(policy) = spec.text_opt("preemptionPolicy") {
        scheduling::preemption_policy(errs, path.child("preemptionPolicy"), policy);
    }
    if spec.has("overhead") {
        resources::overhead(errs, path.child("overhead"), spec.at("overhead"));
    }
}

/// Returns the names of the pod's resource claims.
fn claim_names(spec: &Value) -> BTreeSet<&str> {
    let names = spec.list("resourceClaims").iter().map(|claim| claim.text("name"));
    names.filter(|name| !name.is_empty()).collect()
}

fn resource_claims(errs: &mut Errors, path: Path<'_>, claims: &[Value], mirror: bool) {
    let mut names = HashSet::new();
    for (i, claim) in claims.iter().enumerate() {
        if mirror {
            errs.forbidden(Path::root(""), "static pods do not support resource claims");
            continue;
        }
        let path = path.index(i);
        let name = claim.text("name");
        if name.is_empty() {
            errs.required(path.child("name"), "");
        } else if !names.insert(name) {
            errs.duplicate(path.child("name"), name);
        } else {
            checks::dns1123_label(errs, path.child("name"), name);
        }
        let shown = Printed(Ty::Struct(printed::POD_RESOURCE_CLAIM), claim);
        let fields = ["resourceClaimName", "resourceClaimTemplateName"];
        match fields.map(|field| claim.has(field)) {
            [true, true] => {
                let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` \
                              may be specified";
                errs.invalid_printed(path, shown, detail);
            }
            [false, false] => {
                let detail =
                    "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errs.invalid_printed(path, shown, detail);
            }
            _ => {}
        }
        for field in fields {
            if let Some(name) = claim.text_opt(field) {
                checks::dns1123_subdomain(errs, path.child(field), name);
            }
        }
    }
}

/// Validates pod-level resources, which limit those of the containers.
fn pod_resources(errs: &mut Errors, path: Path<'_>, spec: &Value, opts: &PodOptions) {
    let resources = spec.at("resources");
    if resources.is_null() {
        return;
    }
    if spec.at("os").text("name") == "windows" {
        errs.forbidden(path, "may not be set for a windows pod");
        return;
    }
    if resources.has("claims") {
        let detail = "claims may not be set for Resources at pod-level";
        errs.forbidden(path.child("claims"), detail);
    }
    resources::requirements(
        errs,
        path,
        resources,
        resources::Scope::Pod,
        &claim_names(spec),
        opts.allow_indivisible_huge_pages,
    );
    let total = |list: &str, name: &str| aggregate(spec, list, name);
    for (name, value) in resources.entries("requests") {
        let (Some(own), Some(sum)) = (Quantity::from_json(value), total("requests", name)) else {
            continue;
        };
        if sum > own {
            let detail =
                format!("must be greater than or equal to aggregate container requests of {sum}");
            errs.invalid(path.child("requests").key(name), own.to_string(), detail);
        }
    }
    for (name, value) in resources.entries("limits") {
        let (Some(own), Some(sum)) = (Quantity::from_json(value), total("limits", name)) else {
            continue;
        };
        if resources::is_huge_page(name) && sum > own {
            let detail =
                format!("must be greater than or equal to aggregate container limits of {sum}");
            errs.invalid(path.child("limits").key(name), own.to_string(), detail);
        }
    }
    for (i, container) in spec.list("containers").iter().enumerate() {
        for (name, value) in container.at("resources").entries("limits") {
            let own = Quantity::from_json(resources.at("limits").at(name));
            if let (Some(limit), Some(own)) = (Quantity::from_json(value), own)
                && limit > own
            {
                let path = path.child("containers");
                let path = path.index(i);
                let path = path.key(name);
                let detail = format!("must be less than or equal to pod limits of {own}");
                errs.invalid(path.child("limits"), limit.to_string(), detail);
            }
        }
    }
}

/// Returns the maximum that the containers need at one time: all regular containers and sidecars,
/// or an init container with the sidecars started before it.
fn aggregate(spec: &Value, list: &str, name: &str) -> Option<Quantity> {
    let amount = |c: &Value| Quantity::from_json(c.at("resources").at(list).at(name));
    let sum = |mut sum: Quantity, more: Quantity| {
        sum.add(&more);
        sum
    };
    let regular = spec.list("containers").iter().filter_map(amount).reduce(sum);
    let (mut sidecars, mut peak): (Option<Quantity>, Option<Quantity>) = (None, None);
    for container in spec.list("initContainers") {
        let Some(own) = amount(container) else { continue };
        let running = sidecars.clone().into_iter().chain([own]).reduce(sum);
        if container.text("restartPolicy") == "Always" {
            sidecars.clone_from(&running);
        }
        peak = peak.max(running);
    }
    regular.into_iter().chain(sidecars).reduce(sum).max(peak)
}

fn host_ports(errs: &mut Errors, path: Path<'_>, spec: &Value, opts: &PodOptions) {
    if !spec.is("hostNetwork") {
        return;
    }
    for (i, container) in spec.list("containers").iter().enumerate() {
        for (j, port) in container.list("ports").iter().enumerate() {
            let host = port.num("hostPort");
            if (opts.is_pod || host != 0) && host != port.num("containerPort") {
                let path = path.child("containers");
                let path = path.index(i);
                let path = path.child("ports");
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errs.invalid(path.index(j).child("hostPort"), host, detail);
            }
        }
    }
}

fn dns_config(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let config = spec.at("dnsConfig");
    let servers = config.list("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            errs.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errs.required(path.child("nameservers"), detail);
            return;
        }
    }
    if config.is_null() {
        return;
    }
    if servers.len() > 3 {
        let detail = "must not have more than 3 nameservers";
        errs.invalid(path.child("nameservers"), servers.to_vec(), detail);
    }
    for (i, server) in config.texts("nameservers").enumerate() {
        ip::legacy(errs, path.child("nameservers").index(i), server, &ip::StoredValues::new());
    }
    let searches = config.list("searches");
    if searches.len() > 32 {
        let detail = "must not have more than 32 search paths";
        errs.invalid(path.child("searches"), searches.to_vec(), detail);
    }
    let characters: usize = config.texts("searches").map(|s| s.len() + 1).sum();
    if characters > 2048 + 1 {
        let detail =
            "must not have more than 2048 characters (including spaces) in the search list";
        errs.invalid(path.child("searches"), searches.to_vec(), detail);
    }
    for (i, search) in config.texts("searches").enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            let reasons = names::dns1123_subdomain_with_underscore(search);
            errs.reasons(path.child("searches").index(i), search, reasons);
        }
    }
    for (i, option) in config.list("options").iter().enumerate() {
        if option.text("name").is_empty() {
            errs.required(path.child("options").index(i), "must not be empty");
        }
    }
}

fn gates(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    for (i, gate) in spec.list("readinessGates").iter().enumerate() {
        let path = path.child("readinessGates");
        let kind = gate.text("conditionType");
        checks::qualified_name(errs, path.index(i).child("conditionType"), kind);
    }
    let mut names = HashSet::new();
    for (i, gate) in spec.list("schedulingGates").iter().enumerate() {
        let path = path.child("schedulingGates");
        let name = gate.text("name");
        checks::qualified_name(errs, path.index(i), name);
        if !names.insert(name) {
            errs.duplicate(path.index(i), name);
        }
    }
}

fn host_users(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    if spec.flag("hostUsers") != Some(false) {
        return;
    }
    const DETAIL: &str = "when `hostUsers` is false";
    for (field, shown) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.is(field) {
            errs.forbidden(path.child(shown), DETAIL);
        }
    }
    each_container(spec, path, |container, path| {
        if !container.list("volumeDevices").is_empty() {
            errs.forbidden(path.child("volumeDevices"), DETAIL);
        }
    });
}

fn host_name(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let Some(name) = spec.text_opt("hostnameOverride") else { return };
    let path = path.child("hostnameOverride");
    if spec.is("setHostnameAsFQDN") {
        errs.forbidden(path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.is("hostNetwork") {
        errs.forbidden(path, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        errs.too_long(path, 64);
    }
    checks::dns1123_subdomain(errs, path, name);
}

fn os(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let os = spec.at("os");
    if os.is_null() {
        return;
    }
    match os.text("name") {
        "" => errs.required(path.child("os").child("name"), ""),
        "linux" => {
            let detail = "windows options cannot be set for a linux pod";
            if spec.at("securityContext").has("windowsOptions") {
                let path = path.child("securityContext");
                errs.forbidden(path.child("windowsOptions"), detail);
            }
            each_container(spec, path, |container, path| {
                if container.at("securityContext").has("windowsOptions") {
                    let path = path.child("securityContext");
                    errs.forbidden(path.child("windowsOptions"), detail);
                }
            });
        }
        "windows" => windows(errs, path, spec),
        other => errs.not_supported(path.child("os"), other, &["linux", "windows"]),
    }
}

fn windows(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    const DETAIL: &str = "cannot be set for a windows pod";
    // In upstream's order. The flag is whether the field is in the security context.
    const OF_POD: &[(&str, bool)] = &[
        ("appArmorProfile", true),
        ("seLinuxOptions", true),
        ("hostUsers", false),
        ("hostPID", false),
        ("hostIPC", false),
        ("seccompProfile", true),
        ("fsGroup", true),
        ("fsGroupChangePolicy", true),
        ("sysctls", true),
        ("shareProcessNamespace", false),
        ("runAsUser", true),
        ("runAsGroup", true),
        ("supplementalGroups", true),
        ("supplementalGroupsPolicy", true),
        ("seLinuxChangePolicy", true),
    ];
    const OF_CONTAINER: &[&str] = &[
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let context = spec.at("securityContext");
    for (field, in_security_context) in OF_POD {
        let set = match *field {
            "hostPID" | "hostIPC" => spec.is(field),
            "sysctls" => !context.list(field).is_empty(),
            _ if *in_security_context => context.has(field),
            _ => spec.has(field),
        };
        if set && *in_security_context {
            errs.forbidden(path.child("securityContext").child(field), DETAIL);
        } else if set {
            errs.forbidden(path.child(field), DETAIL);
        }
    }
    each_container(spec, path, |container, path| {
        for field in OF_CONTAINER {
            if container.at("securityContext").has(field) {
                errs.forbidden(path.child("securityContext").child(field), DETAIL);
            }
        }
    });
}

/// Checks that variables read from files refer to an emptyDir volume.
fn file_keys(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    each_container(spec, path, |container, path| {
        for (i, var) in container.list("env").iter().enumerate() {
            let key = var.at("valueFrom").at("fileKeyRef");
            if key.is_null() {
                continue;
            }
            let path = path.child("env");
            let path = path.index(i);
            let path = path.child("valueFrom");
            let path = path.child("fileKeyRef");
            let path = path.child("volumeName");
            let name = key.text("volumeName");
            match spec.list("volumes").iter().rfind(|v| v.text("name") == name) {
                None => errs.not_found(path, name, ""),
                Some(volume) if !volume.has("emptyDir") => {
                    errs.invalid(path, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}
