//! CRDs and custom resources.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{CRDS, Cluster, WIDGETS, event, text, version, widget, widget_crd};

const WIDGET_CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

#[track_caller]
fn condition<'a>(definition: &'a Value, kind: &str) -> &'a Value {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()
}

fn refused(name: &str, error: &str) -> String {
    format!("Widget.example.com \"{name}\" is invalid: {error}")
}

#[tokio::test(start_paused = true)]
async fn crd_is_defaulted_and_established() {
    let cluster = Cluster::with_widgets().await;
    let definition = cluster.get(WIDGET_CRD).await.expect(200);
    assert_eq!(definition["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(
        definition["status"]["acceptedNames"],
        json!({
            "plural": "widgets", "singular": "widget", "shortNames": ["wg"], "kind": "Widget",
            "listKind": "WidgetList",
        })
    );
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ] {
        let condition = condition(&definition, kind);
        assert_eq!(
            (&condition["status"], &condition["reason"], &condition["message"]),
            (&json!("True"), &json!(reason), &json!(message))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn custom_objects_are_defaulted_pruned_and_stored() {
    let cluster = Cluster::with_widgets().await;
    let object = widget("w", json!({"color": "red", "zork": 1}));
    let response = cluster.post(WIDGETS, object).await;
    assert_eq!(response.warnings(), ["299 - \"unknown field \\\"spec.zork\\\"\""]);
    let created = response.expect(201);
    assert_eq!(created["spec"], json!({"color": "red", "replicas": 1}));
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(cluster.get(&format!("{WIDGETS}/w")).await.expect(200), created);

    let list = cluster.get(WIDGETS).await.expect(200);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("WidgetList"), &json!("example.com/v1"))
    );
    assert_eq!(list["items"][0], created, "items of custom resources have kind and apiVersion");
}

#[tokio::test(start_paused = true)]
async fn strict_field_validation_rejects_unknown_fields() {
    let cluster = Cluster::with_widgets().await;
    let mut object = widget("w", json!({"color": "red", "zork": 1}));
    object["bogus"] = 2.into();
    cluster.post(&format!("{WIDGETS}?fieldValidation=Strict"), object).await.expect_error(
        400,
        "BadRequest",
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown \
         field \"bogus\", unknown field \"spec.zork\"",
    );
}

#[tokio::test(start_paused = true)]
async fn custom_objects_are_validated_against_the_schema() {
    let cluster = Cluster::with_widgets().await;
    let cases = [
        (json!({}), refused("w", "spec.color: Required value")),
        (
            json!({"color": "green"}),
            refused(
                "w",
                "spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\"",
            ),
        ),
        (
            json!({"color": "red", "note": "toolong"}),
            refused("w", "spec.note: Too long: may not be more than 5 bytes"),
        ),
        (
            json!({"color": "red", "tags": ["a", "a"]}),
            refused("w", "spec.tags[1]: Duplicate value: \"a\""),
        ),
    ];
    for (spec, message) in cases {
        cluster.post(WIDGETS, widget("w", spec)).await.expect_error(422, "Invalid", &message);
    }
}

#[tokio::test(start_paused = true)]
async fn update_of_a_custom_object_requires_resource_version() {
    let cluster = Cluster::with_widgets().await;
    cluster.post(WIDGETS, widget("w", json!({"color": "red"}))).await.expect(201);
    cluster.put(&format!("{WIDGETS}/w"), widget("w", json!({"color": "blue"}))).await.expect_error(
        422,
        "Invalid",
        "widgets.example.com \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must \
         be specified for an update",
    );
}

#[tokio::test(start_paused = true)]
async fn body_must_have_the_kind_of_the_path() {
    let cluster = Cluster::with_widgets().await;
    let mut object = widget("w", json!({"color": "red"}));
    object["kind"] = "Gadget".into();
    cluster.post(WIDGETS, object.clone()).await.expect_error(
        422,
        "Invalid",
        "Gadget.example.com \"w\" is invalid: kind: Invalid value: \"Gadget\": must be Widget",
    );
    object["apiVersion"] = "example.com/v2".into();
    object["kind"] = "Widget".into();
    cluster.post(WIDGETS, object).await.expect_error(
        400,
        "BadRequest",
        "the API version in the data (example.com/v2) does not match the expected API version \
         (example.com/v1)",
    );
}

fn two_versions() -> Value {
    let schema = |field: &str| {
        json!({"openAPIV3Schema": {
            "type": "object",
            "properties": {field: {"type": "string"}, "both": {"type": "string"}},
        }})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                    "schema": schema("old"),
                },
                {"name": "v1", "served": true, "storage": true, "schema": schema("new")},
            ],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn every_served_version_returns_the_same_objects() {
    let cluster = Cluster::new().await;
    cluster.post(CRDS, two_versions()).await.expect(201);
    let group = cluster.get("/apis/example.com").await.expect(200);
    let versions: Vec<String> =
        group["versions"].as_array().unwrap().iter().map(|v| text(&v["version"])).collect();
    assert_eq!(versions, ["v1", "v1beta1"], "stable first");

    let (old, new) = ("/apis/example.com/v1beta1/things", "/apis/example.com/v1/things");
    let body = json!({
        "apiVersion": "example.com/v1beta1", "kind": "Thing", "metadata": {"name": "t"},
        "old": "x", "both": "y",
    });
    let response = cluster.post(old, body).await;
    assert_eq!(
        response.warnings(),
        ["299 - \"example.com/v1beta1 Thing is deprecated; use example.com/v1 Thing\""]
    );
    let created = response.expect(201);
    assert_eq!(created.get("old"), None, "the storage version has no such field");
    assert_eq!(
        (&created["apiVersion"], &created["both"]),
        (&json!("example.com/v1beta1"), &json!("y"))
    );

    let shown = cluster.get(&format!("{new}/t")).await.expect(200);
    assert_eq!(shown["apiVersion"], "example.com/v1");
    assert_eq!(version(&shown), version(&created));

    let mut watch = cluster.watch(&format!("{old}?resourceVersion={}", version(&created))).await;
    cluster.merge(&format!("{new}/t"), json!({"both": "z"})).await.expect(200);
    let event = watch.next().await;
    assert_eq!(
        (&event["type"], &event["object"]["apiVersion"], &event["object"]["both"]),
        (&json!("MODIFIED"), &json!("example.com/v1beta1"), &json!("z"))
    );
}

#[tokio::test(start_paused = true)]
async fn write_to_the_status_migrates_an_object_to_the_new_storage_version() {
    let cluster = Cluster::new().await;
    let mut crd = two_versions();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        version["subresources"] = json!({"status": {}});
        let schema = &mut version["schema"]["openAPIV3Schema"]["properties"];
        schema["status"] = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    }
    let mut crd = cluster.post(CRDS, crd).await.expect(201);
    let path = "/apis/example.com/v1beta1/things";
    let body = json!({
        "apiVersion": "example.com/v1beta1", "kind": "Thing", "metadata": {"name": "t"},
    });
    cluster.post(path, body).await.expect(201);

    let versions = &mut crd["spec"]["versions"];
    (versions[0]["storage"], versions[1]["storage"]) = (true.into(), false.into());
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["old"]["default"] = "filled".into();
    let crd_path = format!("{CRDS}/things.example.com");
    cluster.merge(&crd_path, json!({"spec": {"versions": versions}})).await.expect(200);

    // Upstream decodes what it has just written, with the defaults of the new storage version.
    let status = json!({"status": {"phase": "p"}});
    for query in ["?dryRun=All", ""] {
        let written =
            cluster.merge(&format!("{path}/t/status{query}"), status.clone()).await.expect(200);
        assert_eq!(written["old"], "filled", "{query}");
    }
    assert_eq!(cluster.get(&format!("{path}/t")).await.expect(200)["old"], "filled");
}

