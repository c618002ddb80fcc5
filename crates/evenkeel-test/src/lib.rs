//! Tests operators on a Kubernetes cluster per test, ready in milliseconds.
//!
//! [`TestCluster`] runs the embedded API server and the built-in controllers in the test process:
//! Deployments become ready, dependents are garbage collected, namespaces are finalized. The same
//! tests run on two other back ends, selected by environment variables:
//!
//! - `EVENKEEL_TEST_KUBE_APISERVER` and `EVENKEEL_TEST_ETCD`, envtest's `TEST_ASSET_…`, or the
//!   directory `KUBEBUILDER_ASSETS`: an upstream kube-apiserver per test, with
//!   kube-controller-manager if it is found (`EVENKEEL_TEST_KUBE_CONTROLLER_MANAGER`, or in the
//!   directory). There is no kubelet, so pods do not run.
//! - `EVENKEEL_TEST_KUBECONFIG`: an existing cluster. Each test gets its own namespace, which is
//!   deleted at the end, and managers under test watch only that namespace. CRDs stay installed.
//!   Cluster-scoped objects are shared between tests: they need names from
//!   [`TestCluster::unique_name`], tests delete the ones they create, and tests of operators that
//!   reconcile them must run sequentially (`-- --test-threads=1`). Objects left by a failed test
//!   have the label `app.kubernetes.io/managed-by=evenkeel-test`.
//!
//! A test that depends on controllers or running pods checks [`TestCluster::runs_controllers`] or
//! [`TestCluster::runs_pods`].
//!
//! Pods of the embedded cluster are simulated, and so are their failures: images that cannot be
//! pulled, containers that crash, hang or are killed, probes that fail.
//! [`TestClusterBuilder::pod_simulations`] sets the [`PodSimulation`] of a pod,
//! [`TestClusterBuilder::delays`] the duration of each step.
//!
//! With the variable `EVENKEEL_TEST_ACCESS_DIR`, the requests of managers under test are written to
//! that directory, for `evenkeel check --access`. On other back ends than the embedded one, nothing is
//! recorded.
//!
//! ```
//! use evenkeel::Key;
//! use evenkeel_test::TestCluster;
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let cluster = TestCluster::start().await;
//! let map = cluster.parse::<ConfigMap>("metadata: {name: greeting}\ndata: {hello: world}");
//! cluster.client().create(&map).await.unwrap();
//! let key = Key::of(&map);
//! let map = cluster.eventually::<ConfigMap>(&key, |map| map.data.is_some()).await;
//! assert_eq!(map.data.as_ref().unwrap()["hello"], "world");
//! cluster.stop().await;
//! # }
//! ```

mod access;

mod account;

mod backend;

mod builder;

mod conversion;

mod guard;

mod install;

mod rules;

mod validation;

mod wait;

mod diff;

use std::time::Duration;

use evenkeel::client::Client;
use evenkeel::manager::RunError;
use evenkeel::{Key, Manager, chain};
use k8s_openapi::api::core::v1::Namespace;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

pub use builder::TestClusterBuilder;
pub use conversion::assert_round_trips;
pub use diff::diff;
pub use evenkeel_apiserver::{Access, AccessReport, CountedAccess, MinimalRole, PolicyRule};
pub use evenkeel_cluster::{
    Capacity, ClusterOptions, Delays, POD_SIMULATION_ANNOTATION, PodSimulation, PodSimulationError,
    PodSimulations,
};
pub use install::InstallError;
pub use rules::Rule;
pub use validation::{RuleFailures, ValidationRules};

use account::Account;
use backend::Backend;
use guard::SpinGuardHandle;

/// The default of [`TestClusterBuilder::timeout`].
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A cluster for one test. Dropping it stops everything that it started.
///
/// ```
/// use evenkeel_test::TestCluster;
/// use k8s_openapi::api::core::v1::Namespace;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let cluster = TestCluster::builder().virtual_time(1).start().await;
/// let all = cluster.client().live().list::<Namespace>().await.unwrap();
/// assert!(all.iter().any(|it| it.metadata.name.as_deref() == Some(cluster.namespace())));
/// cluster.stop().await;
/// # }
/// ```
pub struct TestCluster {
    backend: Backend,
    namespace: String,
    observer: Manager,
    timeout: Duration,
    /// Tracks the managers under test.
    guard: SpinGuardHandle,
    accounts: Mutex<Vec<Account>>,
    running: JoinSet<Result<(), RunError>>,
}

impl TestCluster {
    /// Starts a cluster with the default settings.
    ///
    /// # Panics
    /// If the cluster cannot be started.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Returns a builder to configure the cluster.
    pub fn builder() -> TestClusterBuilder {
        TestClusterBuilder::default()
    }

