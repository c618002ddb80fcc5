//! The ConfigMaps of the scenarios, and concurrent writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tokio::task::JoinSet;
use tower_service::Service as _;

use crate::client::{Connection, Endpoint};
use crate::probe::Stopwatch;

/// The size of a ConfigMap in the request body.
pub(crate) const SIZE: usize = 1024;

/// Returns a ConfigMap of [`SIZE`] bytes with a label and four keys.
pub(crate) fn config_map(name: &str) -> Bytes {
    let head = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","labels":{{"app":"bench"}}}},"data":{{"color":"blue","replicas":"3","host":"db.example.org","settings":""#
    );
    let tail = r#""}}"#;
    let filling = "x".repeat(SIZE - head.len() - tail.len());
    format!("{head}{filling}{tail}").into()
}

pub(crate) fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// Creates one ConfigMap without a socket.
pub(crate) async fn create(
    service: &mut evenkeel_apiserver::Service,
    path: &str,
    name: &str,
) -> anyhow::Result<()> {
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(config_map(name)))?;
    let Ok(response) = service.call(request).await;
    anyhow::ensure!(response.status() == StatusCode::CREATED, "create: {}", response.status());
    let Ok(body) = response.into_body().collect().await;
    anyhow::ensure!(body.to_bytes().len() > SIZE, "create should return the object");
    Ok(())
}

/// Creates `count` ConfigMaps over `connections` connections; returns the rate per second.
pub(crate) async fn create_over_tls(
    endpoint: &Endpoint,
    namespace: &str,
    count: usize,
    connections: usize,
) -> anyhow::Result<f64> {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(endpoint.connect().await?);
    }
    let next = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    let watch = Stopwatch::start();
    for connection in open {
        writers.spawn(write(connection, path(namespace), next.clone(), count));
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(count as f64 / watch.elapsed().as_secs_f64())
}

async fn write(
    mut connection: Connection,
    path: String,
    next: Arc<AtomicUsize>,
    count: usize,
) -> anyhow::Result<()> {
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= count {
            return Ok(());
        }
        let body = config_map(&format!("object-{at:07}"));
        let (status, _) = connection.exchange(Method::POST, &path, body).await?;
        anyhow::ensure!(status == StatusCode::CREATED, "create over TLS: {status}");
    }
}
