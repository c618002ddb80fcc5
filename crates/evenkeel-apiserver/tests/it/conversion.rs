//! Conversion of custom objects between the versions of their CRD, by a webhook or in process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::harness::{CRDS, Cluster, TABLE, TIMEOUT, text};
use crate::webhook_service::{MUTATING, TlsServer, Webhook, http, install, patched};

const V1: &str = "/apis/example.com/v1/namespaces/default/doors";
const V2: &str = "/apis/example.com/v2/namespaces/default/doors";

/// Returns a CRD whose first version has `spec.size` ("2x3") and whose second, stored version has
/// `spec.width` and `spec.height`.
fn crd(client: Value) -> Value {
    let version = |name: &str, storage: bool, properties: Value, field: &str| {
        json!({
            "name": name, "served": true, "storage": storage,
            "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": format!(".spec.{field}")}],
            "additionalPrinterColumns": [
                {"name": "Field", "type": "string", "jsonPath": format!(".spec.{field}")},
            ],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": properties},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}},
        })
    };
    let sizes = json!({"size": {"type": "string"}});
    let sides = json!({"width": {"type": "string"}, "height": {"type": "string"}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "doors.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "doors", "singular": "door", "kind": "Door"},
            "versions": [version("v1", false, sizes, "size"), version("v2", true, sides, "width")],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            },
        },
    })
}

fn convert(mut object: Value, to: &str) -> Value {
    let spec = object["spec"].take();
    object["spec"] = match to {
        "example.com/v1" => {
            let side = |name: &str| spec[name].as_str().unwrap_or("0").to_owned();
            json!({"size": format!("{}x{}", side("width"), side("height"))})
        }
        _ => {
            let size = spec["size"].as_str().unwrap_or("0x0");
            let (width, height) = size.split_once('x').unwrap_or((size, "0"));
            json!({"width": width, "height": height})
        }
    };
    object["apiVersion"] = to.into();
    object
}

fn converted(review: &Value) -> Value {
    let request = &review["request"];
    let to = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap().iter();
    let objects: Vec<Value> = objects.map(|object| convert(object.clone(), to)).collect();
    respond(review, objects.into())
}

fn respond(review: &Value, objects: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {
            "uid": review["request"]["uid"], "result": {"status": "Success"},
            "convertedObjects": objects,
        },
    })
}

fn webhook() -> Webhook {
    Webhook::raw(|review| (200, converted(review).to_string()))
}

fn door(version: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Door",
        "metadata": {"name": name}, "spec": spec,
    })
}

async fn cluster() -> (Cluster, Webhook) {
    let cluster = Cluster::new().await;
    let webhook = webhook();
    let client = webhook.register(&cluster, "convert");
    cluster.post(CRDS, crd(client)).await.expect(201);
    (cluster, webhook)
}

#[tokio::test(start_paused = true)]
async fn objects_are_read_and_written_in_every_version() {
    let (cluster, webhook) = cluster().await;
    let created = cluster.post(V1, door("v1", "a", json!({"size": "2x3"}))).await.expect(201);
    assert_eq!(created["apiVersion"], "example.com/v1");
    assert_eq!(created["spec"], json!({"size": "2x3"}));
    let stored = cluster.get(&format!("{V2}/a")).await.expect(200);
    assert_eq!(stored["spec"], json!({"width": "2", "height": "3"}));
    assert_eq!(stored["metadata"], created["metadata"]);
    let updated =
        cluster.merge(&format!("{V2}/a"), json!({"spec": {"width": "5"}})).await.expect(200);
    assert_eq!(updated["metadata"]["generation"], 2);
    let read = cluster.get(&format!("{V1}/a")).await.expect(200);
    assert_eq!(read["spec"], json!({"size": "5x3"}));
    let mut replaced = read;
    replaced["spec"]["size"] = "7x8".into();
    cluster.put(&format!("{V1}/a"), replaced).await.expect(200);
    let read = cluster.get(&format!("{V2}/a")).await.expect(200);
    assert_eq!(read["spec"], json!({"width": "7", "height": "8"}));
    webhook.take_reviews();
    // The stored version needs no conversion.
    cluster.get(&format!("{V2}/a")).await.expect(200);
    assert!(webhook.take_reviews().is_empty());
    let deleted = cluster.delete(&format!("{V1}/a")).await.expect(200);
    assert_eq!(deleted["status"], "Success");
}

