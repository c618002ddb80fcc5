//! A cluster in one process: the embedded API server and the built-in controllers.
//!
//! The API server only stores objects and serves requests. The controllers that make it a cluster
//! are ordinary clients built on the Evenkeel runtime: the garbage collector, the namespace
//! controller, the workload controllers, and simulated nodes on which pods become ready. Each can
//! be disabled.

mod options;

mod controllers;

mod identities;

// Shared by controllers.
mod discovery;

// Deletion of dependents and of namespace content, and the defaults of each namespace.
mod garbage;

mod namespace;

mod serviceaccount;

mod clusterrole_aggregation;

// Derived from Pods, Services and PersistentVolumeClaims.
mod endpoints;

mod volumes;

mod certificates;

mod storage_version_migrator;

mod disruption;

// Shared by the workload controllers.
mod controller_ref;

mod finalizers;

mod hash;

mod history;

mod pods;
mod policy_status;

mod quota;

mod requestors;

mod versions;

// Workloads.
mod cronjob;

mod daemonset;

mod deployment;

mod job;

mod replicaset;

mod statefulset;

// Nodes and the pods on them.
mod kubelet;

mod node_lifecycle;

mod nodes;

mod scheduler;

mod simulate;

// Operators in the same process.
mod webhooks;

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests;

use evenkeel::Manager;
use evenkeel::cache::CacheOptions;
use evenkeel::manager::RunError;
use evenkeel_apiserver::{ApiServer, BuildError, ServeError, ServerHandle};
use tokio::task::JoinSet;

use identities::AsControllers;
pub use kubelet::{POD_SIMULATION_ANNOTATION, PodSimulation, PodSimulationError, PodSimulations};
pub use nodes::{NODE_SIMULATION_ANNOTATION, SIMULATED_NODE_ANNOTATION};
pub use options::{Capacity, ClusterOptions, Delays};
pub use webhooks::WebhookError;

/// The clock of a seeded cluster starts at 2026-01-01T00:00:00Z, like that of a seeded API server.
const SEEDED_START: i64 = 1_767_225_600;

/// A running cluster. Dropping it aborts its tasks; [`Cluster::stop`] shuts it down gracefully.
pub struct Cluster {
    server: ApiServer,
    manager: Manager,
    running: JoinSet<Result<(), RunError>>,
}

/// Why a cluster could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The API server could not be set up.
    #[error(transparent)]
    Server(#[from] BuildError),
    /// [`ClusterOptions::disabled_controllers`] names a controller that does not exist.
    #[error(
        "cannot disable unknown controller {name:?}; known controllers: {}",
        controllers::names().collect::<Vec<_>>().join(", ")
    )]
    UnknownController {
        /// The unknown name.
        name: String,
    },
    /// A controller could not be set up.
    #[error("cannot register controller {name}")]
    Controller {
        /// Which one.
        name: &'static str,
        /// Why.
        source: evenkeel::BoxError,
    },
}

impl Cluster {
    /// Starts a cluster with one node, all controllers enabled and no delays.
    ///
    /// # Errors
    /// When the API server or a controller cannot be set up.
    pub async fn start() -> Result<Self, StartError> {
        Self::start_with(&ClusterOptions::default()).await
    }

    /// Starts a cluster with `options`.
    ///
    /// # Errors
    /// When the API server or a controller cannot be set up.
    pub async fn start_with(options: &ClusterOptions) -> Result<Self, StartError> {
        let mut builder = options.server();
        if let Some(seed) = options.seed {
            builder = builder.seed(seed);
        }
        let server = builder.build().await?;
        if options.seed.is_none() || options.clock.is_some() {
            return Self::with_server(server, options);
        }
        // A seeded server's clock starts at a fixed time; the controllers use the same time.
        let start = jiff::Timestamp::from_second(SEEDED_START).unwrap_or_default();
        let clock = Some(evenkeel::Clock::starting_at(start));
        Self::with_server(server, &ClusterOptions { clock, ..options.clone() })
    }

    /// Starts the controllers on an existing API server.
    ///
    /// # Errors
    /// When a controller cannot be set up.
    pub fn with_server(server: ApiServer, options: &ClusterOptions) -> Result<Self, StartError> {
        let client = kube::Client::new(AsControllers::new(&server), "default");
        let token_signer = Some(server.legacy_token_signer());
        let signs = !options.disabled_controllers.contains(certificates::SIGNER);
        let authority = || match server.authority() {
            Ok(authority) => Some(authority),
            Err(error) => {
                let error = evenkeel::chain(&error);
                tracing::warn!(error, "certificate signing requests are not signed");
                None
            }
        };
        let options = &ClusterOptions {
            token_signer,
            certificate_authority: signs.then(authority).flatten(),
            serves_storage_migrations: server.serves(storage_version_migrator::API_VERSION),
            ..options.clone()
        };
        let (manager, running) = run_controllers(client, options)?;
        server.mark_component_healthy("controller-manager");
        if !options.disabled_controllers.contains(scheduler::NAME) {
            server.mark_component_healthy("scheduler");
        }
        Ok(Self { server, manager, running })
    }

    /// Registers the controllers that are not disabled with a manager of another process or test. The
    /// API server is the one that the manager is a client of; controllers that sign tokens and
    /// certificates with its keys do nothing.
    ///
    /// # Errors
    /// When a controller cannot be set up.
    pub fn register_controllers(
        manager: &Manager,
        options: &ClusterOptions,
    ) -> Result<(), StartError> {
        controllers::register(manager, options)
    }

    /// Returns the names of all controllers, as in [`ClusterOptions::disabled_controllers`].
    pub fn controller_names() -> impl Iterator<Item = &'static str> {
        controllers::names()
    }

    /// Wraps an API server without running any controllers.
    #[must_use]
    pub fn api_only(server: ApiServer) -> Self {
        let client = kube::Client::new(server.service(), "default");
        let manager = Manager::builder("kube-controller-manager")
            .cache(CacheOptions::in_process())
            .build(client);
        Self { server, manager, running: JoinSet::new() }
    }

    /// Returns an in-process client of the cluster with all permissions.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.server.service(), "default")
    }

    /// Returns the API server.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Returns the manager that runs the built-in controllers.
    #[must_use]
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Serves the API on an address for other processes.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn serve(&self, address: std::net::SocketAddr) -> Result<ServerHandle, ServeError> {
        self.server.serve(address).await
    }

    /// Stops the controllers, then the server.
    pub async fn stop(mut self) {
        self.manager.stop();
        while let Some(ended) = self.running.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let error = evenkeel::chain(&error);
                    tracing::error!(error, "controllers stopped with an error");
                }
                Err(error) => tracing::error!(%error, "controllers stopped with an error"),
            }
        }
        self.server.stop();
    }
}

/// Runs the controllers as clients of the API server until the tasks are dropped.
fn run_controllers(
    client: kube::Client,
    options: &ClusterOptions,
) -> Result<(Manager, JoinSet<Result<(), RunError>>), StartError> {
    let mut manager = Manager::builder("kube-controller-manager")
        .cache(CacheOptions::in_process())
        .record_events(options.events);
    if let Some(seed) = options.seed {
        manager = manager.seed(seed);
    }
    if let Some(clock) = options.clock.clone() {
        manager = manager.clock(clock);
    }
    let manager = manager.build(client);
    controllers::register(&manager, options)?;
    let mut running = JoinSet::new();
    running.spawn(manager.clone().run_until(std::future::pending()));
    Ok((manager, running))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.running.abort_all();
        self.server.stop();
    }
}