    /// Returns a client with all permissions. It caches every type that it reads; types need not be
    /// declared.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.observer.client()
    }

    /// Returns a `kube` client with all permissions.
    #[must_use]
    pub fn kube(&self) -> kube::Client {
        self.client().kube().clone()
    }

    /// Returns the namespace of this test.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns a name for a cluster-scoped object that no other test uses, on any back end.
    #[must_use]
    pub fn unique_name(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Whether the built-in controllers run. Without them a Deployment has no pods, and there is no
    /// garbage collection.
    #[must_use]
    pub fn runs_controllers(&self) -> bool {
        self.backend.runs_controllers()
    }

    /// Whether pods run and become ready. Upstream executables run without kubelets.
    #[must_use]
    pub fn runs_pods(&self) -> bool {
        self.backend.runs_pods()
    }

    /// Whether pods are simulated, so that [`TestClusterBuilder::pod_simulations`] and
    /// [`TestClusterBuilder::delays`] have an effect.
    #[must_use]
    pub fn simulates_pods(&self) -> bool {
        self.backend.is_embedded() && self.runs_pods()
    }

    /// Creates a manager for the operator under test, with all permissions.
    #[must_use]
    pub fn manager(&self, name: &str) -> Manager {
        self.backend.manager(name, &self.namespace, &self.guard)
    }

    /// Creates a manager for the operator under test with the permissions in `rules` only. It
    /// authenticates as the service account `name` in the test's namespace.
    ///
    /// # Panics
    /// If the service account or its RBAC objects cannot be created.
    pub async fn manager_with(&self, name: &str, rules: &[Rule]) -> Manager {
        match self.backend.restricted_manager(name, &self.namespace, rules, &self.guard).await {
            Ok((manager, account)) => {
                self.accounts.lock().extend(account);
                manager
            }
            Err(error) => {
                fail(&format!("cannot create service account {name}: {}", chain(&*error)))
            }
        }
    }

    /// Compares the requests of the operator `name` with the rules that it got by
    /// [`manager_with`](Self::manager_with): which it used, which it never used, which requests
    /// were denied, and the minimal roles. `None` on other back ends than the embedded one.
    #[must_use]
    pub fn access_report(&self, name: &str) -> Option<AccessReport> {
        self.backend.access_report(&self.namespace, name)
    }

    /// Fails the test if the operator `name` was denied a request, or never used a permission that
    /// it got by [`manager_with`](Self::manager_with). With `watch`, `get` and `list` count as used:
    /// informers fall back to them. Other back ends than the embedded one are not checked.
    ///
    /// # Panics
    /// With the [report](Self::access_report), if the rules are not exactly those it needs.
    #[track_caller]
    pub fn assert_least_privilege(&self, name: &str) {
        match self.access_report(name) {
            Some(report) if !report.is_least_privilege() => fail(&report.to_string()),
            _ => {}
        }
    }

    /// Runs a manager until the test ends or the manager is stopped.
    ///
    /// A controller that spins, because each reconcile causes the next one, fails the test: see
    /// [`TestClusterBuilder::spin_limit`].
    ///
    /// The webhooks that are registered with the manager are installed before this returns, and
    /// called in process. On another back end the manager serves them over TLS and installs them
    /// itself; [`Manager::wait_until_synced`] waits until that is done. An existing cluster must be
    /// able to connect to this machine.
    ///
    /// # Panics
    /// If the webhooks cannot be installed.
    pub fn run(&mut self, manager: &Manager) {
        self.guard.watch(manager);
        if let Err(error) = self.backend.serve_webhooks(manager) {
            fail(&chain(&*error));
        }
        self.running.spawn(manager.clone().run_until(std::future::pending()));
    }

    /// Parses an object from YAML or JSON. A namespaced object without a namespace gets the test's
    /// namespace.
    ///
    /// # Panics
    /// If the text is not an object of type `K`.
    #[must_use]
    pub fn parse<K: evenkeel::Object + DeserializeOwned>(&self, text: &str) -> K {
        let mut object: K = match serde_saphyr::from_str(text) {
            Ok(object) => object,
            Err(error) => fail(&format!("cannot parse {}: {error}", evenkeel::Kind::of::<K>())),
        };
        if evenkeel::Kind::of::<K>().namespaced() && object.meta().namespace.is_none() {
            object.meta_mut().namespace = Some(self.namespace.clone());
        }
        object
    }

    /// Stops the managers under test, then the cluster. On an existing cluster, deletes the test's
    /// namespace and permissions.
    ///
    /// # Panics
    /// If a manager returned an error, a controller spun, or something cannot be deleted.
    pub async fn stop(mut self) {
        if let Some(failure) = self.guard.failure() {
            fail(&failure);
        }
        // Before the managers stop: the operator has to remove its finalizers.
        match self.backend.delete_namespace(&self.namespace).await {
            Ok(true) => self.eventually_gone::<Namespace>(&Key::cluster(&self.namespace)).await,
            Ok(false) => {}
            Err(error) => fail(&format!("cannot delete the test namespace: {}", chain(&*error))),
        }
        for manager in self.guard.managers() {
            manager.stop();
        }
        while let Some(ended) = self.running.join_next().await {
            if let Err(error) = ended.unwrap_or_else(|panic| fail(&panic.to_string())) {
                fail(&format!("a manager under test failed: {}", chain(&error)));
            }
        }
        for account in self.accounts.get_mut().drain(..) {
            if let Err(error) = account.remove().await {
                fail(&format!("cannot delete the permissions of the test: {}", chain(&error)));
            }
        }
        self.observer.cache().stop().await;
        self.backend.stop().await;
    }
}

/// Fails the test.
#[track_caller]
#[expect(clippy::panic, reason = "tests fail by panicking")]
fn fail(message: &str) -> ! {
    panic!("{message}")
}
