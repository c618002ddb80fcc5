//! Defaults of the smaller API groups.

use serde_json::{Value, json};

use super::set::{self, Object};
use super::volume;

/// Sets the defaults of an object of `autoscaling/v1`. Conversion sets the CPU target of this
/// version because it depends on metrics in the annotations.
pub(super) fn autoscaling_v1(kind: &str, object: &mut Object) {
    if kind == "HorizontalPodAutoscaler"
        && let Some(spec) = set::child(object, "spec")
    {
        set::pointer(spec, "minReplicas", 1);
    }
}

/// Sets the defaults of an object of `autoscaling/v2`.
pub(super) fn autoscaling_v2(kind: &str, object: &mut Object) {
    if kind != "HorizontalPodAutoscaler" {
        return;
    }
    let Some(spec) = set::child(object, "spec") else { return };
    set::pointer(spec, "minReplicas", 1);
    if set::is_empty(spec.get("metrics")) {
        let cpu = json!([{
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": 80 },
            },
        }]);
        spec.insert("metrics".to_owned(), cpu);
    }
    let Some(behavior) = set::child(spec, "behavior") else { return };
    if let Some(up) = set::structure(behavior, "scaleUp") {
        set::text_pointer(up, "selectPolicy", "Max");
        set::pointer(up, "stabilizationWindowSeconds", 0);
        if set::is_unset(up.get("policies")) {
            let policies = json!([
                { "type": "Pods", "value": 4, "periodSeconds": 15 },
                { "type": "Percent", "value": 100, "periodSeconds": 15 },
            ]);
            up.insert("policies".to_owned(), policies);
        }
    }
    if let Some(down) = set::structure(behavior, "scaleDown") {
        set::text_pointer(down, "selectPolicy", "Max");
        if set::is_unset(down.get("policies")) {
            let policies = json!([{ "type": "Percent", "value": 100, "periodSeconds": 15 }]);
            down.insert("policies".to_owned(), policies);
        }
    }
}

/// Sets the defaults of an object of `networking.k8s.io/v1`.
pub(super) fn networking(kind: &str, object: &mut Object) {
    let Some(spec) = set::child(object, "spec") else { return };
    match kind {
        "NetworkPolicy" => {
            if set::is_empty(spec.get("policyTypes")) {
                let types = if set::is_empty(spec.get("egress")) {
                    json!(["Ingress"])
                } else {
                    json!(["Ingress", "Egress"])
                };
                spec.insert("policyTypes".to_owned(), types);
            }
            for direction in ["ingress", "egress"] {
                for rule in set::items(spec, direction) {
                    for port in set::items(rule, "ports") {
                        set::text_pointer(port, "protocol", "TCP");
                    }
                }
            }
        }
        "IngressClass" => {
            if let Some(parameters) = set::child(spec, "parameters") {
                set::text_pointer(parameters, "scope", "Cluster");
            }
        }
        _ => {}
    }
}

/// Sets the defaults of an object of `rbac.authorization.k8s.io/v1`.
pub(super) fn rbac(kind: &str, object: &mut Object) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    if !matches!(kind, "RoleBinding" | "ClusterRoleBinding") {
        return;
    }
    if let Some(role) = set::structure(object, "roleRef") {
        set::text(role, "apiGroup", GROUP);
    }
    for subject in set::items(object, "subjects") {
        if matches!(set::string(subject, "kind"), "User" | "Group") {
            set::text(subject, "apiGroup", GROUP);
        }
    }
}

/// Sets the defaults of an object of `policy/v1`.
pub(super) fn policy(kind: &str, object: &mut Object) {
    const LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
    if kind != "PodDisruptionBudget" {
        return;
    }
    let Some(selector) = set::child(object, "spec").and_then(|s| set::child(s, "selector")) else {
        return;
    };
    // policy/v1beta1 marked the empty selector with a label. A selector keeps the mark only if it
    // contains nothing else.
    let Some(Value::Array(expressions)) = selector.get_mut("matchExpressions") else { return };
    let is_mark = |expression: &Value| expression["key"] == LABEL;
    if expressions.iter().any(is_mark) {
        let keeps = expressions.len() == 1 && expressions[0]["operator"] == "Exists";
        expressions.retain(|expression| !is_mark(expression));
        let is_empty = expressions.is_empty();
        if keeps && set::is_empty(selector.get("matchLabels")) {
            let mark = json!([{ "key": LABEL, "operator": "Exists" }]);
            selector.insert("matchExpressions".to_owned(), mark);
        } else if is_empty {
            selector.remove("matchExpressions");
        }
    }
}

/// Sets the defaults of an object of `discovery.k8s.io/v1`.
pub(super) fn discovery(kind: &str, object: &mut Object) {
    if kind == "EndpointSlice" {
        for port in set::items(object, "ports") {
            set::text_pointer(port, "name", "");
            set::text_pointer(port, "protocol", "TCP");
        }
    }
}

/// Sets the defaults of an object of `storage.k8s.io/v1`.
pub(super) fn storage(kind: &str, object: &mut Object) {
    match kind {
        "StorageClass" => {
            set::text_pointer(object, "reclaimPolicy", "Delete");
            set::text_pointer(object, "volumeBindingMode", "Immediate");
        }
        "CSIDriver" => {
            let Some(spec) = set::structure(object, "spec") else { return };
            set::pointer(spec, "attachRequired", true);
            set::text_pointer(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
            for flag in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
                set::pointer(spec, flag, false);
            }
            if set::is_empty(spec.get("volumeLifecycleModes")) {
                spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
            }
        }
        "VolumeAttachment" => volume::attachment(object),
        _ => {}
    }
}

