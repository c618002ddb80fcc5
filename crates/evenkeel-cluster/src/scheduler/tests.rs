//! Where pods go, in virtual time.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::testing::world::{World, until};
use crate::{Capacity, Settings};

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{
            "name": "app",
            "image": "app:1",
            "resources": {"requests": {"cpu": cpu}},
        }]},
    })
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn refusal(pod: &Pod) -> Option<&str> {
    let condition = crate::pods::condition(pod, "PodScheduled")?;
    (condition.status == "False").then_some(condition.message.as_deref()?)
}

async fn world(nodes: usize, cpu: &str) -> (World, Api<Node>) {
    let capacity = Capacity { cpu: cpu.to_owned(), ..Capacity::default() };
    let world = World::start(Settings { nodes, capacity, ..Settings::default() }).await;
    let api: Api<Node> = Api::all(world.client.clone());
    let open = |node: &Node| node.spec.as_ref().is_some_and(|spec| spec.taints.is_none());
    until(&api, "nodes", |all| all.len() == nodes && all.values().all(open)).await;
    (world, api)
}

async fn change(nodes: &Api<Node>, name: &str, patch: Value) {
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_are_spread_and_one_that_fits_nowhere_waits_for_room() {
    let (world, _nodes) = world(2, "2").await;
    for name in ["a", "b"] {
        world.create::<Pod>(pod(name, "1500m")).await;
    }
    let placed = |pods: &BTreeMap<String, Pod>| pods.values().all(|pod| node(pod).is_some());
    let pods = world.until::<Pod>("both placed", placed).await;
    assert_ne!(node(&pods["a"]), node(&pods["b"]));
    world.create::<Pod>(pod("c", "1")).await;
    let c = world.until_one::<Pod>("c", |pod| refusal(pod).is_some()).await;
    assert_eq!(refusal(&c), Some("0/2 nodes are available: 2 Insufficient cpu."));
    world.api::<Pod>().delete("a", &DeleteParams::default()).await.unwrap();
    world.until_one::<Pod>("c", crate::pods::is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn selectors_affinity_taints_and_cordons_are_honoured() {
    let (world, nodes) = world(3, "8").await;
    change(&nodes, "node-2", json!({"metadata": {"labels": {"disk": "fast", "size": "12"}}})).await;
    let taint = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
    change(&nodes, "node-3", json!({"spec": {"taints": taint}})).await;
    let mut chosen = pod("chosen", "1");
    chosen["spec"]["nodeSelector"] = json!({"disk": "fast"});
    let mut larger = pod("larger", "1");
    let larger_than = |bound: &str| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [
                {"key": "size", "operator": "Gt", "values": [bound]},
            ]}],
        }}})
    };
    larger["spec"]["affinity"] = larger_than("10");
    let mut tolerant = pod("tolerant", "1");
    tolerant["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node-3"});
    tolerant["spec"]["tolerations"] = json!([{"key": "gpu", "operator": "Exists"}]);
    let mut intolerant = pod("intolerant", "1");
    intolerant["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "node-3"});
    let mut nowhere = pod("nowhere", "1");
    nowhere["spec"]["affinity"] = larger_than("20");
    for object in [chosen, larger, tolerant, intolerant, nowhere] {
        world.create::<Pod>(object).await;
    }
    for (name, wanted) in [("chosen", "node-2"), ("larger", "node-2"), ("tolerant", "node-3")] {
        let placed = world.until_one::<Pod>(name, |pod| node(pod).is_some()).await;
        assert_eq!(node(&placed), Some(wanted), "{name}");
    }
    let refused = world.until_one::<Pod>("intolerant", |pod| refusal(pod).is_some()).await;
    let reasons = "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, \
                   2 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(refusal(&refused), Some(reasons));
    let refused = world.until_one::<Pod>("nowhere", |pod| refusal(pod).is_some()).await;
    assert!(refusal(&refused).unwrap().contains("didn't match"), "{refused:?}");

    for name in ["node-1", "node-2"] {
        change(&nodes, name, json!({"spec": {"unschedulable": true}})).await;
    }
    until(&nodes, "tainted", |all| {
        let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
        all.values().all(|node| taints(node).is_some_and(|taints| !taints.is_empty()))
    })
    .await;
    world.create::<Pod>(pod("late", "1")).await;
    world.until_one::<Pod>("late", |pod| refusal(pod).is_some()).await;
    change(&nodes, "node-1", json!({"spec": {"unschedulable": null}})).await;
    let late = world.until_one::<Pod>("late", |pod| node(pod).is_some()).await;
    assert_eq!(node(&late), Some("node-1"));
}

#[tokio::test(start_paused = true)]
async fn pods_of_another_scheduler_are_left_alone() {
    let (world, _nodes) = world(1, "8").await;
    let mut other = pod("other", "1");
    other["spec"]["schedulerName"] = json!("mine");
    world.create::<Pod>(other).await;
    world.create::<Pod>(pod("ours", "1")).await;
    world.until_one::<Pod>("ours", crate::pods::is_ready).await;
    let other = world.api::<Pod>().get("other").await.unwrap();
    assert_eq!((node(&other), refusal(&other)), (None, None));
}
