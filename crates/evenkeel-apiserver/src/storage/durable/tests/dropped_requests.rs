//! Requests that are dropped, or not resumed, while their write is committed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use super::*;
use crate::body::Body;
use crate::identity::Identity;
use crate::storage::{Event, Watcher};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

type Response =
    Pin<Box<dyn Future<Output = Result<http::Response<Body>, std::convert::Infallible>> + Send>>;

async fn server(scratch: &Scratch) -> ApiServer {
    ApiServer::builder().rbac().build_on(scratch.open(), None).await.unwrap()
}

fn table(server: &ApiServer, name: &str) -> Table {
    server.core_for_tests().store.table(name)
}

fn request(server: &ApiServer, method: &str, path: &str, body: &Value) -> Response {
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    server.service().call(request.body(Full::<Bytes>::from(body.to_string())).unwrap())
}

async fn created(server: &ApiServer, path: &str, object: &Value) {
    assert_eq!(send(server, "POST", path, &object.to_string()).await.0, 201);
}

/// Polls a request until its write is queued, and commits it. Returns its event; the request has not
/// been resumed.
async fn commit(table: &Table, request: &mut Response) -> Arc<Event> {
    let mut watcher = table.watch(None, table.store.shared.revision()).unwrap();
    // The committer waits for the lock.
    let hold = table.inner.state.read();
    assert!(request.now_or_never().is_none(), "it waits for the commit");
    drop(hold);
    next(&mut watcher).await
}

async fn next(watcher: &mut Watcher) -> Arc<Event> {
    tokio::time::timeout(Duration::from_secs(60), watcher.next()).await.unwrap().unwrap()
}

/// Returns whether bob may list secrets.
async fn bob_is_allowed(server: &ApiServer) -> bool {
    let mut service = server.service_as(Identity::authenticated("bob", ["dev"]));
    let request = http::Request::get(SECRETS).body(Full::<Bytes>::default()).unwrap();
    service.call(request).await.unwrap().status() == 200
}

fn role(resource: &str) -> Value {
    json!({
        "metadata": {"name": "reader"},
        "rules": [{"verbs": ["list"], "apiGroups": [""], "resources": [resource]}],
    })
}

fn binding() -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}],
    })
}

#[tokio::test]
async fn a_revocation_takes_effect_although_its_request_was_dropped() {
    let scratch = Scratch::new();
    let server = server(&scratch).await;
    created(&server, ROLES, &role("secrets")).await;
    created(&server, BINDINGS, &binding()).await;
    assert!(bob_is_allowed(&server).await);

    let mut request = request(&server, "DELETE", &format!("{BINDINGS}/reader"), &json!({}));
    let bindings = table(&server, "rbac.authorization.k8s.io/rolebindings");
    assert!(commit(&bindings, &mut request).await.deleted);
    drop(request);
    assert!(!bob_is_allowed(&server).await);
}

#[tokio::test]
async fn the_last_of_concurrent_updates_of_a_role_counts() {
    let scratch = Scratch::new();
    let server = server(&scratch).await;
    created(&server, ROLES, &role("pods")).await;
    created(&server, BINDINGS, &binding()).await;

    let path = format!("{ROLES}/reader");
    let mut grants = request(&server, "PUT", &path, &role("secrets"));
    commit(&table(&server, "rbac.authorization.k8s.io/roles"), &mut grants).await;
    assert!(bob_is_allowed(&server).await, "before the request ends");
    assert_eq!(send(&server, "PUT", &path, &role("pods").to_string()).await.0, 200);
    assert_eq!(grants.await.unwrap().status(), 200);
    assert!(!bob_is_allowed(&server).await);
}

#[tokio::test]
async fn the_cluster_ip_of_a_dropped_create_stays_allocated() {
    let scratch = Scratch::new();
    let server = server(&scratch).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let addresses = table(&server, "networking.k8s.io/ipaddresses");
    let mut watcher = addresses.watch(None, addresses.store.shared.revision()).unwrap();

    let mut request = request(&server, "POST", SERVICES, &service);
    let stored = commit(&table(&server, "services"), &mut request).await;
    drop(request);
    let stored: Value = serde_json::from_slice(&stored.record.body).unwrap();
    let address = stored["spec"]["clusterIP"].as_str().unwrap();
    assert_eq!(next(&mut watcher).await.record.key.name(), address, "the hooks ran");

    let other = json!({
        "metadata": {"name": "other"},
        "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    });
    let (status, body) = send(&server, "POST", SERVICES, &other.to_string()).await;
    assert_eq!(status, 422);
    assert!(body.contains("provided IP is already allocated"), "{body}");
}
