//! `PodTopologyLabels`: pods get the zone and region of their node.

use serde_json::{Value, json};

use crate::harness::*;

async fn with_node() -> Cluster {
    let cluster = Cluster::new().await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n", "labels": {
            "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r",
            "other": "o",
        }},
    });
    cluster.post("/api/v1/nodes", node).await.expect(201);
    cluster
}

fn expected() -> Value {
    json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"})
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_the_topology_of_its_node_with_its_binding() {
    let cluster = with_node().await;
    let created = cluster.post(PODS, pod("p")).await.expect(201);
    assert_eq!(created["metadata"]["labels"], Value::Null);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    });
    cluster.post(&format!("{PODS}/p/binding"), binding).await.expect(201);
    let bound = cluster.get(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(bound["metadata"]["labels"], expected());
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_the_topology_of_the_node_it_is_created_on() {
    let cluster = with_node().await;
    let mut sent = pod("p");
    sent["spec"]["nodeName"] = "n".into();
    sent["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "mine"});
    let created = cluster.post(PODS, sent).await.expect(201);
    assert_eq!(created["metadata"]["labels"], expected());
}
