//! Validates resource names and resource lists.

use std::collections::{BTreeSet, HashMap, HashSet};

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::checks;
use super::read::Read;
use super::report::{Errors, Path};
use crate::names;

const STANDARD_QUOTA: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

const INTEGER: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(super) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_quota_huge_page(name: &str) -> bool {
    is_huge_page(name) || name.starts_with("requests.hugepages-")
}

pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(super) fn is_standard_quota(name: &str) -> bool {
    STANDARD_QUOTA.contains(&name) || is_quota_huge_page(name)
}

pub(crate) fn is_extended(name: &str) -> bool {
    // Quotas prefix the name with `requests.`, so it must be short enough for the prefix.
    let domain = name.split('/').next().unwrap_or_default();
    !is_native(name)
        && !name.starts_with("requests.")
        && domain.len() + "requests.".len() <= 253
        && names::qualified_name(name).is_empty()
}

pub(super) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Validates a resource name.
pub(super) fn resource_name(errs: &mut Errors, path: Path<'_>, name: &str) {
    let reasons = names::qualified_name(name);
    if !reasons.is_empty() {
        errs.reasons(path, name, reasons);
    } else if !name.contains('/') && name != "storage" && !is_standard_quota(name) {
        errs.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

/// Validates the name of a container resource.
pub(super) fn container_resource_name(errs: &mut Errors, path: Path<'_>, name: &str) {
    if matches!(name, "cpu" | "memory" | "ephemeral-storage") {
        return;
    }
    resource_name(errs, path, name);
    if !name.contains('/') {
        if !is_huge_page(name) {
            errs.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errs.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// Validates the name of a pod-level resource.
fn pod_resource_name(errs: &mut Errors, path: Path<'_>, name: &str) {
    let before = errs.len();
    resource_name(errs, path, name);
    if errs.len() == before && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        errs.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Validates the name of a resource in a quota.
pub(super) fn quota_resource_name(errs: &mut Errors, path: Path<'_>, name: &str) {
    resource_name(errs, path, name);
    if !name.contains('/') && !is_standard_quota(name) {
        errs.invalid(path, name, "must be a standard resource for quota");
    }
}

/// Validates a quantity: not negative, and an integer for integer resources.
pub(super) fn resource_quantity(
    errs: &mut Errors,
    path: Path<'_>,
    name: &str,
    quantity: &Quantity,
) {
    non_negative(errs, path, quantity);
    if !quantity.is_integer() && (INTEGER.contains(&name) || is_extended(name)) {
        errs.invalid(path, quantity.to_string(), "must be an integer");
    }
}

pub(super) fn non_negative(errs: &mut Errors, path: Path<'_>, quantity: &Quantity) {
    if quantity.sign().is_lt() {
        errs.invalid(path, quantity.to_string(), "must be greater than or equal to 0");
    }
}

pub(super) fn positive(errs: &mut Errors, path: Path<'_>, quantity: &Quantity) {
    if quantity.sign().is_le() {
        errs.invalid(path, quantity.to_string(), "must be greater than zero");
    }
}

/// Which resource names are allowed in a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Container,
    Pod,
}

/// Validates requests, limits and claims. `claims` are the names of the pod's claims.
pub(super) fn requirements(
    errs: &mut Errors,
    path: Path<'_>,
    resources: &Value,
    scope: Scope,
    claims: &BTreeSet<&str>,
    allow_indivisible_huge_pages: bool,
) {
    if resources.is_null() {
        return;
    }
    limits_and_requests(
        errs,
        path,
        [resources.at("limits"), resources.at("requests")],
        scope,
        allow_indivisible_huge_pages,
    );
    claim_names(errs, path.child("claims"), resources.list("claims"), claims);
}

/// Validates pod overhead, which has only limits.
pub(super) fn overhead(errs: &mut Errors, path: Path<'_>, overhead: &Value) {
    limits_and_requests(errs, path, [overhead, &Value::Null], Scope::Container, false);
}

fn limits_and_requests(
    errs: &mut Errors,
    path: Path<'_>,
    [limits, requests]: [&Value; 2],
    scope: Scope,
    allow_indivisible_huge_pages: bool,
) {
    let check_name = match scope {
        Scope::Container => container_resource_name,
        Scope::Pod => pod_resource_name,
    };
    let (mut compute, mut huge) = (false, false);
    let mut entry = |errs: &mut Errors, path: Path<'_>, name: &str, quantity: &Quantity| {
        check_name(errs, path, name);
        resource_quantity(errs, path, name, quantity);
        compute |= matches!(name, "cpu" | "memory");
    };
    for (name, value) in limits.as_object().into_iter().flatten() {
        let quantity = Quantity::from_json(value).unwrap_or(Quantity::ZERO);
        let at = path.child("limits");
        entry(errs, at.key(name), name, &quantity);
        if is_huge_page(name) {
            huge = true;
            huge_page_quantity(errs, at.key(name), name, &quantity, allow_indivisible_huge_pages);
        }
    }
    for (name, value) in requests.as_object().into_iter().flatten() {
        let quantity = Quantity::from_json(value).unwrap_or(Quantity::ZERO);
        let at = path.child("requests");
        entry(errs, at.key(name), name, &quantity);
        match Quantity::from_json(limits.at(name)) {
            Some(limit) if quantity != limit && !is_overcommit_allowed(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errs.invalid(at, quantity.to_string(), detail);
            }
            Some(limit) if quantity > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errs.invalid(at, quantity.to_string(), detail);
            }
            None if !is_overcommit_allowed(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                errs.required(path.child("limits"), detail);
            }
            _ => {}
        }
        if is_huge_page(name) {
            huge = true;
            huge_page_quantity(errs, at.key(name), name, &quantity, allow_indivisible_huge_pages);
        }
    }
    if huge && !compute {
        errs.forbidden(path, "HugePages require cpu or memory");
    }
}

fn huge_page_quantity(
    errs: &mut Errors,
    path: Path<'_>,
    name: &str,
    quantity: &Quantity,
    allow_indivisible_huge_pages: bool,
) {
    let size = name.strip_prefix("hugepages-").and_then(|size| Quantity::parse(size).ok());
    let divisible = size.is_some_and(|size| {
        size.sign().is_gt() && size.is_integer() && quantity.value() % size.value() == 0
    });
    if !divisible && !allow_indivisible_huge_pages {
        let detail = format!("{quantity} is not positive integer multiple of {name}");
        errs.invalid(path, quantity.to_string(), detail);
    }
}

fn claim_names(errs: &mut Errors, path: Path<'_>, claims: &[Value], known: &BTreeSet<&str>) {
    if claims.is_empty() {
        return;
    }
    let mut seen: HashSet<String> = HashSet::new();
    let mut detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
    if known.is_empty() {
        detail.push_str(" which is empty");
    } else {
        detail.push_str(": ");
        detail.push_str(&known.iter().copied().collect::<Vec<_>>().join(", "));
    }
    // Number of claims with a request, by the part of the key before the slash.
    let mut requested: HashMap<String, usize> = HashMap::new();
    for (i, claim) in claims.iter().enumerate() {
        let path = path.index(i);
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            errs.required(path, "");
            continue;
        }
        if seen.contains(name) {
            errs.duplicate(path, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                checks::dns1123_label(errs, path.child("request"), request);
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                errs.duplicate(path, key.as_str());
            } else if request.is_empty() {
                for _ in 0..requested.get(name).copied().unwrap_or_default() {
                    errs.duplicate(path, name);
                }
            }
            if let Some((claim, _)) = key.split_once('/') {
                *requested.entry(claim.to_owned()).or_default() += 1;
            }
            seen.insert(key);
        }
        if !known.contains(name) && !errs.is_full(detail.len()) {
            errs.not_found(path, name, detail.as_str());
        }
    }
}
