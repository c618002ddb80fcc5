//! Prepares Pods.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_types::quantity::Quantity;
use serde_json::{Value, json};

use super::Context;
use super::prepare::{copy_field, keep_metadata};
use super::table::ALL_METADATA;
use crate::defaults::set::{self, Object};

/// Sets the status of a new pod: phase Pending and the QoS class of its resources.
pub(super) fn create(pod: &mut Object, cx: &Context<'_>) {
    let class = set::get(pod, "status").map_or("", |status| set::string(status, "qosClass"));
    let empty = Object::new();
    let class = match class {
        "" => qos_class(set::get(pod, "spec").unwrap_or(&empty)),
        class => class,
    };
    let mut status = json!({ "phase": "Pending", "qosClass": class });
    let gates = set::get(pod, "spec").and_then(|spec| spec.get("schedulingGates"));
    if !set::is_empty(gates) {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": cx.now,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod.insert("status".to_owned(), status);
    merge_label_keys_into_selectors(pod);
    copy_app_armor_annotations(pod);
}

/// Prepares an update of a pod's status.
pub(super) fn update_status(old: &Object, new: &mut Object) {
    keep_metadata(old, new, &["deletionTimestamp"]);
    let empty = Object::new();
    let old = set::get(old, "status").unwrap_or(&empty);
    let Some(new) = set::structure(new, "status") else { return };
    if set::string(new, "qosClass").is_empty() {
        copy_field(old, new, "qosClass");
    }
    if generation(new) == 0 {
        copy_field(old, new, "observedGeneration");
    }
    keep_condition_generations(old, new);
    drop_disabled_status(old, new);
}

fn generation(parent: &Object) -> i64 {
    parent.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0)
}

/// Keeps `observedGeneration` of conditions that are written without it.
fn keep_condition_generations(old: &Object, new: &mut Object) {
    let mut known: BTreeMap<&str, VecDeque<i64>> = BTreeMap::new();
    for condition in set::list(old, "conditions") {
        known.entry(set::string(condition, "type")).or_default().push_back(generation(condition));
    }
    for condition in set::items(new, "conditions") {
        let before = known.get_mut(set::string(condition, "type")).and_then(VecDeque::pop_front);
        if let Some(before) = before
            && before != 0
            && generation(condition) == 0
        {
            condition.insert("observedGeneration".to_owned(), before.into());
        }
    }
}

/// Drops the status fields of disabled features.
fn drop_disabled_status(old: &Object, new: &mut Object) {
    const CLAIMS: &str = "nodeAllocatableResourceClaimStatuses";
    const STATUSES: [&str; 3] =
        ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    if set::is_empty(old.get(CLAIMS)) {
        new.remove(CLAIMS);
    }
    let in_use = STATUSES.iter().any(|kind| {
        set::list(old, kind).any(|container| {
            set::list(container, "volumeMounts").any(|mount| mount.contains_key("volumeStatus"))
        })
    });
    if in_use {
        return;
    }
    for kind in STATUSES {
        for container in set::items(new, kind) {
            for mount in set::items(container, "volumeMounts") {
                mount.remove("volumeStatus");
            }
        }
    }
}

/// Takes only the ephemeral containers from the new object.
pub(super) fn update_ephemeral_containers(old: &Object, new: &mut Object) {
    let containers = set::child(new, "spec").and_then(|spec| spec.remove("ephemeralContainers"));
    restore(old, new);
    if let Some(spec) = set::structure(new, "spec") {
        match containers {
            Some(containers) => spec.insert("ephemeralContainers".to_owned(), containers),
            None => spec.remove("ephemeralContainers"),
        };
    }
}

/// Takes only the resources and resize policies, of containers and of the pod, from the new object.
///
/// If containers were added or removed, the pod is not changed because validation will reject it.
pub(super) fn resize(old: &Object, new: &mut Object) {
    let count = |pod: &Object, kind: &str| {
        set::get(pod, "spec").map_or(0, |spec| set::list(spec, kind).count())
    };
    let kinds = ["containers", "initContainers"];
    if kinds.iter().any(|kind| count(old, kind) != count(new, kind)) {
        return;
    }
    let Some(Value::Object(wanted)) = new.remove("spec") else { return };
    restore(old, new);
    let Some(spec) = set::structure(new, "spec") else { return };
    copy_field(&wanted, spec, "resources");
    for kind in kinds {
        let names = |spec: &Object| -> Vec<String> {
            set::list(spec, kind).map(|c| set::string(c, "name").to_owned()).collect()
        };
        if names(spec) != names(&wanted) {
            copy_field(&wanted, spec, kind);
            continue;
        }
        for (container, wanted) in set::items(spec, kind).zip(set::list(&wanted, kind)) {
            copy_field(wanted, container, "resources");
            copy_field(wanted, container, "resizePolicy");
        }
    }
}

fn restore(old: &Object, new: &mut Object) {
    copy_field(old, new, "spec");
    copy_field(old, new, "status");
    keep_metadata(old, new, ALL_METADATA);
}

/// Returns the grace period of a pod in seconds, given the one requested by the delete. Zero for
/// pods that are not scheduled or have finished.
pub fn grace_period(pod: &Value, requested: Option<i64>) -> i64 {
    let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default();
    if text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Failed" | "Succeeded")
    {
        return 0;
    }
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    match requested.or(own).unwrap_or(0) {
        negative if negative < 0 => 1,
        period => period,
    }
}

