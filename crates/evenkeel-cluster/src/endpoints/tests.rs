//! Readiness, named ports, headless Services, slices of 100, mirroring.

use std::collections::BTreeSet;

use evenkeel::Key;
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{LEGACY, MIRROR, SLICES};
use crate::Cluster;
use crate::testing::{cluster, create, object, until, until_deleted, wait, wait_until_idle};

async fn with_node(only: &[&str]) -> Cluster {
    let cluster = cluster(only).await;
    let api: Api<Node> = Api::all(cluster.client());
    let node = object(json!({"metadata": {
        "name": "node", "labels": {"topology.kubernetes.io/zone": "z1"},
    }}));
    api.create(&PostParams::default(), &node).await.unwrap();
    cluster
}

async fn service(cluster: &Cluster, spec: Value) -> Service {
    let mut spec = spec;
    spec["selector"] = json!({"app": "web"});
    create(cluster, json!({"metadata": {"name": "web", "labels": {"team": "a"}}, "spec": spec}))
        .await
}

/// Creates a pod on the node with an address, ready or not.
async fn pod(cluster: &Cluster, number: usize, port: u16, ready: bool) -> Pod {
    let name = format!("web-{number}");
    let pod: Pod = create(
        cluster,
        json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {
                "nodeName": "node",
                "containers": [{
                    "name": "main", "image": "main",
                    "ports": [{"name": "http", "containerPort": port}],
                }],
            },
        }),
    )
    .await;
    set_status(cluster, &name, number, ready).await;
    pod
}

async fn set_status(cluster: &Cluster, name: &str, number: usize, ready: bool) {
    let address = format!("10.1.{}.{}", number / 250, number % 250 + 1);
    let patch = Patch::Merge(json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
    }}));
    let api: Api<Pod> = Api::default_namespaced(cluster.client());
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Name, ready, serving, terminating.
type EndpointState = (String, bool, bool, bool);

fn endpoints(slices: &[EndpointSlice]) -> BTreeSet<EndpointState> {
    let all = slices.iter().filter(|slice| {
        slice.metadata.labels.as_ref().is_some_and(|labels| {
            labels.get("kubernetes.io/service-name").is_some_and(|name| name == "web")
        })
    });
    all.flat_map(|slice| slice.endpoints.iter().flatten())
        .map(|endpoint| {
            let conditions = endpoint.conditions.clone().unwrap();
            let name = endpoint.target_ref.as_ref().unwrap().name.clone().unwrap();
            let yes = |value: Option<bool>| value.unwrap();
            (name, yes(conditions.ready), yes(conditions.serving), yes(conditions.terminating))
        })
        .collect()
}

