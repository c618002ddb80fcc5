//! EndpointSlices, PodDisruptionBudgets, and the defaults of new namespaces.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::Key;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, Node, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use crate::{cluster, format_condition, make_ready, pending_pods, set_pod_status, template};

#[tokio::test]
async fn endpoint_slice_lists_pods_of_the_service_with_readiness() {
    let Some(cluster) = cluster().await else { return };
    let node = cluster.unique_name("node");
    let text = json!({"metadata": {"name": node, "labels": {
        "topology.kubernetes.io/zone": "a",
    }}});
    let node = cluster.client().create(&cluster.parse::<Node>(&text.to_string())).await.unwrap();
    let text = "metadata: {name: web}\nspec: {selector: {app: web}, ports: [{name: http, port: 80, \
                targetPort: web}]}";
    let service = cluster.client().create(&cluster.parse::<Service>(text)).await.unwrap();
    for (name, address, ready) in [("a", "10.9.0.1", true), ("b", "10.9.0.2", false)] {
        let mut pod = template("web", "web:1");
        pod["metadata"]["name"] = json!(name);
        pod["spec"]["nodeName"] = json!(node.metadata.name);
        pod["spec"]["containers"][0]["ports"] = json!([{"name": "web", "containerPort": 8080}]);
        let pod = cluster.parse::<Pod>(&pod.to_string());
        cluster.client().create(&pod).await.unwrap();
        let status = json!({
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        });
        set_pod_status(&cluster, &pod, status).await;
    }
    // `default` also contains the EndpointSlice of the `kubernetes` Service.
    let ours = |slice: &&Arc<EndpointSlice>| {
        let owners = slice.metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| Some(&owner.uid) == service.metadata.uid.as_ref())
    };
    let both = |slices: &[Arc<EndpointSlice>]| {
        let ours = slices.iter().filter(ours);
        ours.flat_map(|slice| slice.endpoints.iter().flatten()).count() == 2
    };
    let slices = cluster.eventually_all::<EndpointSlice>(both).await;
    let slices: Vec<_> = slices.iter().filter(ours).collect();
    let [slice] = &slices[..] else { panic!("{slices:#?}") };
    let mut found = serde_json::to_value(&***slice).unwrap();
    found["endpoints"].as_array_mut().unwrap().sort_by_key(|it| it["addresses"].to_string());
    let endpoint = |name: &str, address: &str, ready: bool| {
        json!({
            "addresses": [address],
            "conditions": {"ready": ready, "serving": ready, "terminating": false},
            "nodeName": node.metadata.name,
            "zone": "a",
            "targetRef": {"kind": "Pod", "name": name, "namespace": cluster.namespace()},
        })
    };
    let expected = json!({
        "addressType": "IPv4",
        "metadata": {
            "generateName": "web-",
            "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [{
                "kind": "Service", "name": "web", "uid": service.metadata.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [endpoint("a", "10.9.0.1", true), endpoint("b", "10.9.0.2", false)],
    });
    assert_eq!(evenkeel_test::diff(&expected, &found), "");
    // Without a kubelet, graceful deletion would not finish.
    for pod in cluster.eventually_all::<Pod>(|pods| pods.len() == 2).await {
        cluster.client().delete(&*pod).grace_period(Duration::ZERO).await.unwrap();
    }
    cluster.client().delete(&*node).await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn endpoints_without_selector_are_mirrored_into_a_slice() {
    let Some(cluster) = cluster().await else { return };
    let service = "metadata: {name: db}\nspec: {ports: [{name: sql, port: 5432}]}";
    cluster.client().create(&cluster.parse::<Service>(service)).await.unwrap();
    let text = "metadata: {name: db, labels: {team: a}}\nsubsets: [{addresses: [{ip: 192.0.2.1}], \
                notReadyAddresses: [{ip: 192.0.2.2}], ports: [{name: sql, port: 5432}]}]";
    let endpoints = cluster.client().create(&cluster.parse::<Endpoints>(text)).await.unwrap();
    let ours = |slice: &&Arc<EndpointSlice>| {
        let owners = slice.metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| Some(&owner.uid) == endpoints.metadata.uid.as_ref())
    };
    let one = |slices: &[Arc<EndpointSlice>]| slices.iter().filter(ours).count() == 1;
    let slices = cluster.eventually_all::<EndpointSlice>(one).await;
    let slice = slices.iter().find(ours).unwrap();
    let mut found = serde_json::to_value(&**slice).unwrap();
    found["endpoints"].as_array_mut().unwrap().sort_by_key(|it| it["addresses"].to_string());
    let expected = json!({
        "addressType": "IPv4",
        "metadata": {
            "generateName": "db-",
            "labels": {
                "team": "a",
                "kubernetes.io/service-name": "db",
                "endpointslice.kubernetes.io/managed-by":
                    "endpointslicemirroring-controller.k8s.io",
            },
            "ownerReferences": [{
                "kind": "Endpoints", "name": "db", "uid": endpoints.metadata.uid,
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["192.0.2.1"], "conditions": {"ready": true}},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": false}},
        ],
    });
    assert_eq!(evenkeel_test::diff(&expected, &found), "");
    cluster.stop().await;
}

#[tokio::test]
async fn pod_disruption_budget_counts_healthy_pods() {
    let Some(cluster) = cluster().await else { return };
    let budget = cluster.parse::<PodDisruptionBudget>(
        "metadata: {name: web}\nspec: {minAvailable: 60%, selector: {matchLabels: {app: web}}}",
    );
    cluster.client().create(&budget).await.unwrap();
    let set = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", "web:1"),
    }});
    let set = cluster.parse::<k8s_openapi::api::apps::v1::ReplicaSet>(&set.to_string());
    cluster.client().create(&set).await.unwrap();
    let pods = pending_pods(&cluster, 3).await;
    for (ready, allowed, reason) in [(2, 0, "InsufficientPods"), (3, 1, "SufficientPods")] {
        for pod in &pods[..ready] {
            make_ready(&cluster, pod).await;
        }
        let ready = i32::try_from(ready).unwrap();
        let counted = |budget: &PodDisruptionBudget| {
            budget.status.as_ref().is_some_and(|status| status.current_healthy == Some(ready))
        };
        let budget = cluster.eventually::<PodDisruptionBudget>(&Key::of(&budget), counted).await;
        let status = budget.status.as_ref().unwrap();
        assert_eq!((status.desired_healthy, status.expected_pods), (Some(2), Some(3)));
        assert_eq!(status.disruptions_allowed, Some(allowed));
        let conditions = status.conditions.iter().flatten();
        let conditions: Vec<String> = conditions
            .map(|it| format_condition(&it.type_, &it.status, Some(&it.reason), Some(&it.message)))
            .collect();
        let holds = if allowed > 0 { "True" } else { "False" };
        assert_eq!(conditions, [format_condition("DisruptionAllowed", holds, Some(reason), None)]);
    }
    cluster.stop().await;
}

#[tokio::test]
async fn namespace_gets_default_service_account_and_root_ca() {
    let Some(cluster) = cluster().await else { return };
    let name = cluster.unique_name("fresh");
    let text = format!("metadata: {{name: {name}}}");
    let namespace = cluster.client().create(&cluster.parse::<Namespace>(&text)).await.unwrap();
    let within = |object: &str| Key::namespaced(&name, object);
    cluster.eventually::<ServiceAccount>(&within("default"), |_| true).await;
    let authority =
        |map: &ConfigMap| {
            map.data.as_ref().is_some_and(|data| data.keys().eq(["ca.crt"]))
                && map.metadata.annotations.as_ref().is_some_and(|annotations| {
                    annotations.contains_key("kubernetes.io/description")
                })
        };
    cluster.eventually::<ConfigMap>(&within("kube-root-ca.crt"), authority).await;
    cluster.client().delete(&*namespace).await.unwrap();
    cluster.eventually_gone::<Namespace>(&Key::cluster(&name)).await;
    cluster.stop().await;
}
