//! Validates Nodes.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    Errors, NameRule, Path, Printed, Quantity, Read, Ty, builtin_create, builtin_update, checks,
    ip, names, printed, resources, scheduling,
};

pub(in crate::validate) fn node(errs: &mut Errors, node: &Value) {
    builtin_create(errs, node, false, NameRule::Subdomain);
    let metadata = Path::root("metadata");
    let spec = node.at("spec");
    // Upstream reports taints and swap under the path of the metadata.
    taints(errs, metadata.child("taints"), spec.list("taints"));
    resource_list(errs, node);
    if let Some(swap) = node.at("status").at("nodeInfo").at("swap").int("capacity") {
        let path = metadata.child("nodeSwapStatus");
        checks::positive(errs, path.child("capacity"), swap);
    }
    declared_features(errs, node.at("status"));
    let path = Path::root("spec");
    let path = path.child("podCIDRs");
    let cidrs = spec.list("podCIDRs");
    for (i, cidr) in spec.texts("podCIDRs").enumerate() {
        ip::legacy_cidr(errs, path.index(i), cidr, &ip::StoredValues::new());
    }
    if cidrs.len() > 1 {
        let parsed: Vec<_> = spec.texts("podCIDRs").filter_map(ip::Cidr::parse).collect();
        if parsed.len() < cidrs.len() {
            let mut texts = spec.texts("podCIDRs").enumerate();
            let bad = texts.find(|(_, cidr)| ip::Cidr::parse(cidr).is_none());
            let (at, cidr) = bad.unwrap_or_default();
            let detail = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{at}]: \
                 <nil> (invalid CIDR address: {cidr})"
            );
            errs.internal(path, detail);
        }
        let dual = parsed.iter().any(|c| c.is_v6()) && parsed.iter().any(|c| !c.is_v6());
        if !dual || cidrs.len() > 2 {
            let detail = "may specify no more than one CIDR for each IP family";
            errs.invalid(path, cidrs.to_vec(), detail);
        }
    }
}

fn resource_list(errs: &mut Errors, node: &Value) {
    let path = Path::root("status");
    for list in ["capacity", "allocatable"] {
        for (name, value) in node.at("status").entries(list) {
            let amount = Quantity::from_json(value).unwrap_or(Quantity::ZERO);
            resources::resource_quantity(errs, path.child(list).child(name), name, &amount);
        }
    }
}

fn taints(errs: &mut Errors, path: Path<'_>, taints: &[Value]) {
    let mut seen = HashSet::new();
    for (i, taint) in taints.iter().enumerate() {
        let path = path.index(i);
        let (key, effect) = (taint.text("key"), taint.text("effect"));
        checks::qualified_name(errs, path.child("key"), key);
        let value = taint.text("value");
        let reasons = names::label_value(value);
        if !reasons.is_empty() {
            errs.invalid(path.child("value"), value, reasons.join(";"));
        }
        scheduling::taint_effect(errs, path.child("effect"), effect);
        if !seen.insert((key, effect)) {
            let shown = Printed(Ty::Struct(printed::TAINT), taint);
            errs.duplicate_printed(path, shown, "taints must be unique by key and effect pair");
        }
    }
}

fn declared_features(errs: &mut Errors, status: &Value) {
    let path = Path::root("status");
    let path = path.child("declaredFeatures");
    let features: Vec<&str> = status.texts("declaredFeatures").collect();
    for (i, feature) in features.iter().enumerate() {
        if feature.len() > 253 {
            let detail =
                format!("invalid feature name \"{feature}\": must be no more than 253 characters");
            errs.invalid(path.index(i), *feature, detail);
        } else if !is_feature(feature) {
            let detail = format!(
                "invalid feature name \"{feature}\": must start with an UpperCamelCase segment, \
                 with subsequent segments separated by '/' (e.g., MyFeature or \
                 MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            errs.invalid(path.index(i), *feature, detail);
        }
        if let Some(next) = features.get(i + 1) {
            if feature == next {
                errs.duplicate(path.index(i + 1), *next);
            } else if feature > next {
                let detail = "list must be sorted alphabetically";
                errs.invalid(path.index(i + 1), *next, detail);
            }
        }
    }
}

fn is_feature(feature: &str) -> bool {
    feature.starts_with(|c: char| c.is_ascii_uppercase())
        && feature.split('/').all(|segment| {
            segment.starts_with(|c: char| c.is_ascii_alphabetic())
                && segment.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}

pub(in crate::validate) fn node_update(errs: &mut Errors, new: &Value, old: &Value) {
    node(errs, new);
    node_status_update(errs, new, old);
}

pub(in crate::validate) fn node_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    resource_list(errs, new);
    declared_features(errs, new.at("status"));
    let path = Path::root("status");
    let mut seen = HashSet::new();
    for (i, address) in new.at("status").list("addresses").iter().enumerate() {
        if !seen.insert(address) {
            let shown = Printed(Ty::Struct(printed::NODE_ADDRESS), address);
            errs.duplicate_printed(path.child("addresses").index(i), shown, "");
        }
    }
    let path = Path::root("spec");
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let (cidrs, before) = (spec.list("podCIDRs"), old_spec.list("podCIDRs"));
    if !before.is_empty() {
        const DETAIL: &str = "node updates may not change podCIDR except from \"\" to valid";
        let changes = if cidrs.len() == before.len() {
            cidrs.iter().zip(before).filter(|(now, before)| now != before).count()
        } else {
            1
        };
        for _ in 0..changes {
            errs.forbidden(path.child("podCIDRs"), DETAIL);
        }
    }
    let provider = old_spec.text("providerID");
    if !provider.is_empty() && provider != spec.text("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errs.forbidden(path.child("providerID"), detail);
    }
    taints(errs, Path::root("metadata").child("taints"), spec.list("taints"));
    if spec.text("externalID") != old_spec.text("externalID") {
        errs.forbidden(path.child("externalID"), "may not be updated");
    }
}
