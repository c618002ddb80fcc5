//! Scheduling in virtual time.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::testing::virtual_cluster::VirtualCluster;
use crate::{Capacity, ClusterOptions};

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

fn unschedulable_message(pod: &Pod) -> Option<&str> {
    let condition = crate::pods::condition(pod, "PodScheduled")?;
    (condition.status == "False").then_some(condition.message.as_deref()?)
}

async fn cluster(nodes: usize, cpu: &str) -> (VirtualCluster, Api<Node>) {
    let capacity = Capacity { cpu: cpu.to_owned(), ..Capacity::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes, capacity, ..ClusterOptions::default() })
            .await;
    let api: Api<Node> = Api::all(cluster.client.clone());
    let open = |node: &Node| node.spec.as_ref().is_some_and(|spec| spec.taints.is_none());
    cluster.until::<Node>("nodes", |all| all.len() == nodes && all.values().all(open)).await;
    (cluster, api)
}

async fn change(nodes: &Api<Node>, name: &str, patch: Value) {
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pods_are_spread_and_an_unschedulable_pod_waits() {
    let (cluster, _nodes) = cluster(2, "2").await;
    for name in ["a", "b"] {
        cluster.create::<Pod>(pod(name, "1500m")).await;
    }
    let placed = |pods: &BTreeMap<String, Pod>| pods.values().all(|pod| node(pod).is_some());
    let pods = cluster.until::<Pod>("both placed", placed).await;
    assert_ne!(node(&pods["a"]), node(&pods["b"]));
    cluster.create::<Pod>(pod("c", "1")).await;
    let c = cluster.until_one::<Pod>("c", |pod| unschedulable_message(pod).is_some()).await;
    assert_eq!(unschedulable_message(&c), Some("0/2 nodes are available: 2 Insufficient cpu."));
    cluster.api::<Pod>().delete("a", &DeleteParams::default()).await.unwrap();
    cluster.until_one::<Pod>("c", crate::pods::is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn selectors_affinity_taints_and_cordons_are_honoured() {
    let (cluster, nodes) = cluster(3, "8").await;
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
        cluster.create::<Pod>(object).await;
    }
    for (name, wanted) in [("chosen", "node-2"), ("larger", "node-2"), ("tolerant", "node-3")] {
        let placed = cluster.until_one::<Pod>(name, |pod| node(pod).is_some()).await;
        assert_eq!(node(&placed), Some(wanted), "{name}");
    }
    let refused =
        cluster.until_one::<Pod>("intolerant", |pod| unschedulable_message(pod).is_some()).await;
    let reasons = "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, \
                   2 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(unschedulable_message(&refused), Some(reasons));
    let refused =
        cluster.until_one::<Pod>("nowhere", |pod| unschedulable_message(pod).is_some()).await;
    assert!(unschedulable_message(&refused).unwrap().contains("didn't match"), "{refused:?}");

    for name in ["node-1", "node-2"] {
        change(&nodes, name, json!({"spec": {"unschedulable": true}})).await;
    }
    cluster
        .until::<Node>("tainted", |all| {
            let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone());
            all.values().all(|node| taints(node).is_some_and(|taints| !taints.is_empty()))
        })
        .await;
    cluster.create::<Pod>(pod("late", "1")).await;
    cluster.until_one::<Pod>("late", |pod| unschedulable_message(pod).is_some()).await;
    change(&nodes, "node-1", json!({"spec": {"unschedulable": null}})).await;
    let late = cluster.until_one::<Pod>("late", |pod| node(pod).is_some()).await;
    assert_eq!(node(&late), Some("node-1"));
}

#[tokio::test(start_paused = true)]
async fn pods_of_another_scheduler_are_ignored() {
    let (cluster, _nodes) = cluster(1, "8").await;
    let mut other = pod("other", "1");
    other["spec"]["schedulerName"] = json!("mine");
    cluster.create::<Pod>(other).await;
    cluster.create::<Pod>(pod("ours", "1")).await;
    cluster.until_one::<Pod>("ours", crate::pods::is_ready).await;
    let other = cluster.api::<Pod>().get("other").await.unwrap();
    assert_eq!((node(&other), unschedulable_message(&other)), (None, None));
}

/// A pod with a required affinity or anti-affinity term for pods with the given labels.
fn pod_with_affinity(name: &str, sort: &str, topology: &str, near: &Value) -> Value {
    let mut pod_with_affinity = pod(name, "100m");
    let term = json!({"topologyKey": topology, "labelSelector": {"matchLabels": near}});
    pod_with_affinity["spec"]["affinity"] =
        json!({sort: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    pod_with_affinity
}

async fn zones(nodes: &Api<Node>) {
    for (name, zone) in [("node-1", "a"), ("node-2", "a"), ("node-3", "b")] {
        let labels = json!({"metadata": {"labels": {"zone": zone}}});
        change(nodes, name, labels).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pod_anti_affinity_applies_to_new_and_existing_pods() {
    let (cluster, nodes) = cluster(2, "8").await;
    let web = json!({"app": "web"});
    for name in ["a", "b", "c"] {
        let mut pod = pod_with_affinity(name, "podAntiAffinity", "kubernetes.io/hostname", &web);
        pod["metadata"]["labels"] = web.clone();
        cluster.create::<Pod>(pod).await;
    }
    let pods = cluster
        .until::<Pod>("two", |pods| pods.values().filter(|pod| node(pod).is_some()).count() == 2)
        .await;
    let by_node: BTreeMap<&str, &str> =
        pods.iter().filter_map(|(name, pod)| Some((node(pod)?, name.as_str()))).collect();
    assert_eq!(by_node.len(), 2, "one pod per node");
    let third = ["a", "b", "c"].into_iter().find(|name| !by_node.values().any(|it| it == name));
    let third =
        cluster.until_one::<Pod>(third.unwrap(), |pod| unschedulable_message(pod).is_some()).await;
    let reason = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.";
    assert_eq!(unschedulable_message(&third), Some(reason));
    // A pod without terms is still rejected by the anti-affinity of existing pods.
    let mut plain = pod("plain", "100m");
    plain["metadata"]["labels"] = web;
    cluster.create::<Pod>(plain).await;
    let plain = cluster.until_one::<Pod>("plain", |pod| unschedulable_message(pod).is_some()).await;
    assert!(
        unschedulable_message(&plain)
            .unwrap()
            .contains("didn't satisfy existing pods anti-affinity rules")
    );
    assert_eq!(nodes.list(&Default::default()).await.unwrap().items.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn required_pod_affinity_is_honoured_and_waited_for() {
    let (cluster, nodes) = cluster(3, "8").await;
    zones(&nodes).await;
    let cache = json!({"app": "cache"});
    cluster.create::<Pod>(pod_with_affinity("web", "podAffinity", "zone", &cache)).await;
    let web = cluster.until_one::<Pod>("web", |pod| unschedulable_message(pod).is_some()).await;
    let reason = "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.";
    assert_eq!(unschedulable_message(&web), Some(reason));
    // The first pod of a group with affinity to itself may go to any node.
    let mut first = pod_with_affinity("first", "podAffinity", "zone", &cache);
    first["metadata"]["labels"] = cache;
    first["spec"]["nodeSelector"] = json!({"zone": "b"});
    cluster.create::<Pod>(first).await;
    for name in ["first", "web"] {
        let placed = cluster.until_one::<Pod>(name, |pod| node(pod).is_some()).await;
        assert_eq!(node(&placed), Some("node-3"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn topology_spread_constraints_are_honoured() {
    let (cluster, nodes) = cluster(3, "8").await;
    zones(&nodes).await;
    let spread = |name: &str, skew: i32| {
        let mut one = pod(name, "100m");
        one["metadata"]["labels"] = json!({"app": "web"});
        one["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]);
        one
    };
    for name in ["a", "b", "c", "d", "e", "f"] {
        cluster.create::<Pod>(spread(name, 1)).await;
    }
    let pods = cluster
        .until::<Pod>("six", |pods| pods.values().all(|pod| node(pod).is_some()) && pods.len() == 6)
        .await;
    let in_b = pods.values().filter(|pod| node(pod) == Some("node-3")).count();
    assert_eq!(in_b, 3, "three pods in each zone, regardless of its number of nodes");
    // The seventh pod fits in either zone, the eighth only in the other zone, which is cordoned.
    change(&nodes, "node-3", json!({"spec": {"unschedulable": true}})).await;
    cluster
        .until::<Node>("cordoned", |all| {
            all["node-3"].spec.as_ref().unwrap().taints.as_ref().is_some_and(|it| !it.is_empty())
        })
        .await;
    cluster.create::<Pod>(spread("g", 1)).await;
    cluster.until_one::<Pod>("g", |pod| node(pod).is_some()).await;
    cluster.create::<Pod>(spread("h", 1)).await;
    let refused = cluster.until_one::<Pod>("h", |pod| unschedulable_message(pod).is_some()).await;
    let reasons = "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match \
                   pod topology spread constraints.";
    assert_eq!(unschedulable_message(&refused), Some(reasons));
    cluster.create::<Pod>(spread("i", 2)).await;
    cluster.until_one::<Pod>("i", |pod| node(pod).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_higher_priority_preempts_the_pod_of_lowest_priority() {
    let (cluster, _nodes) = cluster(2, "2").await;
    let classes = Api::<PriorityClass>::all(cluster.client.clone());
    let pushes = "PreemptLowerPriority";
    for (name, value, policy) in
        [("low", 10, pushes), ("middle", 20, pushes), ("high", 30, pushes), ("polite", 30, "Never")]
    {
        let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
        let class = serde_json::from_value(class).unwrap();
        classes.create(&PostParams::default(), &class).await.unwrap();
    }
    let of = |name: &str, class: &str, cpu: &str| {
        let mut one = pod(name, cpu);
        one["spec"]["priorityClassName"] = json!(class);
        one
    };
    for (name, class) in [("a", "low"), ("b", "middle")] {
        cluster.create::<Pod>(of(name, class, "1500m")).await;
        cluster.until_one::<Pod>(name, crate::pods::is_ready).await;
    }
    let home = node(&cluster.api::<Pod>().get("a").await.unwrap()).map(str::to_owned);
    // One has no higher priority than the others; one has, but never preempts.
    cluster.create::<Pod>(of("meek", "low", "1")).await;
    cluster.create::<Pod>(of("polite", "polite", "1")).await;
    for name in ["meek", "polite"] {
        cluster.until_one::<Pod>(name, |pod| unschedulable_message(pod).is_some()).await;
    }
    cluster.create::<Pod>(of("important", "high", "2")).await;
    let mut seen = false;
    cluster
        .until::<Pod>("a is deleted", |pods| {
            seen |= pods.get("a").is_some_and(|a| {
                crate::pods::condition(a, "DisruptionTarget").is_some_and(|it| it.status == "True")
            });
            !pods.contains_key("a")
        })
        .await;
    assert!(seen, "the victim has the DisruptionTarget condition");
    let preempted = |event: &Event| event.reason.as_deref() == Some("Preempted");
    let events = cluster.until::<Event>("an event", |all| all.values().any(preempted)).await;
    let event = events.values().find(|event| preempted(event)).unwrap();
    assert_eq!(event.regarding.as_ref().unwrap().name.as_deref(), Some("a"));
    assert_eq!(event.reporting_controller.as_deref(), Some("default-scheduler"));
    let placed = cluster.until_one::<Pod>("important", |pod| node(pod).is_some()).await;
    assert_eq!(node(&placed), home.as_deref());
    let pods = cluster
        .until::<Pod>("important is ready", |pods| crate::pods::is_ready(&pods["important"]))
        .await;
    assert!(crate::pods::is_ready(&pods["b"]), "the pod of higher priority is not preempted");
    assert!(node(&pods["meek"]).is_none() && node(&pods["polite"]).is_none());
}
