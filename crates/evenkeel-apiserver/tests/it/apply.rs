//! Server-side apply: field managers, conflicts and ownership.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{
    CONFIG_MAPS, CRDS, Cluster, DEPLOYMENTS, WIDGETS, config_map, deployment, version, widget,
};

const A: &str = "/api/v1/namespaces/default/configmaps/a";

fn a(data: Value) -> Value {
    config_map("a", data)
}

/// Returns `manager/operation` of each managedFields entry, in order.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let name = |entry: &Value| {
        let part = |key: &str| entry[key].as_str().unwrap_or("").to_owned();
        format!("{}/{}", part("manager"), part("operation"))
    };
    entries.iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn apply_creates_then_updates_then_is_a_no_op() {
    let cluster = Cluster::new().await;
    let created = cluster.apply(A, "m1", a(json!({"k": "1"}))).await.expect(201);
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "m1", "operation": "Apply", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:k": {}}},
        }])
    );
    let changed = cluster.apply(A, "m1", a(json!({"k": "2"}))).await.expect(200);
    assert_eq!(changed["data"], json!({"k": "2"}));
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(cluster.apply(A, "m1", a(json!({"k": "2"}))).await.expect(200), changed);
    assert_eq!(cluster.server.revision(), version(&changed));
}

#[tokio::test(start_paused = true)]
async fn field_no_longer_applied_is_removed_unless_another_manager_owns_it() {
    let cluster = Cluster::new().await;
    cluster.apply(A, "m1", a(json!({"shared": "1", "mine": "1"}))).await.expect(201);
    cluster.apply(A, "m2", a(json!({"shared": "1"}))).await.expect(200);
    let rest = cluster.apply(A, "m1", a(json!({"other": "1"}))).await.expect(200);
    assert_eq!(rest["data"], json!({"shared": "1", "other": "1"}));
}

#[tokio::test(start_paused = true)]
async fn applying_the_same_value_shares_ownership_without_a_conflict() {
    let cluster = Cluster::new().await;
    let first = cluster.apply(A, "m1", a(json!({"k": "1"}))).await.expect(201);
    let second = cluster.apply(A, "m2", a(json!({"k": "1"}))).await.expect(200);
    assert!(version(&second) > version(&first));
    assert_eq!(managers(&second), ["m2/Apply", "m1/Apply"]);
    assert_eq!(second["metadata"]["managedFields"][0].get("time"), None);
}

#[tokio::test(start_paused = true)]
async fn applying_another_value_conflicts_with_every_owner() {
    let cluster = Cluster::new().await;
    cluster.apply(A, "m1", a(json!({"k": "1"}))).await.expect(201);
    cluster.apply(A, "m2", a(json!({"k": "1"}))).await.expect(200);
    let status = cluster.apply(A, "m3", a(json!({"k": "2"}))).await.expect_error(
        409,
        "Conflict",
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.k\nconflicts with \
         \"m2\":\n- .data.k",
    );
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2);
    for cause in causes {
        assert_eq!(
            (&cause["reason"], &cause["field"]),
            (&json!("FieldManagerConflict"), &json!(".data.k"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn update_owns_the_fields_it_changed() {
    let cluster = Cluster::new().await;
    cluster.apply(A, "m1", a(json!({"k": "1"}))).await.expect(201);
    let updated = cluster
        .merge(&format!("{A}?fieldManager=upd"), json!({"data": {"k": "2"}}))
        .await
        .expect(200);
    assert_eq!(managers(&updated), ["upd/Update"], "m1 owns no fields");
    cluster.apply(A, "m1", a(json!({"k": "3"}))).await.expect_error(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"upd\" using v1: .data.k",
    );
}

#[tokio::test(start_paused = true)]
async fn force_takes_ownership() {
    let cluster = Cluster::new().await;
    cluster.apply(A, "m1", a(json!({"k": "1", "own": "1"}))).await.expect(201);
    let forced = cluster.apply(A, "m2&force=true", a(json!({"k": "2"}))).await.expect(200);
    assert_eq!(forced["data"], json!({"k": "2", "own": "1"}));
    let fields: Vec<&Value> = forced["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["fieldsV1"]["f:data"])
        .collect();
    assert_eq!(fields, [&json!({"f:own": {}}), &json!({"f:k": {}})]);
}

#[tokio::test(start_paused = true)]
async fn sets_and_map_lists_are_owned_per_item() {
    let cluster = Cluster::with_widgets().await;
    let path = format!("{WIDGETS}/w");
    let tagged = |tag: &str| widget("w", json!({"color": "red", "tags": [tag]}));
    cluster.apply(&path, "m1", tagged("a")).await.expect(201);
    let both = cluster.apply(&path, "m2", tagged("b")).await.expect(200);
    assert_eq!(both["spec"]["tags"], json!(["a", "b"]));
    let mine = widget("w", json!({"color": "red"}));
    let rest = cluster.apply(&path, "m1", mine).await.expect(200);
    assert_eq!(rest["spec"]["tags"], json!(["b"]));

    let path = format!("{DEPLOYMENTS}/web");
    cluster.apply(&path, "m1", deployment("web")).await.expect(201);
    let sidecar = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "log:1"}]}}},
    });
    let two = cluster.apply(&path, "m2", sidecar).await.expect(200);
    let containers = two.pointer("/spec/template/spec/containers").unwrap().as_array().unwrap();
    assert_eq!(containers.iter().map(|c| &c["name"]).collect::<Vec<_>>(), ["main", "side"]);
}

