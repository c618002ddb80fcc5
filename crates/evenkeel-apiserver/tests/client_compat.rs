//! Behaviour that clients in other languages rely on, beyond ordinary reads and writes.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use evenkeel_apiserver::ApiServer;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

struct TestResponse {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

struct Cluster {
    _server: ApiServer,
    client: Client,
}

impl Cluster {
    async fn new() -> Self {
        let server = ApiServer::builder().build().await.unwrap();
        let client = Client::new(server.service(), "default");
        Self { _server: server, client }
    }

    async fn send(&self, method: Method, path: &str, content: &str, body: &Value) -> TestResponse {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let response = self.client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let warnings = parts.headers.get_all("warning").iter();
        TestResponse {
            code: parts.status.as_u16(),
            warnings: warnings.map(|value| value.to_str().unwrap().to_owned()).collect(),
            body: serde_json::from_slice(&body).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> TestResponse {
        self.send(Method::GET, path, JSON, &Value::Null).await
    }

    async fn post(&self, path: &str, body: &Value) -> TestResponse {
        self.send(Method::POST, path, JSON, body).await
    }

    async fn apply(&self, path: &str, body: &Value) -> TestResponse {
        self.send(Method::PATCH, path, APPLY, body).await
    }

    async fn install_foos(&self) {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "foos.x.io"},
            "spec": {
                "group": "x.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": schema},
                    {
                        "name": "v1beta1", "served": true, "storage": false, "deprecated": true,
                        "schema": schema,
                    },
                ],
            },
        });
        assert_eq!(self.post(CRDS, &definition).await.code, 201);
    }
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const FOOS: &str = "/apis/x.io/v1/namespaces/default/foos";

#[tokio::test]
async fn watch_ends_after_the_last_delete_event_when_its_crd_is_deleted() {
    let cluster = Cluster::new().await;
    cluster.install_foos().await;
    let foo = json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a"}});
    assert_eq!(cluster.post(FOOS, &foo).await.code, 201);
    let watch = Request::get(format!("{FOOS}?watch=1")).body(Body::empty()).unwrap();
    let watch = cluster.client.send(watch).await.unwrap().into_body();

    let path = format!("{CRDS}/foos.x.io");
    assert_eq!(cluster.send(Method::DELETE, &path, JSON, &Value::Null).await.code, 200);
    let events = watch.collect().await.unwrap().to_bytes();
    let kinds: Vec<Value> = events
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Value>(line).unwrap()["type"].take())
        .collect();
    assert_eq!(kinds, ["ADDED", "DELETED"]);
}

#[tokio::test]
async fn watch_ends_when_the_spec_of_its_crd_changes() {
    let cluster = Cluster::new().await;
    cluster.install_foos().await;
    let watch = Request::get(format!("{FOOS}?watch=1")).body(Body::empty()).unwrap();
    let watch = cluster.client.send(watch).await.unwrap().into_body();

    let patch = json!([{"op": "replace", "path": "/spec/versions/1/served", "value": false}]);
    let path = format!("{CRDS}/foos.x.io");
    let patched = cluster.send(Method::PATCH, &path, "application/json-patch+json", &patch).await;
    assert_eq!(patched.code, 200);
    assert_eq!(watch.collect().await.unwrap().to_bytes(), "");
}

