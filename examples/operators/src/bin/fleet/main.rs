//! Several clusters under one manager: a hub, and a fleet that comes and goes at run time.
//!
//! Three controllers show the parts. [`Provider`] engages the cluster of each Secret in the hub that
//! contains a kubeconfig. [`NamespaceLabels`] is one controller over the whole fleet: it labels the
//! namespaces of every cluster with the name of the cluster. [`Distribution`] has its objects in the
//! hub and their children in the fleet: it copies ConfigMaps to every cluster, restores changed and
//! deleted copies, and deletes them with the original.
//!
//! `cargo run -p operators --bin fleet -- --kubeconfig FILE`

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

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
        // After a restart, an older list may have shown the original once more, and it was copied.
        if cx.object().is_none() {
            delete_copies(cx).await?;
        }
        // An owner in another cluster does not delete its children: a finalizer does.
        let clean_up = async |_| delete_copies(cx).await;
        let Some(map) = cx.finalize("fleet.example.com/copies", clean_up).await? else {
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

/// Deletes the copies of a ConfigMap in every declared cluster.
async fn delete_copies(cx: &Context<ConfigMap>) -> Result<()> {
    for secret in cx.client().list::<Secret>().await? {
        let name = secret.name_any();
        // After a start of the operator, clusters are engaged one after the other.
        let client = cx.cluster(&name);
        let client = client.ok_or_else(|| format!("cluster {name} is not engaged yet"))?;
        client.delete_by_key::<ConfigMap>(cx.key()).await?;
    }
    Ok(())
}

fn register(manager: &Manager, connect: impl Connect) -> Result<(), BoxError> {
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
