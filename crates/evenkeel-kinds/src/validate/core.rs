//! Validates Namespaces, Endpoints and ServiceAccounts; submodules validate Nodes, ResourceQuotas
//! and LimitRanges.

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update, checks, ip, resources, scheduling};
use crate::names::{self, NameRule};

mod limit_range;
mod node;
mod quota;

pub(super) use limit_range::limit_range;
pub(super) use node::{node, node_status_update, node_update};
pub(super) use quota::{quota, quota_status_update, quota_update};

pub(super) fn namespace(errs: &mut Errors, namespace: &Value) {
    builtin_create(errs, namespace, false, NameRule::Label);
    let path = Path::root("spec");
    for finalizer in namespace.at("spec").texts("finalizers") {
        finalizer_name(errs, path.child("finalizers"), finalizer);
    }
}

fn finalizer_name(errs: &mut Errors, path: Path<'_>, finalizer: &str) {
    checks::qualified_name(errs, path, finalizer);
    crate::meta::builtin_finalizer(errs, path, finalizer);
}

pub(super) fn namespace_update(errs: &mut Errors, new: &Value, old: &Value) {
    namespace(errs, new);
    builtin_update(errs, new, old);
}

pub(super) fn namespace_status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let phase = new.at("status").text("phase");
    let path = Path::root("status");
    if !new.at("metadata").has("deletionTimestamp") {
        if phase != "Active" {
            let detail = "may only be 'Active' if `deletionTimestamp` is empty";
            errs.invalid(path.child("Phase"), phase, detail);
        }
    } else if phase != "Terminating" {
        let detail = "may only be 'Terminating' if `deletionTimestamp` is not empty";
        errs.invalid(path.child("Phase"), phase, detail);
    }
}

/// Validates `spec.finalizers` of a Namespace through the `finalize` subresource.
pub(super) fn namespace_finalize(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    let path = Path::root("spec");
    let path = path.child("finalizers");
    for (i, finalizer) in new.at("spec").texts("finalizers").enumerate() {
        finalizer_name(errs, path.index(i), finalizer);
    }
}

pub(super) fn endpoints(errs: &mut Errors, endpoints: &Value, old: Option<&Value>) {
    if let Some(old) = old {
        builtin_update(errs, endpoints, old);
    }
    builtin_create(errs, endpoints, true, NameRule::Subdomain);
    let before = errs.len();
    for (i, subset) in endpoints.list("subsets").iter().enumerate() {
        let path = Path::root("subsets");
        endpoint_subset(errs, path.index(i), subset);
    }
    if old.is_some_and(|old| old.at("subsets") == endpoints.at("subsets")) {
        errs.truncate(before);
    }
}

fn endpoint_subset(errs: &mut Errors, path: Path<'_>, subset: &Value) {
    let lists = ["addresses", "notReadyAddresses"];
    if lists.iter().all(|list| subset.list(list).is_empty()) {
        errs.required(path, "must specify `addresses` or `notReadyAddresses`");
    }
    for list in lists {
        for (i, address) in subset.list(list).iter().enumerate() {
            let path = path.child(list);
            let path = path.index(i);
            let text = address.text("ip");
            ip::legacy(errs, path.child("ip"), text, &ip::StoredValues::new());
            let host = address.text("hostname");
            if !host.is_empty() {
                checks::dns1123_label(errs, path.child("hostname"), host);
            }
            if let Some(node) = address.text_opt("nodeName") {
                checks::dns1123_subdomain(errs, path.child("nodeName"), node);
            }
            ip::endpoint(errs, path.child("ip"), text);
        }
    }
    let ports = subset.list("ports");
    for (i, port) in ports.iter().enumerate() {
        let path = path.child("ports");
        let path = path.index(i);
        let name = port.text("name");
        if name.is_empty() {
            if ports.len() > 1 {
                errs.required(path.child("name"), "");
            }
        } else {
            checks::dns1123_label(errs, path.child("name"), name);
        }
        checks::port_number(errs, path.child("port"), port.num("port"));
        let protocol = port.text("protocol");
        checks::one_of(errs, path.child("protocol"), protocol, super::container::PROTOCOLS);
        if let Some(protocol) = port.text_opt("appProtocol") {
            checks::qualified_name(errs, path.child("appProtocol"), protocol);
        }
    }
}

pub(super) fn service_account(errs: &mut Errors, account: &Value) {
    builtin_create(errs, account, true, NameRule::Subdomain);
}

pub(super) fn service_account_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    service_account(errs, new);
}
