//! What kubelets may read and write: the Node authorizer and NodeRestriction.

use evenkeel_apiserver::identity::Identity;
use evenkeel_apiserver::{ApiServer, AuthorizationMode};
use http::Method;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, Cluster, PODS, TestResponse, send};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const NODES: &str = "/api/v1/nodes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

async fn cluster() -> Cluster {
    let modes = [AuthorizationMode::Node, AuthorizationMode::Rbac];
    let builder = ApiServer::builder().seed(1).authorization_modes(modes);
    Cluster::built(builder.enable_admission_plugins(["NodeRestriction"])).await
}

/// Sends a request as the kubelet of a node.
async fn send_as(
    cluster: &Cluster,
    node: &str,
    method: Method,
    path: &str,
    body: Value,
) -> TestResponse {
    let kubelet = Identity::authenticated(format!("system:node:{node}"), ["system:nodes"]);
    let headers = match method {
        Method::PATCH => [("content-type", "application/merge-patch+json")],
        _ => [("content-type", "application/json")],
    };
    send(cluster.server.service_as(kubelet), method, path, &headers, body.to_string()).await
}

async fn get(cluster: &Cluster, node: &str, path: &str) -> TestResponse {
    send_as(cluster, node, Method::GET, path, Value::Null).await
}

async fn post(cluster: &Cluster, node: &str, path: &str, body: Value) -> TestResponse {
    send_as(cluster, node, Method::POST, path, body).await
}

async fn patch(cluster: &Cluster, node: &str, path: &str, body: Value) -> TestResponse {
    send_as(cluster, node, Method::PATCH, path, body).await
}

fn pod(name: &str, node: &str, volumes: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node, "volumes": volumes,
            "containers": [{"name": "c", "image": "i"}],
        },
    })
}

