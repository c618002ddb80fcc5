//! Stopped servers release their memory. In a process of its own: other tests would change the
//! figure.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use evenkeel_apiserver::ApiServer;
use http::{Request, StatusCode};
use http_body_util::Full;
use tower_service::Service as _;

/// Servers before the first measurement, until the allocator reuses memory.
const WARM_UP: u64 = 50;
const SERVERS: u64 = 250;

/// Returns the resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn run_server(seed: u64) {
    let server = ApiServer::builder().seed(seed).rbac().build().await.unwrap();
    let body = r#"{"metadata":{"name":"a"}}"#;
    let request = Request::post("/api/v1/namespaces/default/configmaps")
        .header("content-type", "application/json")
        .body(Full::from(body))
        .unwrap();
    let response = server.service().call(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
}

#[tokio::test(start_paused = true)]
async fn memory_of_stopped_servers_is_released() {
    for seed in 0..WARM_UP {
        run_server(seed).await;
    }
    let before = resident();
    for seed in 0..SERVERS {
        run_server(seed).await;
    }
    let more = resident().saturating_sub(before);
    // The objects of a new server alone take more than 100 KiB.
    assert!(more < SERVERS * 20, "{more} KiB more");
}
