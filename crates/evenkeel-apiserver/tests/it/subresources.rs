//! Subresources: status, scale, binding, eviction; and reviews.

use evenkeel_apiserver::identity::Identity;
use serde_json::json;

use crate::harness::{
    Cluster, DEPLOYMENTS, PODS, Patch, WIDGETS, deployment, pod, version, widget,
};

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_separately() {
    let cluster = Cluster::with_widgets().await;
    let path = format!("{WIDGETS}/w");
    let mut object = widget("w", json!({"color": "red"}));
    object["status"] = json!({"phase": "mine"});
    let created = cluster.post(WIDGETS, object).await.expect(201);
    assert_eq!(created.get("status"), None, "create drops the status");

    let mut update = created;
    update["spec"]["color"] = "blue".into();
    update["metadata"]["labels"] = json!({"ignored": "yes"});
    update["status"] = json!({"phase": "ready"});
    let written = cluster.put(&format!("{path}/status"), update).await.expect(200);
    assert_eq!(written["status"], json!({"phase": "ready"}));
    assert_eq!(written["spec"]["color"], "red");
    assert_eq!(written["metadata"].get("labels"), None);
    assert_eq!(written["metadata"]["generation"], 1);

    let mut update = written;
    update["spec"]["color"] = "blue".into();
    update["status"] = json!({"phase": "lost"});
    let written = cluster.put(&path, update).await.expect(200);
    assert_eq!(written["status"], json!({"phase": "ready"}));
    assert_eq!(written["spec"]["color"], "blue");
    assert_eq!(written["metadata"]["generation"], 2);
    assert_eq!(cluster.get(&format!("{path}/status")).await.expect(200), written);
}

#[tokio::test(start_paused = true)]
async fn built_in_status_accepts_every_patch_type() {
    let cluster = Cluster::new().await;
    cluster.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/web/status");
    let patched = cluster
        .merge(&path, json!({"status": {"replicas": 3}, "spec": {"replicas": 9}}))
        .await
        .expect(200);
    assert_eq!(
        (&patched["status"]["replicas"], &patched["spec"]["replicas"]),
        (&json!(3), &json!(2))
    );
    let condition = json!({"status": {"conditions": [{"type": "Available", "status": "True"}]}});
    let patched = cluster.patch(&path, Patch::Strategic, condition).await.expect(200);
    assert_eq!(patched["status"]["conditions"][0]["type"], "Available");
    let remove = json!([{"op": "remove", "path": "/status/conditions"}]);
    let patched = cluster.patch(&path, Patch::Json, remove).await.expect(200);
    assert_eq!(patched["status"], json!({"replicas": 3}));
}

#[tokio::test(start_paused = true)]
async fn status_cannot_be_created_or_deleted() {
    let cluster = Cluster::with_widgets().await;
    cluster.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    cluster.post(WIDGETS, widget("w", json!({"color": "red"}))).await.expect(201);
    let path = format!("{DEPLOYMENTS}/web/status");
    let message = "the server does not allow this method on the requested resource";
    cluster.post(&path, deployment("web")).await.expect_error(405, "MethodNotAllowed", message);
    cluster.delete(&path).await.expect_error(405, "MethodNotAllowed", message);
    let path = format!("{WIDGETS}/w/status");
    cluster.delete(&path).await.expect_error(
        405,
        "MethodNotAllowed",
        "delete is not supported on resources of kind \"widgets.example.com\"",
    );
}