#[tokio::test(start_paused = true)]
async fn list_is_converted_in_one_review_and_keeps_its_order() {
    let (cluster, webhook) = cluster().await;
    for (at, name) in ["c", "a", "b"].into_iter().enumerate() {
        let spec = json!({"width": at.to_string(), "height": "1"});
        cluster.post(V2, door("v2", name, spec)).await.expect(201);
    }
    webhook.take_reviews();
    let list = cluster.get(V1).await.expect(200);
    let sizes: Vec<(String, String)> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (text(&item["metadata"]["name"]), text(&item["spec"]["size"])))
        .collect();
    let row = |name: &str, size: &str| (name.to_owned(), size.to_owned());
    assert_eq!(sizes, [row("a", "1x1"), row("b", "2x1"), row("c", "0x1")]);
    let [review] = webhook.take_reviews().try_into().unwrap();
    assert_eq!(review["request"]["objects"].as_array().unwrap().len(), 3);
    assert_eq!(review["request"]["desiredAPIVersion"], "example.com/v1");
    assert_eq!(review["kind"], "ConversionReview");
    // Pages, tables and the selectable fields of the version.
    let page = cluster.get(&format!("{V1}?limit=2")).await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let table = cluster.get_as(V1, TABLE).await.expect(200);
    assert_eq!(table["rows"][1]["cells"], json!(["b", "2x1"]));
    let named = |path: &str| {
        let path = path.to_owned();
        let cluster = &cluster;
        async move { cluster.names(&path).await }
    };
    assert_eq!(named(&format!("{V1}?fieldSelector=spec.size=1x1")).await, ["a"]);
    assert_eq!(named(&format!("{V2}?fieldSelector=spec.width=2")).await, ["b"]);
    let response = cluster.get(&format!("{V1}?fieldSelector=spec.width=2")).await;
    response.expect_error(400, "BadRequest", "field label not supported: spec.width");
}

#[tokio::test(start_paused = true)]
async fn several_reviews_of_one_list_keep_its_order() {
    let (cluster, webhook) = cluster().await;
    // Ten objects of a megabyte do not fit into one review.
    for at in (0..10).rev() {
        let spec = json!({"width": at.to_string(), "height": "1".repeat(1_000_000)});
        cluster.post(V2, door("v2", &format!("d{at}"), spec)).await.expect(201);
    }
    webhook.take_reviews();
    let list = cluster.get(V1).await.expect(200);
    let items = list["items"].as_array().unwrap().iter();
    let sizes: Vec<String> = items
        .map(|item| {
            format!("{} {}", text(&item["metadata"]["name"]), &text(&item["spec"]["size"])[..3])
        })
        .collect();
    let expected: Vec<String> = (0..10).map(|at| format!("d{at} {at}x1")).collect();
    assert_eq!(sizes, expected);
    let counts: Vec<usize> = webhook
        .take_reviews()
        .iter()
        .map(|review| review["request"]["objects"].as_array().unwrap().len())
        .collect();
    assert_eq!(counts, [8, 2]);
}

