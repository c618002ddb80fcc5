//! Updating objects through the main resource and subresources.

use evenkeel_types::Gvk;
use serde_json::{Value, json};

use super::super::{
    before_allocation_on_update, canonicalize, grace_period, prepare_for_subresource_update,
    service_as_stored, warnings,
};
use super::{CONTEXT, gvk};
use crate::defaults;

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("../cases/updates.json")).expect("cases are a JSON list")
}

/// Returns `old` with a JSON merge patch applied.
fn merged(old: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut new = old.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            new.remove(key);
        } else {
            let before = new.get(key).cloned().unwrap_or_default();
            new.insert(key.clone(), merged(&before, value));
        }
    }
    Value::Object(new)
}

/// Runs the stages between decoding and storing.
fn update(gvk: Gvk<'_>, subresource: &str, old: &Value, sent: &Value) -> (Value, Vec<String>) {
    let mut new = sent.clone();
    defaults::apply(gvk, &mut new);
    if gvk.kind == "Service" && subresource.is_empty() {
        before_allocation_on_update(old, &mut new);
    }
    prepare_for_subresource_update(gvk, subresource, old, &mut new, &CONTEXT);
    let warnings = match subresource {
        "" => warnings::on_update(gvk, old, &new),
        _ => Vec::new(),
    };
    canonicalize(gvk, &mut new);
    (new, warnings)
}

#[test]
fn updated_objects_are_those_of_kube_apiserver() {
    let cases = cases();
    assert!(cases.len() > 50);
    for case in cases {
        let subresource = case["subresource"].as_str().expect("subresource is a string");
        let old = &case["old"];
        let sent = merged(old, &case["sent"]);
        let (new, warnings) = update(gvk(&case["gvk"]), subresource, old, &sent);
        let expected = merged(old, &case["updated"]);
        assert!(new == expected, "{}: got\n{:#}\nexpected\n{:#}", case["name"], new, expected);
        let expected = case.get("warnings").cloned().unwrap_or(json!([]));
        assert_eq!(json!(warnings), expected, "{}", case["name"]);
    }
}

#[test]
fn unchanged_update_keeps_the_object() {
    for case in cases() {
        let old = &case["old"];
        let gvk = gvk(&case["gvk"]);
        for subresource in ["", case["subresource"].as_str().expect("subresource is a string")] {
            let (new, _) = update(gvk, subresource, old, old);
            assert_eq!(new, *old, "{} {subresource}", case["name"]);
        }
    }
}

#[test]
fn update_of_arbitrary_objects_does_not_panic() {
    for case in cases() {
        let gvk = gvk(&case["gvk"]);
        let old = &case["old"];
        let subresource = case["subresource"].as_str().expect("subresource is a string");
        for shape in [json!(null), json!({}), json!({ "metadata": 1, "spec": [], "status": "x" })] {
            update(gvk, subresource, old, &shape);
            update(gvk, subresource, &shape, old);
            warnings::on_update(gvk, &shape, &shape);
        }
    }
}

#[test]
fn unscheduled_and_finished_pods_have_no_grace_period() {
    let pod = |node: &str, phase: &str| {
        json!({
            "spec": { "nodeName": node, "terminationGracePeriodSeconds": 30 },
            "status": { "phase": phase },
        })
    };
    assert_eq!(grace_period(&pod("n", "Running"), None), 30);
    assert_eq!(grace_period(&pod("n", "Running"), Some(5)), 5);
    assert_eq!(grace_period(&pod("n", "Running"), Some(-5)), 1);
    assert_eq!(grace_period(&pod("", "Pending"), Some(5)), 0);
    assert_eq!(grace_period(&pod("n", "Succeeded"), None), 0);
}

