//! Events are deleted after their TTL.

use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::time::advance;

use crate::durability::Scratch;
use crate::harness::*;

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn event(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
        "involvedObject": {"namespace": "default"}, "reason": "R", "type": "Normal",
    })
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn an_event_expires_an_hour_after_its_last_write() {
    let cluster = Cluster::new().await;
    // Watches end after less than an hour by default.
    let mut watch = cluster.watch(&format!("{EVENTS}?timeoutSeconds=100000")).await;
    cluster.post(EVENTS, event("a")).await.expect(201);
    cluster.post(EVENTS, event("b")).await.expect(201);
    assert_eq!(watch.take(2).await, [added("a"), added("b")]);
    advance(30 * MINUTE).await;
    cluster.merge(&format!("{EVENTS}/a"), json!({"count": 2})).await.expect(200);
    assert_eq!(watch.take(1).await[0].0, "MODIFIED");
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    assert_eq!(cluster.names(path).await, ["a", "b"]);
    assert_eq!(watch.next_within(31 * MINUTE).await["object"]["metadata"]["name"], "b");
    assert_eq!(cluster.names(EVENTS).await, ["a"]);
    let last = watch.next_within(31 * MINUTE).await;
    assert_eq!((&last["type"], &last["object"]["count"]), (&json!("DELETED"), &json!(2)));
    assert!(cluster.names(EVENTS).await.is_empty());
}

fn added(name: &str) -> (String, String) {
    crate::harness::event("ADDED", name)
}

#[tokio::test(start_paused = true)]
async fn the_ttl_is_configured_and_zero_keeps_events() {
    let builder = || ApiServer::builder().seed(1);
    let short = Cluster::built(builder().event_ttl(MINUTE)).await;
    let kept = Cluster::built(builder().event_ttl(Duration::ZERO)).await;
    for cluster in [&short, &kept] {
        cluster.post(EVENTS, event("a")).await.expect(201);
    }
    tokio::time::sleep(2 * MINUTE).await;
    assert!(short.names(EVENTS).await.is_empty());
    tokio::time::sleep(200 * MINUTE).await;
    assert_eq!(kept.names(EVENTS).await, ["a"]);
}

#[tokio::test]
async fn events_of_an_earlier_process_expire() {
    let scratch = Scratch::new();
    let builder = || ApiServer::builder().data_dir(&scratch.0);
    let cluster = Cluster::built(builder()).await;
    cluster.post(EVENTS, event("a")).await.expect(201);
    let revision = cluster.server.revision();
    drop(cluster);
    let cluster = Cluster::built(builder().event_ttl(Duration::from_millis(1))).await;
    // It may have expired before the watch starts.
    let mut watch = cluster.watch(&format!("{EVENTS}?resourceVersion={revision}")).await;
    assert_eq!(watch.next().await["type"], "DELETED");
    assert!(cluster.names(EVENTS).await.is_empty());
}
