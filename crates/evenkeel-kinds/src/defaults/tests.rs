//! Defaults that are not visible when objects are created: of statuses, of rare volume types, of
//! kinds that are not stored. The others are tested with the strategies.

use evenkeel_types::Gvk;
use serde_json::{Value, json};

use super::{Applied, apply};

fn defaulted(api_version: &str, kind: &str, mut object: Value) -> Value {
    apply(Gvk::from_api_version(api_version, kind), &mut object);
    object
}

#[test]
fn all_volume_types_are_defaulted() {
    for (source, expected) in [
        (
            json!({ "hostPath": { "path": "/" } }),
            json!({ "hostPath": { "path": "/", "type": "" } }),
        ),
        (
            json!({ "iscsi": { "iqn": "i" } }),
            json!({ "iscsi": { "iqn": "i", "iscsiInterface": "default" } }),
        ),
        (
            json!({ "rbd": { "image": "i", "user": "me" } }),
            json!({ "rbd": {
                "image": "i", "user": "me", "pool": "rbd", "keyring": "/etc/ceph/keyring",
            } }),
        ),
        (
            json!({ "azureDisk": { "diskName": "d", "fsType": "xfs" } }),
            json!({ "azureDisk": {
                "diskName": "d", "fsType": "xfs", "cachingMode": "ReadWrite", "readOnly": false,
                "kind": "Shared",
            } }),
        ),
        (
            json!({ "scaleIO": { "system": "s" } }),
            json!({ "scaleIO": {
                "system": "s", "storageMode": "ThinProvisioned", "fsType": "xfs",
            } }),
        ),
        (json!({ "nfs": { "path": "/" } }), json!({ "nfs": { "path": "/" } })),
    ] {
        let volume = defaulted("v1", "PersistentVolume", json!({ "spec": source }));
        let mut spec = expected.clone();
        spec["persistentVolumeReclaimPolicy"] = json!("Retain");
        spec["volumeMode"] = json!("Filesystem");
        assert_eq!(volume, json!({ "spec": spec, "status": { "phase": "Pending" } }));

        let inline = json!({ "spec": { "source": { "inlineVolumeSpec": source } } });
        let attachment = defaulted("storage.k8s.io/v1", "VolumeAttachment", inline);
        assert_eq!(attachment["spec"]["source"]["inlineVolumeSpec"], expected);
    }
}

#[test]
fn resources_are_rounded_up_to_thousandths() {
    let quota = json!({
        "spec": { "hard": { "cpu": "1n", "memory": "1500u", "pods": "3" } },
        "status": { "used": { "cpu": "2001u" } },
    });
    let expected = json!({
        "spec": { "hard": { "cpu": "1m", "memory": "2m", "pods": "3" } },
        "status": { "used": { "cpu": "3m" } },
    });
    assert_eq!(defaulted("v1", "ResourceQuota", quota), expected);
}

#[test]
fn container_huge_pages_set_pod_level_limits() {
    let pod = |resources: Value| {
        defaulted(
            "v1",
            "Pod",
            json!({ "spec": {
                "resources": resources,
                "containers": [
                    { "resources": { "limits": { "hugepages-2Mi": "2Mi", "cpu": "1" } } },
                    { "resources": { "limits": { "hugepages-2Mi": "4Mi" } } },
                ],
            } }),
        )["spec"]["resources"]
            .take()
    };
    assert_eq!(
        pod(json!({ "requests": { "memory": "1Gi" } })),
        json!({
            "limits": { "hugepages-2Mi": "6Mi" },
            "requests": { "memory": "1Gi", "hugepages-2Mi": "6Mi", "cpu": "1" },
        })
    );
    assert_eq!(pod(json!({})), json!({}));
    let resources = json!({ "requests": { "hugepages-2Mi": "8Mi" } });
    assert_eq!(pod(resources.clone()), resources);
}

