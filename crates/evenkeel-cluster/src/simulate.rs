//! Simulated failures of a running cluster.
//!
//! They are set by annotations, so that kubectl can set and show them too.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{Cluster, NODE_SIMULATION_ANNOTATION, POD_SIMULATION_ANNOTATION, PodSimulation};

impl Cluster {
    /// Sets the simulation of a pod.
    ///
    /// # Errors
    /// When there is no such pod.
    pub async fn simulate_pod(
        &self,
        namespace: &str,
        pod: &str,
        simulation: &PodSimulation,
    ) -> Result<(), kube::Error> {
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        let patch = annotate(POD_SIMULATION_ANNOTATION, json!(simulation.to_string()));
        pods.patch_metadata(pod, &PatchParams::default(), &patch).await.map(drop)
    }

    /// Makes a simulated node stop reporting, as if its machine had lost power.
    ///
    /// # Errors
    /// When there is no such node.
    pub async fn take_node_down(&self, node: &str) -> Result<(), kube::Error> {
        self.annotate_node(node, json!("down")).await
    }

    /// Restarts a node that [was taken down](Cluster::take_node_down).
    ///
    /// # Errors
    /// When there is no such node.
    pub async fn bring_node_up(&self, node: &str) -> Result<(), kube::Error> {
        self.annotate_node(node, Value::Null).await
    }

    async fn annotate_node(&self, node: &str, value: Value) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client());
        let patch = annotate(NODE_SIMULATION_ANNOTATION, value);
        nodes.patch_metadata(node, &PatchParams::default(), &patch).await.map(drop)
    }
}

fn annotate(name: &str, value: Value) -> Patch<Value> {
    let annotations = Value::Object([(name.to_owned(), value)].into_iter().collect());
    Patch::Merge(json!({"metadata": {"annotations": annotations}}))
}