#[track_caller]
fn refused(response: TestResponse, why: &str) {
    let body = response.expect(403);
    let message = body["message"].as_str().unwrap();
    assert!(message.ends_with(why), "{message:?} does not end with {why:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_reads_what_its_pods_refer_to() {
    let cluster = cluster().await;
    for name in ["used", "other"] {
        cluster.post(SECRETS, json!({"metadata": {"name": name}})).await.expect(201);
        cluster.post(CONFIG_MAPS, json!({"metadata": {"name": name}})).await.expect(201);
    }
    let volumes = json!([
        {"name": "s", "secret": {"secretName": "used"}},
        {"name": "c", "configMap": {"name": "used"}},
    ]);
    let unrelated = "no relationship found between node 'n1' and this object";
    let path = |collection: &str, name: &str| format!("{collection}/{name}");
    refused(get(&cluster, "n1", &path(SECRETS, "used")).await, unrelated);

    cluster.post(PODS, pod("p", "n1", volumes)).await.expect(201);

    for collection in [SECRETS, CONFIG_MAPS] {
        get(&cluster, "n1", &path(collection, "used")).await.expect(200);
        let by_name = format!("{collection}?fieldSelector=metadata.name%3Dused");
        get(&cluster, "n1", &by_name).await.expect(200);
        refused(get(&cluster, "n1", &path(collection, "other")).await, unrelated);
        refused(get(&cluster, "n1", collection).await, "No Object name found");
        let other = "no relationship found between node 'n2' and this object";
        refused(get(&cluster, "n2", &path(collection, "used")).await, other);
    }
    let written = patch(&cluster, "n1", &path(SECRETS, "used"), json!({})).await;
    refused(written, "can only read resources of this type");
    cluster.delete_with(&path(PODS, "p"), json!({"gracePeriodSeconds": 0})).await.expect(200);
    refused(get(&cluster, "n1", &path(SECRETS, "used")).await, unrelated);
}

#[tokio::test(start_paused = true)]
async fn a_node_reads_the_volumes_of_its_pods_and_their_secrets() {
    let cluster = cluster().await;
    let modes = json!(["ReadWriteOnce"]);
    let secrets = "/api/v1/namespaces/storage/secrets";
    cluster.post("/api/v1/namespaces", json!({"metadata": {"name": "storage"}})).await.expect(201);
    cluster.post(secrets, json!({"metadata": {"name": "csi"}})).await.expect(201);
    let volume = json!({
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": modes,
            "claimRef": {"namespace": "default", "name": "c"},
            "csi": {
                "driver": "d.example.com", "volumeHandle": "h",
                "nodeStageSecretRef": {"name": "csi", "namespace": "storage"},
            },
        },
    });
    cluster.post("/api/v1/persistentvolumes", volume).await.expect(201);
    let claim = json!({
        "metadata": {"name": "c"},
        "spec": {
            "volumeName": "v", "accessModes": modes,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    cluster.post(CLAIMS, claim).await.expect(201);
    let paths =
        [format!("{CLAIMS}/c"), "/api/v1/persistentvolumes/v".to_owned(), format!("{secrets}/csi")];
    for path in &paths {
        get(&cluster, "n1", path).await.expect(403);
    }
    let volumes = json!([{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}]);
    cluster.post(PODS, pod("p", "n1", volumes)).await.expect(201);
    for path in &paths {
        get(&cluster, "n1", path).await.expect(200);
        get(&cluster, "n2", path).await.expect(403);
    }
    let status = json!({"status": {"capacity": {"storage": "2Gi"}}});
    patch(&cluster, "n1", &format!("{CLAIMS}/c/status"), status).await.expect(200);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    patch(&cluster, "n1", &format!("{CLAIMS}/c/status"), labels).await.expect(403);
}

#[tokio::test(start_paused = true)]
async fn a_node_reads_its_own_node_and_pods() {
    let cluster = cluster().await;
    let own = json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}});
    post(&cluster, "n1", NODES, own).await.expect(201);
    let other = post(&cluster, "n1", NODES, json!({"metadata": {"name": "n2"}})).await;
    refused(other, "node \"n1\" is not allowed to modify node \"n2\"");
    cluster.post(NODES, json!({"metadata": {"name": "n2"}})).await.expect(201);
    cluster.post(PODS, pod("p", "n1", Value::Null)).await.expect(201);

    get(&cluster, "n1", &format!("{NODES}/n1")).await.expect(200);
    let message = "node 'n1' cannot read 'n2', only its own Node object";
    refused(get(&cluster, "n1", &format!("{NODES}/n2")).await, message);
    let message = "node 'n1' cannot read all nodes, only its own Node object";
    refused(get(&cluster, "n1", NODES).await, message);
    get(&cluster, "n1", &format!("{PODS}/p")).await.expect(200);
    get(&cluster, "n2", &format!("{PODS}/p")).await.expect(403);
    get(&cluster, "n1", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1").await.expect(200);
    let message = "can only list/watch pods with spec.nodeName field selector";
    refused(get(&cluster, "n2", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1").await, message);
    refused(get(&cluster, "n1", "/api/v1/pods").await, message);
    // Other resources by the role system:node.
    get(&cluster, "n1", "/api/v1/services").await.expect(200);
    get(&cluster, "n1", "/api/v1/namespaces").await.expect(403);
}

#[tokio::test(start_paused = true)]
async fn nodes_do_not_steer_workloads_to_themselves() {
    let cluster = cluster().await;
    let labels = json!({"node-role.kubernetes.io/control-plane": "", "zone": "a"});
    let node = json!({"metadata": {"name": "n1", "labels": labels}});
    let message = "node \"n1\" is not allowed to set the following labels: \
                   node-role.kubernetes.io/control-plane";
    refused(post(&cluster, "n1", NODES, node).await, message);
    let taints = json!([{"key": "a", "effect": "NoSchedule"}]);
    let node = json!({"metadata": {"name": "n1"}, "spec": {"taints": taints}});
    post(&cluster, "n1", NODES, node).await.expect(201);
    let path = format!("{NODES}/n1");
    let changed = patch(&cluster, "n1", &path, json!({"spec": {"taints": []}})).await;
    refused(changed, "node \"n1\" is not allowed to modify taints");
    let label = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}});
    let changed = patch(&cluster, "n1", &path, label).await;
    refused(changed, "is not allowed to modify labels: node-restriction.kubernetes.io/a");
    let label = json!({"metadata": {"labels": {"example.com/a": "b"}}});
    patch(&cluster, "n1", &path, label).await.expect(200);
    send_as(&cluster, "n1", Method::DELETE, &path, json!({})).await.expect(403);
}

