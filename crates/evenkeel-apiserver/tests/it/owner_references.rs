//! `OwnerReferencesPermissionEnforcement`, which is disabled by default.

use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::identity::Identity;
use http::Method;
use serde_json::{Value, json};

use crate::harness::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

/// Starts a server on which bob may create and update ConfigMaps, and what `more` allows.
async fn cluster(more: Value) -> Cluster {
    let builder = ApiServer::builder()
        .seed(1)
        .rbac()
        .enable_admission_plugins(["OwnerReferencesPermissionEnforcement"]);
    let cluster = Cluster::built(builder).await;
    let rules = json!([
        {"verbs": ["create", "update"], "apiGroups": [""], "resources": ["configmaps"]},
        more,
    ]);
    let role = json!({"metadata": {"name": "r"}, "rules": rules});
    cluster.post(&format!("{RBAC}/roles"), role).await.expect(201);
    let binding = json!({
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
    });
    cluster.post(&format!("{RBAC}/rolebindings"), binding).await.expect(201);
    cluster
}

fn owned(kind: &str, blocks: bool) -> Value {
    let mut map = config_map("m", json!({}));
    map["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": kind, "name": "d", "uid": "1",
        "blockOwnerDeletion": blocks,
    }]);
    map
}

async fn as_bob(cluster: &Cluster, method: Method, path: &str, body: Value) -> TestResponse {
    let bob = cluster.server.service_as(Identity::authenticated("bob", ["dev"]));
    send(bob, method, path, &[("content-type", "application/json")], body.to_string()).await
}

#[tokio::test(start_paused = true)]
async fn blocking_the_deletion_of_an_owner_needs_its_finalizers() {
    let none = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]});
    let cluster = cluster(none).await;
    let create = |map| as_bob(&cluster, Method::POST, CONFIG_MAPS, map);
    create(owned("Deployment", true)).await.expect_error(
        403,
        "Forbidden",
        "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers \
         to a resource you can't set finalizers on: , <nil>",
    );
    create(owned("Nope", true)).await.expect_error(
        403,
        "Forbidden",
        "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion in this case because cannot \
         find RESTMapping for APIVersion apps/v1 Kind Nope: no matches for kind \"Nope.apps\" in \
         version \"v1\"",
    );
    create(owned("Deployment", false)).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_user_who_may_set_finalizers_may_block() {
    let finalizers = json!({
        "verbs": ["update"], "apiGroups": ["apps"], "resources": ["deployments/finalizers"],
    });
    let cluster = cluster(finalizers).await;
    as_bob(&cluster, Method::POST, CONFIG_MAPS, owned("Deployment", true)).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn changing_owners_needs_the_permission_to_delete() {
    let none = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]});
    let cluster = cluster(none).await;
    cluster.post(CONFIG_MAPS, config_map("m", json!({}))).await.expect(201);
    let path = format!("{CONFIG_MAPS}/m");
    as_bob(&cluster, Method::PUT, &path, owned("Deployment", false)).await.expect_error(
        403,
        "Forbidden",
        "configmaps \"m\" is forbidden: cannot set an ownerRef on a resource you can't delete: , \
         <nil>",
    );
    as_bob(&cluster, Method::PUT, &path, config_map("m", json!({"a": "b"}))).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn plugins_are_selected_by_known_names() {
    let unknown = ApiServer::builder().enable_admission_plugins(["Nope"]).build().await;
    let message = unknown.err().unwrap().to_string();
    assert!(message.contains("enable-admission-plugins plugin \"Nope\" is unknown"), "{message}");
    let both = ApiServer::builder()
        .enable_admission_plugins(["LimitRanger"])
        .disable_admission_plugins(["LimitRanger"])
        .build()
        .await;
    let message = both.err().unwrap().to_string();
    assert!(message.contains("[LimitRanger] in enable-admission-plugins and"), "{message}");
}
