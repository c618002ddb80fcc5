//! The fleet in clusters of its own.

use std::collections::BTreeMap;

use evenkeel_test::TestCluster;
use serde_json::json;

use super::*;

/// Connects to clusters of the test by the name of the Secret.
struct ByName(BTreeMap<String, kube::Client>);

impl Connect for ByName {
    async fn connect(&self, secret: &Secret) -> Result<kube::Client, BoxError> {
        Ok(self.0.get(&secret.name_any()).cloned().ok_or("no such cluster")?)
    }
}

fn secret(hub: &TestCluster, name: &str) -> Secret {
    hub.parse(&format!("metadata: {{name: {name}, labels: {{{KUBECONFIG}: 'true'}}}}"))
}

fn text(map: &ConfigMap) -> Option<&str> {
    Some(map.data.as_ref()?.get("text")?.as_str())
}

#[tokio::test]
async fn fleet_is_labelled_and_gets_copies() {
    let mut hub = TestCluster::builder().virtual_time(1).start().await;
    let east = TestCluster::builder().virtual_time(2).start().await;
    let west = TestCluster::builder().virtual_time(3).start().await;
    if !hub.simulates_pods() {
        // All clusters would be the same existing one.
        return;
    }
    // The ConfigMap is copied to the namespace of the same name.
    for cluster in [&east, &west] {
        let namespace = format!("metadata: {{name: {}}}", hub.namespace());
        let _ = cluster.client().create(&cluster.parse::<Namespace>(&namespace)).await;
    }
    let fleet = [("east", &east), ("west", &west)];
    let clients = fleet.map(|(name, cluster)| (name.to_owned(), cluster.kube()));
    let manager = hub.manager("fleet");
    register(&manager, ByName(clients.into())).unwrap();
    hub.run(&manager);
    let original = format!(
        "metadata: {{name: motd, labels: {{{DISTRIBUTE}: 'true'}}}}\ndata: {{text: hello}}"
    );
    let original = hub.parse::<ConfigMap>(&original);
    let key = Key::of(&original);
    hub.client().create(&original).await.unwrap();

    // Clusters are engaged one after the other; each gets its labels and the copy.
    for (name, cluster) in fleet {
        hub.client().create(&secret(&hub, name)).await.unwrap();
        cluster.eventually::<ConfigMap>(&key, |map| text(map) == Some("hello")).await;
        let labelled = |it: &Namespace| it.labels().get(CLUSTER).is_some_and(|it| it == name);
        cluster.eventually::<Namespace>(&Key::cluster("default"), labelled).await;
    }

    // A change reaches all clusters, and a changed or deleted copy is restored.
    let change = |text: &str| Patch::Merge(json!({"data": {"text": text}}));
    hub.client().patch::<ConfigMap>(&key, &change("bye")).await.unwrap();
    west.client().patch::<ConfigMap>(&key, &change("drifted")).await.unwrap();
    for (_, cluster) in fleet {
        cluster.eventually::<ConfigMap>(&key, |map| text(map) == Some("bye")).await;
    }
    let uid = |map: &ConfigMap| map.uid().unwrap_or_default();
    let deleted = uid(&*east.eventually::<ConfigMap>(&key, |_| true).await);
    east.client().delete_by_key::<ConfigMap>(&key).await.unwrap();
    east.eventually::<ConfigMap>(&key, |map| uid(map) != deleted).await;

    // A disengaged cluster is left alone; the copies in the others go with the original.
    let engaged = manager.clusters().get("west").unwrap();
    hub.client().delete_by_key::<Secret>(&key.sibling("west")).await.unwrap();
    engaged.disengaged().await;
    hub.client().delete_by_key::<ConfigMap>(&key).await.unwrap();
    east.eventually_gone::<ConfigMap>(&key).await;
    hub.eventually_gone::<ConfigMap>(&key).await;
    west.eventually::<ConfigMap>(&key, |map| text(map) == Some("bye")).await;
    hub.stop().await;
    east.stop().await;
    west.stop().await;
}
