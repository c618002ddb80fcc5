//! Nodes that stop reporting, on a whole cluster in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::testing::virtual_cluster::VirtualCluster;
use crate::{ClusterOptions, NODE_SIMULATION_ANNOTATION};

const MINUTE: Duration = Duration::from_secs(60);

async fn set_down(cluster: &VirtualCluster, names: &[&str], down: bool) {
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let value = if down { json!("down") } else { json!(null) };
    let patch =
        Patch::Merge(json!({"metadata": {"annotations": {NODE_SIMULATION_ANNOTATION: value}}}));
    for name in names {
        nodes.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
}

fn evicts(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.effect == "NoExecute")
}

fn is_ready(node: &Node) -> bool {
    super::ready(node).is_some_and(|ready| ready.status == "True")
}

async fn pod_on(cluster: &VirtualCluster, node: &str) {
    cluster
        .create::<Pod>(json!({
            "metadata": {"name": format!("on-{node}")},
            "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app:1"}]},
        }))
        .await;
}

async fn nodes(
    cluster: &VirtualCluster,
    what: &str,
    test: impl Fn(&BTreeMap<String, Node>) -> bool + Send,
) {
    cluster.until(what, test).await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_unreachable_node_are_evicted() {
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 3, ..ClusterOptions::default() }).await;
    nodes(&cluster, "three", |nodes| nodes.len() == 3).await;
    pod_on(&cluster, "node-1").await;
    pod_on(&cluster, "node-2").await;
    set_down(&cluster, &["node-1"], true).await;
    nodes(&cluster, "node-1 is evicted", |nodes| evicts(&nodes["node-1"])).await;
    // Every pod tolerates the taint for five minutes.
    let is_deleted =
        |pod: Option<&Pod>| pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    cluster.until::<Pod>("the pod is deleted", |pods| is_deleted(pods.get("on-node-1"))).await;
    assert!(!is_deleted(cluster.api::<Pod>().get_opt("on-node-2").await.unwrap().as_ref()));
}

/// Returns the events with a reason, as object, type, reporting component and message.
async fn events(cluster: &VirtualCluster, reason: &str, count: usize) -> Vec<String> {
    let is = |event: &&Event| event.reason.as_deref() == Some(reason);
    let all =
        cluster.until::<Event>(reason, |events| events.values().filter(is).count() >= count).await;
    let texts = all.values().filter(is).map(|event| {
        let about = &event.involved_object;
        assert!(about.uid.is_some(), "{event:?}");
        let texts =
            [&about.kind, &about.name, &event.type_, &event.reporting_component, &event.message];
        texts.map(|text| text.as_deref().unwrap_or("?")).join("|")
    });
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

#[tokio::test(start_paused = true)]
async fn node_and_pod_changes_are_recorded_as_events() {
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await;
    nodes(&cluster, "two", |nodes| nodes.len() == 2).await;
    assert_eq!(
        events(&cluster, "RegisteredNode", 2).await,
        ["node-1", "node-2"].map(|name| {
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            format!("Node|{name}|Normal|node-controller|{message}")
        })
    );
    pod_on(&cluster, "node-1").await;
    cluster.until_one::<Pod>("on-node-1", crate::pods::is_ready).await;
    set_down(&cluster, &["node-1"], true).await;
    assert_eq!(
        events(&cluster, "NodeNotReady", 2).await,
        [
            "Node|node-1|Normal|node-controller|Node node-1 status is now: NodeNotReady",
            "Pod|on-node-1|Warning|node-controller|Node is not ready",
        ]
    );
    assert_eq!(
        events(&cluster, "TaintManagerEviction", 1).await,
        [
            "Pod|on-node-1|Normal|taint-eviction-controller|Marking for deletion Pod default/on-node-1"
        ]
    );
    let target = |pod: &Pod| crate::pods::condition(pod, "DisruptionTarget").cloned();
    let pod = cluster.until_one::<Pod>("on-node-1", |pod| target(pod).is_some()).await;
    assert_eq!(target(&pod).unwrap().reason.as_deref(), Some("DeletionByTaintManager"));
    Api::<Node>::all(cluster.client.clone()).delete("node-1", &Default::default()).await.unwrap();
    assert_eq!(
        events(&cluster, "RemovingNode", 1).await,
        [
            "Node|node-1|Normal|node-controller|Node node-1 event: Removing Node node-1 from Controller"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_evicted_while_no_node_is_ready() {
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await;
    nodes(&cluster, "two", |nodes| nodes.len() == 2).await;
    pod_on(&cluster, "node-1").await;
    set_down(&cluster, &["node-1"], true).await;
    nodes(&cluster, "node-1 is evicted", |nodes| evicts(&nodes["node-1"])).await;
    cluster.advance(2 * MINUTE).await;
    // The last node stops reporting: evictions stop.
    set_down(&cluster, &["node-2"], true).await;
    nodes(&cluster, "no evictions", |nodes| {
        !nodes.values().any(is_ready) && !nodes.values().any(evicts)
    })
    .await;
    cluster.advance(30 * MINUTE).await;
    let pod = cluster.api::<Pod>().get("on-node-1").await.unwrap();
    assert_eq!(pod.metadata.deletion_timestamp, None);
    let listed = Api::<Node>::all(cluster.client.clone()).get("node-1").await.unwrap();
    let taints = listed.spec.unwrap().taints.unwrap();
    assert_eq!(taints.len(), 1, "only NoSchedule is left: {taints:?}");
    // One node is ready again, so evictions from the other start, and its pods have five minutes
    // again.
    set_down(&cluster, &["node-2"], false).await;
    nodes(&cluster, "node-1 is evicted", |nodes| evicts(&nodes["node-1"])).await;
    cluster.advance(4 * MINUTE).await;
    assert!(cluster.api::<Pod>().get_opt("on-node-1").await.unwrap().is_some());
    cluster
        .until::<Pod>("the pod is deleted", |pods| {
            pods.get("on-node-1").is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_controller_keeps_the_eviction_taint() {
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await;
    nodes(&cluster, "two", |nodes| nodes.len() == 2).await;
    set_down(&cluster, &["node-1"], true).await;
    nodes(&cluster, "node-1 is evicted", |nodes| evicts(&nodes["node-1"])).await;
    let since = |nodes: &BTreeMap<String, Node>| {
        let taints = nodes["node-1"].spec.as_ref().unwrap().taints.clone().unwrap();
        taints.into_iter().find(|taint| taint.effect == "NoExecute").map(|taint| taint.time_added)
    };
    let before = since(&cluster.until("now", |_| true).await);
    let only = crate::testing::options(&[super::NAME]);
    let _another = crate::run_controllers(cluster.client.clone(), &only).unwrap();
    cluster.advance(MINUTE).await;
    assert_eq!(since(&cluster.until("later", |_| true).await), before);
}
