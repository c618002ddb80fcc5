//! Validates NetworkPolicies.

use serde_json::Value;

use super::super::checks::{self, SelectorValues};
use super::super::read::Read;
use super::super::report::{Errors, Path};
use super::super::{builtin_create, builtin_update, ip};
use super::selector_values;
use crate::names::{self, NameRule};

pub(super) fn create(errs: &mut Errors, policy: &Value) {
    builtin_create(errs, policy, true, NameRule::Subdomain);
    spec(errs, policy.at("spec"), SelectorValues::Validated, &ip::StoredValues::new());
}

pub(super) fn update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let mut stored = ip::StoredValues::new();
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in old.at("spec").list(list) {
            for peer in rule.list(peers) {
                let block = peer.at("ipBlock");
                if !block.is_null() {
                    stored.insert(block.text("cidr"));
                    stored.extend(block.texts("except"));
                }
            }
        }
    }
    spec(errs, new.at("spec"), selector_values(old), &stored);
}

fn spec(errs: &mut Errors, spec: &Value, values: SelectorValues, stored: &ip::StoredValues<'_>) {
    let path = Path::root("spec");
    checks::label_selector(errs, path.child("podSelector"), spec.at("podSelector"), values);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in spec.list(list).iter().enumerate() {
            let path = path.child(list);
            let path = path.index(i);
            for (j, port) in rule.list("ports").iter().enumerate() {
                self::port(errs, path.child("ports").index(j), port);
            }
            for (j, peer) in rule.list(peers).iter().enumerate() {
                self::peer(errs, path.child(peers).index(j), peer, values, stored);
            }
        }
    }
    let types = spec.list("policyTypes");
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        errs.invalid(path.child("policyTypes"), types.to_vec(), detail);
        return;
    }
    for (i, kind) in spec.texts("policyTypes").enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            let path = path.child("policyTypes");
            errs.not_supported(path.index(i), kind, &["Ingress", "Egress"]);
        }
    }
}

fn port(errs: &mut Errors, path: Path<'_>, port: &Value) {
    const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
    checks::one_of_if_set(errs, path.child("protocol"), port.at("protocol"), PROTOCOLS);
    let end = port.int("endPort");
    match port.at("port") {
        Value::Null => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is not specified";
                errs.invalid(path.child("endPort"), end, detail);
            }
        }
        Value::String(name) => {
            if let Some(end) = end {
                let detail = "may not be specified when `port` is non-numeric";
                errs.invalid(path.child("endPort"), end, detail);
            }
            errs.reasons(path.child("port"), name, names::port_name(name));
        }
        number => {
            let number = number.as_i64().unwrap_or_default();
            checks::port_number(errs, path.child("port"), number);
            if let Some(end) = end {
                let path = path.child("endPort");
                if end < number {
                    errs.invalid(path, number, "must be greater than or equal to `port`");
                }
                checks::port_number(errs, path, end);
            }
        }
    }
}

fn peer(
    errs: &mut Errors,
    path: Path<'_>,
    peer: &Value,
    values: SelectorValues,
    stored: &ip::StoredValues<'_>,
) {
    let mut found = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if peer.has(field) {
            found += 1;
            checks::label_selector(errs, path.child(field), peer.at(field), values);
        }
    }
    let block = peer.at("ipBlock");
    if !block.is_null() {
        found += 1;
        ip_block(errs, path.child("ipBlock"), block, stored);
    }
    if found == 0 {
        errs.required(path, "must specify a peer");
    } else if found > 1 && !block.is_null() {
        errs.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

fn ip_block(errs: &mut Errors, path: Path<'_>, block: &Value, stored: &ip::StoredValues<'_>) {
    let cidr = block.text("cidr");
    if cidr.is_empty() {
        errs.required(path.child("cidr"), "");
        return;
    }
    ip::legacy_cidr(errs, path.child("cidr"), cidr, stored);
    let Some(outer) = ip::Cidr::parse(cidr) else { return };
    for (i, except) in block.texts("except").enumerate() {
        let path = path.child("except");
        ip::legacy_cidr(errs, path.index(i), except, stored);
        if ip::Cidr::parse(except).is_some_and(|inner| !outer.strictly_contains(inner)) {
            errs.invalid(path.index(i), except, "must be a strict subset of `cidr`");
        }
    }
}
