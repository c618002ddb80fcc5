//! Measures how long a cluster of a given size takes to start:
//! `cargo run --release --example scale -- <nodes> <deployments> <replicas>`.

use std::time::Duration;

use evenkeel_cluster::{Cluster, ClusterOptions};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use tokio::time::Instant;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |default| arguments.next().unwrap_or(Ok(default));
    let (nodes, deployments, replicas) = (next(1)?, next(1)?, next(3)?);
    let begun = Instant::now();
    let cluster = Cluster::start_with(&ClusterOptions::new().nodes(nodes)).await?;
    let client = cluster.client();
    let all: Api<Node> = Api::all(client.clone());
    while all.list_metadata(&ListParams::default()).await?.items.len() < nodes
        || all.list(&ListParams::default()).await?.items.iter().any(is_tainted)
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    print_line(&format!("{nodes} nodes: {:?}", begun.elapsed()));
    let begun = Instant::now();
    let api: Api<Deployment> = Api::namespaced(client, "default");
    for number in 0..deployments {
        let deployment = serde_json::from_value(json!({
            "metadata": {"name": format!("web-{number}")},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": format!("web-{number}")}},
                "template": {
                    "metadata": {"labels": {"app": format!("web-{number}")}},
                    "spec": {"containers": [{
                        "name": "app",
                        "image": "app:1",
                        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                    }]},
                },
            },
        }))?;
        api.create(&PostParams::default(), &deployment).await?;
    }
    let mut pause = Duration::from_micros(500);
    loop {
        let list = api.list(&ListParams::default()).await?;
        let available = |deployment: &Deployment| {
            deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
        };
        let done: i32 = list.items.iter().map(available).sum();
        if usize::try_from(done)? == deployments * replicas {
            break;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(250));
    }
    print_line(&format!("{} pods available: {:?}", deployments * replicas, begun.elapsed()));
    for controller in cluster.manager().controllers() {
        let queue = controller.queue().snapshot();
        print_line(&format!(
            "{:>8} reconciles, {} retries: {}",
            queue.taken,
            queue.retries,
            controller.name()
        ));
    }
    print_line(&memory());
    cluster.stop().await;
    Ok(())
}

fn is_tainted(node: &Node) -> bool {
    node.spec.as_ref().is_some_and(|spec| spec.taints.is_some())
}

/// Returns the peak memory of the process, where the system reports it.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("memory unknown").to_owned()
}

#[expect(clippy::print_stdout, reason = "the program prints its results")]
fn print_line(line: &str) {
    println!("{line}");
}
