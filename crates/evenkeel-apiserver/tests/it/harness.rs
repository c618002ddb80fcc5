//! A server per test, with short helpers to send requests without a socket.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::identity::Identity;
use evenkeel_apiserver::{ApiServer, ApiServerBuilder, Body, Service};
use futures_util::FutureExt as _;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower_service::Service as _;

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub(crate) const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// The timeout for results that are expected immediately.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// A server and a client with admin permissions.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    /// The body if it is JSON, else null.
    pub(crate) body: Value,
}

/// The patch types.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patch {
    Json,
    Merge,
    Strategic,
}

impl Patch {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

impl Cluster {
    /// Starts a server whose uids, names and times are derived from a seed.
    pub(crate) async fn new() -> Self {
        Self::built(ApiServer::builder().seed(1)).await
    }

    pub(crate) async fn built(builder: ApiServerBuilder) -> Self {
        Self { server: builder.build().await.unwrap() }
    }

    /// Starts a server with the CRD of [`widget`]s.
    pub(crate) async fn with_widgets() -> Self {
        let cluster = Self::new().await;
        cluster.post(CRDS, widget_crd()).await.expect(201);
        cluster
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> TestResponse {
        send(self.server.service(), method, path, headers, body).await
    }

    pub(crate) async fn send_as(
        &self,
        identity: Identity,
        method: Method,
        path: &str,
    ) -> TestResponse {
        send(self.server.service_as(identity), method, path, &[], "").await
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> TestResponse {
        self.send(Method::GET, path, &[("accept", accept)], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.send(Method::POST, path, JSON, body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> TestResponse {
        self.send(Method::PUT, path, JSON, body.to_string()).await
    }

    pub(crate) async fn patch(&self, path: &str, patch: Patch, body: Value) -> TestResponse {
        let headers = [("content-type", patch.media_type())];
        self.send(Method::PATCH, path, &headers, body.to_string()).await
    }

    pub(crate) async fn merge(&self, path: &str, body: Value) -> TestResponse {
        self.patch(path, Patch::Merge, body).await
    }

    /// Sends a server-side apply; `query` starts with the field manager: `m1&force=true`.
    pub(crate) async fn apply(&self, path: &str, query: &str, body: Value) -> TestResponse {
        let path = format!("{path}?fieldManager={query}");
        let headers = [("content-type", "application/apply-patch+yaml")];
        self.send(Method::PATCH, &path, &headers, body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> TestResponse {
        self.send(Method::DELETE, path, &[], "").await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: Value) -> TestResponse {
        self.send(Method::DELETE, path, JSON, options.to_string()).await
    }

    /// Opens a watch; `path` is a collection with its query, without `watch`.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_as(path, "application/json").await
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Watch {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}watch=true");
        let request = request(Method::GET, &path, &[("accept", accept)], "");
        let response = self.server.service().call(request).await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        Watch { body: response.into_body(), read: Vec::new() }
    }

    /// Lists a collection and returns the names in order.
    pub(crate) async fn names(&self, path: &str) -> Vec<String> {
        names(&self.get(path).await.expect(200))
    }
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(body.into())).unwrap()
}

pub(crate) async fn send(
    mut service: Service,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> TestResponse {
    let response = service.call(request(method, path, headers, body)).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = timeout(TIMEOUT, body.collect()).await.unwrap().unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    TestResponse { status: parts.status.as_u16(), headers: parts.headers, bytes, body }
}

impl TestResponse {
    /// Checks the status code and returns the body.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.body
    }

    /// Checks code, reason and message of an error and returns the body.
    #[track_caller]
    pub(crate) fn expect_error(self, code: u16, reason: &str, message: &str) -> Value {
        let status = &self.body;
        assert_eq!(status["kind"], "Status", "{}", self.text());
        let actual = (
            self.status,
            status["code"].as_u64().unwrap_or(0),
            status["reason"].as_str().unwrap_or(""),
            status["message"].as_str().unwrap_or(""),
        );
        assert_eq!(actual, (code, u64::from(code), reason, message));
        assert_eq!(status["status"], "Failure");
        self.body
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// An open watch.
pub(crate) struct Watch {
    body: Body,
    read: Vec<u8>,
}

impl Watch {
    /// Returns the next event, which must arrive within the timeout.
    pub(crate) async fn next(&mut self) -> Value {
        self.next_within(TIMEOUT).await
    }

    pub(crate) async fn next_within(&mut self, time: Duration) -> Value {
        let next = timeout(time, self.read_event()).await.expect("an event was due");
        next.expect("the watch has ended")
    }

    /// Returns the next `count` events as `(type, name)`.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<(String, String)> {
        let mut events = Vec::new();
        for _ in 0..count {
            let event = self.next().await;
            events.push((text(&event["type"]), text(&event["object"]["metadata"]["name"])));
        }
        events
    }

    /// Whether no event is available.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.read_event().now_or_never().is_none()
    }

    /// Returns the available events.
    pub(crate) fn ready(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.read_event().now_or_never().flatten()).collect()
    }

    /// Reads until the server ends the watch, which must happen within `time`.
    pub(crate) async fn rest(&mut self, time: Duration) -> Vec<Value> {
        let mut events = Vec::new();
        let read = async {
            while let Some(event) = self.read_event().await {
                events.push(event);
            }
        };
        timeout(time, read).await.expect("the watch should have ended");
        events
    }

    async fn read_event(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.read.extend_from_slice(&frame.into_data().unwrap());
        }
    }
}

pub(crate) fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|item| text(&item["metadata"]["name"])).collect()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Returns `(type, name)` of an expected event.
pub(crate) fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

// === fixtures ===

pub(crate) fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(crate) fn labelled(name: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}})
}

pub(crate) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    })
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    })
}

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": spec,
    })
}

/// Returns a CRD that uses most features: subresources, printer columns, selectable fields,
/// defaults, validation and a set.
pub(crate) fn widget_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {
                "plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wg"],
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                    },
                },
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["color"],
                            "properties": {
                                "color": {"type": "string", "enum": ["red", "blue"]},
                                "replicas": {"type": "integer", "minimum": 0, "default": 1},
                                "note": {"type": "string", "maxLength": 5},
                                "tags": {
                                    "type": "array", "items": {"type": "string"},
                                    "x-kubernetes-list-type": "set",
                                },
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": {
                                "replicas": {"type": "integer"},
                                "phase": {"type": "string"},
                            },
                        },
                    },
                }},
            }],
        },
    })
}
