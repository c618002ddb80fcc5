//! Warnings that the server returns in `Warning` headers.
//!
//! Warnings never change the outcome of a request.

mod address;
mod pod;
mod storage;
mod volume;

use evenkeel_types::Gvk;
use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::workloads;
use crate::defaults::set::{self, Object};

/// Maximum number of warnings per element. All headers together are truncated to 4,096 bytes.
const MAX_PER_ELEMENT: usize = 32;

/// Returns the warning for every use of a deprecated kind.
pub fn deprecated_kind(gvk: Gvk<'_>) -> Option<&'static str> {
    match (gvk.group, gvk.kind) {
        ("", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => None,
    }
}

/// Returns the warnings for a new object, in upstream's order.
pub fn on_create(gvk: Gvk<'_>, object: &Value) -> Vec<String> {
    let Some(object) = object.as_object() else { return Vec::new() };
    let mut warnings = Vec::new();
    if let ("" | "apps" | "batch", kind) = (gvk.group, gvk.kind) {
        match kind {
            "Pod" => {
                pod::app_armor_on_create(object, &mut warnings);
                host_name(object, "the Pod's hostname", &mut warnings);
            }
            "Deployment" | "ReplicaSet" | "ReplicationController" | "Job" | "CronJob" => {
                host_name(object, "Pod names and hostnames", &mut warnings);
            }
            _ => {}
        }
    }
    match (gvk.group, gvk.kind) {
        ("", "Pod") => pod::warn_about_pod(object, &mut warnings),
        ("", "ResourceQuota") => warn_about_quota(object, &mut warnings),
        ("networking.k8s.io", "Ingress") => warn_about_ingress(object, &mut warnings),
        ("storage.k8s.io", "CSIDriver") => storage::warn_about_driver(None, object, &mut warnings),
        ("discovery.k8s.io", "EndpointSlice") => {
            if set::string(object, "addressType") == "FQDN" {
                warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
            }
            address::check_endpoint_slice(object, &mut warnings);
        }
        ("admissionregistration.k8s.io", _) => static_name(object, &mut warnings),
        _ => add_common_warnings(gvk, None, object, &mut warnings),
    }
    warn_about_job_size(gvk, object, &mut warnings);
    if let Some((template, base)) = template(gvk, object) {
        pod::warn_about_template(template, base, &mut warnings);
    }
    if gvk.kind == "StatefulSet" {
        warn_about_stateful_set(object, "", &mut warnings);
    }
    warnings
}

/// Returns the warnings for an update. The generation must already be incremented.
pub fn on_update(gvk: Gvk<'_>, old: &Value, new: &Value) -> Vec<String> {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return Vec::new() };
    let mut warnings = Vec::new();
    let generation = |object: &Object| match gvk.kind {
        // DaemonSets count template changes separately.
        "DaemonSet" => workloads::template_generation(object),
        _ => set::get(object, "metadata")
            .and_then(|metadata| metadata.get("generation")?.as_i64())
            .unwrap_or(0),
    };
    if generation(old) != generation(new) {
        warn_about_job_size(gvk, new, &mut warnings);
        // Like upstream, checks the old template of a ReplicationController.
        let subject = if gvk.kind == "ReplicationController" { old } else { new };
        if let Some((template, base)) = template(gvk, subject) {
            pod::warn_about_template(template, base, &mut warnings);
        }
    }
    match (gvk.group, gvk.kind) {
        ("apps", "StatefulSet") => warn_about_stateful_set(new, ".Spec", &mut warnings),
        ("batch", "CronJob") => warn_about_schedule(new, &mut warnings),
        ("storage.k8s.io", "CSIDriver") => {
            storage::warn_about_driver(Some(old), new, &mut warnings)
        }
        ("discovery.k8s.io", "EndpointSlice") => address::check_endpoint_slice(new, &mut warnings),
        ("admissionregistration.k8s.io", _) => static_name(new, &mut warnings),
        _ => add_common_warnings(gvk, Some(old), new, &mut warnings),
    }
    warnings
}

/// Adds the warnings that creates and updates have in common.
fn add_common_warnings(
    gvk: Gvk<'_>,
    old: Option<&Object>,
    object: &Object,
    warnings: &mut Vec<String>,
) {
    match (gvk.group, gvk.kind) {
        ("", "Service") => warn_about_service(object, warnings),
        ("", "ServiceAccount") => warn_about_service_account(old, object, warnings),
        ("", "PersistentVolumeClaim") => storage::warn_about_claim(object, warnings),
        ("", "PersistentVolume") => storage::warn_about_volume(object, warnings),
        ("", "Node") => warn_about_node(object, warnings),
        ("", "Endpoints") => address::check_endpoints(object, warnings),
        ("networking.k8s.io", "NetworkPolicy") => address::check_network_policy(object, warnings),
        ("node.k8s.io", "RuntimeClass") => {
            let selector = set::get(object, "scheduling").and_then(|s| set::get(s, "nodeSelector"));
            for key in selector.into_iter().flat_map(Object::keys) {
                if let Some(message) = deprecated_node_label(key) {
                    warnings.push(format!("scheduling.nodeSelector: {message}"));
                }
            }
        }
        ("storage.k8s.io", "StorageClass") => {
            for (i, topology) in set::list(object, "allowedTopologies").enumerate() {
                for (j, label) in set::list(topology, "matchLabelExpressions").enumerate() {
                    if let Some(message) = deprecated_node_label(set::string(label, "key")) {
                        warnings.push(format!(
                            "allowedTopologies[{i}].matchLabelExpressions[{j}].key: {message}"
                        ));
                    }
                }
            }
        }
        ("storage.k8s.io", "CSIStorageCapacity") => {
            let Some(topology) = set::get(object, "nodeTopology") else { return };
            pod::warn_about_node_selector_term(topology, "nodeTopology", warnings);
            for key in set::get(topology, "matchLabels").into_iter().flat_map(Object::keys) {
                if let Some(message) = deprecated_node_label(key) {
                    warnings.push(format!("nodeTopology.matchLabels.{key}: {message}"));
                }
            }
        }
        ("resource.k8s.io", "ResourceSlice") => {
            let driver = set::get(object, "spec").map_or("", |spec| set::string(spec, "driver"));
            if driver.chars().any(char::is_uppercase) {
                warnings.push(format!(
                    "spec.driver: driver names should be lowercase; {driver:?} contains uppercase \
                     characters"
                ));
            }
        }
        _ => {}
    }
}

/// Returns the pod template of a workload and its path with a trailing dot.
fn template<'a>(gvk: Gvk<'_>, object: &'a Object) -> Option<(&'a Object, &'static str)> {
    let spec = set::get(object, "spec");
    match (gvk.group, gvk.kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("", "ReplicationController")
        | ("batch", "Job") => Some((set::get(spec?, "template")?, "spec.template.")),
        ("batch", "CronJob") => {
            let job = set::get(set::get(spec?, "jobTemplate")?, "spec")?;
            Some((set::get(job, "template")?, "spec.jobTemplate.spec.template."))
        }
        ("", "PodTemplate") => Some((set::get(object, "template")?, "template.")),
        _ => None,
    }
}

/// Warns about large Indexed Jobs, whose completed indexes may not fit in the status.
fn warn_about_job_size(gvk: Gvk<'_>, object: &Object, warnings: &mut Vec<String>) {
    let (path, spec) = match (gvk.group, gvk.kind) {
        ("batch", "Job") => ("spec", set::get(object, "spec")),
        ("batch", "CronJob") => (
            "spec.jobTemplate.spec",
            set::get(object, "spec")
                .and_then(|spec| set::get(spec, "jobTemplate"))
                .and_then(|template| set::get(template, "spec")),
        ),
        _ => return,
    };
    let Some(spec) = spec else { return };
    let number = |key: &str| spec.get(key).and_then(Value::as_i64).unwrap_or(0);
    if set::string(spec, "completionMode") == "Indexed"
        && number("completions") > 100_000
        && number("parallelism") > 10_000
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a \
             parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes \
             when a big number of indexes fail"
        ));
    }
}

