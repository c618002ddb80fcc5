//! JSON patch, merge patch and strategic merge patch.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{
    CONFIG_MAPS, Cluster, DEPLOYMENTS, Patch, WIDGETS, config_map, deployment, version, widget,
};

const A: &str = "/api/v1/namespaces/default/configmaps/a";

async fn with_a() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "v"}))).await.expect(201);
    cluster
}

#[tokio::test(start_paused = true)]
async fn merge_patch_sets_and_removes_fields() {
    let cluster = with_a().await;
    let set = cluster.merge(A, json!({"data": {"n": "1", "k": null}})).await.expect(200);
    assert_eq!(set["data"], json!({"n": "1"}));
    let emptied = cluster.merge(A, json!({"data": null})).await.expect(200);
    assert_eq!(emptied.get("data"), None);
}

#[tokio::test(start_paused = true)]
async fn json_patch_is_atomic() {
    let cluster = with_a().await;
    let done = cluster
        .patch(
            A,
            Patch::Json,
            json!([
                {"op": "test", "path": "/data/k", "value": "v"},
                {"op": "replace", "path": "/data/k", "value": "w"},
                {"op": "add", "path": "/data/q", "value": "x"},
                {"op": "copy", "from": "/data/q", "path": "/data/r"},
                {"op": "move", "from": "/data/q", "path": "/data/s"},
            ]),
        )
        .await
        .expect(200);
    assert_eq!(done["data"], json!({"k": "w", "r": "x", "s": "x"}));

    let failing = json!([
        {"op": "replace", "path": "/data/k", "value": "z"},
        {"op": "test", "path": "/data/r", "value": "not this"},
    ]);
    cluster.patch(A, Patch::Json, failing).await.expect(422);
    assert_eq!(cluster.get(A).await.expect(200), done);
}

#[tokio::test(start_paused = true)]
async fn failing_json_patch_is_rejected_without_details() {
    let cluster = with_a().await;
    let patches = [
        json!([{"op": "test", "path": "/data/k", "value": "zz"}]),
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "zork", "path": "/data/none"}]),
        json!([{"op": "add", "value": 1}]),
    ];
    for patch in patches {
        cluster.patch(A, Patch::Json, patch).await.expect_error(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
    }
}

