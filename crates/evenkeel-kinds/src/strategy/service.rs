//! Prepares Services: sets what follows from the type, without allocating addresses or ports.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::prepare::copy_field;
use crate::defaults::set::{self, Object};

/// Sets `clusterIPs` from `clusterIP` of a new Service. Must be called before addresses are
/// allocated, and so before `prepare_for_create`.
pub fn before_allocation_on_create(new: &mut Value) {
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
        complete_cluster_ips(spec);
    }
}

fn complete_cluster_ips(spec: &mut Object) {
    let address = set::string(spec, "clusterIP");
    if !address.is_empty() && set::is_empty(spec.get("clusterIPs")) {
        let list = json!([address]);
        spec.insert("clusterIPs".to_owned(), list);
    }
}

/// Copies allocated values that an update omits from the stored Service. Must be called before
/// addresses are allocated, and so before `prepare_for_update`.
pub fn before_allocation_on_update(old: &Value, new: &mut Value) {
    let Some(old) = old.get("spec").and_then(Value::as_object) else { return };
    let Some(new) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
    keep_allocated(old, new);
    sync_cluster_ips(old, new);
}

fn keep_allocated(old: &Object, new: &mut Object) {
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        if set::string(new, "clusterIP").is_empty() {
            copy_field(old, new, "clusterIP");
        }
        if set::is_empty(new.get("clusterIPs")) {
            copy_field(old, new, "clusterIPs");
        }
    }
    if allocates_node_ports(old) && allocates_node_ports(new) {
        let requested: BTreeSet<i64> = node_ports(new).collect();
        // If several ports have the same name, the last one is used.
        let before: BTreeMap<&str, i64> = set::list(old, "ports")
            .map(|port| (set::string(port, "name"), number(port, "nodePort")))
            .collect();
        let allocated: BTreeSet<i64> = node_ports(old).collect();
        for port in set::items(new, "ports") {
            if number(port, "nodePort") != 0 {
                continue;
            }
            let number = before.get(set::string(port, "name")).copied().unwrap_or(0);
            let taken = requested.contains(&number) && allocated.contains(&number);
            if number != 0 && !taken {
                port.insert("nodePort".to_owned(), number.into());
            }
        }
    }
    if needs_health_port(old) && needs_health_port(new) && number(new, "healthCheckNodePort") == 0 {
        copy_field(old, new, "healthCheckNodePort");
    }
}

/// Makes `clusterIP` and `clusterIPs` consistent. If the client changes only one of them, the other
/// follows.
fn sync_cluster_ips(old: &Object, new: &mut Object) {
    let address = set::string(new, "clusterIP");
    let before = set::string(old, "clusterIP");
    if address == before {
        if set::is_empty(new.get("clusterIPs")) {
            copy_field(old, new, "clusterIPs");
        }
    } else if old.get("clusterIPs") == new.get("clusterIPs") {
        if address.is_empty() {
            new.remove("clusterIPs");
        } else {
            let list = json!([address]);
            new.insert("clusterIPs".to_owned(), list);
        }
    }
}

/// Clears fields that no longer apply when the type of a Service changes and the client left them
/// unchanged.
pub(super) fn update(old: &Object, new: &mut Object) {
    let empty = Object::new();
    let old_spec = set::get(old, "spec").unwrap_or(&empty);
    let Some(spec) = set::child(new, "spec") else { return };
    let same = |spec: &Object, key: &str| old_spec.get(key) == spec.get(key);
    if needs_cluster_ip(old_spec) && !needs_cluster_ip(spec) {
        if same(spec, "clusterIP") && same(spec, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        for key in ["ipFamilies", "ipFamilyPolicy"] {
            if same(spec, key) {
                spec.remove(key);
            }
        }
    }
    if needs_node_port(old_spec) && !needs_node_port(spec) {
        let before: BTreeSet<i64> = node_ports(old_spec).collect();
        if node_ports(spec).all(|port| before.contains(&port)) {
            for port in set::items(spec, "ports") {
                port.remove("nodePort");
            }
        }
    }
    if needs_health_port(old_spec)
        && !needs_health_port(spec)
        && number(old_spec, "healthCheckNodePort") == number(spec, "healthCheckNodePort")
    {
        spec.remove("healthCheckNodePort");
    }
    if is_load_balancer(old_spec) && !is_load_balancer(spec) {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, key) {
                spec.remove(key);
            }
        }
    }
    if is_externally_accessible(old_spec)
        && !is_externally_accessible(spec)
        && same(spec, "externalTrafficPolicy")
    {
        spec.remove("externalTrafficPolicy");
    }
    if !is_load_balancer(spec)
        && let Some(status) = set::structure(new, "status")
    {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
}

/// Brings an ExternalName Service into the form that readers see. Upstream stores it with
/// `internalTrafficPolicy` and without `clusterIPs`, and changes both when it is read.
pub(super) fn canonicalize(service: &mut Object) {
    if let Some(spec) = set::child(service, "spec")
        && !needs_cluster_ip(spec)
    {
        spec.remove("internalTrafficPolicy");
        complete_cluster_ips(spec);
    }
}

/// Returns the Service as upstream stores it, if that differs from what readers see: an
/// ExternalName Service whose `internalTrafficPolicy` still has a field manager, or which has
/// `clusterIPs`. Validation rejects those, so they come from `canonicalize`.
pub fn service_as_stored(service: &Value) -> Option<Value> {
    const FIELD: &str = "/fieldsV1/f:spec/f:internalTrafficPolicy";
    let spec = service.get("spec")?.as_object()?;
    if needs_cluster_ip(spec) {
        return None;
    }
    let entries = service.pointer("/metadata/managedFields").and_then(Value::as_array);
    let has_policy = entries.into_iter().flatten().any(|entry| entry.pointer(FIELD).is_some());
    if !has_policy && !spec.contains_key("clusterIPs") {
        return None;
    }
    let mut service = service.clone();
    let spec = service.get_mut("spec")?.as_object_mut()?;
    spec.remove("clusterIPs");
    if has_policy {
        spec.insert("internalTrafficPolicy".to_owned(), "Cluster".into());
    }
    Some(service)
}

fn needs_cluster_ip(spec: &Object) -> bool {
    set::string(spec, "type") != "ExternalName"
}

fn needs_node_port(spec: &Object) -> bool {
    matches!(set::string(spec, "type"), "NodePort" | "LoadBalancer")
}

/// A Service of type LoadBalancer may opt out of node ports.
fn allocates_node_ports(spec: &Object) -> bool {
    let opted_out = spec.get("allocateLoadBalancerNodePorts") == Some(&Value::Bool(false));
    needs_node_port(spec) && !(is_load_balancer(spec) && opted_out)
}

fn is_load_balancer(spec: &Object) -> bool {
    set::string(spec, "type") == "LoadBalancer"
}

fn needs_health_port(spec: &Object) -> bool {
    is_load_balancer(spec) && set::string(spec, "externalTrafficPolicy") == "Local"
}

fn is_externally_accessible(spec: &Object) -> bool {
    needs_node_port(spec)
        || (set::string(spec, "type") == "ClusterIP" && !set::is_empty(spec.get("externalIPs")))
}

fn node_ports(spec: &Object) -> impl Iterator<Item = i64> {
    set::list(spec, "ports").map(|port| number(port, "nodePort")).filter(|port| *port != 0)
}

fn number(object: &Object, key: &str) -> i64 {
    object.get(key).and_then(Value::as_i64).unwrap_or(0)
}