fn annotations(object: &Object) -> Option<&Object> {
    set::get(set::get(object, "metadata")?, "annotations")
}

/// Warns about names that are used in host names and are not a DNS label.
fn host_name(object: &Object, used_in: &str, warnings: &mut Vec<String>) {
    let name = set::get(object, "metadata").map_or("", |metadata| set::string(metadata, "name"));
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push("must be no more than 63 bytes");
    }
    if !is_label(name) {
        problems.push(if name.split('.').all(is_label) {
            "must not contain dots"
        } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
             '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
             '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        });
    }
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a \
             DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
}

/// Returns the replacement of a deprecated node label.
fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#,
        "beta.kubernetes.io/os" => r#"deprecated since v1.14; use "kubernetes.io/os" instead"#,
        "failure-domain.beta.kubernetes.io/region" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#
        }
        "beta.kubernetes.io/instance-type" => {
            r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => {
            r#"use "node-role.kubernetes.io/control-plane" instead"#
        }
        _ => return None,
    })
}

fn static_name(object: &Object, warnings: &mut Vec<String>) {
    let name = set::get(object, "metadata").map_or("", |metadata| set::string(metadata, "name"));
    if name.ends_with(".static.k8s.io") {
        warnings.push(
            r#"metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API"#
                .to_owned(),
        );
    }
}

