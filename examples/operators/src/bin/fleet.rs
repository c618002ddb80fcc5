//! Several clusters under one manager: a hub, and a fleet that comes and goes at run time.
//!
//! Three controllers show the parts. [`Provider`] engages the cluster of each Secret in the hub that
//! contains a kubeconfig. [`NamespaceLabels`] is one controller over the whole fleet: it labels the
//! namespaces of every cluster with the name of the cluster. [`Distribution`] has its objects in the
//! hub and their children in the fleet: it copies ConfigMaps to every cluster, restores changed and
//! deleted copies, and deletes them with the original.
//!
//! `cargo run -p operators --bin fleet -- --kubeconfig FILE`

use evenkeel::prelude::*;
use evenkeel::{BoxError, Clusters, EngageError};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Expression;

/// The label of Secrets with a kubeconfig; the name of the Secret is that of the cluster.
const KUBECONFIG: &str = "fleet.example.com/kubeconfig";

/// The label of ConfigMaps that are distributed, and of their copies, and the label of namespaces.
const DISTRIBUTE: &str = "fleet.example.com/distribute";
const COPY: &str = "fleet.example.com/copy";
const CLUSTER: &str = "fleet.example.com/cluster";

/// Connects to the cluster of a Secret.
trait Connect: Send + Sync + 'static {
    fn connect(
        &self,
        secret: &Secret,
    ) -> impl Future<Output = Result<kube::Client, BoxError>> + Send;
}

/// Connects with the kubeconfig in the Secret.
struct ByKubeconfig;

impl Connect for ByKubeconfig {
    async fn connect(&self, secret: &Secret) -> Result<kube::Client, BoxError> {
        let data = secret.data.as_ref().and_then(|data| data.get("kubeconfig"));
        let text = std::str::from_utf8(&data.ok_or("no kubeconfig")?.0)?;
        let kubeconfig = Kubeconfig::from_yaml(text)?;
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.default_retry = false; // the runtime retries
        Ok(config.try_into()?)
    }
}

/// Engages the clusters that are declared by Secrets, and disengages them with their Secret.
struct Provider<C> {
    clusters: Clusters,
    connect: C,
}

impl<C: Connect> Reconciler for Provider<C> {
    type Object = Secret;

    async fn reconcile(&self, cx: &Context<Secret>) -> Result<Action> {
        let (clusters, name) = (&self.clusters, cx.key().name());
        let Some(secret) = cx.object().filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            clusters.disengage(name).await;
            return Ok(Action::done());
        };
        if clusters.get(name).is_some() {
            return Ok(Action::done());
        }
        let client = self.connect.connect(&secret).await.map_err(evenkeel::Error::from)?;
        match clusters.engage(name, client) {
            Ok(_) => cx.event("Engaged", "Engaged the cluster"),
            Err(EngageError::Stopping) => {}
            Err(error) => return Err(terminal(error)),
        }
        Ok(Action::done())
    }
}

/// Labels the namespaces of every cluster with the name of the cluster.
struct NamespaceLabels;

impl Reconciler for NamespaceLabels {
    type Object = Namespace;

    async fn reconcile(&self, cx: &Context<Namespace>) -> Result<Action> {
        let (Some(_), Some(cluster)) = (cx.object(), cx.cluster_name()) else {
            return Ok(Action::done());
        };
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(cx.key().name().to_owned());
        namespace.metadata.labels = Some([(CLUSTER.to_owned(), cluster.to_owned())].into());
        cx.client().apply(&namespace).force().await?;
        Ok(Action::done())
    }
}

/// Copies ConfigMaps of the hub to every cluster of the fleet.
struct Distribution;

impl Reconciler for Distribution {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        // An owner in another cluster does not delete its children: a finalizer does.
        let cleanup = |_| async move {
            for client in cx.cluster_names().iter().filter_map(|name| cx.cluster(name)) {
                client.delete_by_key::<ConfigMap>(cx.key()).await?;
            }
            Ok(())
        };
        let Some(map) = cx.finalize("fleet.example.com/copies", cleanup).await? else {
            return Ok(Action::done());
        };
        let mut copy = ConfigMap { data: map.data.clone(), ..ConfigMap::default() };
        copy.metadata.name = map.metadata.name.clone();
        copy.metadata.namespace = map.metadata.namespace.clone();
        copy.metadata.labels = Some([(COPY.to_owned(), "true".to_owned())].into());
        for client in cx.cluster_names().iter().filter_map(|name| cx.cluster(name)) {
            client.apply(&copy).force().await?;
        }
        Ok(Action::done())
    }
}

fn register(manager: &Manager, connect: impl Connect) -> Result<()> {
    let labelled = |label: &str| {
        TypeOptions::new().labels(Expression::Equal(label.to_owned(), "true".to_owned()).into())
    };
    let provider = Provider { clusters: manager.clusters().clone(), connect };
    manager.controller(provider).named("fleet-provider").cached(labelled(KUBECONFIG)).register()?;
    manager
        .controller(NamespaceLabels)
        .named("fleet-namespaces")
        .clusters(ClusterSelection::Engaged)
        .register()?;
    let copies = Watch::mapped_metadata::<ConfigMap>(|meta, _| vec![meta.key().clone()]);
    manager
        .controller(Distribution)
        .named("fleet-distribution")
        .cached(labelled(DISTRIBUTE))
        .watch(copies.cached(labelled(COPY).metadata_only()).in_engaged_clusters())
        .source(manager.clusters().changes(|cx| cx.select::<ConfigMap>().keys()))
        .register()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = Manager::from_args("fleet").await?;
    register(&manager, ByKubeconfig)?;
    Ok(manager.run().await?)
}

#[cfg(test)]
mod tests {
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
}
