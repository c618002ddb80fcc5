//! Defaults of the core group.

use serde_json::{Value, json};

use super::set::{self, Object};
use super::{pod, resources, secret, volume};

/// Sets the defaults of an object of the core group.
pub(super) fn apply(kind: &str, object: &mut Object) {
    match kind {
        "Pod" => pod::apply(object),
        "PodTemplate" => pod::apply_template(object, "template"),
        "ReplicationController" => replication_controller(object),
        "Service" => service(object),
        "Endpoints" => endpoints(object),
        "Secret" => secret::apply(object),
        "Namespace" => namespace(object),
        "Node" => node(object),
        "PersistentVolume" => volume::persistent(object),
        "PersistentVolumeClaim" => volume::claim(object),
        "LimitRange" => limit_range(object),
        "ResourceQuota" => resource_quota(object),
        _ => {}
    }
}

fn replication_controller(object: &mut Object) {
    let labels = object
        .get("spec")
        .and_then(|spec| spec.pointer("/template/metadata/labels"))
        .filter(|labels| !set::is_empty(Some(labels)))
        .cloned();
    if let Some(labels) = labels {
        copy_template_labels(object, &labels);
        if let Some(spec) = set::child(object, "spec")
            && set::is_empty(spec.get("selector"))
        {
            spec.insert("selector".to_owned(), labels);
        }
    }
    if let Some(spec) = set::child(object, "spec") {
        set::pointer(spec, "replicas", 1);
        pod::apply_template(spec, "template");
    }
}

/// Copies the labels of the pod template to an object without labels. Returns whether it did.
pub(super) fn copy_template_labels(object: &mut Object, labels: &Value) -> bool {
    match set::structure(object, "metadata") {
        Some(metadata) if set::is_empty(metadata.get("labels")) => {
            metadata.insert("labels".to_owned(), labels.clone());
            true
        }
        _ => false,
    }
}

fn service(object: &mut Object) {
    let Some(spec) = set::structure(object, "spec") else { return };
    set::text(spec, "sessionAffinity", "None");
    match set::string(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let timeout = spec
                .get("sessionAffinityConfig")
                .and_then(|config| config.pointer("/clientIP/timeoutSeconds"));
            if set::is_unset(timeout) {
                let config = json!({ "clientIP": { "timeoutSeconds": 10_800 } });
                spec.insert("sessionAffinityConfig".to_owned(), config);
            }
        }
        _ => {}
    }
    set::text(spec, "type", "ClusterIP");
    for port in set::items(spec, "ports") {
        set::text(port, "protocol", "TCP");
        let unset = match port.get("targetPort") {
            None | Some(Value::Null) => true,
            Some(Value::Number(number)) => number.as_i64() == Some(0),
            Some(Value::String(name)) => name.is_empty(),
            Some(_) => false,
        };
        if unset && let Some(number) = port.get("port").cloned() {
            port.insert("targetPort".to_owned(), number);
        }
    }
    let (load_balancer, node_port, cluster_ip) = match set::string(spec, "type") {
        "LoadBalancer" => (true, false, false),
        "NodePort" => (false, true, false),
        "ClusterIP" => (false, false, true),
        _ => (false, false, false),
    };
    let externally_accessible =
        load_balancer || node_port || (cluster_ip && !set::is_empty(spec.get("externalIPs")));
    if externally_accessible {
        set::text(spec, "externalTrafficPolicy", "Cluster");
    }
    if load_balancer || node_port || cluster_ip {
        set::text_pointer(spec, "internalTrafficPolicy", "Cluster");
    }
    if load_balancer {
        set::pointer(spec, "allocateLoadBalancerNodePorts", true);
        let status = set::child(object, "status").and_then(|s| set::child(s, "loadBalancer"));
        if let Some(balancer) = status {
            for ingress in set::items(balancer, "ingress") {
                if !set::string(ingress, "ip").is_empty() {
                    set::text_pointer(ingress, "ipMode", "VIP");
                }
            }
        }
    }
}

fn endpoints(object: &mut Object) {
    for subset in set::items(object, "subsets") {
        for port in set::items(subset, "ports") {
            set::text(port, "protocol", "TCP");
        }
    }
}

/// Adds the name of the namespace as a label, so that label selectors can match it.
fn namespace(object: &mut Object) {
    if let Some(metadata) = set::child(object, "metadata") {
        add_name_label(metadata);
    }
    if let Some(status) = set::structure(object, "status") {
        set::text(status, "phase", "Active");
    }
}

/// Sets the label `kubernetes.io/metadata.name` of a namespace that has a name.
pub(crate) fn add_name_label(metadata: &mut Object) {
    const LABEL: &str = "kubernetes.io/metadata.name";
    let name = set::string(metadata, "name");
    if name.is_empty() {
        return;
    }
    let name = Value::from(name);
    let Some(labels) = set::structure(metadata, "labels") else { return };
    if labels.get(LABEL) != Some(&name) {
        labels.insert(LABEL.to_owned(), name);
    }
}

fn node(object: &mut Object) {
    if let Some(status) = set::child(object, "status") {
        if set::is_unset(status.get("allocatable"))
            && let Some(capacity) = status.get("capacity").filter(|c| !c.is_null()).cloned()
        {
            status.insert("allocatable".to_owned(), capacity);
        }
        resources::round(status, "capacity");
        resources::round(status, "allocatable");
    }
    let Some(spec) = set::child(object, "spec") else { return };
    // `podCIDR` is the first of `podCIDRs`; if they differ, `podCIDR` wins.
    let single = set::string(spec, "podCIDR");
    let first = spec.get("podCIDRs").and_then(|list| list.pointer("/0")).and_then(Value::as_str);
    match first {
        Some(first) if single.is_empty() => {
            let first = Value::from(first);
            spec.insert("podCIDR".to_owned(), first);
        }
        first if !single.is_empty() && first != Some(single) => {
            let list = json!([single]);
            spec.insert("podCIDRs".to_owned(), list);
        }
        _ => {}
    }
}

fn limit_range(object: &mut Object) {
    let Some(spec) = set::child(object, "spec") else { return };
    for limit in set::items(spec, "limits") {
        if set::string(limit, "type") == "Container" {
            fill(limit, "default", "max");
            fill(limit, "defaultRequest", "default");
            fill(limit, "defaultRequest", "min");
        }
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            resources::round(limit, list);
        }
    }
}

/// Adds the entries of the list `from` that are missing in the list `into`.
fn fill(limit: &mut Object, into: &str, from: &str) {
    let Some(Value::Object(source)) = limit.get(from) else { return };
    if source.is_empty() {
        return;
    }
    let source = source.clone();
    let Some(target) = set::structure(limit, into) else { return };
    for (name, amount) in source {
        if !target.contains_key(&name) {
            target.insert(name, amount);
        }
    }
}

fn resource_quota(object: &mut Object) {
    if let Some(spec) = set::child(object, "spec") {
        resources::round(spec, "hard");
    }
    if let Some(status) = set::child(object, "status") {
        resources::round(status, "hard");
        resources::round(status, "used");
    }
}
