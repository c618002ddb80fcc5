//! Many servers in one process, as in a test suite with one per test: no leaks, no interference.

use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use serde_json::json;
use tokio::runtime::Handle;

use crate::harness::{CONFIG_MAPS, Cluster, WIDGETS, config_map, event, widget};

const SERVERS: usize = 1000;

/// Returns the number of threads of this process.
fn threads() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Threads:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn thousand_servers_start_and_stop_without_leaks() {
    // The first server initializes shared state.
    drop(Cluster::new().await);
    let before = threads();
    for seed in 0..SERVERS {
        let cluster = Cluster::built(ApiServer::builder().seed(seed as u64)).await;
        let revision = cluster.server.revision();
        let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?resourceVersion={revision}")).await;
        cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
        assert_eq!(watch.take(1).await, [event("ADDED", "a")]);
        drop(cluster);
        assert!(watch.rest(Duration::from_secs(1)).await.is_empty());
    }
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "a task was left behind");
    // Other tests run concurrently, so only a leak per server exceeds the bound.
    let more = threads().saturating_sub(before);
    assert!(more < SERVERS as u64 / 2, "{more} threads more");
}

#[tokio::test]
async fn listening_servers_stop_without_leaks() {
    for _ in 0..20 {
        let server = ApiServer::builder().build().await.unwrap();
        let serving = server.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
        drop(server);
        serving.stop().await;
    }
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn concurrent_servers_are_isolated() {
    let (one, two) = (Cluster::new().await, Cluster::new().await);
    one.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    two.get(&format!("{CONFIG_MAPS}/a")).await.expect(404);
    drop(one);
    two.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn server_starts_with_the_snapshot_of_another() {
    let first = Cluster::with_widgets().await;
    let created = first.post(WIDGETS, widget("w", json!({"color": "red"}))).await.expect(201);
    first.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    let before = first.server.revision();
    let snapshot = first.server.snapshot();
    first.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);

    let builder = || ApiServer::builder().seed(7).snapshot(snapshot.clone());
    let (second, third) = (Cluster::built(builder()).await, Cluster::built(builder()).await);
    assert_eq!(second.server.revision(), before, "nothing is created again");
    assert_eq!(second.get(&format!("{WIDGETS}/w")).await.expect(200), created);
    // There is no history, and a watch continues from the snapshot.
    let past = format!("{CONFIG_MAPS}?resourceVersion=2&resourceVersionMatch=Exact");
    second.get(&past).await.expect(410);
    let mut watch = second.watch(&format!("{CONFIG_MAPS}?resourceVersion={before}")).await;
    second.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert_eq!(watch.take(1).await, [event("DELETED", "a")]);
    third.get(&format!("{CONFIG_MAPS}/a")).await.expect(200);

    let error = builder().data_dir("unused").build().await.unwrap_err();
    assert!(error.to_string().contains("cannot start with a snapshot"), "{error}");
}
