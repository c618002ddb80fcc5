//! Clusters besides the manager's own, engaged and disengaged at run time.
//!
//! Each engaged cluster has its own client and cache; nothing is shared between clusters, so one
//! that does not respond delays no other. Controllers follow the set of engaged clusters: they watch
//! a cluster while it is engaged, and the keys of its objects carry its name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use evenkeel_types::watch;
use futures_util::{FutureExt as _, future, stream};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::cache::{Cache, CacheOptions, DeclareError};
use crate::client::Client;
use crate::handler::MapContext;
use crate::key::{CLUSTER_MARK, Key};
use crate::kind::Object;
use crate::random::Random;
use crate::source::Source;

/// An engaged cluster; see [`Clusters`].
///
/// ```no_run
/// # use evenkeel::k8s_openapi::api::core::v1::Node;
/// # async fn example(manager: &evenkeel::Manager) -> evenkeel::Result<()> {
/// for cluster in manager.clusters().list() {
///     let nodes = cluster.client().live().list::<Node>().await?;
///     println!("{}: {} nodes", cluster.name(), nodes.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    client: Client,
    disengaged: CancellationToken,
}

impl Cluster {
    /// Returns the name of the cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the client of the cluster: reads from its cache, and writes with the operator's name
    /// as field manager.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Waits until the cluster is disengaged.
    pub async fn disengaged(&self) {
        self.0.disengaged.cancelled().await;
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Returns whether both are the same engagement: a cluster that was engaged again is another.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster {}", self.0.name)
    }
}

/// The engaged clusters of a manager; see [`Manager::clusters`](crate::Manager::clusters).
///
/// A *provider* engages and disengages clusters: code that runs once at the start, a
/// [runnable](crate::manager::Runnable), or a controller of the objects that declare clusters. A
/// controller reconciles the objects of all engaged clusters if its builder selects them with
/// [`clusters`](crate::controller::ControllerBuilder::clusters):
///
/// ```no_run
/// use evenkeel::k8s_openapi::api::core::v1::Namespace;
/// use evenkeel::prelude::*;
///
/// struct Labels;
///
/// impl Reconciler for Labels {
///     type Object = Namespace;
///
///     async fn reconcile(&self, cx: &Context<Namespace>) -> Result<Action> {
///         println!("{} in {:?}", cx.key(), cx.cluster_name());
///         Ok(Action::done()) // `cx.client()` is the client of that cluster
///     }
/// }
///
/// async fn run(east: evenkeel::kube::Client) -> Result<()> {
///     let manager = Manager::builder("fleet").connect().await?;
///     manager.controller(Labels).clusters(ClusterSelection::Engaged).register()?;
///     manager.clusters().engage("east", east)?; // also while the manager runs
///     Ok(manager.run().await?)
/// }
/// ```
///
/// A controller of objects in the manager's own cluster, with children in the others, watches the
/// children with [`Watch::in_engaged_clusters`](crate::Watch::in_engaged_clusters), writes them with
/// [`Context::cluster`](crate::Context::cluster), and reconciles when the set of clusters changes
/// with [`Clusters::changes`].
#[derive(Clone)]
pub struct Clusters(Arc<Shared>);

struct Shared {
    field_manager: Arc<str>,
    random: Mutex<Random>,
    engaged: watch::Sender<Engaged>,
    indexes: Mutex<Vec<Index>>,
    /// The types that controllers watch in each cluster. It watches nothing: declarations that
    /// conflict are errors at registration, not when a cluster is engaged.
    declarations: Cache,
}

/// Adds an index to the cache of a cluster.
type Index = Arc<dyn Fn(&Cache) -> Result<(), DeclareError> + Send + Sync>;

#[derive(Default)]
struct Engaged {
    clusters: BTreeMap<Arc<str>, Cluster>,
    /// The manager has stopped.
    closed: bool,
}

