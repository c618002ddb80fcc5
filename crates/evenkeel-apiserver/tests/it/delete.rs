//! Deletion: finalizers, preconditions, propagation policies, grace periods, collections.

use serde_json::{Value, json};

use crate::harness::{
    CONFIG_MAPS, Cluster, NAMESPACES, PODS, Patch, config_map, labelled, names, namespace, pod,
    text, version,
};

const A: &str = "/api/v1/namespaces/default/configmaps/a";

/// Starts a cluster with the ConfigMap `a`, which has these finalizers.
async fn with_a(finalizers: Value) -> (Cluster, Value) {
    let cluster = Cluster::new().await;
    let mut object = config_map("a", json!({"k": "v"}));
    object["metadata"]["finalizers"] = finalizers;
    let created = cluster.post(CONFIG_MAPS, object).await.expect(201);
    (cluster, created)
}

#[tokio::test(start_paused = true)]
async fn delete_returns_a_status() {
    let (cluster, created) = with_a(json!([])).await;
    assert_eq!(
        cluster.delete(A).await.expect(200),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]},
        })
    );
    cluster.get(A).await.expect_error(404, "NotFound", "configmaps \"a\" not found");
    cluster.delete(A).await.expect_error(404, "NotFound", "configmaps \"a\" not found");
}

