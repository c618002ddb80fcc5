//! DaemonSets on a whole cluster, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::pods::is_terminating;
use crate::testing::virtual_cluster::VirtualCluster;
use crate::{ClusterOptions, Delays, SIMULATED_NODE_ANNOTATION};

fn set() -> Value {
    json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "app", "image": "agent:1"}]},
            },
        },
    })
}

fn is_up_to_date(wanted: i32) -> impl Fn(&DaemonSet) -> bool {
    move |set| {
        let status = set.status.clone().unwrap_or_default();
        status.observed_generation == set.metadata.generation
            && status.desired_number_scheduled == wanted
            && status.number_available.unwrap_or(0) == wanted
            && status.updated_number_scheduled.unwrap_or(0) == wanted
    }
}

fn nodes_of(pods: &BTreeMap<String, Pod>) -> BTreeSet<String> {
    pods.values().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect()
}

fn image_of(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_node_runs_a_pod_and_so_does_a_new_one() {
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 3, ..ClusterOptions::default() }).await;
    cluster.create::<DaemonSet>(set()).await;
    cluster.until_one("agent", is_up_to_date(3)).await;
    let pods = cluster.until::<Pod>("three", |pods| pods.len() == 3).await;
    assert_eq!(nodes_of(&pods).len(), 3);
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "guest", "annotations": {SIMULATED_NODE_ANNOTATION: "true"}},
    }))
    .unwrap();
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    nodes.create(&PostParams::default(), &node).await.unwrap();
    cluster.until_one("agent", is_up_to_date(4)).await;
    cluster.until::<Pod>("on the guest", |pods| nodes_of(pods).contains("guest")).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_are_chosen_by_selector_and_taints() {
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 3, ..ClusterOptions::default() }).await;
    let mut object = set();
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({"role": "edge"});
    cluster.create::<DaemonSet>(object).await;
    cluster.until_one("agent", is_up_to_date(0)).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let change = async |name: &str, patch: Value| {
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    for name in ["node-1", "node-2"] {
        change(name, json!({"metadata": {"labels": {"role": "edge"}}})).await;
    }
    cluster.until_one("agent", is_up_to_date(2)).await;
    // Cordoned nodes keep and get DaemonSet pods; a node with a NoExecute taint does not.
    change("node-1", json!({"spec": {"unschedulable": true}})).await;
    let taint = json!([{"key": "down", "effect": "NoExecute"}]);
    change("node-2", json!({"spec": {"taints": taint}})).await;
    cluster.until_one("agent", is_up_to_date(1)).await;
    let pods = cluster.until::<Pod>("one", |pods| pods.len() == 1).await;
    assert!(nodes_of(&pods).contains("node-1"));
}

/// Updates the DaemonSet and checks that two pods are always ready until `all` are new.
async fn update(cluster: &VirtualCluster, all: i32) {
    let image = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "app", "image": "agent:2"},
    ]}}}});
    cluster.patch::<DaemonSet>("agent", image).await;
    cluster
        .until::<Pod>("all new", |pods| {
            let ready = pods.values().filter(|p| crate::pods::is_ready(p) && !is_terminating(p));
            assert!(ready.count() >= 2);
            i32::try_from(pods.len()) == Ok(all)
                && pods.values().all(|pod| image_of(pod) == "agent:2")
        })
        .await;
    cluster.until_one("agent", is_up_to_date(all)).await;
}

#[tokio::test(start_paused = true)]
async fn an_update_replaces_one_pod_after_the_other() {
    let delays = Delays { ready: Duration::from_secs(2), ..Delays::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 3, delays, ..ClusterOptions::default() })
            .await;
    cluster.create::<DaemonSet>(set()).await;
    cluster.until_one("agent", is_up_to_date(3)).await;
    update(&cluster, 3).await;
}

#[tokio::test(start_paused = true)]
async fn with_a_surge_the_new_pod_is_ready_before_the_old_one_is_deleted() {
    let delays = Delays { ready: Duration::from_secs(2), ..Delays::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 2, delays, ..ClusterOptions::default() })
            .await;
    let mut object = set();
    object["spec"]["updateStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    cluster.create::<DaemonSet>(object).await;
    cluster.until_one("agent", is_up_to_date(2)).await;
    update(&cluster, 2).await;
}