/// Returns the QoS class of a pod. Mirrors upstream's `ComputePodQOS`.
pub(crate) fn qos_class(spec: &Object) -> &'static str {
    // Sums of the positive quantities of CPU and memory.
    type Sums = [Option<Quantity>; 2];
    fn add(sums: &mut Sums, resources: Option<&Object>, list: &str) -> bool {
        let Some(list) = resources.and_then(|resources| set::get(resources, list)) else {
            return false;
        };
        let mut found = 0;
        for (sum, name) in sums.iter_mut().zip(["cpu", "memory"]) {
            let amount = Quantity::parse(set::string(list, name));
            if let Some(amount) = amount.ok().filter(|amount| amount.sign().is_gt()) {
                sum.get_or_insert(Quantity::ZERO).add(&amount);
                found += 1;
            }
        }
        found == 2
    }
    let (mut requests, mut limits): (Sums, Sums) = ([None, None], [None, None]);
    let mut bounded = true;
    if let Some(resources) = set::get(spec, "resources") {
        add(&mut requests, Some(resources), "requests");
        let both = add(&mut limits, Some(resources), "limits");
        bounded = both || set::is_empty(resources.get("limits"));
    } else {
        for kind in ["containers", "initContainers"] {
            for container in set::list(spec, kind) {
                let resources = set::get(container, "resources");
                add(&mut requests, resources, "requests");
                bounded &= add(&mut limits, resources, "limits");
            }
        }
    }
    if requests == [None, None] && limits == [None, None] {
        "BestEffort"
    } else if bounded && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Merges `matchLabelKeys` and `mismatchLabelKeys` into the selectors of pod affinity terms and
/// topology spread constraints.
fn merge_label_keys_into_selectors(pod: &mut Object) {
    let spec = set::get(pod, "spec");
    let has_affinity = spec.and_then(|spec| set::get(spec, "affinity")).is_some();
    let has_spread_constraints =
        spec.is_some_and(|spec| !set::is_empty(spec.get("topologySpreadConstraints")));
    if !has_affinity && !has_spread_constraints {
        return;
    }
    let labels = set::get(pod, "metadata")
        .and_then(|metadata| set::get(metadata, "labels"))
        .cloned()
        .unwrap_or_default();
    let Some(spec) = set::child(pod, "spec") else { return };
    if let Some(affinity) = set::child(spec, "affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(terms) = set::child(affinity, kind) else { continue };
            for weighted in set::items(terms, "preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = set::child(weighted, "podAffinityTerm") {
                    merge_label_keys(term, &labels);
                }
            }
            for term in set::items(terms, "requiredDuringSchedulingIgnoredDuringExecution") {
                merge_label_keys(term, &labels);
            }
        }
    }
    for constraint in set::items(spec, "topologySpreadConstraints") {
        merge_label_keys(constraint, &labels);
    }
}

fn merge_label_keys(term: &mut Object, labels: &Object) {
    let mut expressions = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(field).and_then(Value::as_array).into_iter().flatten();
        for key in keys.filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                let values = [value];
                expressions.push(json!({ "key": key, "operator": operator, "values": values }));
            }
        }
    }
    if expressions.is_empty() {
        return;
    }
    let Some(selector) = set::child(term, "labelSelector") else { return };
    match selector.get_mut("matchExpressions") {
        Some(Value::Array(list)) => list.extend(expressions),
        _ => {
            selector.insert("matchExpressions".to_owned(), Value::Array(expressions));
        }
    }
}

/// Prefix of the annotations that name the AppArmor profile of a container.
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Parses the profile in an annotation.
pub(super) fn app_armor_profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({ "type": "Unconfined" })),
        "runtime/default" => Some(json!({ "type": "RuntimeDefault" })),
        other => match other.strip_prefix("localhost/") {
            Some(profile) if !profile.is_empty() => {
                Some(json!({ "type": "Localhost", "localhostProfile": profile }))
            }
            _ => None,
        },
    }
}

/// Copies AppArmor profiles from annotations to the fields that replaced them.
fn copy_app_armor_annotations(pod: &mut Object) {
    let annotated = set::get(pod, "metadata")
        .and_then(|metadata| set::get(metadata, "annotations"))
        .is_some_and(|annotations| annotations.keys().any(|key| key.starts_with(APP_ARMOR)));
    if !annotated {
        return;
    }
    let annotations = set::get(pod, "metadata")
        .and_then(|metadata| set::get(metadata, "annotations"))
        .cloned()
        .unwrap_or_default();
    let Some(spec) = set::child(pod, "spec") else { return };
    if set::get(spec, "os").is_some_and(|os| set::string(os, "name") == "windows") {
        return;
    }
    let of_pod =
        set::get(spec, "securityContext").and_then(|sc| sc.get("appArmorProfile")).cloned();
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for container in set::items(spec, kind) {
            let key = format!("{APP_ARMOR}{}", set::string(container, "name"));
            let Some(profile) =
                annotations.get(&key).and_then(Value::as_str).and_then(app_armor_profile)
            else {
                continue;
            };
            let own = set::get(container, "securityContext")
                .is_some_and(|sc| !set::is_unset(sc.get("appArmorProfile")));
            if !own
                && of_pod.as_ref() != Some(&profile)
                && let Some(sc) = set::structure(container, "securityContext")
            {
                sc.insert("appArmorProfile".to_owned(), profile);
            }
        }
    }
}