#[test]
fn pod_ip_and_pod_ips_are_synced() {
    for (status, expected) in [
        (
            json!({ "podIP": "10.0.0.1" }),
            json!({ "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }] }),
        ),
        (
            json!({ "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "::1" }] }),
            json!({ "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "::1" }] }),
        ),
        (
            json!({ "podIP": "10.0.0.2", "podIPs": [{ "ip": "10.0.0.1" }] }),
            json!({ "podIP": "10.0.0.2", "podIPs": [{ "ip": "10.0.0.2" }] }),
        ),
    ] {
        assert_eq!(defaulted("v1", "Pod", json!({ "status": status }))["status"], expected);
    }
}

#[test]
fn pod_cidr_and_pod_cidrs_are_synced() {
    for (spec, expected) in [
        (json!({ "podCIDR": "a" }), json!({ "podCIDR": "a", "podCIDRs": ["a"] })),
        (json!({ "podCIDRs": ["a", "b"] }), json!({ "podCIDR": "a", "podCIDRs": ["a", "b"] })),
        (
            json!({ "podCIDR": "c", "podCIDRs": ["a"] }),
            json!({ "podCIDR": "c", "podCIDRs": ["c"] }),
        ),
    ] {
        assert_eq!(defaulted("v1", "Node", json!({ "spec": spec }))["spec"], expected);
    }
}

#[test]
fn load_balancer_ips_get_an_ip_mode() {
    let service = defaulted(
        "v1",
        "Service",
        json!({
            "spec": { "type": "LoadBalancer" },
            "status": { "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }, { "hostname": "h" }] } },
        }),
    );
    assert_eq!(
        service["status"]["loadBalancer"]["ingress"],
        json!([{ "ip": "1.2.3.4", "ipMode": "VIP" }, { "hostname": "h" }])
    );
}

#[test]
fn deprecated_empty_selector_label_is_removed() {
    const LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
    let budget = |selector: Value| {
        defaulted("policy/v1", "PodDisruptionBudget", json!({ "spec": { "selector": selector } }))
            ["spec"]["selector"]
            .take()
    };
    let nothing = json!({ "matchExpressions": [{ "key": LABEL, "operator": "Exists" }] });
    assert_eq!(budget(nothing.clone()), nothing);
    let all = json!({ "matchExpressions": [{ "key": LABEL, "operator": "DoesNotExist" }] });
    assert_eq!(budget(all), json!({}));
    let labelled = json!({
        "matchLabels": { "a": "b" },
        "matchExpressions": [{ "key": LABEL, "operator": "Exists" }],
    });
    assert_eq!(budget(labelled), json!({ "matchLabels": { "a": "b" } }));
}

#[test]
fn token_requests_expire_after_one_hour() {
    let request = defaulted("authentication.k8s.io/v1", "TokenRequest", json!({ "spec": {} }));
    assert_eq!(request["spec"]["expirationSeconds"], 3600);
}

#[test]
fn exempt_priority_levels_have_no_shares() {
    let level = defaulted(
        "flowcontrol.apiserver.k8s.io/v1",
        "PriorityLevelConfiguration",
        json!({ "spec": { "type": "Exempt", "exempt": {} } }),
    );
    assert_eq!(
        level["spec"]["exempt"],
        json!({ "nominalConcurrencyShares": 0, "lendablePercent": 0 })
    );
}

#[test]
fn only_jobs_without_labels_get_template_labels() {
    let job = |labels: Value| {
        let mut job = json!({
            "metadata": { "labels": labels },
            "spec": { "template": { "metadata": { "labels": { "a": "b" } } } },
        });
        let applied = apply(Gvk::new("batch", "v1", "Job"), &mut job);
        (applied, job["metadata"]["labels"].take())
    };
    let shared = Applied { labels_from_template: true, ..Applied::default() };
    assert_eq!(job(json!({})), (shared, json!({ "a": "b" })));
    let own = json!({ "a": "b" });
    assert_eq!(job(own.clone()), (Applied::default(), own));
}

#[test]
fn other_kinds_and_versions_are_not_defaulted() {
    for (api_version, kind) in [("example.com/v1", "Pod"), ("apps/v1beta1", "Deployment")] {
        let object = json!({ "spec": { "template": { "spec": {} } } });
        assert_eq!(defaulted(api_version, kind, object.clone()), object);
    }
}

#[test]
fn empty_scaling_policies_are_kept() {
    let gvk = Gvk::new("autoscaling", "v2", "HorizontalPodAutoscaler");
    let mut autoscaler = json!({"spec": {
        "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3,
        "behavior": {"scaleDown": {"policies": []}, "scaleUp": {}},
    }});
    apply(gvk, &mut autoscaler);
    let behavior = &autoscaler["spec"]["behavior"];
    assert_eq!(behavior["scaleDown"]["policies"], json!([]));
    assert_eq!(behavior["scaleUp"]["policies"].as_array().map(Vec::len), Some(2));
}
