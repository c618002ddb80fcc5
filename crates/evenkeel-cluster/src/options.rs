//! Options of a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::Clock;
use evenkeel_apiserver::{ApiServer, AuthorizationMode, LegacyTokenSigner};
use evenkeel_pki::certificates::Authority;

use crate::kubelet::PodSimulations;
use crate::{serviceaccount, storage_version_migrator};

/// Options of a cluster. By default it has one node, all controllers enabled, and no delay except
/// for stopping containers.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_cluster::{ClusterOptions, Delays};
///
/// let delays = Delays::new().ready(Duration::from_secs(5));
/// let options = ClusterOptions::new().nodes(3).delays(delays).disable_controller("garbage-collector");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClusterOptions {
    /// The number of simulated nodes.
    pub nodes: usize,
    /// The capacity of each simulated node.
    pub capacity: Capacity,
    /// How long the steps of simulated pods take.
    pub delays: Delays,
    /// The simulation of pods without the annotation
    /// [`POD_SIMULATION_ANNOTATION`](crate::POD_SIMULATION_ANNOTATION).
    pub pod_simulations: PodSimulations,
    /// Controllers that are not run, by their names in `kube-controller-manager --controllers` (and
    /// `scheduler`, `kubelet`, and `node-registration`, which creates the simulated nodes).
    pub disabled_controllers: BTreeSet<String>,
    /// Admission plugins that are not run, by the names of kube-apiserver's flag.
    pub disabled_admission_plugins: BTreeSet<String>,
    /// Whether requests are authorized by RBAC. Without it all users may do anything, and the roles
    /// of kube-apiserver and of the controllers are not created.
    pub rbac: bool,
    /// The resources that the garbage collector watches, as in `deployments.apps`; all by default.
    /// Objects of other resources are not collected.
    pub gc_resources: Option<BTreeSet<String>>,
    /// Whether the controllers record Events.
    pub events: bool,
    /// Whether simulated nodes renew their leases. Without it no node becomes unready because it
    /// has stopped to report.
    pub heartbeats: bool,
    /// Makes uids, names and jitter reproducible.
    pub seed: Option<u64>,
    /// The source of wall-clock time; the system clock by default.
    pub clock: Option<Clock>,
    /// The certificate authority of the API server in PEM form, published in the ConfigMap
    /// `kube-root-ca.crt` of every namespace. By default a comment that there is none is published.
    pub root_ca: Option<String>,
    /// Signs tokens in Secrets; set when the controllers run with an API server in this process.
    pub(crate) token_signer: Option<LegacyTokenSigner>,
    /// Signs CertificateSigningRequests; set when the controllers run with an API server in this
    /// process.
    pub(crate) certificate_authority: Option<Arc<Authority>>,
    /// Whether the API server serves StorageVersionMigrations.
    pub(crate) serves_storage_migrations: bool,
}

/// How long a simulated pod takes from one state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delays {
    /// From creation to binding.
    pub schedule: Duration,
    /// From binding to running containers.
    pub start: Duration,
    /// From running to ready; a container with probes is not ready before they have succeeded.
    pub ready: Duration,
    /// From running to completion, for containers that complete without a simulation or a
    /// recognized command: those of Jobs, and those with a command in pods whose restart policy is
    /// not `Always`.
    pub run: Duration,
    /// From SIGTERM to the exit of a container, at most the grace period of the pod. 50 ms by
    /// default, so that clients see a deleted pod with its deletion timestamp, as on other
    /// clusters. A container whose command is `sleep` or a simple shell script ignores SIGTERM and
    /// takes the whole grace period.
    pub stop: Duration,
}

impl Delays {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time from creation to [binding](Self::schedule).
    #[must_use]
    pub const fn schedule(mut self, delay: Duration) -> Self {
        self.schedule = delay;
        self
    }

    /// Sets the time from binding to [running containers](Self::start).
    #[must_use]
    pub const fn start(mut self, delay: Duration) -> Self {
        self.start = delay;
        self
    }

    /// Sets the time from running to [ready](Self::ready).
    #[must_use]
    pub const fn ready(mut self, delay: Duration) -> Self {
        self.ready = delay;
        self
    }

    /// Sets the time from running to [completion](Self::run).
    #[must_use]
    pub const fn run(mut self, delay: Duration) -> Self {
        self.run = delay;
        self
    }

    /// Sets the time from SIGTERM to the [exit](Self::stop) of a container.
    #[must_use]
    pub const fn stop(mut self, delay: Duration) -> Self {
        self.stop = delay;
        self
    }
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            schedule: Duration::ZERO,
            start: Duration::ZERO,
            ready: Duration::ZERO,
            run: Duration::ZERO,
            stop: Duration::from_millis(50),
        }
    }
}