#[tokio::test(start_paused = true)]
async fn conversion_that_hangs_times_out() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::awaiting(|_| Box::pin(std::future::pending()));
    let client = webhook.register(&cluster, "convert");
    cluster.post(CRDS, crd(client)).await.expect(201);
    cluster.post(V2, door("v2", "a", json!({}))).await.expect(201);
    let started = tokio::time::Instant::now();
    cluster.get(&format!("{V1}/a")).await.expect_error(
        500,
        "",
        "conversion webhook for example.com/v2, Kind=Door failed: Post \
         \"https://convert.default.svc:443/review?timeout=30s\": context deadline exceeded",
    );
    assert_eq!(started.elapsed().as_secs(), 30);
    cluster.get(&format!("{V2}/a")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn reviews_are_sent_in_a_version_that_the_webhook_accepts() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::raw(|review| {
        let mut response = converted(review);
        response["apiVersion"] = review["apiVersion"].clone();
        (200, response.to_string())
    });
    let client = webhook.register(&cluster, "convert");
    let mut crd = crd(client);
    crd["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = json!(["v1beta1", "v1"]);
    cluster.post(CRDS, crd).await.expect(201);
    cluster.post(V2, door("v2", "a", json!({"width": "2", "height": "3"}))).await.expect(201);
    let read = cluster.get(&format!("{V1}/a")).await.expect(200);
    assert_eq!(read["spec"]["size"], "2x3");
    let [review] = webhook.take_reviews().try_into().unwrap();
    assert_eq!(review["apiVersion"], "apiextensions.k8s.io/v1beta1");
}

#[tokio::test(start_paused = true)]
async fn watch_ends_with_an_error_at_an_object_that_cannot_be_converted() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::raw(|review| {
        if review["request"]["objects"].to_string().contains("broken") {
            return (500, "no".to_owned());
        }
        (200, converted(review).to_string())
    });
    let client = webhook.register(&cluster, "convert");
    cluster.post(CRDS, crd(client)).await.expect(201);
    cluster.post(V2, door("v2", "a", json!({"width": "1", "height": "2"}))).await.expect(201);
    let mut watch = cluster.watch(V1).await;
    assert_eq!(watch.next().await["type"], "ADDED");
    cluster.post(V2, door("v2", "broken", json!({}))).await.expect(201);
    let error = watch.next().await;
    assert_eq!(error["type"], "ERROR");
    assert_eq!(error["object"]["code"], 500);
    assert!(text(&error["object"]["message"]).starts_with("conversion webhook for"), "{error}");
    assert!(watch.rest(TIMEOUT).await.is_empty(), "no event is left out");
    // The watch of a collection that cannot be listed fails.
    let failed = cluster.get(&format!("{V1}?watch=true")).await;
    assert_eq!(failed.status, 500, "{}", failed.text());
}