#[test]
fn fields_that_slices_drop_count_as_changes() {
    let endpoint = json!({"addresses": ["192.0.2.1"]});
    let old = json!({"metadata": {"generation": 1}, "endpoints": [endpoint]});
    let mut sent = old.clone();
    sent["endpoints"][0]["deprecatedTopology"] = json!({"k": ""});
    let slice = Gvk::from_api_version("discovery.k8s.io/v1", "EndpointSlice");
    let (new, _) = update(slice, "", &old, &sent);
    assert_eq!(new["metadata"]["generation"], 2);
    assert_eq!(new["endpoints"][0].get("deprecatedTopology"), None);

    let old = json!({"metadata": {"generation": 1}, "spec": {"devices": [{"name": "a"}]}});
    let mut sent = old.clone();
    sent["spec"]["devices"][0]["nodeAllocatableResourceMappings"] = json!({"cpu": {}});
    let slice = Gvk::from_api_version("resource.k8s.io/v1", "ResourceSlice");
    let (new, _) = update(slice, "", &old, &sent);
    assert_eq!(new["metadata"]["generation"], 2);
    assert_eq!(new["spec"]["devices"][0].get("nodeAllocatableResourceMappings"), None);
}

#[test]
fn load_balancers_without_node_ports_do_not_get_the_old_ones_back() {
    let ports = json!([{"name": "a", "port": 1, "nodePort": 30001}]);
    let old = json!({"spec": {"type": "LoadBalancer", "ports": ports}});
    for (allocate, expected) in [(true, json!(30001)), (false, json!(null))] {
        let mut new = json!({"spec": {
            "type": "LoadBalancer", "allocateLoadBalancerNodePorts": allocate,
            "ports": [{"name": "a", "port": 1}],
        }});
        before_allocation_on_update(&old, &mut new);
        assert_eq!(new["spec"]["ports"][0]["nodePort"], expected, "allocate: {allocate}");
    }
}

#[test]
fn empty_lists_and_maps_increment_the_generation_of_kinds_that_compare_exactly() {
    let webhooks = "admissionregistration.k8s.io/v1";
    let networking = "networking.k8s.io/v1";
    let policy = json!({"spec": {"podSelector": {}}});
    let hooks = json!({"webhooks": [{"name": "a"}]});
    for (api_version, kind, object, pointer, value, generation) in [
        (networking, "NetworkPolicy", &policy, "/spec/ingress", json!([]), 2),
        (networking, "NetworkPolicy", &policy, "/spec/podSelector/matchLabels", json!({}), 2),
        (networking, "Ingress", &json!({"spec": {}}), "/spec/rules", json!([]), 1),
        (webhooks, "MutatingWebhookConfiguration", &hooks, "/webhooks/0/rules", json!([]), 2),
        (webhooks, "ValidatingWebhookConfiguration", &hooks, "/webhooks/0/rules", json!([]), 2),
    ] {
        let gvk = Gvk::from_api_version(api_version, kind);
        let mut old = object.clone();
        old["metadata"] = json!({"generation": 1});
        defaults::apply(gvk, &mut old);
        let (new, _) = update(gvk, "", &old, &old);
        assert_eq!(new["metadata"]["generation"], 1, "{kind} is unchanged");
        let mut sent = old.clone();
        let (parent, field) = pointer.rsplit_once('/').expect("a field");
        sent.pointer_mut(parent).expect("it exists")[field] = value;
        let (new, _) = update(gvk, "", &old, &sent);
        assert_eq!(new["metadata"]["generation"], generation, "{kind} {pointer}");
    }
}

#[test]
fn external_name_services_have_cluster_ips_for_readers_only() {
    let service = Gvk::new("", "v1", "Service");
    let old = json!({"spec": {
        "type": "ClusterIP", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"],
    }});
    let spec = json!({"type": "ExternalName", "externalName": "example.com", "clusterIP": "x"});
    let (new, _) = update(service, "", &old, &json!({"spec": spec}));
    assert_eq!(new["spec"]["clusterIPs"], json!(["x"]));
    let stored = service_as_stored(&new).expect("it is stored without clusterIPs");
    assert_eq!(stored["spec"].get("clusterIPs"), None);
    // Only the main resource compares both fields, with the old Service as readers see it.
    let mut again = stored;
    before_allocation_on_update(&new, &mut again);
    assert_eq!(again["spec"]["clusterIPs"], json!(["x"]));
    assert_eq!(service_as_stored(&old), None);
}
