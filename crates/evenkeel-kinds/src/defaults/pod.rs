//! Defaults of Pods and pod templates.

use serde_json::Value;

use super::resources;
use super::set::{self, Object};
use super::volume;

/// Sets the defaults of a Pod: those of pod templates and those of Pods only.
pub(super) fn apply(pod: &mut Object) {
    drop_init_container_annotations(pod);
    if let Some(spec) = set::structure(pod, "spec") {
        for kind in ["containers", "initContainers"] {
            set::items(spec, kind).for_each(resources::set_requests_from_limits);
        }
        resources::default_pod_level(spec);
        set::pointer(spec, "enableServiceLinks", true);
        if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
            set_host_ports(spec);
        }
        apply_spec(spec);
        let grace = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
        if grace.is_some_and(|seconds| seconds < 0) {
            spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
        }
    }
    if let Some(status) = set::child(pod, "status") {
        for kind in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
            for container in set::items(status, kind) {
                resources::round(container, "allocatedResources");
                resources::round_requirements(container, "resources");
            }
        }
        resources::round(status, "allocatedResources");
        resources::round_requirements(status, "resources");
        sync_pod_ips(status);
    }
}

/// Sets the defaults of the pod template at `key`.
pub(super) fn apply_template(parent: &mut Object, key: &str) {
    if let Some(template) = set::child(parent, key) {
        drop_init_container_annotations(template);
        if let Some(spec) = set::structure(template, "spec") {
            apply_spec(spec);
        }
    }
}

fn apply_spec(spec: &mut Object) {
    set::text(spec, "dnsPolicy", "ClusterFirst");
    set::text(spec, "restartPolicy", "Always");
    set::structure(spec, "securityContext");
    set::pointer(spec, "terminationGracePeriodSeconds", 30);
    set::text(spec, "schedulerName", "default-scheduler");
    service_account(spec);
    set::items(spec, "volumes").for_each(volume::apply);
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        set::items(spec, kind).for_each(container);
    }
    resources::round(spec, "overhead");
    resources::round_requirements(spec, "resources");
}

/// Copies the service account name between its old and new field; the new field wins.
fn service_account(spec: &mut Object) {
    let (new, old) = (set::string(spec, "serviceAccountName"), set::string(spec, "serviceAccount"));
    if new == old {
        return;
    }
    if new.is_empty() {
        let name = Value::from(old);
        spec.insert("serviceAccountName".to_owned(), name);
    } else {
        let name = Value::from(new);
        spec.insert("serviceAccount".to_owned(), name);
    }
}

/// Sets the defaults of a container in a single pass over its fields, which is faster than looking
/// up every field that may have defaults.
fn container(container: &mut Object) {
    let (mut pull, mut path, mut policy) = (true, true, true);
    for (key, value) in container.iter_mut() {
        match key.as_str() {
            "imagePullPolicy" => pull = is_blank(value),
            "terminationMessagePath" => path = is_blank(value),
            "terminationMessagePolicy" => policy = is_blank(value),
            "ports" => each(value, |port| set::text(port, "protocol", "TCP")),
            "env" => each(value, |variable| {
                if let Some(origin) = set::child(variable, "valueFrom") {
                    value_from(origin);
                }
            }),
            "resources" => {
                if let Some(requirements) = value.as_object_mut() {
                    resources::round(requirements, "limits");
                    resources::round(requirements, "requests");
                }
            }
            "livenessProbe" | "readinessProbe" | "startupProbe" => {
                if let Some(found) = value.as_object_mut() {
                    probe(found);
                }
            }
            "lifecycle" => {
                if let Some(hooks) = value.as_object_mut() {
                    hooks.values_mut().filter_map(Value::as_object_mut).for_each(http_get);
                }
            }
            _ => {}
        }
    }
    if pull {
        let policy = super::image::pull_policy(set::string(container, "image"));
        container.insert("imagePullPolicy".to_owned(), policy.into());
    }
    if path {
        container.insert("terminationMessagePath".to_owned(), "/dev/termination-log".into());
    }
    if policy {
        container.insert("terminationMessagePolicy".to_owned(), "File".into());
    }
}

/// Returns whether the value is an unset or empty string.
fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(str::is_empty)
}

fn each(list: &mut Value, f: impl FnMut(&mut Object)) {
    if let Some(list) = list.as_array_mut() {
        list.iter_mut().filter_map(Value::as_object_mut).for_each(f);
    }
}

fn value_from(origin: &mut Object) {
    volume::field_ref(origin);
    if let Some(file) = set::child(origin, "fileKeyRef") {
        set::pointer(file, "optional", false);
    }
}

fn probe(probe: &mut Object) {
    set::number(probe, "timeoutSeconds", 1);
    set::number(probe, "periodSeconds", 10);
    set::number(probe, "successThreshold", 1);
    set::number(probe, "failureThreshold", 3);
    http_get(probe);
    if let Some(grpc) = set::child(probe, "grpc") {
        set::text_pointer(grpc, "service", "");
    }
}

fn http_get(handler: &mut Object) {
    if let Some(get) = set::child(handler, "httpGet") {
        set::text(get, "path", "/");
        set::text(get, "scheme", "HTTP");
    }
}

/// Sets host ports to container ports for a pod in the host network.
fn set_host_ports(spec: &mut Object) {
    for kind in ["containers", "initContainers"] {
        for container in set::items(spec, kind) {
            for port in set::items(container, "ports") {
                let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or(0);
                if number != 0 {
                    set::number(port, "hostPort", number);
                }
            }
        }
    }
}

/// Syncs `podIP` with the first of `podIPs`; if they differ, `podIP` wins.
fn sync_pod_ips(status: &mut Object) {
    let address = set::string(status, "podIP");
    let first = status.get("podIPs").and_then(|ips| ips.pointer("/0/ip")).and_then(Value::as_str);
    match first {
        Some(first) if address.is_empty() => {
            let first = Value::from(first);
            status.insert("podIP".to_owned(), first);
        }
        first if !address.is_empty() && first != Some(address) => {
            let list = serde_json::json!([{ "ip": address }]);
            status.insert("podIPs".to_owned(), list);
        }
        _ => {}
    }
}

fn drop_init_container_annotations(parent: &mut Object) {
    let Some(metadata) = set::child(parent, "metadata") else { return };
    let Some(annotations) = set::child(metadata, "annotations") else { return };
    for name in [
        "pod.beta.kubernetes.io/init-containers",
        "pod.alpha.kubernetes.io/init-containers",
        "pod.beta.kubernetes.io/init-container-statuses",
        "pod.alpha.kubernetes.io/init-container-statuses",
    ] {
        annotations.remove(name);
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}
