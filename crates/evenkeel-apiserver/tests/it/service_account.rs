//! The admission plugin ServiceAccount.

use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::harness::{Cluster, TestResponse, pod};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

async fn cluster() -> Cluster {
    let builder = ApiServer::builder().seed(1).enable_admission_plugins(["ServiceAccount"]);
    Cluster::built(builder).await
}

async fn with_account(account: Value) -> Cluster {
    let cluster = cluster().await;
    cluster.post(ACCOUNTS, account).await.expect(201);
    cluster
}

fn default_account() -> Value {
    json!({"metadata": {"name": "default"}})
}

/// Creates a pod with additional fields in its spec.
async fn create(cluster: &Cluster, name: &str, spec: Value) -> TestResponse {
    let mut pod = pod(name);
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    cluster.post(PODS, pod).await
}

#[tokio::test(start_paused = true)]
async fn pods_get_the_default_account_and_its_token() {
    let cluster = with_account(default_account()).await;
    let created = create(&cluster, "web", json!({})).await.expect(201);
    let spec = &created["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    let volume = &spec["volumes"][0];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-") && name.len() == 21, "{name}");
    assert_eq!(
        volume["projected"],
        json!({
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {
                    "name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }},
                {"downwardAPI": {"items": [{
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }]}},
            ],
            "defaultMode": 420,
        })
    );
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([{"name": name, "readOnly": true, "mountPath": MOUNT_PATH}])
    );
    assert!(!created["metadata"]["managedFields"].to_string().contains("volumes"));
}

#[tokio::test(start_paused = true)]
async fn tokens_are_not_mounted_if_the_pod_or_else_the_account_declines() {
    let account = json!({"metadata": {"name": "default"}, "automountServiceAccountToken": false});
    let cluster = with_account(account).await;
    let created = create(&cluster, "a", json!({})).await.expect(201);
    assert_eq!(created["spec"].get("volumes"), None);
    let wanted = json!({"automountServiceAccountToken": true});
    let created = create(&cluster, "b", wanted).await.expect(201);
    assert_eq!(created["spec"]["volumes"].as_array().unwrap().len(), 1);
    let mounted = json!({
        "automountServiceAccountToken": true,
        "volumes": [{"name": "own", "emptyDir": {}}],
        "containers": [
            {"name": "a", "image": "x", "volumeMounts": [{"name": "own", "mountPath": MOUNT_PATH}]},
        ],
    });
    let created = create(&cluster, "c", mounted).await.expect(201);
    assert_eq!(created["spec"]["volumes"].as_array().unwrap().len(), 1, "a mount of its own");
}

#[tokio::test(start_paused = true)]
async fn image_pull_secrets_of_the_account_are_used_by_pods_without_others() {
    let account = json!({
        "metadata": {"name": "default"}, "imagePullSecrets": [{"name": "registry"}],
    });
    let cluster = with_account(account).await;
    let created = create(&cluster, "a", json!({})).await.expect(201);
    assert_eq!(created["spec"]["imagePullSecrets"], json!([{"name": "registry"}]));
    let own = json!({"imagePullSecrets": [{"name": "own"}]});
    let created = create(&cluster, "b", own.clone()).await.expect(201);
    assert_eq!(created["spec"]["imagePullSecrets"], own["imagePullSecrets"]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_account_is_forbidden() {
    let cluster = cluster().await;
    let none = json!({"serviceAccountName": "none"});
    let denied = create(&cluster, "web", none).await.expect(403);
    assert_eq!(
        denied["message"],
        "pods \"web\" is forbidden: error looking up service account default/none: \
         serviceaccount \"none\" not found"
    );
    let start = tokio::time::Instant::now();
    let denied = create(&cluster, "web", json!({})).await.expect(403);
    assert_eq!(
        denied["message"],
        "pods \"web\" is forbidden: error looking up service account default/default: \
         serviceaccount \"default\" not found"
    );
    assert!(start.elapsed() >= Duration::from_millis(900), "waits for the controller");
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_default_account() {
    let cluster = cluster().await;
    let later = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.post(ACCOUNTS, default_account()).await.expect(201);
    };
    let (created, ()) = tokio::join!(create(&cluster, "web", json!({})), later);
    let created = created.expect(201);
    assert_eq!(created["spec"]["serviceAccountName"], "default");
    assert_eq!(created["spec"]["volumes"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn mirror_pods_are_not_changed_and_use_no_account() {
    let cluster = with_account(default_account()).await;
    let mirror = |spec: Value| {
        let mut pod = pod("web");
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        pod["spec"]["nodeName"] = "n1".into();
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    for (spec, why) in [
        (
            json!({"serviceAccountName": "default"}),
            "a mirror pod may not reference service accounts",
        ),
        (
            json!({"volumes": [{"name": "s", "secret": {"secretName": "s"}}]}),
            "a mirror pod may not reference secrets",
        ),
        (
            json!({"volumes": [{"name": "s", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
            ]}}]}),
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ] {
        let denied = cluster.post(PODS, mirror(spec)).await.expect(403);
        assert_eq!(denied["message"], format!("pods \"web\" is forbidden: {why}"));
    }
    let created = cluster.post(PODS, mirror(json!({}))).await.expect(201);
    assert_eq!(created["spec"].get("serviceAccountName"), None);
    assert_eq!(created["spec"].get("volumes"), None);
}

#[tokio::test(start_paused = true)]
async fn accounts_can_restrict_the_secrets_of_their_pods() {
    let account = json!({
        "metadata": {
            "name": "default", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"},
        },
        "secrets": [{"name": "own"}],
    });
    let cluster = with_account(account).await;
    let volume =
        |secret: &str| json!({"volumes": [{"name": "s", "secret": {"secretName": secret}}]});
    create(&cluster, "a", volume("own")).await.expect(201);
    let denied = create(&cluster, "b", volume("other")).await.expect(403);
    assert_eq!(
        denied["message"],
        "pods \"b\" is forbidden: volume with secret.secretName=\"other\" is not allowed because \
         service account default does not reference that secret"
    );
    let pull = json!({"imagePullSecrets": [{"name": "x"}]});
    let denied = create(&cluster, "c", pull).await.expect(403);
    assert_eq!(
        denied["message"],
        "pods \"c\" is forbidden: imagePullSecrets[0].name=\"x\" is not allowed because service \
         account default does not reference that imagePullSecret"
    );
}
