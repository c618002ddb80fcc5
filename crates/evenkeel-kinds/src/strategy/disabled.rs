//! Drops fields of features that are disabled by default in 1.36.
//!
//! Fields are dropped silently, unless the stored object already uses them.

use std::collections::BTreeSet;

use evenkeel_types::Gvk;
use serde_json::Value;

use crate::defaults::set::{self, Object};

/// Drops the fields of disabled features.
pub(super) fn drop_fields(gvk: Gvk<'_>, old: Option<&Object>, new: &mut Object) {
    match (gvk.group, gvk.kind) {
        ("", "Pod") => drop_pod_fields(spec(old), set::child(new, "spec")),
        ("", "PodTemplate") => drop_template_fields(old, new),
        ("", "ReplicationController") | ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => {
            drop_spec_template_fields(old, new);
        }
        ("apps", "StatefulSet") => {
            drop_spec_template_fields(old, new);
            drop_max_unavailable(spec(old), new);
        }
        ("batch", "Job") => drop_spec_template_fields(old, new),
        ("batch", "CronJob") => {
            let old = spec(old).and_then(|spec| set::get(spec, "jobTemplate"));
            let new = set::child(new, "spec").and_then(|spec| set::child(spec, "jobTemplate"));
            if let Some(new) = new {
                drop_spec_template_fields(old, new);
            }
        }
        ("coordination.k8s.io", "Lease") => {
            drop_spec_fields(old, new, &["strategy", "preferredHolder"]);
        }
        ("storage.k8s.io", "CSIDriver") => {
            drop_spec_fields(old, new, &["preventPodSchedulingIfMissing"]);
        }
        ("discovery.k8s.io", "EndpointSlice") => drop_topology(old, new),
        ("resource.k8s.io", "ResourceSlice") => drop_device_fields(spec(old), new),
        _ => {}
    }
}

fn spec(object: Option<&Object>) -> Option<&Object> {
    set::get(object?, "spec")
}

fn drop_spec_template_fields(old: Option<&Object>, new: &mut Object) {
    if let Some(new) = set::child(new, "spec") {
        drop_template_fields(spec(old), new);
    }
}

fn drop_template_fields(old: Option<&Object>, new: &mut Object) {
    let old = old.and_then(|old| set::get(old, "template"));
    if let Some(template) = set::child(new, "template") {
        drop_pod_fields(spec(old), set::child(template, "spec"));
    }
}

fn drop_pod_fields(old: Option<&Object>, new: Option<&mut Object>) {
    let Some(new) = new else { return };
    if !old.is_some_and(|old| old.contains_key("schedulingGroup")) {
        new.remove("schedulingGroup");
    }
    for source in ["clusterTrustBundle", "podCertificate"] {
        let in_use = old.is_some_and(|old| uses_projection(old, source));
        if !in_use {
            drop_projection(new, source);
        }
    }
    if !old.is_some_and(uses_stop_signals) {
        drop_stop_signals(new);
    }
}

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

fn uses_projection(spec: &Object, source: &str) -> bool {
    set::list(spec, "volumes")
        .filter_map(|volume| set::get(volume, "projected"))
        .any(|projected| set::list(projected, "sources").any(|part| part.contains_key(source)))
}

fn drop_projection(spec: &mut Object, source: &str) {
    for volume in set::items(spec, "volumes") {
        if let Some(projected) = set::child(volume, "projected") {
            set::items(projected, "sources").for_each(|part| {
                part.remove(source);
            });
        }
    }
}

fn uses_stop_signals(spec: &Object) -> bool {
    CONTAINERS.iter().any(|kind| {
        set::list(spec, kind).any(|container| {
            set::get(container, "lifecycle").is_some_and(|hooks| hooks.contains_key("stopSignal"))
        })
    })
}

fn drop_stop_signals(spec: &mut Object) {
    for kind in CONTAINERS {
        for container in set::items(spec, kind) {
            let Some(lifecycle) = set::child(container, "lifecycle") else { continue };
            if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
                container.remove("lifecycle");
            }
        }
    }
}

fn drop_max_unavailable(old: Option<&Object>, new: &mut Object) {
    let update = |spec: &Object| {
        set::get(spec, "updateStrategy")
            .and_then(|strategy| set::get(strategy, "rollingUpdate"))
            .cloned()
    };
    if old.and_then(update).is_some_and(|update| update.contains_key("maxUnavailable")) {
        return;
    }
    let update = set::child(new, "spec")
        .and_then(|spec| set::child(spec, "updateStrategy"))
        .and_then(|strategy| set::child(strategy, "rollingUpdate"));
    if let Some(update) = update {
        update.remove("maxUnavailable");
    }
}

fn drop_spec_fields(old: Option<&Object>, new: &mut Object, fields: &[&str]) {
    let Some(new) = set::child(new, "spec") else { return };
    for field in fields {
        if !spec(old).is_some_and(|old| old.contains_key(*field)) {
            new.remove(*field);
        }
    }
}

/// Drops `deprecatedTopology`, a field of the beta version. Keeps its host name as `nodeName`.
fn drop_topology(old: Option<&Object>, new: &mut Object) {
    const HOST: &str = "kubernetes.io/hostname";
    if old.is_some_and(|old| old.get("endpoints") == new.get("endpoints")) {
        return;
    }
    let host = |endpoint: &Object| {
        let topology = set::get(endpoint, "deprecatedTopology")?;
        Some(topology.get(HOST)?.as_str()?.to_owned())
    };
    let known: BTreeSet<String> =
        old.into_iter().flat_map(|old| set::list(old, "endpoints")).filter_map(host).collect();
    for endpoint in set::items(new, "endpoints") {
        if let Some(host) = host(endpoint)
            && known.contains(&host)
        {
            set::pointer(endpoint, "nodeName", host);
        }
        endpoint.remove("deprecatedTopology");
    }
}

fn drop_device_fields(old: Option<&Object>, new: &mut Object) {
    const MAPPINGS: &str = "nodeAllocatableResourceMappings";
    const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
    let maps = |device: &Object| device.contains_key(MAPPINGS);
    let lists = |device: &Object| {
        set::get(device, "attributes").is_some_and(|attributes| {
            attributes.values().any(|value| LISTS.iter().any(|list| value.get(*list).is_some()))
        })
    };
    let keeps_mappings = old.is_some_and(|old| set::list(old, "devices").any(maps));
    let keeps_lists = old.is_some_and(|old| set::list(old, "devices").any(lists));
    let Some(spec) = set::child(new, "spec") else { return };
    for device in set::items(spec, "devices") {
        if !keeps_mappings {
            device.remove(MAPPINGS);
        }
        if !keeps_lists && let Some(attributes) = set::child(device, "attributes") {
            for attribute in attributes.values_mut().filter_map(Value::as_object_mut) {
                for list in LISTS {
                    attribute.remove(list);
                }
            }
        }
    }
}