#[tokio::test(start_paused = true)]
async fn name_can_be_reused_after_deletion() {
    let (cluster, first) = with_a(json!([])).await;
    cluster.delete(A).await.expect(200);
    let second = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn finalizers_keep_an_object_until_they_are_removed() {
    let (cluster, created) = with_a(json!(["example.com/f"])).await;
    let marked = cluster.delete(A).await.expect(200);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(version(&marked) > version(&created));
    assert_eq!(cluster.delete(A).await.expect(200), marked, "the second delete changes nothing");

    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect_error(
        409,
        "AlreadyExists",
        "object is being deleted: configmaps \"a\" already exists",
    );
    let more = json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}});
    cluster.merge(A, more).await.expect_error(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be \
         added if the object is being deleted, found new finalizers []string{\"example.com/g\"}",
    );
    let revived = cluster.merge(A, json!({"metadata": {"deletionTimestamp": null}})).await;
    assert_eq!(revived.expect(200), marked, "deletionTimestamp cannot be removed");

    let last = cluster.merge(A, json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(last["metadata"].get("finalizers"), None);
    assert_eq!(
        version(&last),
        version(&marked),
        "the write that removes the last finalizer deletes the object"
    );
    cluster.get(A).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn finalizers_must_be_qualified() {
    let cluster = Cluster::new().await;
    let mut object = config_map("a", json!({}));
    object["metadata"]["finalizers"] = json!(["plain"]);
    cluster.post(CONFIG_MAPS, object).await.expect_error(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.finalizers[0]: Invalid value: \"plain\": name is \
         neither a standard finalizer name nor is it fully qualified",
    );
}

#[tokio::test(start_paused = true)]
async fn delete_preconditions_are_checked() {
    let (cluster, created) = with_a(json!([])).await;
    let uid = text(&created["metadata"]["uid"]);
    cluster.delete_with(A, json!({"preconditions": {"uid": "x"}})).await.expect_error(
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) \
             does not match the UID in record ({uid}). The object might have been deleted and \
             then recreated"
        ),
    );
    let current = version(&created);
    cluster.delete_with(A, json!({"preconditions": {"resourceVersion": "1"}})).await.expect_error(
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the \
             precondition (1) does not match the ResourceVersion in record ({current}). The \
             object might have been modified"
        ),
    );
    let right = json!({"uid": uid, "resourceVersion": current.to_string()});
    cluster.delete_with(A, json!({"preconditions": right})).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn propagation_policy_sets_the_finalizer() {
    for (policy, finalizer) in [("Orphan", "orphan"), ("Foreground", "foregroundDeletion")] {
        let (cluster, _) = with_a(json!([])).await;
        let options = json!({"propagationPolicy": policy});
        let marked = cluster.delete_with(A, options).await.expect(200);
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
        let remove = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
        cluster.patch(A, Patch::Json, remove).await.expect(200);
        cluster.get(A).await.expect(404);
    }
    let (cluster, _) = with_a(json!([])).await;
    cluster.delete(&format!("{A}?propagationPolicy=Background")).await.expect(200);
    cluster.get(A).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn orphan_dependents_false_is_accepted() {
    let (cluster, _) = with_a(json!(["example.com/f"])).await;
    let marked = cluster.delete_with(A, json!({"orphanDependents": false})).await.expect(202);
    assert_eq!(marked["metadata"]["finalizers"], json!(["example.com/f"]));
}

#[tokio::test(start_paused = true)]
async fn invalid_delete_options_are_rejected() {
    let (cluster, created) = with_a(json!([])).await;
    let policies = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    let unsupported = format!(
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"X\": \
         {policies}"
    );
    cluster.delete_with(A, json!({"propagationPolicy": "X"})).await.expect_error(
        422,
        "Invalid",
        &unsupported,
    );
    cluster.delete(&format!("{A}?propagationPolicy=X")).await.expect_error(
        422,
        "Invalid",
        &unsupported,
    );
    cluster
        .delete_with(A, json!({"propagationPolicy": "Orphan", "orphanDependents": true}))
        .await
        .expect_error(
            422,
            "Invalid",
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \
             \"Orphan\": orphanDependents and deletionPropagation cannot be both set",
        );
    cluster.delete(&format!("{A}?gracePeriodSeconds=x")).await.expect_error(
        400,
        "BadRequest",
        "strconv.ParseInt: parsing \"x\": invalid syntax",
    );
    cluster.delete_with(A, json!({"kind": "ConfigMap", "apiVersion": "v1"})).await.expect(400);
    assert_eq!(cluster.get(A).await.expect(200), created);
}

#[tokio::test(start_paused = true)]
async fn pod_on_a_node_is_deleted_gracefully() {
    let cluster = Cluster::new().await;
    let path = format!("{PODS}/p");
    let mut object = pod("p");
    object["spec"]["nodeName"] = "n1".into();
    cluster.post(PODS, object).await.expect(201);

    let marked = cluster.delete(&path).await.expect(200);
    let (time, grace) = ("deletionTimestamp", "deletionGracePeriodSeconds");
    assert_eq!(marked["metadata"][time], "2026-01-01T00:00:30Z");
    assert_eq!(marked["metadata"][grace], 30);
    let shorter = cluster.delete(&format!("{path}?gracePeriodSeconds=5")).await.expect(200);
    assert_eq!(shorter["metadata"][time], "2026-01-01T00:00:05Z");
    assert_eq!(shorter["metadata"][grace], 5);
    let longer = cluster.delete(&format!("{path}?gracePeriodSeconds=50")).await.expect(200);
    assert_eq!(longer, shorter, "the grace period can only be shortened");
    let forced = cluster.delete(&format!("{path}?gracePeriodSeconds=0")).await.expect(200);
    assert_eq!(forced["metadata"][grace], 0);
    cluster.get(&path).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn pod_without_a_node_is_deleted_immediately() {
    let cluster = Cluster::new().await;
    cluster.post(PODS, pod("p")).await.expect(201);
    let last = cluster.delete(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(last["kind"], "Pod");
    assert_eq!(last["metadata"]["deletionGracePeriodSeconds"], 0);
    cluster.get(&format!("{PODS}/p")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn delete_collection_deletes_selected_objects() {
    let cluster = Cluster::new().await;
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
        cluster.post(CONFIG_MAPS, labelled(name, json!({"l": label}))).await.expect(201);
    }
    let selected = format!("{CONFIG_MAPS}?labelSelector=l%3Dx");
    let dry = cluster.delete(&format!("{selected}&dryRun=All")).await.expect(200);
    assert_eq!(names(&dry), ["a", "b"]);
    assert_eq!(cluster.names(CONFIG_MAPS).await, ["a", "b", "c"]);

    let deleted = cluster.delete(&selected).await.expect(200);
    assert_eq!((&deleted["kind"], names(&deleted).len()), (&json!("ConfigMapList"), 2));
    assert_eq!(cluster.names(CONFIG_MAPS).await, ["c"]);
}

#[tokio::test(start_paused = true)]
async fn delete_collection_across_namespaces_is_not_allowed() {
    let cluster = Cluster::new().await;
    for path in ["/api/v1/configmaps", NAMESPACES] {
        cluster.delete(path).await.expect_error(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
    }
}

#[tokio::test(start_paused = true)]
async fn terminating_namespace_rejects_new_objects() {
    let cluster = Cluster::new().await;
    let path = format!("{NAMESPACES}/zoo");
    cluster.post(NAMESPACES, namespace("zoo")).await.expect(201);
    cluster.post(&format!("{path}/configmaps"), config_map("a", json!({}))).await.expect(201);
    let marked = cluster.delete(&path).await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());

    let status =
        cluster.post(&format!("{path}/configmaps"), config_map("b", json!({}))).await.expect_error(
            403,
            "Forbidden",
            "configmaps \"b\" is forbidden: unable to create new content in namespace zoo \
             because it is being terminated",
        );
    assert_eq!(
        status["details"]["causes"],
        json!([{
            "reason": "NamespaceTerminating", "message": "namespace zoo is being terminated",
            "field": "metadata.namespace",
        }])
    );
    let mut finalized = namespace("zoo");
    finalized["spec"] = json!({});
    cluster.put(&format!("{path}/finalize"), finalized).await.expect(200);
    cluster.get(&path).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn system_namespaces_cannot_be_deleted() {
    let cluster = Cluster::new().await;
    for name in ["default", "kube-system", "kube-public"] {
        cluster.delete(&format!("{NAMESPACES}/{name}")).await.expect_error(
            403,
            "Forbidden",
            &format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"),
        );
    }
}