/// Sets the defaults of an object of `scheduling.k8s.io/v1`.
pub(super) fn scheduling(kind: &str, object: &mut Object) {
    if kind == "PriorityClass" {
        set::text_pointer(object, "preemptionPolicy", "PreemptLowerPriority");
    }
}

/// Sets the defaults of an object of `admissionregistration.k8s.io/v1`.
pub(super) fn admission(kind: &str, object: &mut Object) {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            for webhook in set::items(object, "webhooks") {
                set::text_pointer(webhook, "failurePolicy", "Fail");
                match_resources(webhook);
                set::pointer(webhook, "timeoutSeconds", 10);
                if kind == "MutatingWebhookConfiguration" {
                    set::text_pointer(webhook, "reinvocationPolicy", "Never");
                }
                if let Some(config) = set::child(webhook, "clientConfig") {
                    service_port(config);
                }
                rule_scopes(webhook, "rules");
            }
        }
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            let Some(spec) = set::structure(object, "spec") else { return };
            set::text_pointer(spec, "failurePolicy", "Fail");
            policy_match(spec, "matchConstraints");
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            if let Some(spec) = set::child(object, "spec") {
                policy_match(spec, "matchResources");
            }
        }
        _ => {}
    }
}

fn policy_match(spec: &mut Object, key: &str) {
    let Some(resources) = set::child(spec, key) else { return };
    match_resources(resources);
    rule_scopes(resources, "resourceRules");
    rule_scopes(resources, "excludeResourceRules");
}

fn match_resources(parent: &mut Object) {
    set::text_pointer(parent, "matchPolicy", "Equivalent");
    set::structure(parent, "namespaceSelector");
    set::structure(parent, "objectSelector");
}

fn rule_scopes(parent: &mut Object, key: &str) {
    for rule in set::items(parent, key) {
        set::text_pointer(rule, "scope", "*");
    }
}

fn service_port(parent: &mut Object) {
    if let Some(service) = set::child(parent, "service") {
        set::pointer(service, "port", 443);
    }
}

/// Sets the defaults of an object of `apiregistration.k8s.io/v1`.
pub(super) fn aggregation(kind: &str, object: &mut Object) {
    if kind == "APIService"
        && let Some(spec) = set::child(object, "spec")
    {
        service_port(spec);
    }
}

/// Sets the defaults of an object of `authentication.k8s.io/v1`.
pub(super) fn authentication(kind: &str, object: &mut Object) {
    if kind == "TokenRequest"
        && let Some(spec) = set::structure(object, "spec")
    {
        set::pointer(spec, "expirationSeconds", 3600);
    }
}

/// Sets the defaults of an object of `flowcontrol.apiserver.k8s.io/v1`.
pub(super) fn flowcontrol(kind: &str, object: &mut Object) {
    let Some(spec) = set::structure(object, "spec") else { return };
    match kind {
        "FlowSchema" => set::number(spec, "matchingPrecedence", 1000),
        "PriorityLevelConfiguration" => {
            if let Some(limited) = set::child(spec, "limited") {
                set::pointer(limited, "nominalConcurrencyShares", 30);
                set::pointer(limited, "lendablePercent", 0);
                let response = set::child(limited, "limitResponse");
                if let Some(queuing) = response.and_then(|r| set::child(r, "queuing")) {
                    set::number(queuing, "handSize", 8);
                    set::number(queuing, "queues", 64);
                    set::number(queuing, "queueLengthLimit", 50);
                }
            }
            if let Some(exempt) = set::child(spec, "exempt") {
                set::pointer(exempt, "nominalConcurrencyShares", 0);
                set::pointer(exempt, "lendablePercent", 0);
            }
        }
        _ => {}
    }
}

/// Sets the defaults of an object of `resource.k8s.io/v1`. `timeAdded` of device taints is not set
/// here because defaulting has no clock.
pub(super) fn resource(kind: &str, object: &mut Object) {
    let spec = set::child(object, "spec");
    match kind {
        "ResourceClaim" => {
            if let Some(spec) = spec {
                device_requests(spec);
            }
            let results = object
                .get_mut("status")
                .and_then(|status| status.pointer_mut("/allocation/devices"))
                .and_then(Value::as_object_mut);
            if let Some(devices) = results {
                set::items(devices, "results").for_each(tolerations);
            }
        }
        "ResourceClaimTemplate" => {
            if let Some(spec) = spec.and_then(|spec| set::child(spec, "spec")) {
                device_requests(spec);
            }
        }
        "ResourceSlice" => {
            let Some(spec) = spec else { return };
            for device in set::items(spec, "devices") {
                let Some(mappings) = set::child(device, "nodeAllocatableResourceMappings") else {
                    continue;
                };
                for mapping in mappings.values_mut().filter_map(Value::as_object_mut) {
                    set::text_pointer(mapping, "allocationMultiplier", "1");
                }
            }
        }
        _ => {}
    }
}

fn device_requests(spec: &mut Object) {
    let Some(devices) = set::child(spec, "devices") else { return };
    for request in set::items(devices, "requests") {
        if let Some(exactly) = set::child(request, "exactly") {
            device_request(exactly);
        }
        set::items(request, "firstAvailable").for_each(device_request);
    }
}

fn device_request(request: &mut Object) {
    set::text(request, "allocationMode", "ExactCount");
    if set::string(request, "allocationMode") == "ExactCount" {
        set::number(request, "count", 1);
    }
    tolerations(request);
}

fn tolerations(parent: &mut Object) {
    for toleration in set::items(parent, "tolerations") {
        set::text(toleration, "operator", "Equal");
    }
}