#[tokio::test(start_paused = true)]
async fn strategic_merge_patch_merges_lists_by_merge_key() {
    let cluster = Cluster::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    cluster.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let containers = |list: Value| json!({"spec": {"template": {"spec": {"containers": list}}}});
    let shown = |object: &Value| {
        let list = object.pointer("/spec/template/spec/containers").unwrap().as_array().unwrap();
        list.iter()
            .map(|c| format!("{}={}", c["name"].as_str().unwrap(), c["image"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    let patch = containers(json!([
        {"name": "main", "image": "app:2"},
        {"name": "side", "image": "log:1"},
    ]));
    let merged = cluster.patch(&path, Patch::Strategic, patch).await.expect(200);
    assert_eq!(shown(&merged), ["main=app:2", "side=log:1"]);

    let patch = containers(json!([{"name": "main", "$patch": "delete"}]));
    let deleted = cluster.patch(&path, Patch::Strategic, patch).await.expect(200);
    assert_eq!(shown(&deleted), ["side=log:1"]);

    let patch = containers(json!([{"$patch": "replace"}, {"name": "new", "image": "new:1"}]));
    let replaced = cluster.patch(&path, Patch::Strategic, patch).await.expect(200);
    assert_eq!(shown(&replaced), ["new=new:1"]);
    // As a merge patch, the same body replaces the list, including the defaults in it.
    let merged = cluster
        .merge(&path, containers(json!([{"name": "last", "image": "last:1"}])))
        .await
        .expect(200);
    assert_eq!(shown(&merged), ["last=last:1"]);
}

#[tokio::test(start_paused = true)]
async fn malformed_patches_are_rejected() {
    let cluster = with_a().await;
    let object = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    let cases = [
        (Patch::Merge, "{", "error decoding patch: unexpected end of JSON input".to_owned()),
        (Patch::Merge, "", "error decoding patch: unexpected end of JSON input".to_owned()),
        (Patch::Merge, "[]", format!("error decoding patch: {object}")),
        (Patch::Json, "[", "error decoding patch: unexpected end of JSON input".to_owned()),
        (
            Patch::Json,
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type \
             []handlers.jsonPatchOp"
                .to_owned(),
        ),
        (Patch::Strategic, "{", "unexpected end of JSON input".to_owned()),
    ];
    for (patch, body, message) in cases {
        let headers = [("content-type", patch.media_type())];
        let response = cluster.send(Method::PATCH, A, &headers, body).await;
        response.expect_error(400, "BadRequest", &message);
    }
}

#[tokio::test(start_paused = true)]
async fn patch_cannot_change_kind_or_name() {
    let cluster = with_a().await;
    cluster.merge(A, json!({"metadata": {"name": "b"}})).await.expect_error(
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
    cluster.merge(A, json!({"metadata": {"namespace": "b"}})).await.expect_error(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    cluster.merge(A, json!({"metadata": {"uid": "b"}})).await.expect_error(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"b\": field is immutable",
    );
    cluster.merge(A, json!({"kind": "Secret"})).await.expect(422);
    // Removed kind and apiVersion are restored.
    let remove =
        json!([{"op": "remove", "path": "/kind"}, {"op": "remove", "path": "/apiVersion"}]);
    let shown = cluster.patch(A, Patch::Json, remove).await.expect(200);
    assert_eq!((&shown["kind"], &shown["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
}

#[tokio::test(start_paused = true)]
async fn resource_version_in_a_patch_is_a_precondition() {
    let cluster = with_a().await;
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "w"}});
    cluster.merge(A, stale).await.expect_error(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please \
         apply your changes to the latest version and try again",
    );
    let current = version(&cluster.get(A).await.expect(200)).to_string();
    let fresh = json!({"metadata": {"resourceVersion": current}, "data": {"k": "w"}});
    cluster.merge(A, fresh).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn patch_of_a_missing_object_is_not_found() {
    let cluster = with_a().await;
    for patch in [Patch::Merge, Patch::Strategic] {
        cluster.patch(&format!("{CONFIG_MAPS}/none"), patch, json!({})).await.expect_error(
            404,
            "NotFound",
            "configmaps \"none\" not found",
        );
    }
}

#[tokio::test(start_paused = true)]
async fn json_patch_operations_are_limited() {
    let cluster = with_a().await;
    let operation = json!({"op": "test", "path": "/kind", "value": "ConfigMap"});
    let patch = Value::Array(vec![operation; 10_001]);
    cluster.patch(A, Patch::Json, patch).await.expect_error(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got \
         10001",
    );
}

#[tokio::test(start_paused = true)]
async fn force_is_rejected_except_for_apply() {
    let cluster = with_a().await;
    cluster.merge(&format!("{A}?force=true"), json!({})).await.expect_error(
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for \
         non-apply patch",
    );
}

#[tokio::test(start_paused = true)]
async fn unsupported_patch_types_are_rejected() {
    let cluster = Cluster::with_widgets().await;
    cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    cluster.post(WIDGETS, widget("w", json!({"color": "red"}))).await.expect(201);
    let json = [("content-type", "application/json")];
    cluster.send(Method::PATCH, A, &json, "{}").await.expect_error(
        415,
        "UnsupportedMediaType",
        "415: Unsupported Media Type",
    );
    let path = format!("{WIDGETS}/w");
    for media_type in ["application/json", Patch::Strategic.media_type()] {
        let headers = [("content-type", media_type)];
        cluster.send(Method::PATCH, &path, &headers, "{}").await.expect_error(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, \
             application/apply-patch+yaml",
        );
    }
}

#[tokio::test(start_paused = true)]
async fn field_validation_of_patches_warns_or_rejects() {
    let cluster = with_a().await;
    let warned = cluster.merge(A, json!({"bogus": 1})).await;
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"bogus\\\"\""]);
    warned.expect(200);
    let ignored = cluster.merge(&format!("{A}?fieldValidation=Ignore"), json!({"bogus": 1})).await;
    assert_eq!(ignored.warnings(), [""; 0]);
    let strict = cluster.merge(&format!("{A}?fieldValidation=Strict"), json!({"bogus": 1})).await;
    let status = strict.expect(422);
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with("strict decoding error: unknown field \"bogus\""), "{message}");
}
