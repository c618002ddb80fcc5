//! Fills a server with realistic pods or custom resources.

use std::collections::BTreeMap;

use evenkeel::{Key, Kind};
use evenkeel_apiserver::{ApiServer, Service};
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::Objects;

pub(in crate::scenario) const NAMESPACES: usize = 100;

pub(in crate::scenario) fn namespace(at: usize) -> String {
    format!("team-{at:03}")
}

/// Returns the key of an object by its number.
pub(in crate::scenario) fn key(at: usize) -> Key {
    Key::namespaced(&namespace(at % NAMESPACES), &format!("web-7d4b9c6f5d-{at:06}"))
}

/// A custom resource of about 1.5 KB including managedFields.
#[derive(Clone, Debug, CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
#[serde(rename_all = "camelCase")]
pub(super) struct WidgetSpec {
    image: String,
    replicas: i32,
    paused: bool,
    hosts: Vec<String>,
    settings: BTreeMap<String, String>,
    storage: Storage,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Storage {
    class_name: String,
    size: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct WidgetStatus {
    ready: i32,
}

/// Starts a server with `count` objects in [`NAMESPACES`] namespaces.
pub(super) async fn fill(objects: Objects, count: usize) -> anyhow::Result<ApiServer> {
    let server = ApiServer::builder().seed(1).build().await?;
    let mut service = server.service();
    for at in 0..NAMESPACES {
        let body = json!({ "metadata": { "name": namespace(at) } });
        create(&mut service, "/api/v1/namespaces", body).await?;
    }
    let (kind, object): (_, fn(&Key) -> Value) = match objects {
        Objects::Pods => (Kind::of::<k8s_openapi::api::core::v1::Pod>(), pod),
        Objects::Widgets => {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            create(&mut service, path, serde_json::to_value(Widget::crd())?).await?;
            (Kind::of::<Widget>(), widget)
        }
    };
    for at in 0..count {
        let key = key(at);
        create(&mut service, &kind.path(key.namespace()), object(&key)).await?;
    }
    Ok(server)
}

async fn create(service: &mut Service, path: &str, body: Value) -> anyhow::Result<()> {
    let request = Request::post(format!("{path}?fieldManager=bench"))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body.to_string().into()))?;
    let Ok(response) = service.call(request).await;
    let status = response.status();
    let Ok(body) = response.into_body().collect().await;
    let body = body.to_bytes();
    let text = String::from_utf8_lossy(&body);
    anyhow::ensure!(status == StatusCode::CREATED, "create: {status}: {text}");
    Ok(())
}

fn widget(key: &Key) -> Value {
    let name = key.name();
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {
            "name": name,
            "labels": { "app.kubernetes.io/name": "web", "app.kubernetes.io/instance": name },
            "annotations": { "example.com/owner": "team@example.com" },
        },
        "spec": {
            "image": "registry.example.com/team/web@sha256:9f86d081884c7d659a2feaa0c55ad015",
            "replicas": 3,
            "paused": false,
            "hosts": ["www.example.com", "example.com"],
            "settings": {
                "LOG_LEVEL": "info", "CACHE_SIZE": "256Mi", "TIMEOUT": "30s",
                "DATABASE": "postgres://db.example.com:5432/web", "REGION": "eu-central-1",
            },
            "storage": { "className": "fast", "size": "20Gi" },
        },
    })
}

pub(in crate::scenario) fn pod(key: &Key) -> Value {
    let name = key.name();
    let container = |name: &str, port: u16| {
        json!({
            "name": name,
            "image": format!("registry.example.com/team/{name}@sha256:9f86d081884c7d659a2feaa0c55ad015"),
            "args": ["--listen", format!(":{port}"), "--log-format=json"],
            "env": [
                { "name": "LOG_LEVEL", "value": "info" },
                { "name": "REGION", "value": "eu-central-1" },
                { "name": "POD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "DB_PASSWORD", "valueFrom": { "secretKeyRef": { "name": "db", "key": "password" } } },
            ],
            "ports": [{ "name": "http", "containerPort": port }],
            "resources": {
                "requests": { "cpu": "100m", "memory": "128Mi" },
                "limits": { "cpu": "500m", "memory": "256Mi" },
            },
            "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" }, "periodSeconds": 5 },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/web" }],
        })
    };
    json!({
        "metadata": {
            "name": name,
            "generateName": "web-7d4b9c6f5d-",
            "labels": {
                "app.kubernetes.io/name": "web", "app.kubernetes.io/version": "1.4.2",
                "pod-template-hash": "7d4b9c6f5d",
            },
            "annotations": {
                "prometheus.io/scrape": "true", "prometheus.io/port": "8080",
                "checksum/config": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5d",
                "uid": "0d3b9e8f-8a54-4f1c-9d4e-ffee00112233",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "serviceAccountName": "web",
            "nodeName": "node-17",
            "containers": [container("web", 8080), container("proxy", 9090)],
            "volumes": [{ "name": "config", "configMap": { "name": "web" } }],
            "tolerations": [{ "key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule" }],
        },
    })
}
