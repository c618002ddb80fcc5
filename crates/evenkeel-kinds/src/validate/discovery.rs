//! Validates EndpointSlices.

use std::collections::HashSet;

use evenkeel_schema::metadata::check_labels;
use serde_json::Value;

use super::checks;
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, container, ip};
use crate::names::{self, NameRule};

pub(super) fn slice(errs: &mut Errors, slice: &Value, old: Option<&Value>) {
    builtin_create(errs, slice, true, NameRule::Subdomain);
    let kind = slice.text("addressType");
    const TYPES: &[&str] = &["FQDN", "IPv4", "IPv6"];
    checks::one_of(errs, Path::root("addressType"), kind, TYPES);
    ports(errs, slice.list("ports"));
    let before = errs.len();
    endpoints(errs, slice.list("endpoints"), kind);
    if old.is_some_and(|old| old.at("endpoints") == slice.at("endpoints")) {
        errs.truncate(before);
    }
    if let Some(old) = old
        && old.text("addressType") != kind
    {
        errs.invalid(Path::root("addressType"), kind, checks::IMMUTABLE);
    }
}

fn ports(errs: &mut Errors, ports: &[Value]) {
    let path = Path::root("ports");
    if ports.len() > 20_000 {
        errs.too_many(path, ports.len(), 20_000);
        return;
    }
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        let name = port.text("name");
        if !name.is_empty() {
            checks::dns1123_label(errs, path.child("name"), name);
        }
        if !names.insert(name) {
            errs.duplicate(path.child("name"), name);
        }
        if port.has("protocol") {
            let protocol = port.at("protocol");
            checks::one_of_if_set(errs, path.child("protocol"), protocol, container::PROTOCOLS);
        } else {
            errs.required(path.child("protocol"), "");
        }
        if let Some(protocol) = port.text_opt("appProtocol") {
            checks::qualified_name(errs, path.child("appProtocol"), protocol);
        }
    }
}

fn endpoints(errs: &mut Errors, endpoints: &[Value], kind: &str) {
    let path = Path::root("endpoints");
    if endpoints.len() > 1000 {
        errs.too_many(path, endpoints.len(), 1000);
        return;
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(i);
        let addresses = endpoint.list("addresses");
        if addresses.is_empty() {
            errs.required(path.child("addresses"), "must contain at least 1 address");
        } else if addresses.len() > 100 {
            errs.too_many(path.child("addresses"), addresses.len(), 100);
        }
        for (j, address) in endpoint.texts("addresses").enumerate() {
            self::address(errs, path.child("addresses"), j, address, kind);
        }
        if let Some(node) = endpoint.text_opt("nodeName") {
            checks::dns1123_subdomain(errs, path.child("nodeName"), node);
        }
        let topology = endpoint.at("deprecatedTopology");
        let labels = topology.as_object().map(serde_json::Map::len).unwrap_or_default();
        if labels > 16 {
            errs.too_many(path.child("deprecatedTopology"), labels, 16);
        }
        check_labels(topology, path.child("deprecatedTopology"), errs.list());
        if let Some(host) = endpoint.text_opt("hostname") {
            checks::dns1123_label(errs, path.child("hostname"), host);
        }
        hints(errs, path.child("hints"), endpoint.at("hints"));
    }
}

fn address(errs: &mut Errors, path: Path<'_>, index: usize, address: &str, kind: &str) {
    match kind {
        "IPv4" => {
            let valid = ip::legacy(errs, path.index(index), address, &ip::StoredValues::new());
            if valid {
                if ip::is_v6(address) {
                    errs.invalid(path, address, "must be an IPv4 address");
                }
                ip::endpoint(errs, path.index(index), address);
            }
        }
        "IPv6" => {
            let reasons = ip::canonical_reasons(address);
            if reasons.is_empty() {
                if !ip::is_v6(address) {
                    errs.invalid(path, address, "must be an IPv6 address");
                }
                ip::endpoint(errs, path.index(index), address);
            } else {
                errs.reasons(path.index(index), address, reasons);
            }
        }
        "FQDN" => fully_qualified(errs, path.index(index), address),
        _ => {}
    }
}

fn fully_qualified(errs: &mut Errors, path: Path<'_>, name: &str) {
    if name.is_empty() {
        errs.required(path, "");
        return;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let reasons = names::dns1123_subdomain(name);
    if !reasons.is_empty() {
        errs.invalid(path, name, reasons.join(","));
    } else if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errs.invalid(path, name, detail);
    } else if let Some(label) = name.split('.').find(|l| !names::dns1123_label(l).is_empty()) {
        errs.invalid(path, label, names::dns1123_label(label).join(","));
    }
}

fn hints(errs: &mut Errors, path: Path<'_>, hints: &Value) {
    for (list, is_zone) in [("forZones", true), ("forNodes", false)] {
        let path = path.child(list);
        let items = hints.list(list);
        if items.len() > 8 {
            errs.too_many(path, items.len(), 8);
            return;
        }
        let mut names = HashSet::new();
        for (i, item) in items.iter().enumerate() {
            let path = path.index(i);
            let path = path.child("name");
            let name = item.text("name");
            if !names.insert(name) {
                errs.duplicate(path, name);
            }
            let reasons =
                if is_zone { names::label_value(name) } else { names::dns1123_subdomain(name) };
            errs.reasons(path, name, reasons);
        }
    }
}
