//! Validates updates of a Pod's status.

use std::collections::{HashMap, HashSet};

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::super::printed::{self, Printed, Ty};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::{builtin_update, checks, ip, resources};
use super::{PodOptions, annotations};

pub(in crate::validate) fn status_update(errs: &mut Errors, new: &Value, old: &Value) {
    let opts = PodOptions::for_update(old).for_pod();
    builtin_update(errs, new, old);
    annotations::update(errs, new, old, &opts);
    let path = Path::root("status");
    let (status, old_status) = (new.at("status"), old.at("status"));
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    conditions(errs, path.child("conditions"), status.list("conditions"));
    if spec.text("nodeName") != old_spec.text("nodeName") {
        errs.forbidden(path.child("nodeName"), "may not be changed directly");
    }
    let (nominated, before) =
        (status.text("nominatedNodeName"), old_status.text("nominatedNodeName"));
    if nominated != before && !nominated.is_empty() {
        let path = path.child("nominatedNodeName");
        checks::dns1123_subdomain(errs, path, nominated);
        if !old_spec.text("nodeName").is_empty() {
            errs.forbidden(path, "may not be set on pods that are already bound to a node");
        }
    }
    if let Some(generation) = status.int("observedGeneration").filter(|g| *g < 0) {
        let detail = "must be a non-negative integer";
        errs.invalid(path.child("observedGeneration"), generation, detail);
    }
    let (qos, before) = (status.text("qosClass"), old_status.text("qosClass"));
    if qos != before {
        errs.invalid(path.child("qosClass"), qos, checks::IMMUTABLE);
    }
    let all = all_may_restart(old_spec);
    for (list, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        let by_name = first_by_name(old_spec.list(containers));
        restarts(errs, path.child(list), status.list(list), old_status.list(list), |name, code| {
            by_name.get(name).is_some_and(|c| may_restart(c, old_spec, code)) || all
        });
    }
    let list = "ephemeralContainerStatuses";
    restarts(errs, path.child(list), status.list(list), old_status.list(list), |_, _| false);
    resource_claims(errs, path.child("resourceClaimStatuses"), status, spec);
    let claim = status.at("extendedResourceClaimStatus");
    extended_resource_claim(errs, path.child("extendedResourceClaimStatus"), claim, spec);
    allocatable_claims(errs, path, status, spec);
    addresses(errs, path, status, old_status);
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        users(errs, path.child(list), status.list(list), spec.at("os"));
    }
    for (list, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        allocated(errs, path.child(list), status.list(list), spec.list(containers));
    }
    for (i, container) in status.list(list).iter().enumerate() {
        if !container.list("allocatedResourcesStatus").is_empty() {
            let path = path.child(list);
            let detail = "must not be specified in container status";
            errs.forbidden(path.index(i).child("allocatedResourcesStatus"), detail);
        }
    }
}

fn conditions(errs: &mut Errors, path: Path<'_>, conditions: &[Value]) {
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        if let Some(generation) = condition.int("observedGeneration").filter(|g| *g < 0) {
            let detail = "must be a non-negative integer";
            errs.invalid(path.child("observedGeneration"), generation, detail);
        }
        let kind = condition.text("type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            checks::qualified_name(errs, path.child("Type"), kind);
        }
    }
}

/// Returns the elements of a list by name; the first one if a name is repeated.
fn first_by_name(list: &[Value]) -> HashMap<&str, &Value> {
    list.iter().rev().map(|item| (item.text("name"), item)).collect()
}

/// Checks that a terminated container stays terminated unless it may restart.
fn restarts(
    errs: &mut Errors,
    path: Path<'_>,
    statuses: &[Value],
    old: &[Value],
    may_restart: impl Fn(&str, i64) -> bool,
) {
    let by_name = first_by_name(statuses);
    for (i, before) in old.iter().enumerate() {
        let terminated = before.at("state").at("terminated");
        if terminated.is_null() {
            continue;
        }
        let name = before.text("name");
        let runs = by_name.get(name).is_some_and(|now| !now.at("state").has("terminated"));
        if runs && !may_restart(name, terminated.num("exitCode")) {
            let detail = "may not be transitioned to non-terminated state";
            errs.forbidden(path.index(i).child("state"), detail);
        }
    }
}