#[tokio::test(start_paused = true)]
async fn first_apply_conflicts_with_unmanaged_fields() {
    let cluster = Cluster::new().await;
    let mut object = a(json!({"k": "1"}));
    cluster.post(CONFIG_MAPS, object.clone()).await.expect(201);
    // Fields of an object without managedFields belong to the manager before-first-apply.
    cluster.merge(A, json!({"metadata": {"managedFields": [{}]}})).await.expect(200);
    assert_eq!(cluster.get(A).await.expect(200)["metadata"].get("managedFields"), None);
    object["data"]["k"] = "2".into();
    cluster.apply(A, "m1", object).await.expect_error(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k",
    );
}

#[tokio::test(start_paused = true)]
async fn apply_requires_field_manager_kind_and_api_version() {
    let cluster = Cluster::new().await;
    cluster.apply(A, "m1", a(json!({"k": "1"}))).await.expect(201);
    let media = [("content-type", "application/apply-patch+yaml")];
    cluster.send(Method::PATCH, A, &media, "{}").await.expect_error(
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for \
         apply patch",
    );
    let cases = [
        (json!({"metadata": {"name": "a"}}), "invalid object type: /, Kind="),
        (
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            config_map("b", json!({})),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "managedFields": [{}]},
            }),
            "metadata.managedFields must be nil",
        ),
    ];
    for (body, message) in cases {
        cluster.apply(A, "m1", body).await.expect_error(400, "BadRequest", message);
    }
    let manager = "x".repeat(129);
    cluster.apply(A, &manager, a(json!({}))).await.expect_error(
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than \
         128 bytes",
    );
}

#[tokio::test(start_paused = true)]
async fn applied_field_must_be_in_the_schema() {
    let cluster = Cluster::with_widgets().await;
    let typo = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dta": {"k": "v"},
    });
    cluster.apply(A, "m1", typo).await.expect_error(
        500,
        "",
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .dta: field not declared \
         in schema",
    );
    let typo = widget("w", json!({"colr": "blue"}));
    cluster.apply(&format!("{WIDGETS}/w"), "m1", typo).await.expect_error(
        500,
        "",
        "failed to create typed patch object (/w; example.com/v1, Kind=Widget): .spec.colr: field \
         not declared in schema",
    );
}

#[tokio::test(start_paused = true)]
async fn apply_accepts_yaml() {
    let cluster = Cluster::new().await;
    let media = [("content-type", "application/apply-patch+yaml")];
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: \"7\"\n";
    let path = format!("{A}?fieldManager=m1");
    let created = cluster.send(Method::PATCH, &path, &media, body).await.expect(201);
    assert_eq!(created["data"], json!({"k": "7"}));
}

#[tokio::test(start_paused = true)]
async fn resource_version_and_uid_are_preconditions_of_apply() {
    let cluster = Cluster::new().await;
    let with = |key: &str, value: &str| {
        let mut object = a(json!({"k": "1"}));
        object["metadata"][key] = value.into();
        object
    };
    cluster.apply(A, "m1", with("uid", "1")).await.expect_error(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object \
         specified uid 1, and no existing object was found",
    );
    cluster.apply(A, "m1", a(json!({"k": "1"}))).await.expect(201);
    cluster.apply(A, "m1", with("resourceVersion", "1")).await.expect_error(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please \
         apply your changes to the latest version and try again",
    );
    cluster.apply(A, "m1", with("uid", "1")).await.expect_error(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"1\": field is immutable",
    );
}

#[tokio::test(start_paused = true)]
async fn status_has_separate_field_managers() {
    let cluster = Cluster::with_widgets().await;
    let path = format!("{WIDGETS}/w");
    cluster.apply(&path, "spec", widget("w", json!({"color": "red"}))).await.expect(201);
    let mut status = widget("w", json!({}));
    status.as_object_mut().unwrap().remove("spec");
    status["status"] = json!({"phase": "ready"});
    let applied = cluster.apply(&format!("{path}/status"), "op", status).await.expect(200);
    assert_eq!(applied["status"], json!({"phase": "ready"}));
    assert_eq!(applied["spec"]["color"], "red");
    let entries = applied["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == "op").unwrap();
    assert_eq!(entry["subresource"], "status");
    assert_eq!(entry["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
    let path = format!("{WIDGETS}/none/status");
    let absent = cluster.apply(&path, "op", widget("none", json!({}))).await;
    absent.expect_error(404, "NotFound", "widgets.example.com \"none\" not found");
}

#[tokio::test(start_paused = true)]
async fn object_nested_to_the_limit_can_be_read_updated_and_deleted() {
    let cluster = Cluster::new().await;
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "frees.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster",
                 "names": {"kind": "Free", "plural": "frees"},
                 "versions": [{"name": "v1", "served": true, "storage": true,
                               "schema": {"openAPIV3Schema": free}}]},
    });
    cluster.post(CRDS, definition).await.expect(201);
    let nested = |depth: usize| {
        let spec = (0..depth).fold(json!("x"), |inner, _| json!({"a": inner}));
        json!({"apiVersion": "example.com/v1", "kind": "Free", "metadata": {"name": "f"}, "spec": spec})
    };
    let path = "/apis/example.com/v1/frees/f";
    // The object itself is one of the 120 levels.
    cluster.apply(path, "m1", nested(119)).await.expect(201);
    cluster.merge(path, json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    cluster.apply(path, "m1", nested(118)).await.expect(200);
    cluster.delete(path).await.expect(200);
    cluster.apply(path, "m1", nested(120)).await.expect(400);
    cluster.post("/apis/example.com/v1/frees", nested(120)).await.expect(400);
}