#[tokio::test(start_paused = true)]
async fn watch_delivers_events_in_its_version() {
    let (cluster, _) = cluster().await;
    cluster.post(V2, door("v2", "a", json!({"width": "1", "height": "2"}))).await.expect(201);
    let mut watch = cluster.watch(V1).await;
    let first = watch.next().await;
    assert_eq!(
        (&first["type"], &first["object"]["spec"]["size"]),
        (&json!("ADDED"), &json!("1x2"))
    );
    cluster.merge(&format!("{V2}/a"), json!({"spec": {"height": "9"}})).await.expect(200);
    let second = watch.next().await;
    assert_eq!(second["type"], "MODIFIED");
    assert_eq!(second["object"]["apiVersion"], "example.com/v1");
    assert_eq!(second["object"]["spec"], json!({"size": "1x9"}));
    cluster.delete(&format!("{V2}/a")).await.expect(200);
    let last = watch.next().await;
    assert_eq!(
        (&last["type"], &last["object"]["spec"]["size"]),
        (&json!("DELETED"), &json!("1x9"))
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_of_a_watch_apply_to_the_converted_object() {
    let (cluster, _) = cluster().await;
    let mut watch = cluster.watch(&format!("{V1}?fieldSelector=spec.size=1x1")).await;
    cluster.post(V2, door("v2", "a", json!({"width": "1", "height": "2"}))).await.expect(201);
    cluster.merge(&format!("{V2}/a"), json!({"spec": {"height": "1"}})).await.expect(200);
    let event = watch.next().await;
    assert_eq!(
        (&event["type"], &event["object"]["spec"]["size"]),
        (&json!("ADDED"), &json!("1x1"))
    );
}

#[tokio::test(start_paused = true)]
async fn only_labels_and_annotations_of_the_metadata_may_change() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::raw(|review| {
        let to = review["request"]["desiredAPIVersion"].as_str().unwrap();
        let objects = review["request"]["objects"].as_array().unwrap().iter();
        let objects: Vec<Value> = objects
            .map(|object| {
                let mut object = convert(object.clone(), to);
                let metadata = &mut object["metadata"];
                match metadata["name"].as_str().unwrap_or("") {
                    "labels" => {
                        metadata["labels"] = json!({"version": to.replace('/', "-")});
                        metadata["finalizers"] = json!(["a/b"]);
                    }
                    "name" => metadata["name"] = "other".into(),
                    "uid" => metadata["uid"] = "other".into(),
                    "none" => _ = object.as_object_mut().unwrap().remove("metadata"),
                    "bad" => metadata["labels"] = json!({"a b": "c"}),
                    "number" => metadata["annotations"] = json!({"a": 1}),
                    "version" => object["apiVersion"] = "example.com/v3".into(),
                    "kind" => object["kind"] = "Window".into(),
                    _ => {}
                }
                object
            })
            .collect();
        (200, respond(review, objects.into()).to_string())
    });
    let client = webhook.register(&cluster, "convert");
    cluster.post(CRDS, crd(client)).await.expect(201);
    let what = "conversion webhook for example.com/v2, Kind=Door returned invalid";
    cluster.post(V2, door("v2", "uid", json!({}))).await.expect(201);
    let uid = text(&cluster.get(&format!("{V2}/uid")).await.expect(200)["metadata"]["uid"]);
    let why = format!("{what} object: must have the same UID: {uid} != other");
    cluster.get(&format!("{V1}/uid")).await.expect_error(500, "", &why);
    cluster.delete(&format!("{V2}/uid")).await.expect(200);
    for (name, why) in [
        ("name", format!("{what} object: must have the same name: name != other")),
        ("none", format!("{what} object: must have the same name: none != ")),
        (
            "bad",
            format!(
                "{what} metadata: metadata.labels: Invalid value: \"a b\": name part must consist of \
             alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
        ),
        (
            "number",
            format!(
                "{what} metadata: metadata.annotations[a] must be a string, but is int64 in converted \
             object"
            ),
        ),
        (
            "version",
            format!(
                "{what} object at index 0: invalid groupVersion (expected example.com/v1, received \
             example.com/v3)"
            ),
        ),
        (
            "kind",
            format!("{what} object at index 0: invalid kind (expected Door, received Window)"),
        ),
    ] {
        cluster.post(V2, door("v2", name, json!({}))).await.expect(201);
        cluster.get(&format!("{V1}/{name}")).await.expect_error(500, "", &why);
        cluster.delete(&format!("{V2}/{name}")).await.expect(200);
    }
    cluster.post(V2, door("v2", "labels", json!({}))).await.expect(201);
    let read = cluster.get(&format!("{V1}/labels")).await.expect(200);
    assert_eq!(read["metadata"]["labels"], json!({"version": "example.com-v1"}));
    assert_eq!(read["metadata"].get("finalizers"), None);
    let selected = cluster.names(&format!("{V1}?labelSelector=version=example.com-v1")).await;
    assert_eq!(selected, ["labels"]);
}

#[tokio::test(start_paused = true)]
async fn failed_conversions_are_reported() {
    let cluster = Cluster::new().await;
    let webhook = Webhook::raw(|review| {
        let object = &review["request"]["objects"][0];
        let mut response = converted(review);
        match object["metadata"]["name"].as_str().unwrap_or("") {
            "status" => response["response"]["result"] = json!({"status": "Failure"}),
            "message" => {
                response["response"]["result"] = json!({"status": "Failure", "message": "no"});
            }
            "uid" => response["response"]["uid"] = "other".into(),
            "few" => response["response"]["convertedObjects"] = json!([]),
            "absent" => response["response"] = Value::Null,
            "kind" => _ = response.as_object_mut().unwrap().remove("kind"),
            "null" => response["response"]["convertedObjects"] = json!([null]),
            "garbage" => return (200, "{".to_owned()),
            "error" => return (500, "broken".to_owned()),
            _ => {}
        }
        (200, response.to_string())
    });
    let client = webhook.register(&cluster, "convert");
    cluster.post(CRDS, crd(client)).await.expect(201);
    let failed = "conversion webhook for example.com/v2, Kind=Door failed: ";
    for (name, why) in [
        ("status", format!("{failed}response.result.status was 'Failure', not 'Success'")),
        ("message", format!("{failed}no")),
        (
            "few",
            "conversion webhook for example.com/v2, Kind=Door returned 0 objects, expected 1"
                .to_owned(),
        ),
        ("absent", format!("{failed}no response provided")),
        (
            "kind",
            format!(
                "{failed}expected webhook response of apiextensions.k8s.io/v1, \
                 Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind="
            ),
        ),
        ("null", "unexpected end of JSON input".to_owned()),
        (
            "garbage",
            format!(
                "{failed}couldn't get version/kind; json parse error: unexpected end of JSON input"
            ),
        ),
        (
            "error",
            format!(
                "{failed}an error on the server (\"broken\") has prevented the request from succeeding"
            ),
        ),
    ] {
        cluster.post(V2, door("v2", name, json!({}))).await.expect(201);
        cluster.get(&format!("{V1}/{name}")).await.expect_error(500, "", &why);
        // A list fails as a whole, and nothing is stored that cannot be converted.
        cluster.get(V1).await.expect(500);
        cluster.delete(&format!("{V2}/{name}")).await.expect(200);
        let created = cluster.post(V1, door("v1", name, json!({}))).await;
        assert_eq!(created.status, 500, "{}", created.text());
    }
    cluster.post(V2, door("v2", "uid", json!({}))).await.expect(201);
    let error = cluster.get(&format!("{V1}/uid")).await.expect(500);
    assert!(text(&error["message"]).contains("expected response.uid="), "{error}");
    // Deleting the CRD converts nothing.
    cluster.delete(&format!("{CRDS}/doors.example.com")).await.expect(200);
    cluster.get(&format!("{CRDS}/doors.example.com")).await.expect(404);
}

#[tokio::test(start_paused = true)]
async fn converter_in_process_needs_no_webhook() {
    let cluster = Cluster::new().await;
    let refuses = Arc::new(AtomicBool::new(false));
    let flag = refuses.clone();
    cluster.server.register_converter("doors.example.com", move |object, to| {
        match flag.load(Ordering::SeqCst) {
            true => Err("refused".to_owned()),
            false => Ok(convert(object, to)),
        }
    });
    let client = json!({"url": "https://127.0.0.1:1/convert"});
    cluster.post(CRDS, crd(client)).await.expect(201);
    cluster.post(V1, door("v1", "a", json!({"size": "2x3"}))).await.expect(201);
    let stored = cluster.get(&format!("{V2}/a")).await.expect(200);
    assert_eq!(stored["spec"], json!({"width": "2", "height": "3"}));
    refuses.store(true, Ordering::SeqCst);
    cluster.get(&format!("{V1}/a")).await.expect_error(
        500,
        "",
        "conversion webhook for example.com/v2, Kind=Door failed: refused",
    );
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_kept_across_versions() {
    let (cluster, _) = cluster().await;
    let config = door("v1", "a", json!({"size": "2x3"}));
    cluster.apply(&format!("{V1}/a"), "one", config.clone()).await.expect(201);
    let other = door("v2", "a", json!({"width": "2"}));
    cluster.apply(&format!("{V2}/a"), "two", other).await.expect(200);
    let read = cluster.get(&format!("{V2}/a")).await.expect(200);
    let mut managers: Vec<(String, String)> = read["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (text(&entry["manager"]), text(&entry["apiVersion"])))
        .collect();
    managers.sort();
    let row = |manager: &str, version: &str| (manager.to_owned(), version.to_owned());
    assert_eq!(managers, [row("one", "example.com/v1"), row("two", "example.com/v2")]);
    // A change in one version conflicts with the manager in the other.
    let changed = door("v2", "a", json!({"width": "9"}));
    let conflict = cluster.apply(&format!("{V2}/a"), "three", changed).await.expect(409);
    assert!(text(&conflict["message"]).contains("conflicts"), "{conflict}");
    // The same configuration changes nothing.
    let before = read["metadata"]["resourceVersion"].clone();
    let again = cluster.apply(&format!("{V1}/a"), "one", config).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], before);
}

#[tokio::test(start_paused = true)]
async fn field_manager_may_apply_in_another_version() {
    let (cluster, _) = cluster().await;
    let labelled = |mut door: Value, app: &str| {
        door["metadata"]["labels"] = json!({"app": app});
        door
    };
    let config = labelled(door("v1", "a", json!({"size": "2x3"})), "x");
    cluster.apply(&format!("{V1}/a"), "one", config).await.expect(201);
    // All that the field manager applied before is pruned, so the object converted is empty.
    let config = labelled(door("v2", "a", json!({"width": "2"})), "y");
    let applied = cluster.apply(&format!("{V2}/a"), "one", config).await.expect(200);
    assert_eq!(applied["metadata"]["labels"], json!({"app": "y"}));
    assert_eq!(applied["spec"]["width"], "2");
}

#[tokio::test(start_paused = true)]
async fn dry_run_and_status_are_converted() {
    let (cluster, _) = cluster().await;
    let path = format!("{V1}?dryRun=All");
    let created = cluster.post(&path, door("v1", "a", json!({"size": "2x3"}))).await.expect(201);
    assert_eq!(created["spec"], json!({"size": "2x3"}));
    assert!(cluster.names(V1).await.is_empty());
    cluster.post(V1, door("v1", "a", json!({"size": "2x3"}))).await.expect(201);
    let status = json!({"status": {"open": true}});
    let updated = cluster.merge(&format!("{V1}/a/status"), status).await.expect(200);
    assert_eq!(
        (&updated["status"]["open"], &updated["spec"]["size"]),
        (&json!(true), &json!("2x3"))
    );
    let read = cluster.get(&format!("{V2}/a")).await.expect(200);
    assert_eq!(read["spec"], json!({"width": "2", "height": "3"}));
    assert_eq!(read["status"]["open"], true);
}

#[tokio::test(start_paused = true)]
async fn admission_webhooks_see_their_version() {
    let (cluster, _) = cluster().await;
    let hook = Webhook::new(|request| {
        patched(request, json!([{"op": "replace", "path": "/spec/height", "value": "99"}]))
    });
    let client = hook.register(&cluster, "admission");
    install(&cluster, MUTATING, "w", &client, |hook| {
        hook["rules"] = json!([{
            "operations": ["CREATE"], "apiGroups": ["example.com"], "apiVersions": ["v2"],
            "resources": ["doors"],
        }]);
    })
    .await;
    let created = cluster.post(V1, door("v1", "a", json!({"size": "2x3"}))).await.expect(201);
    assert_eq!(created["spec"], json!({"size": "2x99"}));
    let [seen] = hook.take().try_into().unwrap();
    assert_eq!(seen["object"]["spec"], json!({"width": "2", "height": "3"}));
    assert_eq!(seen["requestKind"]["version"], "v1");
}

#[tokio::test(start_paused = true)]
async fn version_that_is_still_stored_cannot_be_removed() {
    let (cluster, _) = cluster().await;
    let path = format!("{CRDS}/doors.example.com");
    let mut crd = cluster.get(&path).await.expect(200);
    assert_eq!(crd["status"]["storedVersions"], json!(["v2"]));
    crd["spec"]["versions"][0]["storage"] = true.into();
    crd["spec"]["versions"][1]["storage"] = false.into();
    let mut crd = cluster.put(&path, crd).await.expect(200);
    assert_eq!(crd["status"]["storedVersions"], json!(["v2", "v1"]));
    crd["spec"]["versions"].as_array_mut().unwrap().remove(1);
    let mut crd = cluster.get(&path).await.expect(200);
    crd["spec"]["versions"].as_array_mut().unwrap().remove(1);
    let error = cluster.put(&path, crd.clone()).await.expect(422);
    assert!(text(&error["message"]).contains("status.storedVersions"), "{error}");
    // Once migrated, the status is trimmed, and the version can go.
    let status = json!({"status": {"storedVersions": ["v1"]}});
    cluster.merge(&format!("{path}/status"), status).await.expect(200);
    let mut crd = cluster.get(&path).await.expect(200);
    crd["spec"]["versions"].as_array_mut().unwrap().remove(1);
    cluster.put(&path, crd).await.expect(200);
}

#[tokio::test]
async fn conversion_webhook_over_tls() {
    let cluster = Cluster::built(ApiServer::builder()).await;
    let server = TlsServer::start(|review| http("200 OK", &converted(review).to_string())).await;
    cluster.post(CRDS, crd(server.url())).await.expect(201);
    cluster.post(V1, door("v1", "a", json!({"size": "2x3"}))).await.expect(201);
    let read = cluster.get(&format!("{V2}/a")).await.expect(200);
    assert_eq!(read["spec"], json!({"width": "2", "height": "3"}));
    assert_eq!(server.accepted(), 1);
}
