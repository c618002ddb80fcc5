//! Warnings for IP addresses and CIDRs that are accepted but not in standard form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::defaults::set::{self, Object};

/// Checks the addresses in the list of strings at `key`.
pub(super) fn check_list(object: &Object, key: &str, path: &str, warnings: &mut Vec<String>) {
    for (i, text) in texts(object, key).enumerate() {
        check_address(&format!("{path}[{i}]"), text, warnings);
    }
}

/// Checks the CIDRs in the list of strings at `key`.
pub(super) fn check_ranges(object: &Object, key: &str, path: &str, warnings: &mut Vec<String>) {
    for (i, text) in texts(object, key).enumerate() {
        check_range(&format!("{path}[{i}]"), text, warnings);
    }
}

fn texts<'a>(object: &'a Object, key: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    object.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Checks the addresses of Endpoints that are not managed by a controller.
pub(super) fn check_endpoints(object: &Object, warnings: &mut Vec<String>) {
    if managed_by(object, "endpoints.kubernetes.io/managed-by") == "endpoint-controller" {
        return;
    }
    for (i, subset) in set::list(object, "subsets").enumerate() {
        for list in ["addresses", "notReadyAddresses"] {
            for (j, address) in set::list(subset, list).enumerate() {
                let path = format!("subsets[{i}].{list}[{j}].ip");
                check_address(&path, set::string(address, "ip"), warnings);
            }
        }
    }
}

/// Checks the addresses of EndpointSlices that are not managed by a controller.
pub(super) fn check_endpoint_slice(object: &Object, warnings: &mut Vec<String>) {
    if matches!(
        managed_by(object, "endpointslice.kubernetes.io/managed-by"),
        "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io"
    ) {
        return;
    }
    for (i, endpoint) in set::list(object, "endpoints").enumerate() {
        check_list(endpoint, "addresses", &format!("endpoints[{i}].addresses"), warnings);
    }
}

fn managed_by<'a>(object: &'a Object, label: &str) -> &'a str {
    set::get(object, "metadata")
        .and_then(|metadata| set::get(metadata, "labels"))
        .map_or("", |labels| set::string(labels, label))
}

/// Checks the CIDRs of a NetworkPolicy.
pub(super) fn check_network_policy(object: &Object, warnings: &mut Vec<String>) {
    let Some(spec) = set::get(object, "spec") else { return };
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in set::list(spec, direction).enumerate() {
            for (j, peer) in set::list(rule, peers).enumerate() {
                let Some(block) = set::get(peer, "ipBlock") else { continue };
                let path = format!("spec.{direction}[{i}].{peers}[{j}].ipBlock");
                check_range(&format!("{path}.cidr"), set::string(block, "cidr"), warnings);
                check_ranges(block, "except", &format!("{path}.except"), warnings);
            }
        }
    }
}

/// Checks one address. An empty string is skipped.
pub(super) fn check_address(path: &str, text: &str, warnings: &mut Vec<String>) {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => {
            if let Some(inner) = address.to_ipv4_mapped() {
                warnings.push(non_standard(path, "IP address", text, &inner.to_string()));
            } else if address.to_string() != text {
                warnings.push(format!(
                    "{path}: IPv6 address {text:?} should be in RFC 5952 canonical format \
                     (\"{address}\")"
                ));
            }
        }
        Ok(IpAddr::V4(_)) => {}
        Err(_) => {
            if let Some(address) = with_leading_zeros(text) {
                warnings.push(non_standard(path, "IP address", text, &address.to_string()));
            }
        }
    }
}

fn check_range(path: &str, text: &str, warnings: &mut Vec<String>) {
    let Some((address, length)) = text.split_once('/') else { return };
    let Ok(bits) = length.parse::<u8>() else { return };
    let strict = address.parse::<IpAddr>().ok();
    let Some(parsed) = strict.or_else(|| with_leading_zeros(address).map(IpAddr::V4)) else {
        return;
    };
    let padded = length.len() > 1 && length.starts_with('0');
    let mapped = match parsed {
        IpAddr::V6(address) => address.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    let (masked, bits) = match mapped {
        // The prefix length of an IPv4-mapped address includes the 96 bits before it.
        Some(address) if bits >= 96 => (mask(IpAddr::V4(address), bits - 96), bits - 96),
        _ => (mask(parsed, bits), bits),
    };
    let wanted = format!("{masked}/{bits}");
    let shown = mapped.map_or(parsed, IpAddr::V4);
    let mut valid = true;
    if masked != shown {
        let width = if parsed.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "{path}: CIDR value {text:?} is ambiguous in this context (should be {wanted:?} or \
             \"{shown}/{width}\"?)"
        ));
        valid = false;
    }
    if strict.is_none() || padded || mapped.is_some() {
        warnings.push(non_standard(path, "CIDR value", text, &wanted));
        valid = false;
    }
    if valid && parsed.is_ipv6() && wanted != text {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {text:?} should be in RFC 5952 canonical format ({wanted:?})"
        ));
    }
}

fn non_standard(path: &str, what: &str, text: &str, wanted: &str) -> String {
    format!("{path}: non-standard {what} {text:?} is invalid: use {wanted:?}")
}

/// Parses `010.0.0.1` with Go's former rule: decimal, ignoring leading zeros.
fn with_leading_zeros(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let shift = 32_u32.saturating_sub(u32::from(bits));
            let mask = u32::MAX.checked_shl(shift).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(address) & mask))
        }
        IpAddr::V6(address) => {
            let shift = 128_u32.saturating_sub(u32::from(bits));
            let mask = u128::MAX.checked_shl(shift).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask))
        }
    }
}