/// Why a cluster cannot be engaged.
///
/// ```no_run
/// use evenkeel::EngageError;
///
/// # fn example(manager: &evenkeel::Manager, east: evenkeel::kube::Client) {
/// match manager.clusters().engage("east", east) {
///     Err(EngageError::AlreadyEngaged { name }) => println!("{name} is engaged already"),
///     engaged => println!("{engaged:?}"),
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngageError {
    /// A cluster of this name is engaged.
    #[error("a cluster named {name:?} is already engaged")]
    AlreadyEngaged {
        /// The name.
        name: String,
    },
    /// The name is empty or contains `%`.
    #[error("{name:?} is not a valid name of a cluster")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// An index cannot be added to the cache of the cluster.
    #[error("cannot add the indexes of cluster {name:?}")]
    Index {
        /// The name.
        name: String,
        /// The cause.
        source: Box<DeclareError>,
    },
    /// The manager is stopping or has stopped.
    #[error("the manager is stopping")]
    Stopping,
}

impl Clusters {
    /// Creates the clusters of a manager with this client.
    pub(crate) fn new(client: &Client, random: Random) -> Self {
        Self(Arc::new(Shared {
            field_manager: client.field_manager().into(),
            declarations: Cache::new(client.kube().clone(), CacheOptions::default()),
            random: Mutex::new(random),
            engaged: watch::Sender::new(Engaged::default()),
            indexes: Mutex::default(),
        }))
    }

    /// Engages a cluster: controllers that select it begin to watch it.
    ///
    /// The client must not retry (`kube::Config::default_retry` off), as for
    /// [`ManagerBuilder::build`](crate::manager::ManagerBuilder::build).
    ///
    /// # Errors
    /// When a cluster of that name is engaged, the name is invalid, or the manager is stopping.
    pub fn engage(&self, name: &str, client: kube::Client) -> Result<Cluster, EngageError> {
        self.engage_with(name, client, CacheOptions::default())
    }

    /// Same as [`engage`](Clusters::engage), with cache options.
    ///
    /// # Errors
    /// Same as [`engage`](Clusters::engage).
    pub fn engage_with(
        &self,
        name: &str,
        client: kube::Client,
        mut options: CacheOptions,
    ) -> Result<Cluster, EngageError> {
        if name.is_empty() || name.contains(CLUSTER_MARK) {
            return Err(EngageError::InvalidName { name: name.to_owned() });
        }
        let (cache_seed, names) = {
            let mut random = self.0.random.lock();
            (random.next(), Random::new(random.next()))
        };
        options.seed = options.seed.or(Some(cache_seed));
        let cache = Cache::new(client.clone(), options);
        for index in &*self.0.indexes.lock() {
            index(&cache).map_err(|source| EngageError::Index {
                name: name.to_owned(),
                source: Box::new(source),
            })?;
        }
        let client = Client::new(client.into(), cache, &self.0.field_manager, names);
        let disengaged = CancellationToken::new();
        let cluster = Cluster(Arc::new(Inner { name: name.into(), client, disengaged }));
        let mut result = Ok(cluster.clone());
        self.0.engaged.send_if_modified(|engaged| {
            if engaged.closed {
                result = Err(EngageError::Stopping);
            } else if engaged.clusters.contains_key(name) {
                result = Err(EngageError::AlreadyEngaged { name: name.to_owned() });
            } else {
                engaged.clusters.insert(cluster.0.name.clone(), cluster.clone());
            }
            result.is_ok()
        });
        if result.is_ok() {
            tracing::info!(cluster = name, "cluster engaged");
        }
        result
    }

    /// Disengages a cluster: running reconciles of its objects are cancelled, its keys are dropped,
    /// and its watches end before this returns. Returns false if it was not engaged.
    ///
    /// ```no_run
    /// # async fn example(manager: &evenkeel::Manager) {
    /// let was_engaged = manager.clusters().disengage("east").await;
    /// # let _ = was_engaged;
    /// # }
    /// ```
    pub async fn disengage(&self, name: &str) -> bool {
        let mut removed = None;
        self.0.engaged.send_if_modified(|engaged| {
            removed = engaged.clusters.remove(name);
            removed.is_some()
        });
        let Some(cluster) = removed else { return false };
        cluster.0.disengaged.cancel();
        cluster.client().cache().stop().await;
        tracing::info!(cluster = name, "cluster disengaged");
        true
    }

