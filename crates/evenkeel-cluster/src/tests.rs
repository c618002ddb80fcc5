//! All controllers of a cluster together: deletion is complete and reproducible.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolume, PersistentVolumeClaim, Pod, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::testing::{create, until_all};
use crate::{Cluster, ClusterOptions};

/// Starts a seeded cluster with all controllers.
async fn cluster() -> Cluster {
    Cluster::start_with(&ClusterOptions { seed: Some(7), ..ClusterOptions::default() })
        .await
        .unwrap()
}

async fn namespace(cluster: &Cluster, name: &str) {
    let api: Api<Namespace> = Api::all(cluster.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    api.create(&PostParams::default(), &namespace).await.unwrap();
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": "main", "ports": [{"containerPort": 80}]}],
        },
    })
}

/// Creates a Deployment with a Service, and a StatefulSet with storage.
async fn create_workloads(cluster: &Cluster, name: &str) {
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"replicas": 2, "selector": selector, "template": template()});
    let metadata = json!({"name": "web", "namespace": name});
    create::<Deployment>(cluster, json!({"metadata": metadata, "spec": spec})).await;
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    let metadata = json!({"name": "web", "namespace": name});
    create::<Service>(cluster, json!({"metadata": metadata, "spec": spec})).await;
    let mut template = template();
    template["metadata"]["labels"] = json!({"app": "db"});
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let spec = json!({
        "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": template, "volumeClaimTemplates": [claim],
    });
    let metadata = json!({"name": "db", "namespace": name});
    create::<StatefulSet>(cluster, json!({"metadata": metadata, "spec": spec})).await;
    until_all::<EndpointSlice>(cluster, |slices| {
        let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        let ready = endpoints.filter(|endpoint| {
            endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
        });
        ready.count() == 2
    })
    .await;
    until_all::<PersistentVolumeClaim>(cluster, |claims| {
        let bound = claims.iter().filter(|claim| {
            let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Bound")
        });
        bound.count() == 2
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_of_a_deployment_deletes_its_dependents() {
    let cluster = cluster().await;
    create_workloads(&cluster, "default").await;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    deployments.delete("web", &DeleteParams::foreground()).await.unwrap();
    until_all::<Deployment>(&cluster, |all| all.is_empty()).await;
    // With foreground propagation the owner is deleted last.
    let sets: Api<ReplicaSet> = Api::default_namespaced(cluster.client());
    assert!(sets.list(&Default::default()).await.unwrap().items.is_empty());
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let left = pods.list(&Default::default()).await.unwrap().items;
    let names: Vec<_> = left.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
    assert_eq!(names, ["db-0", "db-1"]);
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_replica_set_keeps_its_pods_and_is_adopted_again() {
    let cluster = cluster().await;
    create_workloads(&cluster, "default").await;
    let sets: Api<ReplicaSet> = Api::default_namespaced(cluster.client());
    let before = sets.list(&Default::default()).await.unwrap().items.remove(0);
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client());
    let deployment = deployments.get("web").await.unwrap();
    deployments.delete("web", &DeleteParams::orphan()).await.unwrap();
    until_all::<Deployment>(&cluster, |all| all.is_empty()).await;
    let orphan = sets.get(before.metadata.name.as_deref().unwrap()).await.unwrap();
    assert_eq!(orphan.metadata.owner_references, None);
    let mut again = deployment.clone();
    again.metadata = serde_json::from_value(json!({"name": "web"})).unwrap();
    again.status = None;
    let again = deployments.create(&PostParams::default(), &again).await.unwrap();
    until_all::<ReplicaSet>(&cluster, |sets| {
        let owners = sets.iter().flat_map(|set| set.metadata.owner_references.iter().flatten());
        let mut uids = owners.map(|owner| Some(&owner.uid));
        sets.len() == 1
            && sets[0].metadata.uid == before.metadata.uid
            && uids.all(|uid| uid == again.metadata.uid.as_ref())
            && sets[0].metadata.owner_references.is_some()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_workloads_is_deleted_completely() {
    let cluster = cluster().await;
    namespace(&cluster, "shop").await;
    create_workloads(&cluster, "shop").await;
    let before = tokio::time::Instant::now();
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    until_all::<Namespace>(&cluster, |all| all.len() == 4).await;
    assert!(before.elapsed().as_secs() <= 5, "pods stop immediately, and nothing else takes time");
    until_all::<PersistentVolume>(&cluster, |all| all.is_empty()).await;
    // Nothing of the deleted namespace exists in a new one of the same name.
    namespace(&cluster, "shop").await;
    create_workloads(&cluster, "shop").await;
}

/// Returns the revision and the objects of a cluster after a scenario, with every resourceVersion
/// and uid.
async fn run_scenario() -> (u64, BTreeMap<String, String>) {
    let cluster = cluster().await;
    namespace(&cluster, "shop").await;
    create_workloads(&cluster, "shop").await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "shop");
    deployments.delete("web", &DeleteParams::background()).await.unwrap();
    until_all::<ReplicaSet>(&cluster, |all| all.is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    let mut all = BTreeMap::new();
    let pods: Api<Pod> = Api::all(cluster.client());
    for pod in pods.list(&Default::default()).await.unwrap() {
        let name = pod.metadata.name.clone().unwrap();
        all.insert(name, serde_json::to_string(&pod).unwrap());
    }
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    for volume in volumes.list(&Default::default()).await.unwrap() {
        let name = volume.metadata.name.clone().unwrap();
        all.insert(name, serde_json::to_string(&volume).unwrap());
    }
    (cluster.server().revision(), all)
}

/// Each scenario runs in its own runtime: how far a task runs before it yields is part of what is
/// reproducible, and depends on the earlier work of the runtime.
#[test]
fn the_same_seed_gives_the_same_cluster() {
    let run = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap().block_on(run_scenario())
    };
    assert!(run() == run(), "the same seed gave a different cluster");
}