#[tokio::test]
async fn deprecated_versions_warn_on_rejected_requests_too() {
    let cluster = Cluster::new().await;
    cluster.install_foos().await;
    let response = cluster.get("/apis/x.io/v1beta1/namespaces/default/foos/none").await;
    assert_eq!(response.code, 404);
    assert_eq!(response.warnings, [r#"299 - "x.io/v1beta1 Foo is deprecated; use x.io/v1 Foo""#]);
    assert!(cluster.get(FOOS).await.warnings.is_empty());
}

#[tokio::test]
async fn events_are_selected_by_field_names_of_the_requested_version() {
    let cluster = Cluster::new().await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    assert_eq!(cluster.post("/api/v1/namespaces/default/events", &event).await.code, 201);
    let list = "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=";
    let found = |response: &TestResponse| response.body["items"].as_array().map(Vec::len);
    assert_eq!(found(&cluster.get(&format!("{list}regarding.name%3Dp")).await), Some(1));
    assert_eq!(found(&cluster.get(&format!("{list}regarding.name%3Dq")).await), Some(0));
    assert_eq!(cluster.get(&format!("{list}involvedObject.name%3Dp")).await.code, 400);
}

#[tokio::test]
async fn resource_version_on_create_is_checked_by_the_storage_only() {
    let cluster = Cluster::new().await;
    let map = |name: &str| json!({"metadata": {"name": name, "resourceVersion": "7"}});
    let refused = cluster.post(CONFIG_MAPS, &map("a")).await;
    let message = "resourceVersion should not be set on objects to be created";
    assert_eq!((refused.code, &refused.body["message"]), (500, &json!(message)));
    assert_eq!(cluster.post(CONFIG_MAPS, &map("A")).await.code, 422);
    assert_eq!(cluster.post(&format!("{CONFIG_MAPS}?dryRun=All"), &map("a")).await.code, 201);
}

#[tokio::test]
async fn apply_with_empty_resource_version_uses_the_current_one() {
    let cluster = Cluster::new().await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": ""},
        "data": {"k": "v"},
    });
    let path = format!("{CONFIG_MAPS}/a?fieldManager=m");
    assert_eq!(cluster.apply(&path, &map).await.code, 201);
    assert_eq!(cluster.apply(&path, &map).await.code, 200);
}

#[tokio::test]
async fn binding_assigns_the_pod_to_a_node_once() {
    let cluster = Cluster::new().await;
    let pod = json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let created = cluster.post(PODS, &pod).await;
    assert_eq!(created.code, 201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let path = format!("{PODS}/p/binding");
    assert_eq!(cluster.post(&path, &binding).await.code, 201);
    let bound = cluster.get(&format!("{PODS}/p")).await.body;
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["metadata"]["managedFields"], created.body["metadata"]["managedFields"]);
    let again = cluster.post(&path, &binding).await;
    let message = r#"Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n""#;
    assert_eq!((again.code, &again.body["message"]), (409, &json!(message)));
}

#[tokio::test]
async fn applier_of_scale_owns_spec_replicas() {
    let cluster = Cluster::new().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    assert_eq!(cluster.post(deployments, &deployment).await.code, 201);
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"},
        "spec": {"replicas": 3},
    });
    let path = format!("{deployments}/d/scale?fieldManager=m");
    assert_eq!(cluster.apply(&path, &scale).await.code, 409);
    let scaled = cluster.apply(&format!("{path}&force=true"), &scale).await;
    assert_eq!((scaled.code, &scaled.body["spec"]), (200, &json!({"replicas": 3})));
    let owners = cluster.get(&format!("{deployments}/d")).await.body;
    let owners = owners["metadata"]["managedFields"].as_array().unwrap();
    let owner = owners.iter().find(|owner| owner["manager"] == "m").unwrap();
    assert_eq!(owner["subresource"], "scale");
    assert_eq!(owner["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
}

#[tokio::test]
async fn error_for_unknown_fields_contains_the_strategic_patch() {
    let cluster = Cluster::new().await;
    assert_eq!(cluster.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await.code, 201);
    let path = format!("{CONFIG_MAPS}/a?fieldValidation=Strict");
    let content = "application/strategic-merge-patch+json";
    let patch = json!({"data": {"k": "v"}, "bogus": 1});
    let refused = cluster.send(Method::PATCH, &path, content, &patch).await;
    let message = r#" "" is invalid: patch: Invalid value: "map[bogus:1 data:map[k:v]]": strict decoding error: unknown field "bogus""#;
    assert_eq!((refused.code, &refused.body["message"]), (422, &json!(message)));
}
