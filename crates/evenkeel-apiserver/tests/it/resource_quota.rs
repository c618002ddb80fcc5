//! `ResourceQuota`: requests beyond the status of a quota are rejected, others are charged to it.

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::durability::Scratch;
use crate::harness::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// Creates a quota with the status that its controller would write.
async fn add_quota(cluster: &Cluster, name: &str, spec: Value) {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec,
    });
    cluster.post(QUOTAS, quota).await.expect(201);
    let hard = spec["hard"].clone();
    let zero = |(name, _): (&String, &Value)| (name.clone(), json!("0"));
    let used: Value = hard.as_object().unwrap().iter().map(zero).collect();
    let status = json!({"status": {"hard": hard, "used": used}});
    cluster.merge(&format!("{QUOTAS}/{name}/status"), status).await.expect(200);
}

async fn with_quota(hard: Value) -> Cluster {
    let cluster = Cluster::new().await;
    add_quota(&cluster, "q", json!({"hard": hard})).await;
    cluster
}

async fn used(cluster: &Cluster) -> Value {
    cluster.get(&format!("{QUOTAS}/q")).await.expect(200)["status"]["used"].clone()
}

fn pod_with(name: &str, requests: Value) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod
}

fn service(name: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": kind, "ports": [{"port": 80}]},
    })
}

#[tokio::test(start_paused = true)]
async fn pods_are_charged_until_the_quota_is_exceeded() {
    let cluster = with_quota(json!({"pods": "2", "requests.cpu": "1"})).await;
    cluster.post(PODS, pod_with("a", json!({"cpu": "600m"}))).await.expect(201);
    assert_eq!(used(&cluster).await, json!({"pods": "1", "requests.cpu": "600m"}));
    cluster.post(PODS, pod_with("b", json!({"cpu": "500m"}))).await.expect_error(
        403,
        "Forbidden",
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: \
         requests.cpu=600m, limited: requests.cpu=1",
    );
    cluster.post(PODS, pod("b")).await.expect_error(
        403,
        "Forbidden",
        "pods \"b\" is forbidden: failed quota: q: must specify requests.cpu for: main",
    );
    // Neither was charged, nor is a dry run.
    let dry = format!("{PODS}?dryRun=All");
    cluster.post(&dry, pod_with("b", json!({"cpu": "400m"}))).await.expect(201);
    assert_eq!(used(&cluster).await, json!({"pods": "1", "requests.cpu": "600m"}));
    cluster.post(PODS, pod_with("b", json!({"cpu": "400m"}))).await.expect(201);
    cluster.post(PODS, pod_with("c", json!({"cpu": "1m"}))).await.expect_error(
        403,
        "Forbidden",
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1m, used: \
         pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1",
    );
}

#[tokio::test(start_paused = true)]
async fn a_charge_is_taken_back_if_the_object_is_not_stored() {
    let cluster = with_quota(json!({"configmaps": "3"})).await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    let again = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await;
    again.expect_error(409, "AlreadyExists", "configmaps \"a\" already exists");
    assert_eq!(used(&cluster).await, json!({"configmaps": "1"}));
    // If one of two quotas is exceeded, neither is charged.
    add_quota(&cluster, "r", json!({"hard": {"count/configmaps": "0"}})).await;
    cluster.post(CONFIG_MAPS, config_map("b", json!({}))).await.expect_error(
        403,
        "Forbidden",
        "configmaps \"b\" is forbidden: exceeded quota: r, requested: count/configmaps=1, used: \
         count/configmaps=0, limited: count/configmaps=0",
    );
    assert_eq!(used(&cluster).await, json!({"configmaps": "1"}));
}