#[tokio::test(start_paused = true)]
async fn changed_schema_applies_to_the_next_write() {
    let cluster = Cluster::with_widgets().await;
    cluster.post(WIDGETS, widget("w", json!({"color": "red", "note": "four"}))).await.expect(201);
    let mut definition = cluster.get(WIDGET_CRD).await.expect(200);
    let spec = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        ["properties"];
    spec["note"]["maxLength"] = 2.into();
    spec["size"] = json!({"type": "integer", "default": 3});
    let changed = cluster.put(WIDGET_CRD, definition).await.expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);

    let shown = cluster.get(&format!("{WIDGETS}/w")).await.expect(200);
    assert_eq!(shown["spec"]["size"], 3, "new defaults apply to stored objects on read");
    assert_eq!(shown["spec"]["note"], "four", "stored values are kept");
    cluster.post(WIDGETS, widget("x", json!({"color": "red", "note": "four"}))).await.expect_error(
        422,
        "Invalid",
        &refused("x", "spec.note: Too long: may not be more than 2 bytes"),
    );
    // Ratcheting: unchanged fields are not validated against the new schema.
    cluster.merge(&format!("{WIDGETS}/w"), json!({"spec": {"color": "blue"}})).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn conflicting_crd_names_are_not_accepted() {
    let cluster = Cluster::with_widgets().await;
    let mut other = widget_crd();
    other["metadata"]["name"] = "others.example.com".into();
    other["spec"]["names"] = json!({"plural": "others", "singular": "other", "kind": "Widget"});
    cluster.post(CRDS, other).await.expect(201);
    let other = cluster.get(&format!("{CRDS}/others.example.com")).await.expect(200);
    assert_eq!(condition(&other, "NamesAccepted")["status"], "False");
    assert_eq!(condition(&other, "NamesAccepted")["message"], "\"WidgetList\" is already in use");
    assert_eq!(condition(&other, "NamesAccepted")["reason"], "ListKindConflict");
    assert_eq!(condition(&other, "Established")["status"], "False");
    cluster.get("/apis/example.com/v1/others").await.expect(404);

    // The names are accepted once the first CRD is deleted.
    cluster.delete(WIDGET_CRD).await.expect(200);
    let other = cluster.get(&format!("{CRDS}/others.example.com")).await.expect(200);
    assert_eq!(condition(&other, "Established")["status"], "True");
    cluster.get("/apis/example.com/v1/others").await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_crd_deletes_its_objects() {
    let cluster = Cluster::with_widgets().await;
    cluster.post(WIDGETS, widget("w", json!({"color": "red"}))).await.expect(201);
    let revision = cluster.server.revision();
    let mut watch = cluster.watch(&format!("{WIDGETS}?resourceVersion={revision}")).await;
    let marked = cluster.delete(WIDGET_CRD).await.expect(200);
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    cluster.get(WIDGET_CRD).await.expect(404);
    cluster.get(WIDGETS).await.expect(404);
    assert_eq!(watch.take(1).await, [event("DELETED", "w")]);

    // Recreating the CRD starts with an empty collection.
    cluster.post(CRDS, widget_crd()).await.expect(201);
    assert_eq!(cluster.names(WIDGETS).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn invalid_crds_are_rejected() {
    let cluster = Cluster::with_widgets().await;
    let bad = |name: &str, errors: &str| {
        format!("CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: {errors}")
    };
    let mut misnamed = widget_crd();
    misnamed["metadata"]["name"] = "x.y".into();
    cluster.post(CRDS, misnamed).await.expect_error(
        422,
        "Invalid",
        &bad(
            "x.y",
            "metadata.name: Invalid value: \"x.y\": must be spec.names.plural+\".\"+spec.group",
        ),
    );
    let mut schemaless = two_versions();
    schemaless["spec"]["versions"] = json!([{"name": "v1", "served": true, "storage": true}]);
    cluster.post(CRDS, schemaless).await.expect_error(
        422,
        "Invalid",
        &bad("things.example.com", "spec.versions[0].schema.openAPIV3Schema: Required value"),
    );
    cluster.merge(WIDGET_CRD, json!({"spec": {"scope": "Cluster"}})).await.expect_error(
        422,
        "Invalid",
        &bad("widgets.example.com", "spec.scope: Invalid value: \"Cluster\": field is immutable"),
    );
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_resources_have_no_namespace() {
    let cluster = Cluster::new().await;
    cluster.post(CRDS, two_versions()).await.expect(201);
    let things = "/apis/example.com/v1/things";
    let body = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
    let created = cluster.post(things, body).await.expect(201);
    assert_eq!(created["metadata"].get("namespace"), None);
    let inside = cluster.get("/apis/example.com/v1/namespaces/default/things").await;
    assert_eq!((inside.status, &*inside.text()), (404, "404 page not found\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn crd_is_served_independently_of_changes_to_others() {
    let cluster = std::sync::Arc::new(Cluster::new().await);
    let mut lives = JoinSet::new();
    for number in 0..16 {
        let cluster = cluster.clone();
        lives.spawn(async move {
            let mut definition = widget_crd();
            let group = format!("g{number}.example.com");
            definition["metadata"]["name"] = json!(format!("widgets.{group}"));
            definition["spec"]["group"] = json!(group);
            let path = format!("{CRDS}/widgets.{group}");
            let objects = format!("/apis/{group}/v1/namespaces/default/widgets");
            for _ in 0..20 {
                cluster.post(CRDS, definition.clone()).await.expect(201);
                cluster.get(&objects).await.expect(200);
                cluster.delete(&path).await.expect(200);
                assert_eq!(cluster.get(&objects).await.text(), "404 page not found\n");
            }
        });
    }
    while let Some(life) = lives.join_next().await {
        life.unwrap();
    }
}