fn may_restart(container: &Value, spec: &Value, exit_code: i64) -> bool {
    for rule in container.list("restartPolicyRules") {
        let codes = rule.at("exitCodes");
        let listed = codes.list("values").iter().any(|code| code.as_i64() == Some(exit_code));
        let applies = match codes.text("operator") {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        if applies && matches!(rule.text("action"), "Restart" | "RestartAllContainers") {
            return true;
        }
    }
    let policy = container.text_opt("restartPolicy").unwrap_or_else(|| spec.text("restartPolicy"));
    match policy {
        "Always" => true,
        "OnFailure" => exit_code != 0,
        _ => false,
    }
}

/// Returns whether a restart rule of some container restarts the whole pod.
fn all_may_restart(spec: &Value) -> bool {
    ["containers", "initContainers"].into_iter().any(|list| {
        spec.list(list).iter().any(|container| {
            container
                .list("restartPolicyRules")
                .iter()
                .any(|rule| rule.text("action") == "RestartAllContainers")
        })
    })
}

fn resource_claims(errs: &mut Errors, path: Path<'_>, status: &Value, spec: &Value) {
    let statuses = status.list("resourceClaimStatuses");
    let known = spec.list("resourceClaims").iter().map(|c| c.text("name"));
    let known: HashSet<&str> = known.collect();
    let mut names = HashSet::new();
    for (i, claim) in statuses.iter().enumerate() {
        let path = path.index(i);
        let name = claim.text("name");
        if !known.contains(name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errs.invalid(path.child("name"), name, detail);
        }
        if !names.insert(name) {
            errs.duplicate(path.child("name"), name);
        }
        if let Some(name) = claim.text_opt("resourceClaimName") {
            checks::dns1123_subdomain(errs, path.child("resourceClaimName"), name);
        }
    }
}

fn extended_resource_claim(errs: &mut Errors, path: Path<'_>, claim: &Value, spec: &Value) {
    if claim.is_null() {
        return;
    }
    let mappings = claim.list("requestMappings");
    let at = path.child("requestMappings");
    if mappings.is_empty() {
        errs.required(at, "at least one request mapping is required");
    }
    let containers = spec.list("initContainers").iter().chain(spec.list("containers"));
    // If several containers have the same name, the last one is used.
    let containers: HashMap<&str, &Value> = containers.map(|c| (c.text("name"), c)).collect();
    let mut seen = HashSet::new();
    for (i, mapping) in mappings.iter().enumerate() {
        let at = at.index(i);
        let (name, resource) = (mapping.text("containerName"), mapping.text("resourceName"));
        match containers.get(name) {
            Some(c) if !c.at("resources").at("requests").has(resource) => {
                let detail = "must match the extended resource name of an entry in \
                              spec.initContainers.resources.requests or \
                              spec.containers.resources.requests";
                errs.invalid(at.child("resourceName"), resource, detail);
            }
            Some(_) => {}
            None => {
                let detail = "must match the name of an entry in spec.initContainers.name or \
                              spec.containers.name";
                errs.invalid(at.child("containerName"), name, detail);
            }
        }
        let request = mapping.text("requestName");
        checks::dns1123_label(errs, path.child("requestName"), request);
        let fields = ["containerName", "resourceName", "requestName"];
        if !seen.insert(fields.map(|field| mapping.text(field))) {
            for field in fields {
                errs.duplicate(at.child(field), mapping.text(field));
            }
        }
    }
    let name = claim.text("resourceClaimName");
    if name.is_empty() {
        errs.required(path.child("resourceClaimName"), "");
    } else {
        checks::dns1123_subdomain(errs, path.child("resourceClaimName"), name);
    }
}

fn allocatable_claims(errs: &mut Errors, path: Path<'_>, status: &Value, spec: &Value) {
    let path = path.child("nodeAllocatableResourceClaimStatuses");
    let known = spec.list("resourceClaims").iter().chain(status.list("resourceClaimStatuses"));
    let known: HashSet<&str> = known.filter_map(|c| c.text_opt("resourceClaimName")).collect();
    for (i, claim) in status.list("nodeAllocatableResourceClaimStatuses").iter().enumerate() {
        let path = path.index(i);
        let name = claim.text("resourceClaimName");
        if name.is_empty() {
            errs.required(path.child("resourceClaimName"), "must not be empty");
        }
        if !known.contains(name) {
            let detail = "no mapping found in pod reference";
            errs.invalid(path.child("resourceClaimName"), name, detail);
        }
        if claim.list("containers").is_empty() {
            errs.required(path.child("containers"), "must not be empty");
        }
        let path = path.child("resources");
        if claim.map("resources").is_none_or(serde_json::Map::is_empty) {
            errs.required(path, "must not be empty");
        }
        for (name, value) in claim.entries("resources") {
            if !resources::is_native(name) {
                errs.invalid(path.key(name), name, "must be a node allocatable resource name");
            }
            if let Some(amount) = Quantity::from_json(value).filter(|q| q.sign().is_lt()) {
                errs.invalid(path.key(name), amount.to_string(), "must be non-negative");
            }
        }
    }
}

fn addresses(errs: &mut Errors, path: Path<'_>, status: &Value, old: &Value) {
    const PER_FAMILY: &str = "may specify no more than one IP for each IP family";
    let ips = |status: &'_ Value, list: &str| -> Vec<String> {
        status.list(list).iter().map(|ip| ip.text("ip").to_owned()).collect()
    };
    for (list, fields) in [("podIPs", printed::POD_IP), ("hostIPs", printed::HOST_IP)] {
        let at = path.child(list);
        let now = ips(status, list);
        let before = old.list(list).iter().map(|ip| ip.text("ip")).collect();
        if list == "hostIPs"
            && let Some(first) = now.first()
            && first != status.text("hostIP")
        {
            errs.invalid(at.index(0).child("ip"), first.as_str(), "must be equal to `hostIP`");
        }
        for (i, address) in now.iter().enumerate() {
            ip::legacy(errs, at.index(i), address, &before);
        }
        let dual = ip::is_dual_stack(now.iter().map(String::as_str));
        if now.len() > 2 || (now.len() == 2 && !dual) {
            let mut shown = String::from("[");
            for (i, address) in status.list(list).iter().enumerate() {
                let separator = if i > 0 { "," } else { "" };
                shown.push_str(&format!("{separator}{}", Printed(Ty::Struct(fields), address)));
            }
            shown.push(']');
            errs.invalid_printed(at, shown, PER_FAMILY);
        }
    }
}

