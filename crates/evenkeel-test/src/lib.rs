//! What an operator's tests use: a cluster per test, ready in milliseconds.
//!
//! [`TestCluster`] is the embedded API server with the controllers of a cluster, in this process:
//! Deployments become ready, owners take their children with them, namespaces die. The same tests
//! run on two other back ends when the environment names them:
//!
//! - `EVENKEEL_TEST_KUBE_APISERVER` and `EVENKEEL_TEST_ETCD`, envtest's `TEST_ASSET_…`, or a folder
//!   `KUBEBUILDER_ASSETS`: a real kube-apiserver of its own for each test, with
//!   kube-controller-manager beside it if there is one (`EVENKEEL_TEST_KUBE_CONTROLLER_MANAGER`, or
//!   in the folder). Nothing runs pods there.
//! - `EVENKEEL_TEST_KUBECONFIG`: a cluster that exists. Each test has a namespace of its own there,
//!   which goes with it, and managers under test look into no other one. Definitions stay. What has
//!   no namespace is shared: such things need names from [`TestCluster::unique_name`], tests
//!   about them delete what they made, and operators of them run one after another (`-- --test-threads=1`).
//!   What a test that failed leaves there has the label
//!   `app.kubernetes.io/managed-by=evenkeel-test`.
//!
//! A test asks [`TestCluster::runs_controllers`] and [`TestCluster::runs_pods`] where it depends on
//! them.
//!
//! Pods of the embedded cluster are simulated, and so are their failures: images that cannot be
//! pulled, containers that crash, hang or are killed, probes that fail. [`Builder::plans`] chooses
//! the [`Plan`] of a pod, [`Builder::delays`] how long each step takes.
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

mod account;

mod backend;

mod builder;

mod guard;

mod install;

mod rules;

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

pub use builder::Builder;
pub use diff::diff;
pub use evenkeel_cluster::{Capacity, Delays, PLAN_ANNOTATION, Plan, PlanError, Plans, Settings};
pub use install::InstallError;
pub use rules::Rule;

use account::Account;
use backend::Backend;
use guard::SpinGuardHandle;

/// How long [`TestCluster::eventually`] waits, unless the builder says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A cluster for one test. What it started ends with it.
pub struct TestCluster {
    backend: Backend,
    namespace: String,
    observer: Manager,
    timeout: Duration,
    /// Knows the managers under test.
    guard: SpinGuardHandle,
    accounts: Mutex<Vec<Account>>,
    running: JoinSet<Result<(), RunError>>,
}

impl TestCluster {
    /// Starts a cluster with everything switched on.
    ///
    /// # Panics
    /// When it cannot be started: there is no test without it.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// A cluster of the test's choosing.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client with all permissions. Its reads are cached, and a type is cached from its first read
    /// on; nothing has to be declared.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.observer.client()
    }

    /// The `kube` client of the cluster, with all permissions.
    #[must_use]
    pub fn kube(&self) -> kube::Client {
        self.client().kube().clone()
    }

    /// The namespace that belongs to this test.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A name for something without a namespace that no other test uses, wherever this one runs.
    #[must_use]
    pub fn unique_name(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Whether the controllers of a cluster run here: on a kube-apiserver alone a Deployment has no
    /// pods, and what nobody owns any more stays.
    #[must_use]
    pub fn runs_controllers(&self) -> bool {
        self.backend.runs_controllers()
    }

    /// Whether something runs pods here, so that they become ready: real executables come without
    /// kubelets.
    #[must_use]
    pub fn runs_pods(&self) -> bool {
        self.backend.runs_pods()
    }

    /// Whether pods are simulated here, so that [`Builder::plans`] and [`Builder::delays`] have an
    /// effect.
    #[must_use]
    pub fn simulates_pods(&self) -> bool {
        self.backend.is_embedded() && self.runs_pods()
    }

    /// A manager for the operator under test, with all permissions.
    #[must_use]
    pub fn manager(&self, name: &str) -> Manager {
        self.backend.manager(name, &self.namespace, &self.guard)
    }

    /// A manager for the operator under test that may do what `rules` say and nothing else: it is
    /// the service account `name` of the test's namespace.
    ///
    /// # Panics
    /// When the back end does not let the test create such an account.
    pub async fn manager_with(&self, name: &str, rules: &[Rule]) -> Manager {
        match self.backend.restricted_manager(name, &self.namespace, rules, &self.guard).await {
            Ok((manager, account)) => {
                self.accounts.lock().extend(account);
                manager
            }
            Err(error) => fail(&format!("no service account {name}: {}", chain(&*error))),
        }
    }

    /// Runs a manager until the test ends or the manager is stopped.
    ///
    /// A controller that keeps itself busy, each reconcile causing the next one, fails the test: see
    /// [`Builder::spin_limit`].
    pub fn run(&mut self, manager: &Manager) {
        self.guard.watch(manager);
        self.running.spawn(manager.clone().run_until(std::future::pending()));
    }

    /// An object from YAML or JSON; a namespaced one without a namespace goes into the test's own.
    ///
    /// # Panics
    /// When the text is not such an object.
    #[must_use]
    pub fn parse<K: evenkeel::Object + DeserializeOwned>(&self, text: &str) -> K {
        let mut object: K = match serde_saphyr::from_str(text) {
            Ok(object) => object,
            Err(error) => fail(&format!("this is no {}: {error}", evenkeel::Kind::of::<K>())),
        };
        if evenkeel::Kind::of::<K>().namespaced() && object.meta().namespace.is_none() {
            object.meta_mut().namespace = Some(self.namespace.clone());
        }
        object
    }

    /// Ends the managers under test in order, then the cluster. On a cluster that exists, removes
    /// what was the test's.
    ///
    /// # Panics
    /// When a manager did not end well, a controller kept itself busy, or something stays: the test
    /// should know.
    pub async fn stop(mut self) {
        if let Some(failure) = self.guard.failure() {
            fail(&failure);
        }
        // As long as the operator runs: it has finalizers to take off.
        match self.backend.delete_namespace(&self.namespace).await {
            Ok(true) => self.eventually_gone::<Namespace>(&Key::cluster(&self.namespace)).await,
            Ok(false) => {}
            Err(error) => fail(&format!("the test's namespace stays: {}", chain(&*error))),
        }
        for manager in self.guard.managers() {
            manager.stop();
        }
        while let Some(ended) = self.running.join_next().await {
            if let Err(error) = ended.unwrap_or_else(|panic| fail(&panic.to_string())) {
                fail(&format!("a manager under test ended badly: {}", chain(&error)));
            }
        }
        for account in self.accounts.get_mut().drain(..) {
            if let Err(error) = account.remove().await {
                fail(&format!("permissions of the test's stay: {}", chain(&error)));
            }
        }
        self.observer.cache().stop().await;
        self.backend.stop().await;
    }
}

/// Fails the test.
#[track_caller]
#[expect(clippy::panic, reason = "this is how a test fails")]
fn fail(message: &str) -> ! {
    panic!("{message}")
}