fn warn_about_service(object: &Object, warnings: &mut Vec<String>) {
    let mut warn = |text: &str| warnings.push(text.to_owned());
    if annotations(object)
        .is_some_and(|all| all.contains_key("service.kubernetes.io/topology-aware-hints"))
    {
        warn(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
             service.kubernetes.io/topology-mode instead",
        );
    }
    let Some(spec) = set::get(object, "spec") else { return };
    let kind = set::string(spec, "type");
    let has_external = !set::is_empty(spec.get("externalIPs"));
    let headless = kind == "ClusterIP" && set::string(spec, "clusterIP") == "None";
    if headless {
        if !set::string(spec, "loadBalancerIP").is_empty() {
            warn("spec.loadBalancerIP is ignored for headless services");
        }
        if has_external {
            warn("spec.externalIPs is ignored for headless services");
        }
        if set::string(spec, "sessionAffinity") != "None" {
            warn("spec.SessionAffinity is ignored for headless services");
        }
    } else {
        address::check_list(spec, "clusterIPs", "spec.clusterIPs", warnings);
    }
    address::check_list(spec, "externalIPs", "spec.externalIPs", warnings);
    if has_external && !headless && kind != "ExternalName" {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        );
    }
    address::check_address("spec.loadBalancerIP", set::string(spec, "loadBalancerIP"), warnings);
    address::check_ranges(
        spec,
        "loadBalancerSourceRanges",
        "spec.loadBalancerSourceRanges",
        warnings,
    );
    let mut warn = |text: &str| warnings.push(text.to_owned());
    if kind == "ExternalName" && has_external {
        warn(r#"spec.externalIPs is ignored when spec.type is "ExternalName""#);
    }
    if kind != "ExternalName" && !set::string(spec, "externalName").is_empty() {
        warn(r#"spec.externalName is ignored when spec.type is not "ExternalName""#);
    }
    if set::string(spec, "trafficDistribution") == "PreferClose" {
        warn(r#"spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#);
    }
}

fn warn_about_service_account(old: Option<&Object>, object: &Object, warnings: &mut Vec<String>) {
    const KEY: &str = "kubernetes.io/enforce-mountable-secrets";
    let has = |object: &Object| annotations(object).is_some_and(|all| all.contains_key(KEY));
    if has(object) && !old.is_some_and(has) {
        warnings.push(format!(
            "metadata.annotations[{KEY}]: deprecated in v1.32+; prefer separate namespaces to \
             isolate access to mounted secrets"
        ));
    }
}

fn warn_about_node(object: &Object, warnings: &mut Vec<String>) {
    let Some(spec) = set::get(object, "spec") else { return };
    if spec.contains_key("configSource") {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !set::string(spec, "externalID").is_empty() {
        warnings.push(
            "spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned(),
        );
    }
    address::check_ranges(spec, "podCIDRs", "spec.podCIDRs", warnings);
}

fn warn_about_quota(object: &Object, warnings: &mut Vec<String>) {
    let Some(hard) = set::get(object, "spec").and_then(|spec| set::get(spec, "hard")) else {
        return;
    };
    for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let limit_name = format!("limits.{name}");
        let mut request_name = format!("requests.{name}");
        if !hard.contains_key(&request_name) && matches!(name, "cpu" | "memory") {
            name.clone_into(&mut request_name);
        }
        let amount = |name: &str| Quantity::parse(set::string(hard, name)).ok();
        if let (Some(request), Some(limit)) = (amount(&request_name), amount(&limit_name))
            && request > limit
        {
            warnings.push(format!(
                "ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})"
            ));
        }
    }
}

fn warn_about_ingress(object: &Object, warnings: &mut Vec<String>) {
    const KEY: &str = "kubernetes.io/ingress.class";
    let named =
        set::get(object, "spec").is_some_and(|spec| !set::is_unset(spec.get("ingressClassName")));
    if !named && annotations(object).is_some_and(|all| all.contains_key(KEY)) {
        warnings.push(format!(
            "annotation {KEY:?} is deprecated, please use 'spec.ingressClassName' instead"
        ));
    }
}

fn warn_about_stateful_set(object: &Object, claim_suffix: &str, warnings: &mut Vec<String>) {
    let Some(spec) = set::get(object, "spec") else { return };
    for (i, claim) in set::list(spec, "volumeClaimTemplates").enumerate() {
        if let Some(claim) = set::get(claim, "spec") {
            let path = format_args!("spec.volumeClaimTemplates[{i}]{claim_suffix}");
            storage::warn_about_claim_spec(claim, path, warnings);
        }
    }
    let limit = spec.get("revisionHistoryLimit").and_then(Value::as_i64);
    if limit.is_some_and(|limit| limit < 0) {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a \
             value >= 0 is recommended"
                .to_owned(),
        );
    }
}

fn warn_about_schedule(object: &Object, warnings: &mut Vec<String>) {
    let schedule = set::get(object, "spec").map_or("", |spec| set::string(spec, "schedule"));
    if schedule.contains("TZ") {
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
}