    /// Returns an engaged cluster.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// use evenkeel::k8s_openapi::api::core::v1::Node;
    ///
    /// # async fn example(manager: &Manager) -> Result<()> {
    /// if let Some(east) = manager.clusters().get("east") {
    ///     println!("{} nodes", east.client().live().list::<Node>().await?.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cluster> {
        self.0.engaged.borrow().clusters.get(name).cloned()
    }

    /// Returns the engaged clusters, ordered by name.
    #[must_use]
    pub fn list(&self) -> Vec<Cluster> {
        self.0.engaged.borrow().clusters.values().cloned().collect()
    }

    /// Indexes objects of type `K` in the caches of all clusters that are engaged from now on; see
    /// [`Manager::index`](crate::Manager::index).
    pub fn index<K: Object>(
        &self,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) {
        let (name, values) = (name.to_owned(), Arc::new(values));
        self.0.indexes.lock().push(Arc::new(move |cache: &Cache| {
            let values = values.clone();
            cache.index::<K>(&name, move |object| values(object))
        }));
    }

    /// Returns a source that enqueues the keys `which` returns, at the start and whenever a cluster
    /// is engaged or disengaged.
    ///
    /// ```no_run
    /// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
    /// use evenkeel::prelude::*;
    ///
    /// # fn example(manager: &Manager, copies: impl Reconciler<Object = ConfigMap>) -> Result<()> {
    /// let all = manager.clusters().changes(|cx| cx.select::<ConfigMap>().keys());
    /// manager.controller(copies).source(all).register()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn changes(
        &self,
        which: impl Fn(&MapContext) -> Vec<Key> + Send + Sync + 'static,
    ) -> Source {
        let mut changes = self.0.engaged.subscribe();
        changes.mark_changed();
        Source::lookups(
            "engaged clusters",
            which,
            stream::unfold(changes, |mut changes| async {
                changes.changed().await.ok()?;
                Some(((), changes))
            }),
        )
    }

    pub(crate) fn declarations(&self) -> &Cache {
        &self.0.declarations
    }

    /// Follows the set of engaged clusters.
    pub(crate) fn follow(&self) -> Follow {
        let mut changes = self.0.engaged.subscribe();
        changes.mark_changed();
        Follow(changes)
    }

    /// Prevents further engagements and stops the caches of all clusters. The first poll stops all
    /// watches.
    pub(crate) async fn stop(&self) {
        let mut all = BTreeMap::new();
        self.0.engaged.send_modify(|engaged| {
            engaged.closed = true;
            all = std::mem::take(&mut engaged.clusters);
        });
        let stops = all.values().map(|cluster| {
            cluster.0.disengaged.cancel();
            cluster.client().cache().stop()
        });
        future::join_all(stops).await;
    }

    /// Stops all watches without waiting for them.
    pub(crate) fn abort(&self) {
        let _ = self.stop().now_or_never();
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

/// Follows the set of engaged clusters.
pub(crate) struct Follow(watch::Receiver<Engaged>);

impl Follow {
    /// Waits for a change, also at first, and returns the engaged clusters.
    pub(crate) async fn next(&mut self) -> Option<Vec<Cluster>> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clusters.values().cloned().collect())
    }
}

/// The clusters whose objects a controller reconciles; see
/// [`ControllerBuilder::clusters`](crate::controller::ControllerBuilder::clusters).
///
/// ```no_run
/// use evenkeel::k8s_openapi::api::core::v1::Node;
/// use evenkeel::prelude::*;
///
/// # fn example(manager: &Manager, nodes: impl Reconciler<Object = Node>) -> Result<()> {
/// manager.controller(nodes).clusters(ClusterSelection::All).register()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterSelection {
    /// The manager's own cluster.
    #[default]
    Own,
    /// All engaged clusters, but not the manager's own.
    Engaged,
    /// The manager's own and all engaged clusters.
    All,
}

impl ClusterSelection {
    pub(crate) fn includes_own(self) -> bool {
        self != Self::Engaged
    }

    pub(crate) fn includes_engaged(self) -> bool {
        self != Self::Own
    }
}