#[tokio::test(start_paused = true)]
async fn scale_reads_and_writes_replicas() {
    let cluster = Cluster::new().await;
    let created = cluster.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/web/scale");
    let scale = cluster.get(&path).await.expect(200);
    assert_eq!(
        scale,
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": "web", "namespace": "default",
                "uid": created["metadata"]["uid"],
                "resourceVersion": created["metadata"]["resourceVersion"],
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"replicas": 2},
            "status": {"replicas": 0, "selector": "app=web"},
        })
    );
    let scaled = cluster.merge(&path, json!({"spec": {"replicas": 4}})).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 4);
    let object = cluster.get(&format!("{DEPLOYMENTS}/web")).await.expect(200);
    assert_eq!(object["spec"]["replicas"], 4);
    assert_eq!(object["metadata"]["generation"], 2);
    assert_eq!(version(&object), version(&scaled));
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["subresource"] == "scale").unwrap();
    assert_eq!(entry["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));

    let mut stale = scale;
    stale["spec"]["replicas"] = 1.into();
    cluster.put(&path, stale).await.expect_error(
        409,
        "Conflict",
        "Operation cannot be fulfilled on deployments.apps \"web\": the object has been modified; \
         please apply your changes to the latest version and try again",
    );
    cluster.merge(&path, json!({"spec": {"replicas": -4}})).await.expect_error(
        422,
        "Invalid",
        "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -4: must be greater \
         than or equal to 0",
    );
    cluster.get(&format!("{DEPLOYMENTS}/none/scale")).await.expect_error(
        404,
        "NotFound",
        "deployments.apps \"none\" not found",
    );
}

#[tokio::test(start_paused = true)]
async fn apply_of_scale_needs_no_name() {
    let cluster = Cluster::new().await;
    cluster.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 7}});
    let path = format!("{DEPLOYMENTS}/web/scale");
    let scaled = cluster.apply(&path, "scaler&force=true", config).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 7);
    let object = cluster.get(&format!("{DEPLOYMENTS}/web")).await.expect(200);
    assert_eq!(object["spec"]["replicas"], 7);
}

#[tokio::test(start_paused = true)]
async fn custom_resource_scale_uses_the_paths_of_its_crd() {
    let cluster = Cluster::with_widgets().await;
    let path = format!("{WIDGETS}/w");
    cluster.post(WIDGETS, widget("w", json!({"color": "red", "replicas": 2}))).await.expect(201);
    cluster.merge(&format!("{path}/status"), json!({"status": {"replicas": 1}})).await.expect(200);
    let scale = cluster.get(&format!("{path}/scale")).await.expect(200);
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 2}), &json!({"replicas": 1}))
    );
    cluster.merge(&format!("{path}/scale"), json!({"spec": {"replicas": 7}})).await.expect(200);
    let object = cluster.get(&path).await.expect(200);
    assert_eq!(object["spec"], json!({"color": "red", "replicas": 7}));
    assert_eq!(object["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn pod_is_bound_to_a_node_once() {
    let cluster = Cluster::new().await;
    cluster.post(PODS, pod("p")).await.expect(201);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n1"},
    });
    let path = format!("{PODS}/p/binding");
    let done = cluster.post(&path, binding.clone()).await.expect(201);
    assert_eq!((&done["kind"], &done["status"]), (&json!("Status"), &json!("Success")));
    let bound = cluster.get(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(
        bound["status"]["conditions"],
        json!([{
            "type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }])
    );
    cluster.post(&path, binding).await.expect_error(
        409,
        "Conflict",
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \
         \"n1\"",
    );
}

#[tokio::test(start_paused = true)]
async fn eviction_deletes_the_pod() {
    let cluster = Cluster::new().await;
    cluster.post(PODS, pod("p")).await.expect(201);
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    cluster.post(&format!("{PODS}/p/eviction"), eviction("p")).await.expect(201);
    cluster.get(&format!("{PODS}/p")).await.expect(404);
    cluster.post(&format!("{PODS}/none/eviction"), eviction("none")).await.expect_error(
        404,
        "NotFound",
        "pods \"none\" not found",
    );
}

#[tokio::test(start_paused = true)]
async fn reviews_return_a_result_and_are_not_stored() {
    let cluster = Cluster::new().await;
    let revision = cluster.server.revision();
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let response = cluster.post(path, review).await.expect(201);
    assert_eq!(response["status"]["allowed"], true);

    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let bob = cluster.server.service_as(Identity::authenticated("bob", ["dev"]));
    let json = [("content-type", "application/json")];
    let response =
        crate::harness::send(bob, http::Method::POST, path, &json, review.to_string()).await;
    assert_eq!(
        response.expect(201)["status"]["userInfo"],
        json!({"username": "bob", "groups": ["dev", "system:authenticated"]})
    );
    cluster.get(path).await.expect_error(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    );
    assert_eq!(cluster.server.revision(), revision);
}