fn users(errs: &mut Errors, path: Path<'_>, statuses: &[Value], os: &Value) {
    for (i, status) in statuses.iter().enumerate() {
        let user = status.at("user");
        if user.is_null() {
            continue;
        }
        let linux = user.at("linux");
        let path = path.index(i);
        let path = path.child("user");
        let path = path.child("linux");
        if os.text("name") == "windows" {
            if !linux.is_null() {
                errs.forbidden(path, "cannot be set for a windows pod");
            }
            continue;
        }
        let id = |errs: &mut Errors, path: Path<'_>, id: i64| {
            if !(0..=i64::from(i32::MAX)).contains(&id) {
                errs.invalid(path, id, "must be between 0 and 2147483647, inclusive");
            }
        };
        id(errs, path.child("uid"), linux.num("uid"));
        id(errs, path.child("gid"), linux.num("gid"));
        for (j, group) in linux.list("supplementalGroups").iter().enumerate() {
            id(errs, path.child("supplementalGroups").index(j), group.as_i64().unwrap_or(0));
        }
    }
}

fn allocated(errs: &mut Errors, path: Path<'_>, statuses: &[Value], containers: &[Value]) {
    let by_name = first_by_name(containers);
    for (i, status) in statuses.iter().enumerate() {
        let claims = by_name.get(status.text("name")).map(|c| Allocatable::of(c));
        for (j, resource) in status.list("allocatedResourcesStatus").iter().enumerate() {
            let path = path.index(i);
            let path = path.child("allocatedResourcesStatus");
            let path = path.index(j);
            let name = resource.text("name");
            if let Some(claims) = &claims {
                claims.check(errs, path.child("name"), name);
            }
            let mut ids = HashSet::new();
            for (k, device) in resource.list("resources").iter().enumerate() {
                let path = path.child("resources");
                let path = path.index(k);
                let health = device.text("health");
                const HEALTH: &[&str] = &["Healthy", "Unhealthy", "Unknown"];
                if !HEALTH.contains(&health) {
                    errs.not_supported(path.child("health"), health, HEALTH);
                }
                let id = device.text("resourceID");
                if !ids.insert(id) {
                    errs.duplicate(path.child("resourceID"), id);
                }
            }
        }
    }
}

/// The resources that the status of a container may report.
struct Allocatable<'a> {
    requests: &'a Value,
    /// Claims with their requests, which may be empty.
    claims: HashSet<(&'a str, &'a str)>,
}

impl<'a> Allocatable<'a> {
    fn of(container: &'a Value) -> Self {
        let resources = container.at("resources");
        let claims = resources.list("claims").iter();
        let claims = claims.map(|c| (c.text("name"), c.text("request"))).collect();
        Self { requests: resources.at("requests"), claims }
    }

    fn check(&self, errs: &mut Errors, path: Path<'_>, name: &str) {
        if let Some(claim) = name.strip_prefix("claim:") {
            if !self.claims.contains(&claim.split_once('/').unwrap_or((claim, ""))) {
                let detail = "must match one of the container's resource claims in a format \
                              'claim:<claimName>/<request>' or 'claim:<claimName>' if request is \
                              empty";
                errs.invalid(path, name, detail);
            }
        } else if !self.requests.has(name) {
            errs.invalid(path, name, "must match one of the container's resource requests");
        }
    }
}