#[tokio::test(start_paused = true)]
async fn objects_of_any_resource_are_counted() {
    let cluster = Cluster::with_widgets().await;
    let hard = json!({"count/widgets.example.com": "1", "count/deployments.apps": "1"});
    add_quota(&cluster, "q", json!({"hard": hard})).await;
    cluster.post(WIDGETS, widget("a", json!({"color": "red"}))).await.expect(201);
    cluster.post(WIDGETS, widget("b", json!({"color": "red"}))).await.expect_error(
        403,
        "Forbidden",
        "widgets.example.com \"b\" is forbidden: exceeded quota: q, requested: \
         count/widgets.example.com=1, used: count/widgets.example.com=1, limited: \
         count/widgets.example.com=1",
    );
    cluster.apply(&format!("{DEPLOYMENTS}/d"), "m", deployment("d")).await.expect(201);
    let refused = cluster.apply(&format!("{DEPLOYMENTS}/e"), "m", deployment("e")).await;
    assert_eq!(refused.expect(403)["details"]["group"], "apps");
    // Updates of counted objects are free.
    cluster.merge(&format!("{DEPLOYMENTS}/d"), json!({"spec": {"replicas": 9}})).await.expect(200);
    // The quota of another namespace does not count.
    cluster.post(NAMESPACES, namespace("other")).await.expect(201);
    let other = "/apis/apps/v1/namespaces/other/deployments";
    cluster.post(other, deployment("e")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn services_and_claims_are_charged_for_what_an_update_adds() {
    let gold = "gold.storageclass.storage.k8s.io/requests.storage";
    let cluster = with_quota(json!({
        "services": "2", "services.nodeports": "1", gold: "2Gi", "requests.storage": "9Gi",
    }))
    .await;
    cluster.post(SERVICES, service("a", "ClusterIP")).await.expect(201);
    cluster.post(SERVICES, service("b", "ClusterIP")).await.expect(201);
    let to_node_port = json!({"spec": {"type": "NodePort"}});
    cluster.merge(&format!("{SERVICES}/a"), to_node_port.clone()).await.expect(200);
    cluster.merge(&format!("{SERVICES}/b"), to_node_port).await.expect_error(
        403,
        "Forbidden",
        "services \"b\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: \
         services.nodeports=1, limited: services.nodeports=1",
    );
    let claim = |name: &str, storage: &str| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {
                "storageClassName": "gold", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": storage}},
            },
        })
    };
    cluster.post(CLAIMS, claim("c", "1Gi")).await.expect(201);
    let message = text(&cluster.post(CLAIMS, claim("d", "2Gi")).await.expect(403)["message"]);
    assert!(message.contains(&format!("requested: {gold}=2Gi, used: {gold}=1Gi")), "{message}");
    assert_eq!(
        used(&cluster).await,
        json!({
            "services": "2", "services.nodeports": "1", gold: "1Gi", "requests.storage": "1Gi",
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_scoped_quota_counts_only_its_pods_and_a_deadline_moves_a_pod_into_scope() {
    let cluster = Cluster::new().await;
    let spec = json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]});
    add_quota(&cluster, "q", spec).await;
    for name in ["a", "b"] {
        cluster.post(PODS, pod(name)).await.expect(201);
    }
    assert_eq!(used(&cluster).await, json!({"pods": "0"}));
    let deadline = json!({"spec": {"activeDeadlineSeconds": 60}});
    cluster.merge(&format!("{PODS}/a"), deadline.clone()).await.expect(200);
    assert_eq!(used(&cluster).await, json!({"pods": "1"}));
    let refused = cluster.merge(&format!("{PODS}/b"), deadline).await.expect(403);
    assert_eq!(
        refused["message"],
        "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: \
         pods=1"
    );
}

#[tokio::test(start_paused = true)]
async fn a_quota_without_status_is_not_enforced() {
    let cluster = Cluster::new().await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"configmaps": "0"}},
    });
    cluster.post(QUOTAS, quota).await.expect(201);
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
}

/// Creates ConfigMaps concurrently and returns how many were admitted.
async fn race(cluster: &Cluster, requests: usize) -> usize {
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..requests {
        let service = cluster.server.service();
        tasks.spawn(async move {
            let body = config_map(&format!("m{at}"), json!({})).to_string();
            let headers = [("content-type", "application/json")];
            send(service, http::Method::POST, CONFIG_MAPS, &headers, body).await.status
        });
    }
    let codes = tasks.join_all().await;
    assert!(codes.iter().all(|code| matches!(code, 201 | 403)), "{codes:?}");
    codes.into_iter().filter(|code| *code == 201).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_creates_never_exceed_a_quota() {
    let cluster = with_quota(json!({"configmaps": "10"})).await;
    assert_eq!(race(&cluster, 60).await, 10);
    assert_eq!(used(&cluster).await, json!({"configmaps": "10"}));
    assert_eq!(cluster.names(CONFIG_MAPS).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_creates_never_exceed_a_quota_on_disk() {
    let scratch = Scratch::new();
    let cluster = Cluster::built(ApiServer::builder().data_dir(&scratch.0)).await;
    add_quota(&cluster, "q", json!({"hard": {"configmaps": "5"}})).await;
    assert_eq!(race(&cluster, 30).await, 5);
    assert_eq!(used(&cluster).await, json!({"configmaps": "5"}));
}
