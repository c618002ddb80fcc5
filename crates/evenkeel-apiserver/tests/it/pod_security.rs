//! `PodSecurity`: the levels of a namespace's labels are enforced on pods, and warned about.

use serde_json::{Value, json};

use crate::harness::*;

const IN_SHOP: &str = "/api/v1/namespaces/shop/pods";

async fn with_labels(labels: Value) -> Cluster {
    let cluster = Cluster::new().await;
    let mut shop = namespace("shop");
    shop["metadata"]["labels"] = labels;
    cluster.post(NAMESPACES, shop).await.expect(201);
    cluster
}

fn label(mode: &str) -> String {
    format!("pod-security.kubernetes.io/{mode}")
}

fn privileged(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    pod
}

#[tokio::test(start_paused = true)]
async fn pods_that_violate_the_enforced_level_are_rejected() {
    let cluster = with_labels(json!({label("enforce"): "baseline"})).await;
    cluster.post(IN_SHOP, privileged("p")).await.expect_error(
        403,
        "Forbidden",
        "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \
         \"main\" must not set securityContext.privileged=true)",
    );
    cluster.post(IN_SHOP, pod("p")).await.expect(201);
    // Other namespaces allow everything.
    cluster.post(PODS, privileged("p")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn templates_of_controllers_cause_warnings_only() {
    let cluster = with_labels(json!({label("enforce"): "restricted"})).await;
    let mut sent = deployment("d");
    sent["spec"]["template"]["spec"]["hostNetwork"] = true.into();
    let response = cluster.post("/apis/apps/v1/namespaces/shop/deployments", sent).await;
    let [warning] = &response.warnings()[..] else { panic!("{:?}", response.warnings()) };
    let expected = "299 - \"would violate PodSecurity \\\"restricted:latest\\\": host namespaces \
                    (hostNetwork=true), allowPrivilegeEscalation != false (container ";
    assert!(warning.starts_with(expected), "{warning}");
    response.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_warning_level_warns_in_its_version_and_audit_is_silent() {
    let cluster = with_labels(json!({
        label("warn"): "baseline", label("warn-version"): "v1.20", label("audit"): "restricted",
    }))
    .await;
    let response = cluster.post(IN_SHOP, privileged("p")).await;
    assert_eq!(
        response.warnings(),
        ["299 - \"would violate PodSecurity \\\"baseline:v1.20\\\": privileged (container \
          \\\"main\\\" must not set securityContext.privileged=true)\""]
    );
    response.expect(201);
    // An update that cannot make it worse does not warn again.
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let response = cluster.merge(&format!("{IN_SHOP}/p"), labels).await;
    assert!(response.warnings().is_empty());
    response.expect(200);
    let image = json!({"spec": {"containers": [{"name": "main", "image": "app:2"}]}});
    let response = cluster.patch(&format!("{IN_SHOP}/p"), Patch::Strategic, image).await;
    assert_eq!(response.warnings().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_container_is_checked() {
    let cluster = with_labels(json!({})).await;
    cluster.post(IN_SHOP, privileged("p")).await.expect(201);
    let labels = json!({"metadata": {"labels": {label("enforce"): "baseline"}}});
    cluster.merge(&format!("{NAMESPACES}/shop"), labels).await.expect(200);
    let ephemeral = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "sh:1"}]}});
    let path = format!("{IN_SHOP}/p/ephemeralcontainers");
    let refused = cluster.patch(&path, Patch::Strategic, ephemeral).await.expect(403);
    assert_eq!(refused["reason"], "Forbidden");
    let status = json!({"status": {"message": "m"}});
    cluster.merge(&format!("{IN_SHOP}/p/status"), status).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn a_stricter_level_warns_about_existing_pods() {
    let cluster = with_labels(json!({})).await;
    for name in ["b", "a", "c"] {
        cluster.post(IN_SHOP, privileged(name)).await.expect(201);
    }
    let mut network = pod("n");
    network["spec"]["hostNetwork"] = true.into();
    cluster.post(IN_SHOP, network).await.expect(201);
    let path = format!("{NAMESPACES}/shop");
    let set = |level: &str| json!({"metadata": {"labels": {label("enforce"): level}}});
    let response = cluster.merge(&path, set("baseline")).await;
    assert_eq!(
        response.warnings(),
        [
            "299 - \"existing pods in namespace \\\"shop\\\" violate the new PodSecurity enforce \
             level \\\"baseline:latest\\\"\"",
            "299 - \"a (and 2 other pods): privileged\"",
            "299 - \"n: host namespaces\"",
        ]
    );
    response.expect(200);
    let relaxed = cluster.merge(&path, set("privileged")).await;
    assert!(relaxed.warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn invalid_labels_are_rejected() {
    let cluster = Cluster::new().await;
    let mut shop = namespace("shop");
    shop["metadata"]["labels"] = json!({label("enforce"): "strict"});
    let message = "Namespace \"shop\" is invalid: \
                   metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
                   \"strict\": must be one of privileged, baseline, restricted";
    cluster.post(NAMESPACES, shop).await.expect_error(422, "Invalid", message);
}

#[tokio::test(start_paused = true)]
async fn the_plugin_can_be_disabled() {
    let builder =
        evenkeel_apiserver::ApiServer::builder().disable_admission_plugins(["PodSecurity"]);
    let cluster = Cluster::built(builder).await;
    let labels = json!({"metadata": {"labels": {label("enforce"): "restricted"}}});
    cluster.merge(&format!("{NAMESPACES}/default"), labels).await.expect(200);
    cluster.post(PODS, privileged("p")).await.expect(201);
}
