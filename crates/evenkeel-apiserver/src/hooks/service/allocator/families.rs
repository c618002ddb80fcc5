//! IP families and policy of Services, in a single-stack cluster.

use std::net::IpAddr;

use evenkeel_kinds::validate;
use evenkeel_schema::field;
use serde_json::{Value, json};

use super::AllocateError;

/// Returns whether a Service that prefers dual-stack keeps its families.
pub(super) fn are_unchanged(service: &Value, old: Option<&Value>) -> bool {
    let (spec, Some(old)) = (&service["spec"], old.map(|old| &old["spec"])) else { return false };
    let prefers = |spec: &Value| spec["ipFamilyPolicy"] == "PreferDualStack";
    prefers(spec)
        && (prefers(old) || old["ipFamilyPolicy"].is_null())
        && ["type", "clusterIPs", "ipFamilies"].iter().all(|field| spec[field] == old[field])
}

/// Sets the IP family policy and IP families. Mirrors upstream's `initIPFamilyFields`, in its order
/// of checks.
pub(super) fn set_families(service: &mut Value, old: Option<&Value>) -> Result<(), AllocateError> {
    let none = Value::Null;
    let old_spec = old.map_or(&none, |old| &old["spec"]);
    let headless = is_selectorless(&service["spec"]);
    let spec = &mut service["spec"];
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = match &old_spec["ipFamilyPolicy"] {
            Value::String(before) => before.as_str(),
            // Endpoints without a selector may have addresses of either family.
            _ if headless => "RequireDualStack",
            _ => "SingleStack",
        }
        .into();
    }
    let invalid = validate::service_cluster_ips(service, old);
    if !invalid.is_empty() {
        return Err(AllocateError::Invalid(invalid));
    }

    let spec = &mut service["spec"];
    let policy = spec["ipFamilyPolicy"].clone();
    let single = policy == "SingleStack";
    let count = |spec: &Value, field: &str| spec[field].as_array().map_or(0, Vec::len);
    let mut errors = Vec::new();
    let mut refuse = |detail: &str| {
        errors.push(field::Error::invalid("spec.ipFamilyPolicy", policy.clone(), detail));
    };
    for (field, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (had, has) = (count(old_spec, field), count(spec, field));
        if old.is_some() && single && has > 1 && spec[field] == old_spec[field] {
            let first = spec[field][0].take();
            spec[field] = json!([first]);
        } else if old.is_some() && !single && had == 2 && has == 1 {
            refuse(&format!("must be 'SingleStack' to release the secondary {what}"));
        }
    }
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if single && count(spec, field) == 2 {
            refuse(&format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            ));
        }
    }
    infer(spec, &mut errors);
    if !errors.is_empty() {
        return Err(AllocateError::Invalid(errors));
    }

    if headless {
        if count(spec, "ipFamilies") == 0 {
            spec["ipFamilies"] = json!(["IPv4"]);
        }
        if let (1, false, Value::Array(families)) =
            (count(spec, "ipFamilies"), single, &mut spec["ipFamilies"])
        {
            let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
            families.push(other.into());
        }
        return Ok(());
    }
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(field::Error::invalid("spec.ipFamilyPolicy", policy, detail));
    }
    for (at, family) in spec["ipFamilies"].as_array().into_iter().flatten().enumerate() {
        if family != "IPv4" {
            let path = format!("spec.ipFamilies[{at}]");
            let detail = "not configured on this cluster";
            errors.push(field::Error::invalid(path, family.clone(), detail));
        }
    }
    if !errors.is_empty() {
        return Err(AllocateError::Invalid(errors));
    }
    if count(spec, "ipFamilies") == 0 {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    Ok(())
}

/// Infers the IP families from the cluster IPs.
fn infer(spec: &mut Value, errors: &mut Vec<field::Error>) {
    let addresses = spec["clusterIPs"].clone();
    let mut families = spec["ipFamilies"].as_array().cloned().unwrap_or_default();
    for (at, address) in addresses.as_array().into_iter().flatten().enumerate() {
        if address == "None" {
            break;
        }
        if at < families.len() {
            continue;
        }
        let family = match address.as_str().and_then(validate::parse_ip) {
            Some(IpAddr::V4(_)) => "IPv4",
            Some(IpAddr::V6(_)) => "IPv6",
            // Accepted by validation if it is stored already.
            None => "unknown",
        };
        if family == "IPv4" {
            families.push(family.into());
        } else {
            let path = format!("spec.clusterIPs[{at}]");
            let detail = format!("{family} is not configured on this cluster");
            errors.push(field::Error::invalid(path, addresses.clone(), detail));
        }
    }
    if !families.is_empty() {
        spec["ipFamilies"] = families.into();
    }
}

/// Returns whether a Service is headless and has no selector.
fn is_selectorless(spec: &Value) -> bool {
    let selects = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    spec["clusterIP"] == "None" && !selects
}
