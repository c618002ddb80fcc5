//! The same seed and the same requests give the same bytes.

use std::fmt::Write as _;
use std::time::Duration;

use evenkeel_apiserver::ApiServer;
use http::Method;
use serde_json::json;

use crate::harness::{
    CONFIG_MAPS, CRDS, Cluster, DEPLOYMENTS, TABLE, TestResponse, WIDGETS, config_map, deployment,
    widget, widget_crd,
};

/// All response bytes of a server.
struct Transcript(String);

impl Transcript {
    fn note(&mut self, response: &TestResponse) {
        let TestResponse { status, headers, .. } = response;
        writeln!(self.0, "{status} {headers:?} {}", response.text()).unwrap();
    }
}

async fn run(seed: u64) -> String {
    let cluster = Cluster::built(ApiServer::builder().seed(seed)).await;
    let mut transcript = Transcript(String::new());
    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?allowWatchBookmarks=true")).await;
    transcript.note(&cluster.post(CRDS, widget_crd()).await);
    for round in 0..3 {
        let generated = json!({"metadata": {"generateName": "g-"}});
        transcript.note(&cluster.post(CONFIG_MAPS, generated).await);
        let object = config_map(&format!("c{round}"), json!({"k": "v"}));
        transcript.note(&cluster.post(CONFIG_MAPS, object).await);
        let name = format!("d{round}");
        transcript.note(&cluster.post(DEPLOYMENTS, deployment(&name)).await);
        let path = format!("{DEPLOYMENTS}/{name}/scale");
        transcript.note(&cluster.merge(&path, json!({"spec": {"replicas": 7}})).await);
        let name = format!("w{round}");
        let object = widget(&name, json!({"color": "red"}));
        let path = format!("{WIDGETS}/{name}");
        transcript.note(&cluster.apply(&path, "me", object).await);
        transcript.note(&cluster.get_as(WIDGETS, TABLE).await);
        tokio::time::advance(Duration::from_millis(41_500)).await;
        transcript.note(&cluster.delete(&format!("{CONFIG_MAPS}/c{round}")).await);
    }
    for path in ["/apis", "/api/v1", "/api/v1/services", "/nope", "/api/v1/namespaces"] {
        transcript.note(&cluster.get(path).await);
    }
    let yaml = [("accept", "application/yaml")];
    transcript.note(&cluster.send(Method::GET, CONFIG_MAPS, &yaml, "").await);
    for event in watch.ready() {
        writeln!(transcript.0, "{event}").unwrap();
    }
    transcript.0
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_same_bytes() {
    let first = run(42).await;
    assert!(first.contains("2026-01-01T00:01:23Z"), "time passes by tokio's clock");
    assert!(first.contains("BOOKMARK"));
    assert_eq!(first, run(42).await);
}

#[tokio::test(start_paused = true)]
async fn different_seed_gives_different_names() {
    assert_ne!(run(42).await, run(43).await);
}

#[test]
fn same_seed_gives_same_bytes_in_another_runtime() {
    let alone = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(7))
    };
    let elsewhere = std::thread::spawn(alone).join().unwrap();
    assert_eq!(alone(), elsewhere);
}
