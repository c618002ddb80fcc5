//! What a manager and the embedded API server export, read by Prometheus' own parser.
//!
//! `cargo xtask scrape` builds the Go program and runs this test. The other tests use the strict
//! parser of `evenkeel::metrics::text`, whose result is compared here.

use std::io::Write as _;
use std::process::{Command, Stdio};

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::leader::LeaderElection;
use evenkeel::metrics::text::parse;
use evenkeel::prelude::*;
use evenkeel::webhook::{AdmissionRequest, Warnings, WebhookOptions};

use crate::harness::{World, next, recording, start, stop};

/// The path of the Go program.
const PROGRAM: &str = "EVENKEEL_SCRAPE";

/// Returns the number of samples that Prometheus finds.
fn samples(text: &str) -> usize {
    let mut child = Command::new(std::env::var_os(PROGRAM).unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn accept(_: &ConfigMap, _: &AdmissionRequest) -> Result<Warnings> {
    Ok(Warnings::new())
}

#[tokio::test]
#[ignore = "needs Go: run `cargo xtask scrape`"]
async fn prometheus_reads_all_metrics() {
    let world = World::new().await;
    world.create_map("a").await;
    let options = WebhookOptions::new().in_process().service_namespace("default");
    let manager = Manager::builder("scraped")
        .leader_election(LeaderElection::new())
        .webhooks(options)
        .build(world.client());
    manager.webhook::<ConfigMap>().validator(accept).register().unwrap();
    let (reconciler, mut keys) = recording::<ConfigMap>();
    manager.controller(reconciler).named("maps").register().unwrap();
    let orders = manager.metrics().counters("shop_orders_total", "Orders\nby \\state.", ["state"]);
    orders.unwrap().with(["\"paid\"\\\n"]).inc();
    let running = start(&manager);
    next(&mut keys).await;

    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let server = world.admin().request_text(request).await.unwrap();
    for text in [manager.metrics().encode(), server] {
        let found: usize = parse(&text).unwrap().iter().map(|family| family.samples.len()).sum();
        assert_eq!(samples(&text), found);
        println!("{found} samples");
    }
    stop(&manager, running).await;
}