#[tokio::test(start_paused = true)]
async fn nodes_change_only_pods_of_their_own() {
    let cluster = cluster().await;
    cluster.post(NODES, json!({"metadata": {"name": "n1"}})).await.expect(201);
    cluster.post(PODS, pod("p", "n1", Value::Null)).await.expect(201);
    let (status, path) = (json!({"status": {"phase": "Running"}}), format!("{PODS}/p/status"));
    patch(&cluster, "n1", &path, status.clone()).await.expect(200);
    let message =
        "node \"n2\" can only update pod status for pods with spec.nodeName set to itself";
    refused(patch(&cluster, "n2", &path, status).await, message);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let message = "node \"n1\" cannot update labels through pod status";
    refused(patch(&cluster, "n1", &path, labels).await, message);
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
    });
    let evicted = post(&cluster, "n2", &format!("{PODS}/p/eviction"), eviction).await;
    refused(evicted, "node n2 can only evict pods with spec.nodeName set to itself");
    let deleted = send_as(&cluster, "n2", Method::DELETE, &format!("{PODS}/p"), json!({})).await;
    refused(deleted, "node \"n2\" can only delete pods with spec.nodeName set to itself");
    let created = post(&cluster, "n1", PODS, pod("q", "n1", Value::Null)).await;
    let message = "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can \
                   only create mirror pods";
    refused(created, message);
    let mut mirror = pod("q", "n1", json!([{"name": "s", "secret": {"secretName": "s"}}]));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let uid = cluster.get(&format!("{NODES}/n1")).await.expect(200)["metadata"]["uid"].clone();
    mirror["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true}]);
    let message = "node \"n1\" can not create pods that reference secrets";
    refused(post(&cluster, "n1", PODS, mirror.clone()).await, message);
    mirror["spec"]["volumes"] = Value::Null;
    post(&cluster, "n1", PODS, mirror).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn nodes_request_tokens_for_their_own_pods() {
    let cluster = cluster().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.post(accounts, json!({"metadata": {"name": "a"}})).await.expect(201);
    let volumes = json!([{"name": "t", "projected": {"sources": [
        {"serviceAccountToken": {"path": "t"}},
        {"serviceAccountToken": {"path": "u", "audience": "vault"}},
    ]}}]);
    let mut used = pod("p", "n1", volumes);
    used["spec"]["serviceAccountName"] = json!("a");
    let used = cluster.post(PODS, used).await.expect(201);
    let path = format!("{accounts}/a/token");
    let token = |audiences: Value, bound: Value| {
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": audiences, "boundObjectRef": bound},
        })
    };
    let bound = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": used["metadata"]["uid"],
    });
    for audiences in [json!([]), json!(["vault"])] {
        post(&cluster, "n1", &path, token(audiences, bound.clone())).await.expect(201);
    }
    let message = "audience \"other\" not found in pod spec volume, system:node:n1 is not \
                   authorized to request tokens for this audience";
    let refused_token = token(json!(["other"]), bound.clone());
    refused(post(&cluster, "n1", &path, refused_token).await, message);
    let unbound = post(&cluster, "n1", &path, token(json!([]), Value::Null)).await;
    refused(unbound, "node requested token not bound to a pod");
    let other = post(&cluster, "n2", &path, token(json!([]), bound)).await;
    refused(other, "no relationship found between node 'n2' and this object");
}

#[tokio::test(start_paused = true)]
async fn nodes_keep_their_own_leases() {
    let cluster = cluster().await;
    let namespace = json!({"metadata": {"name": "kube-node-lease"}});
    let created = cluster.post("/api/v1/namespaces", namespace).await;
    assert!(matches!(created.status, 201 | 409), "{created:?}");
    let lease = |name: &str| json!({"metadata": {"name": name}});
    post(&cluster, "n1", LEASES, lease("n1")).await.expect(201);
    let message = "can only access node lease with the same name as the requesting node";
    refused(post(&cluster, "n1", LEASES, lease("n2")).await, message);
    refused(get(&cluster, "n2", &format!("{LEASES}/n1")).await, message);
    let elsewhere = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let message = "can only access leases in the \"kube-node-lease\" system namespace";
    refused(post(&cluster, "n1", elsewhere, lease("n1")).await, message);
}

#[tokio::test(start_paused = true)]
async fn nodes_have_no_permissions_without_the_node_authorizer() {
    let cluster = Cluster::built(ApiServer::builder().seed(1).rbac()).await;
    get(&cluster, "n1", "/api/v1/services").await.expect(403);
}

#[tokio::test(start_paused = true)]
async fn the_node_authorizer_alone_denies_others() {
    let modes = [AuthorizationMode::Node];
    let cluster = Cluster::built(ApiServer::builder().seed(1).authorization_modes(modes)).await;
    cluster.post(NODES, json!({"metadata": {"name": "n1"}})).await.expect(201);
    let own = format!("{NODES}/n1");
    send_as(&cluster, "n1", Method::GET, &own, Value::Null).await.expect(200);
    send_as(&cluster, "n2", Method::GET, &own, Value::Null).await.expect(403);
    let bob = Identity::authenticated("bob", ["dev"]);
    assert_eq!(cluster.send_as(bob, Method::GET, CONFIG_MAPS).await.status, 403);
}