async fn wait_for_endpoints(cluster: &Cluster, wanted: &[(&str, bool, bool, bool)]) {
    let wanted: BTreeSet<EndpointState> =
        wanted.iter().map(|(name, r, s, t)| ((*name).to_owned(), *r, *s, *t)).collect();
    wait::<EndpointSlice, _>(cluster, |slices| (endpoints(slices) == wanted).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_follows_its_pods() {
    let cluster = with_node(&[SLICES]).await;
    let service = service(&cluster, json!({"ports": [{"port": 80, "targetPort": "http"}]})).await;
    let empty = wait::<EndpointSlice, _>(&cluster, |slices| slices.first().cloned()).await;
    assert_eq!(empty.endpoints.unwrap_or_default(), []);
    pod(&cluster, 1, 8080, true).await;
    pod(&cluster, 2, 8080, false).await;
    wait_for_endpoints(&cluster, &[("web-1", true, true, false), ("web-2", false, false, false)])
        .await;
    set_status(&cluster, "web-2", 2, true).await;
    wait_for_endpoints(&cluster, &[("web-1", true, true, false), ("web-2", true, true, false)])
        .await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    pods.delete("web-1", &DeleteParams::default()).await.unwrap();
    wait_for_endpoints(&cluster, &[("web-1", false, true, true), ("web-2", true, true, false)])
        .await;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete("web-1", &now).await.unwrap();
    wait_for_endpoints(&cluster, &[("web-2", true, true, false)]).await;
    let slices: Api<EndpointSlice> = Api::default_namespaced(cluster.client());
    let slices = slices.list(&Default::default()).await.unwrap().items;
    let [slice] = &slices[..] else { panic!("{slices:?}") };
    assert_eq!(slice.metadata.name, empty.metadata.name, "the first slice is reused");
    let labels = serde_json::to_value(&slice.metadata.labels).unwrap();
    assert_eq!(
        labels,
        json!({
            "team": "a", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        })
    );
    let owners = slice.metadata.owner_references.as_ref().unwrap();
    assert_eq!(Some(&owners[0].uid), service.metadata.uid.as_ref());
    let endpoint = &slice.endpoints.as_ref().unwrap()[0];
    assert_eq!(endpoint.zone.as_deref(), Some("z1"));
    assert_eq!(endpoint.node_name.as_deref(), Some("node"));
    assert_eq!(endpoint.addresses, ["10.1.0.3"]);
    let ports = serde_json::to_value(&slice.ports).unwrap();
    assert_eq!(ports, json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
}

#[tokio::test(start_paused = true)]
async fn pods_that_no_longer_match_are_removed_from_slices() {
    let cluster = with_node(&[SLICES]).await;
    service(&cluster, json!({"ports": [{"port": 80}]})).await;
    pod(&cluster, 1, 80, true).await;
    wait_for_endpoints(&cluster, &[("web-1", true, true, false)]).await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "other"}}}));
    pods.patch("web-1", &PatchParams::default(), &patch).await.unwrap();
    wait_for_endpoints(&cluster, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn publish_not_ready_addresses_is_honoured() {
    let cluster = with_node(&[SLICES]).await;
    service(
        &cluster,
        json!({
            "clusterIP": "None", "publishNotReadyAddresses": true, "ports": [{"port": 80}],
        }),
    )
    .await;
    pod(&cluster, 1, 80, false).await;
    wait_for_endpoints(&cluster, &[("web-1", true, false, false)]).await;
    let slices: Api<EndpointSlice> = Api::default_namespaced(cluster.client());
    let slice = slices.list(&Default::default()).await.unwrap().items.remove(0);
    assert!(slice.metadata.labels.unwrap().contains_key("service.kubernetes.io/headless"));
}

#[tokio::test(start_paused = true)]
async fn pods_with_different_port_numbers_are_in_separate_slices() {
    let cluster = with_node(&[SLICES]).await;
    service(&cluster, json!({"ports": [{"port": 80, "targetPort": "http"}]})).await;
    pod(&cluster, 1, 8080, true).await;
    pod(&cluster, 2, 9090, true).await;
    wait_for_endpoints(&cluster, &[("web-1", true, true, false), ("web-2", true, true, false)])
        .await;
    let slices: Api<EndpointSlice> = Api::default_namespaced(cluster.client());
    let slices = slices.list(&Default::default()).await.unwrap().items;
    let ports = slices.iter().map(|slice| slice.ports.as_ref().unwrap()[0].port.unwrap());
    assert_eq!(ports.collect::<BTreeSet<_>>(), BTreeSet::from([8080, 9090]));
}

#[tokio::test(start_paused = true)]
async fn a_slice_holds_at_most_100_endpoints() {
    let cluster = with_node(&[SLICES]).await;
    service(&cluster, json!({"ports": [{"port": 80}]})).await;
    for number in 0..205 {
        pod(&cluster, number, 80, true).await;
    }
    wait::<EndpointSlice, _>(&cluster, |slices| (endpoints(slices).len() == 205).then_some(()))
        .await;
    wait_until_idle().await;
    let slices: Api<EndpointSlice> = Api::default_namespaced(cluster.client());
    let slices = slices.list(&Default::default()).await.unwrap().items;
    let mut sizes: Vec<usize> =
        slices.iter().map(|slice| slice.endpoints.as_ref().map_or(0, Vec::len)).collect();
    sizes.sort_unstable();
    assert_eq!(sizes.iter().sum::<usize>(), 205);
    assert!(sizes.iter().all(|size| *size <= 100) && sizes.len() == 3, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_maintained_for_services() {
    let cluster = with_node(&[LEGACY]).await;
    let service = service(
        &cluster,
        json!({"ports": [
            {"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81},
        ]}),
    )
    .await;
    pod(&cluster, 1, 8080, true).await;
    pod(&cluster, 2, 8080, false).await;
    let key = Key::of(&service);
    let found = until::<Endpoints>(&cluster, &key, |found| {
        let subsets = found.subsets.as_deref().unwrap_or_default();
        subsets.first().is_some_and(|subset| {
            subset.addresses.is_some() && subset.not_ready_addresses.is_some()
        })
    })
    .await;
    let subsets = found.subsets.unwrap();
    assert_eq!(subsets.len(), 1);
    assert_eq!(subsets[0].addresses.as_ref().unwrap()[0].ip, "10.1.0.2");
    assert_eq!(subsets[0].not_ready_addresses.as_ref().unwrap()[0].ip, "10.1.0.3");
    let ports: Vec<_> = subsets[0]
        .ports
        .as_ref()
        .unwrap()
        .iter()
        .map(|port| (port.name.clone(), port.port))
        .collect();
    assert_eq!(ports, [(Some("a".to_owned()), 8080), (Some("b".to_owned()), 81)]);
    let labels = serde_json::to_value(&found.metadata.labels).unwrap();
    let managed = json!({"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    assert_eq!(labels, managed);
    let services: Api<Service> = Api::default_namespaced(cluster.client());
    services.delete("web", &DeleteParams::default()).await.unwrap();
    let api: Api<Endpoints> = Api::default_namespaced(cluster.client());
    if let Some(found) = api.get_opt("web").await.unwrap() {
        until_deleted(&cluster, &found).await;
    }
}

/// Creates a Service without a selector, and its Endpoints.
async fn endpoints_without_selector(cluster: &Cluster, subsets: Value) -> Endpoints {
    create::<Service>(
        cluster,
        json!({"metadata": {"name": "db"}, "spec": {"ports": [{"name": "sql", "port": 5432}]}}),
    )
    .await;
    create(
        cluster,
        json!({
            "metadata": {
                "name": "db", "labels": {"team": "a"}, "annotations": {
                    "note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}",
                },
            },
            "subsets": subsets,
        }),
    )
    .await
}

fn mirrored(slices: &[EndpointSlice]) -> Vec<&EndpointSlice> {
    let ours = slices.iter().filter(|slice| {
        slice.metadata.labels.as_ref().is_some_and(|labels| {
            labels.get("endpointslice.kubernetes.io/managed-by").map(String::as_str)
                == Some("endpointslicemirroring-controller.k8s.io")
        })
    });
    ours.collect()
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_a_service_without_selector_are_mirrored() {
    let cluster = cluster(&[MIRROR]).await;
    let ports = json!([{"name": "sql", "port": 5432}]);
    let endpoints = endpoints_without_selector(
        &cluster,
        json!([
            {"addresses": [{"ip": "192.0.2.1", "nodeName": "n"}], "ports": ports},
            {"notReadyAddresses": [{"ip": "192.0.2.2", "hostname": "b"}], "ports": ports},
            {"addresses": [{"ip": "2001:db8::1"}], "ports": ports},
        ]),
    )
    .await;
    let slices = wait::<EndpointSlice, _>(&cluster, |slices| {
        let ours: Vec<EndpointSlice> = mirrored(slices).into_iter().cloned().collect();
        (ours.len() == 2).then_some(ours)
    })
    .await;
    let of = |family: &str| slices.iter().find(|slice| slice.address_type == family).unwrap();
    let v4 = serde_json::to_value(of("IPv4")).unwrap();
    assert_eq!(
        v4["endpoints"],
        json!([
            {"addresses": ["192.0.2.1"], "conditions": {"ready": true}, "nodeName": "n"},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": false}, "hostname": "b"},
        ])
    );
    assert_eq!(v4["ports"], json!([{"name": "sql", "port": 5432, "protocol": "TCP"}]));
    assert_eq!(
        v4["metadata"]["labels"],
        json!({
            "team": "a", "kubernetes.io/service-name": "db",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
        })
    );
    assert_eq!(v4["metadata"]["annotations"], json!({"note": "kept"}));
    assert_eq!(v4["metadata"]["ownerReferences"][0]["uid"], json!(endpoints.metadata.uid));
    assert_eq!(of("IPv6").endpoints.as_ref().unwrap()[0].addresses, ["2001:db8::1"]);

    // Another port reuses the slice; the slice of a family without addresses is deleted.
    let api: Api<Endpoints> = Api::default_namespaced(cluster.client());
    let patch = json!({"subsets": [{
        "addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "sql", "port": 5433}],
    }]});
    api.patch("db", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let name = &of("IPv4").metadata.name;
    wait::<EndpointSlice, _>(&cluster, |slices| {
        let [slice] = mirrored(slices)[..] else { return None };
        let port = slice.ports.as_ref()?.first()?.port?;
        (slice.metadata.name == *name && port == 5433).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn mirrored_slices_are_deleted_when_mirroring_no_longer_applies() {
    let cluster = cluster(&[MIRROR]).await;
    let subsets = json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 1}]}]);
    endpoints_without_selector(&cluster, subsets).await;
    let exists = |slices: &[EndpointSlice]| (mirrored(slices).len() == 1).then_some(());
    let deleted = |slices: &[EndpointSlice]| mirrored(slices).is_empty().then_some(());
    let api: Api<Endpoints> = Api::default_namespaced(cluster.client());
    let services: Api<Service> = Api::default_namespaced(cluster.client());
    let merge = PatchParams::default();
    wait::<EndpointSlice, _>(&cluster, exists).await;
    let labels = |value: Value| {
        Patch::Merge(json!({"metadata": {"labels": {
            "endpointslice.kubernetes.io/skip-mirror": value,
        }}}))
    };
    api.patch("db", &merge, &labels(json!("true"))).await.unwrap();
    wait::<EndpointSlice, _>(&cluster, deleted).await;
    api.patch("db", &merge, &labels(Value::Null)).await.unwrap();
    wait::<EndpointSlice, _>(&cluster, exists).await;
    let selector = |value: Value| Patch::Merge(json!({"spec": {"selector": value}}));
    services.patch("db", &merge, &selector(json!({"app": "db"}))).await.unwrap();
    wait::<EndpointSlice, _>(&cluster, deleted).await;
    services.patch("db", &merge, &selector(Value::Null)).await.unwrap();
    wait::<EndpointSlice, _>(&cluster, exists).await;
    services.delete("db", &DeleteParams::default()).await.unwrap();
    wait::<EndpointSlice, _>(&cluster, deleted).await;
}

/// Go serializes an unset time as null, and stores it.
#[tokio::test(start_paused = true)]
async fn slices_of_a_service_with_a_null_time_in_its_status_follow_its_pods() {
    let cluster = with_node(&[SLICES]).await;
    service(&cluster, json!({"ports": [{"port": 80}]})).await;
    let kind = kube::api::ApiResource::erase::<Service>(&());
    let services: Api<kube::api::DynamicObject> =
        Api::default_namespaced_with(cluster.client(), &kind);
    let conditions = json!([{
        "type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": null,
    }]);
    let patch = json!([{"op": "add", "path": "/status/conditions", "value": conditions}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    let stored = services.patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    let time = stored.data.pointer("/status/conditions/0/lastTransitionTime");
    assert_eq!(time, Some(&Value::Null));
    pod(&cluster, 1, 80, true).await;
    wait_for_endpoints(&cluster, &[("web-1", true, true, false)]).await;
    pod(&cluster, 2, 80, true).await;
    wait_for_endpoints(&cluster, &[("web-1", true, true, false), ("web-2", true, true, false)])
        .await;
}
