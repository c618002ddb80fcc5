//! A server with a data directory: acknowledged writes survive a restart.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use evenkeel_apiserver::{ApiServer, BuildError, Durability};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::harness::{
    CONFIG_MAPS, CRDS, Cluster, WIDGETS, config_map, event, text, version, widget, widget_crd,
};

/// A temporary directory, removed on drop.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("evenkeel-it-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure leaves files in the temporary directory only.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens a server without fsync, because these tests stop the server, not the machine.
async fn open(directory: &Path) -> Cluster {
    Cluster::built(ApiServer::builder().data_dir(directory).durability(Durability::Process)).await
}

#[tokio::test]
async fn objects_survive_a_restart() {
    let scratch = Scratch::new();
    let cluster = open(&scratch.0).await;
    cluster.post(CRDS, widget_crd()).await.expect(201);
    cluster.post(CONFIG_MAPS, config_map("gone", json!({}))).await.expect(201);
    cluster.post(CONFIG_MAPS, config_map("a", json!({"k": "1"}))).await.expect(201);
    cluster.post(WIDGETS, widget("w", json!({"color": "red"}))).await.expect(201);
    cluster.merge(&format!("{CONFIG_MAPS}/a"), json!({"data": {"k": "2"}})).await.expect(200);
    cluster.delete(&format!("{CONFIG_MAPS}/gone")).await.expect(200);
    let paths = ["/api/v1/namespaces", CONFIG_MAPS, WIDGETS, CRDS, "/apis", "/api/v1/services"];
    let mut before = Vec::new();
    for path in paths {
        before.push(cluster.get(path).await.expect(200));
    }
    let revision = cluster.server.revision();
    drop(cluster);

    let cluster = open(&scratch.0).await;
    assert_eq!(cluster.server.revision(), revision, "starting writes nothing");
    for (path, before) in paths.iter().zip(before) {
        assert_eq!(cluster.get(path).await.expect(200), before, "{path}");
    }
}

#[tokio::test]
async fn revisions_continue_and_older_ones_expire_after_a_restart() {
    let scratch = Scratch::new();
    let cluster = open(&scratch.0).await;
    let created = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    cluster.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    let last = cluster.server.revision();
    drop(cluster);

    let cluster = open(&scratch.0).await;
    let next = cluster.post(CONFIG_MAPS, config_map("a", json!({}))).await.expect(201);
    assert!(version(&next) > last, "a deletion's revision is not given out again");
    assert_ne!(next["metadata"]["uid"], created["metadata"]["uid"]);

    let mut watch = cluster.watch(&format!("{CONFIG_MAPS}?resourceVersion={last}")).await;
    assert_eq!(watch.take(1).await, [event("ADDED", "a")], "a client of before can continue");
    let mut watch =
        cluster.watch(&format!("{CONFIG_MAPS}?resourceVersion={}", version(&created))).await;
    let error = watch.next().await;
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

#[tokio::test]
async fn custom_resources_are_served_and_validated_after_a_restart() {
    let scratch = Scratch::new();
    let cluster = open(&scratch.0).await;
    cluster.post(CRDS, widget_crd()).await.expect(201);
    drop(cluster);
    let cluster = open(&scratch.0).await;
    cluster.post(WIDGETS, widget("w", json!({"color": "red"}))).await.expect(201);
    cluster.post(WIDGETS, widget("x", json!({"color": "green"}))).await.expect(422);
    cluster.delete(&format!("{CRDS}/widgets.example.com")).await.expect(200);
    drop(cluster);
    let cluster = open(&scratch.0).await;
    cluster.get(WIDGETS).await.expect(404);
}

#[tokio::test]
async fn cluster_ips_in_use_are_not_allocated_after_a_restart() {
    let scratch = Scratch::new();
    let services = "/api/v1/namespaces/default/services";
    let body = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let mut addresses = std::collections::BTreeSet::new();
    for start in 0..3 {
        let cluster = open(&scratch.0).await;
        for number in 0..3 {
            let service = body(&format!("s{start}-{number}"));
            let created = cluster.post(services, service).await.expect(201);
            assert!(addresses.insert(text(&created["spec"]["clusterIP"])), "{created}");
        }
    }
}

#[tokio::test]
async fn data_directory_is_locked_by_one_server() {
    let scratch = Scratch::new();
    let cluster = open(&scratch.0).await;
    let second = ApiServer::builder().data_dir(&scratch.0).build().await;
    assert!(matches!(second, Err(BuildError::Storage(_))), "{second:?}");
    drop(cluster);
    open(&scratch.0).await;
}

#[tokio::test]
async fn kubeconfig_stays_valid_after_a_restart() {
    let scratch = Scratch::new();
    let cluster = open(&scratch.0).await;
    let serving = cluster.server.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let (address, kubeconfig) = (serving.address(), serving.kubeconfig().to_owned());
    serving.stop().await;
    drop(cluster);

    let cluster = open(&scratch.0).await;
    let serving = cluster.server.serve(address).await.unwrap();
    assert_eq!(serving.kubeconfig(), kubeconfig);
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().major, "1");
    serving.stop().await;
}