/// The capacity of a simulated node, as Kubernetes quantities.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capacity {
    /// CPU.
    pub cpu: String,
    /// Memory.
    pub memory: String,
    /// Local ephemeral storage.
    pub ephemeral_storage: String,
    /// The maximum number of pods.
    pub pods: u32,
}

impl Capacity {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the [CPU](Self::cpu).
    #[must_use]
    pub fn cpu(mut self, quantity: &str) -> Self {
        self.cpu = quantity.to_owned();
        self
    }

    /// Sets the [memory](Self::memory).
    #[must_use]
    pub fn memory(mut self, quantity: &str) -> Self {
        self.memory = quantity.to_owned();
        self
    }

    /// Sets the local [ephemeral storage](Self::ephemeral_storage).
    #[must_use]
    pub fn ephemeral_storage(mut self, quantity: &str) -> Self {
        self.ephemeral_storage = quantity.to_owned();
        self
    }

    /// Sets the maximum number of [pods](Self::pods).
    #[must_use]
    pub const fn pods(mut self, pods: u32) -> Self {
        self.pods = pods;
        self
    }
}

impl Default for Capacity {
    fn default() -> Self {
        Self {
            cpu: "32".to_owned(),
            memory: "256Gi".to_owned(),
            ephemeral_storage: "1Ti".to_owned(),
            pods: 110,
        }
    }
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            capacity: Capacity::default(),
            delays: Delays::default(),
            pod_simulations: PodSimulations::default(),
            disabled_controllers: BTreeSet::new(),
            disabled_admission_plugins: BTreeSet::new(),
            rbac: true,
            gc_resources: None,
            events: true,
            heartbeats: true,
            seed: None,
            clock: None,
            root_ca: None,
            token_signer: None,
            certificate_authority: None,
            serves_storage_migrations: false,
        }
    }
}

impl ClusterOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of simulated [nodes](Self::nodes).
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Sets the [capacity](Self::capacity) of each node.
    #[must_use]
    pub fn capacity(mut self, capacity: Capacity) -> Self {
        self.capacity = capacity;
        self
    }

    /// Sets [how long](Self::delays) the steps of simulated pods take.
    #[must_use]
    pub fn delays(mut self, delays: Delays) -> Self {
        self.delays = delays;
        self
    }

    /// Sets the [simulation](Self::pod_simulations) of pods without the annotation.
    #[must_use]
    pub fn pod_simulations(mut self, pod_simulations: PodSimulations) -> Self {
        self.pod_simulations = pod_simulations;
        self
    }

    /// Sets the [seed](Self::seed) of uids, names and jitter.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the [clock](Self::clock).
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the [certificate authority](Self::root_ca) of the API server.
    #[must_use]
    pub fn root_ca(mut self, pem: &str) -> Self {
        self.root_ca = Some(pem.to_owned());
        self
    }

    /// Returns the builder of an API server for these options, as kubeadm sets it up: it authorizes
    /// by [RBAC](Self::rbac) and nodes by their pods, with the admission plugin NodeRestriction. Pods
    /// have service accounts if there is the controller that creates the account `default`, and
    /// StorageVersionMigrations are served if there is the controller that carries them out.
    pub fn server(&self) -> evenkeel_apiserver::ApiServerBuilder {
        let disabled = |name: &str| self.disabled_controllers.contains(name);
        let mut plugins = vec!["NodeRestriction"];
        if !disabled(serviceaccount::ACCOUNTS) {
            plugins.push("ServiceAccount");
        }
        plugins.retain(|name| !self.disabled_admission_plugins.contains(*name));
        let migrates = !disabled(storage_version_migrator::NAME);
        let builder = match self.rbac {
            true => ApiServer::builder()
                .authorization_modes([AuthorizationMode::Node, AuthorizationMode::Rbac]),
            false => ApiServer::builder().bootstrap_roles(false),
        };
        builder
            .enable_admission_plugins(plugins)
            .disable_admission_plugins(self.disabled_admission_plugins.iter().cloned())
            .runtime_config(storage_version_migrator::API_VERSION, migrates)
    }

    /// Disables an [admission plugin](Self::disabled_admission_plugins).
    #[must_use]
    pub fn disable_admission_plugin(mut self, plugin: &str) -> Self {
        self.disabled_admission_plugins.insert(plugin.to_owned());
        self
    }

    /// Disables a controller.
    #[must_use]
    pub fn disable_controller(mut self, controller: &str) -> Self {
        self.disabled_controllers.insert(controller.to_owned());
        self
    }
}
