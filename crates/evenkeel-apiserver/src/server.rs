//! The server: built once, used in process or served over TLS, then stopped.

mod webhooks;

mod authority;

mod authorization;

mod collect;

mod grants;

mod history;

mod listener;

mod service;
mod snapshot;

mod token_signer;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_pki::certificates::{self, Authority};
use evenkeel_pki::kubeconfig::{self, Credential, Kubeconfig};
use evenkeel_pki::signing_key;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::authorization::Authorization;
pub use self::authorization::AuthorizationMode;
pub use self::history::{Commit, StoredObject};
pub use self::listener::{FaultyBody, ListenerService};
pub use self::service::Service;
pub use self::snapshot::Snapshot;
pub use self::token_signer::LegacyTokenSigner;
use crate::access::{AccessReport, AccessTrail};
use crate::admission::policy::Policies;
use crate::admission::webhook::Webhooks;
use crate::audit::{self, Audit};
use crate::authz::Authorizer as _;
use crate::clock_rng::ClockRng;
use crate::compactor::Compactor;
use crate::context::{Components, Core, ShutdownSignal};
use crate::event_ttl::EventTtl;
use crate::faults::{self, Faults};
use crate::flow_control::FlowControl;
use crate::hooks::service::allocator::Allocator;
use crate::identity::token_file::TokenFile;
use crate::identity::{Identity, MASTERS};
use crate::limits::Limits;
use crate::listen::tls::{self, Tls};
use crate::listen::{BindError, ListenOptions, Listener};
use crate::metrics::Metrics;
use crate::nodes::PodsByNode;
use crate::rbac::Rbac;
use crate::registry::custom::Crds;
use crate::registry::{Registry, RuntimeConfig};
use crate::request::authenticate::Authenticator;
use crate::storage::{self, Store, Window};
use crate::throttle::Throttle;
use crate::tokens::{ServiceAccountOptions, Tokens};
use crate::webhook;
use crate::{admission, bootstrap, hooks};

/// An API server. Dropping it ends its open watches; stored data remains in its data directory, if
/// there is one.
pub struct ApiServer {
    core: Arc<Core>,
    stopping: watch::Sender<bool>,
    /// The cluster IP of the API server.
    apiserver_address: Ipv4Addr,
    /// Where the certificate authority is persisted.
    certificates: Option<PathBuf>,
    /// Generated or loaded on first use.
    authority: Mutex<Option<Arc<Authority>>>,
    faults: Option<Arc<Faults>>,
}

/// A builder of an [`ApiServer`].
#[derive(Default)]
#[must_use]
pub struct ApiServerBuilder {
    data_dir: Option<PathBuf>,
    durability: storage::Durability,
    window: Option<Window>,
    compaction_interval: Option<Duration>,
    event_ttl: Option<Duration>,
    seed: Option<u64>,
    admission_plugins: admission::Selection,
    tokens: Option<TokenFile>,
    service_accounts: ServiceAccountOptions,
    authorization: Authorization,
    access: Option<AccessTrail>,
    audit: Option<(audit::Policy, Box<dyn audit::Sink>)>,
    no_anonymous: bool,
    service_cluster_ip_range: Option<String>,
    stop_with: Option<watch::Receiver<bool>>,
    limits: Option<Limits>,
    remote_webhooks: bool,
    runtime_config: RuntimeConfig,
    objects: Vec<serde_json::Value>,
    snapshot: Option<Snapshot>,
    faults: Option<(faults::Plan, Box<dyn std::io::Write + Send>)>,
}

/// Why a server could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Storage(#[from] storage::OpenError),
    /// An option is invalid.
    #[error("invalid option: {0}")]
    Option(String),
    /// The initial objects could not be created.
    #[error("cannot create the initial objects: {0}")]
    Bootstrap(String),
}

/// Why a server could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A certificate could not be issued or loaded.
    #[error(transparent)]
    Certificates(#[from] certificates::Error),
    /// The certificates are not usable for TLS.
    #[error(transparent)]
    Tls(#[from] tls::Error),
}

/// A handle of a served [`ApiServer`]: its address and kubeconfig.
///
/// Dropping it closes all connections immediately; [`stop`](Self::stop) lets responses finish.
pub struct ServerHandle {
    address: SocketAddr,
    kubeconfig: String,
    shutdown: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl ApiServer {
    /// Returns a builder.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().build().await?;
    /// let handle = server.serve(([127, 0, 0, 1], 0).into()).await?;
    /// assert!(handle.url().starts_with("https://127.0.0.1:"));
    /// assert!(handle.kubeconfig().contains("client-certificate-data"));
    /// handle.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// Returns the server as a tower service, without a socket. Requests are those of the
    /// administrator.
    ///
    /// The service can be passed to `kube::Client::new`.
    pub fn service(&self) -> Service {
        self.service_as(Identity::admin())
    }

    /// Returns the server as a tower service, without a socket. Requests are those of `identity`.
    pub fn service_as(&self, identity: Identity) -> Service {
        Service { core: self.core.clone(), identity: Some(identity), shutdown_signal: None }
    }

    /// Serves HTTP/1.1 and HTTP/2 over TLS on `address`, with a certificate of the server's own
    /// authority.
    ///
    /// # Errors
    ///
    /// If the address is not a loopback address (see [`serve_with`](Self::serve_with)) or cannot be
    /// bound.
    pub async fn serve(&self, address: SocketAddr) -> Result<ServerHandle, ServeError> {
        self.serve_with(address, ListenOptions::default()).await
    }

    /// Like [`serve`](Self::serve), with options, including permission to bind non-loopback
    /// addresses.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound, or is not a loopback address and that was not allowed.
    pub async fn serve_with(
        &self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<ServerHandle, ServeError> {
        let authority = self.authority()?;
        let admin = match &self.certificates {
            Some(directory) => authority.load_or_issue_admin(directory)?,
            None => authority.issue_client("admin", Some(MASTERS))?,
        };
        let addresses = [address.ip(), IpAddr::V4(self.apiserver_address)];
        let certificate = authority.issue_serving(addresses)?;
        let clock = self.core.clone();
        let now_unix = move || clock.clock_rng.now().as_second().unsigned_abs();
        let tls = Tls::new(&certificate, &[authority.certificate()], now_unix)?;
        let listener = Listener::bind(address, tls, options)?;
        let address = listener.local_addr();
        self.advertise(address).await;
        let kubeconfig = Kubeconfig {
            context: "evenkeel",
            server: &format!("https://{address}"),
            authority_pem: &authority.certificate_pem(),
            credential: Credential::Certificate(&admin),
        }
        .render();
        let (shutdown, stopping) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let (end, shutdown_signal) = watch::channel(false);
        let service = Service {
            shutdown_signal: Some(ShutdownSignal(shutdown_signal)),
            ..self.authenticating_service()
        };
        let service = ListenerService::new(service, self.faults.clone());
        let mut server_stops = self.stopping.subscribe();
        let mut watches_stop = self.core.stopping.clone();
        let core = self.core.clone();
        tasks.spawn(async move {
            let mut stopping = stopping;
            let ended = async {
                tokio::select! {
                    biased;
                    // An error means that the handle was dropped.
                    _ = stopping.wait_for(|stopping| *stopping) => {}
                    _ = server_stops.wait_for(|stopping| *stopping) => {}
                    _ = watches_stop.wait_for(|stopping| *stopping) => {}
                }
                // Otherwise the listener would wait for watches.
                end.send_replace(true);
            };
            listener.serve(service, ended).await;
            // Threads cannot be aborted; their work is cancelled and ends soon.
            core.throttle.idle().await;
        });
        Ok(ServerHandle { address, kubeconfig, shutdown, tasks })
    }

    /// Publishes `address` in the endpoints of the Service `default/kubernetes`.
    /// [`serve`](Self::serve) calls it; call it if another listener serves
    /// [`service`](Self::service).
    pub async fn advertise(&self, address: SocketAddr) {
        if let Err(status) = bootstrap::advertise(&self.core, address).await {
            tracing::warn!(
                why = status.message(),
                "cannot publish endpoints of service default/kubernetes"
            );
        }
    }

    /// Returns a signer of tokens for Secrets of type `kubernetes.io/service-account-token`.
    pub fn legacy_token_signer(&self) -> LegacyTokenSigner {
        LegacyTokenSigner::new(self.core.clone())
    }

    /// Compares the requests of `user` with the RBAC rules that are bound to it, not to its groups;
    /// `None` without [`ApiServerBuilder::record_access`].
    pub fn access_report(&self, user: &str) -> Option<AccessReport> {
        let trail = self.core.access.as_ref()?;
        let identity = Identity { user: user.to_owned(), ..Identity::default() };
        let mut granted = Vec::new();
        let namespaces = trail.namespaces(user);
        for namespace in std::iter::once("").chain(namespaces.iter().map(String::as_str)) {
            for rule in self.core.rbac.rules(&identity, namespace).rules {
                if !granted.contains(&rule) {
                    granted.push(rule);
                }
            }
        }
        Some(trail.report(user, &granted))
    }

    /// Returns whether a group and version is served, such as `apps/v1`.
    pub fn serves(&self, api_version: &str) -> bool {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.core.registry.snapshot().group_version(group, version).is_some()
    }

    /// Reports a control plane component, `controller-manager` or `scheduler`, as healthy in its
    /// ComponentStatus.
    pub fn mark_component_healthy(&self, name: &str) {
        self.core.components.add(name);
    }

    /// Ends all open watches and stops all listeners of the server.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.core.store.revision()
    }

    /// Compacts everything before the current revision, so that older watches and continue tokens
    /// expire. For tests that choose the time.
    pub fn compact(&self) {
        self.core.store.compact(self.core.store.revision());
    }
}

#[cfg(test)]
impl ApiServer {
    pub(crate) fn core_for_tests(&self) -> &Core {
        &self.core
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl ApiServerBuilder {
    /// Stores all objects in `directory`, across restarts and crashes, and the certificate
    /// authority, so that kubeconfigs keep working. By default everything is in memory.
    pub fn data_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.data_dir = Some(directory.as_ref().to_owned());
        self
    }

    /// Starts with these objects, for example those of another cluster. They are stored as they are:
    /// with their uids, times, status and managed fields, without admission and validation. Objects
    /// of custom resources need their CRD among them. An object that the data directory has already
    /// is not replaced.
    pub fn load(mut self, objects: Vec<serde_json::Value>) -> Self {
        self.objects = objects;
        self
    }

    /// Sets what an acknowledged write survives; by default also a power failure.
    pub fn durability(mut self, durability: storage::Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how much history each resource keeps for watches and paged lists.
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }

    /// Sets the interval of compaction; five minutes by default, never if zero. Continue tokens and
    /// lists at an exact version are valid for one to two intervals.
    pub fn compaction_interval(mut self, interval: Duration) -> Self {
        self.compaction_interval = Some(interval);
        self
    }

    /// Sets how long events are kept after their last write; one hour by default, forever if zero.
    pub fn event_ttl(mut self, ttl: Duration) -> Self {
        self.event_ttl = Some(ttl);
        self
    }

    /// Makes the server reproducible: uids, generated names and jitter follow from `seed`, and
    /// wall-clock time starts at a fixed date and advances with tokio's clock.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Enables admission plugins that are disabled by default, by the names of kube-apiserver's
    /// flag.
    pub fn enable_admission_plugins(
        mut self,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.admission_plugins.enabled.extend(names.into_iter().map(Into::into));
        self
    }

    /// Disables admission plugins, by the names of kube-apiserver's flag.
    pub fn disable_admission_plugins(
        mut self,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.admission_plugins.disabled.extend(names.into_iter().map(Into::into));
        self
    }

    /// Accepts the bearer tokens of a static token file.
    pub fn tokens(mut self, tokens: TokenFile) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets how service account tokens are signed and verified.
    pub fn service_accounts(mut self, options: ServiceAccountOptions) -> Self {
        self.service_accounts = options;
        self
    }

    /// Sets whether requests without credentials continue as `system:anonymous`, which
    /// authorization may reject with 403; otherwise they get 401. Enabled by default.
    pub fn anonymous_auth(mut self, enabled: bool) -> Self {
        self.no_anonymous = !enabled;
        self
    }

    /// Records which permissions the requests of each user need, allowed or not.
    pub fn record_access(mut self, trail: AccessTrail) -> Self {
        self.access = Some(trail);
        self
    }

    /// Sends the audit events that `policy` selects to `sink`: a [`LogFile`](audit::LogFile), or a
    /// [`channel`](audit::channel) to the same process.
    pub fn audit(mut self, policy: audit::Policy, sink: impl audit::Sink + 'static) -> Self {
        self.audit = Some((policy, Box::new(sink)));
        self
    }

    /// Sets the range of cluster IPs; `10.0.0.0/16` by default.
    pub fn service_cluster_ip_range(mut self, range: impl Into<String>) -> Self {
        self.service_cluster_ip_range = Some(range.into());
        self
    }

    /// Ends open watches when `stopping` becomes true, for servers behind another listener.
    pub fn stop_with(mut self, stopping: watch::Receiver<bool>) -> Self {
        self.stop_with = Some(stopping);
        self
    }

    /// Enables or disables a built-in API, as an entry of kube-apiserver's `--runtime-config`:
    /// `storagemigration.k8s.io/v1beta1`, a resource of a version, or `api/beta`. Stable versions
    /// are enabled by default. APIs that are not built in have no effect.
    pub fn runtime_config(mut self, api: &str, enabled: bool) -> Self {
        self.runtime_config.set(api, enabled);
        self
    }

    /// Sets the limits of requests through sockets.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Opens the storage and creates the initial objects.
    ///
    /// # Errors
    ///
    /// If the data directory cannot be used, or an option is invalid.
    pub async fn build(self) -> Result<ApiServer, BuildError> {
        let options = storage::Options {
            window: self.window.unwrap_or_default(),
            data_dir: self.data_dir.clone(),
            durability: self.durability,
            ..storage::Options::default()
        };
        let store = self.open_store(&options)?;
        let certificates = options.data_dir.map(|directory| directory.join("pki"));
        self.build_on(store, certificates).await
    }

    /// Like [`build`](Self::build), with an open store.
    pub(crate) async fn build_on(
        self,
        store: Store,
        certificates: Option<PathBuf>,
    ) -> Result<ApiServer, BuildError> {
        let reach = self.webhook_reach();
        let range = self.service_cluster_ip_range.as_deref().unwrap_or("10.0.0.0/16");
        let allocator = Allocator::new(range).map_err(BuildError::Option)?;
        let apiserver_address = allocator.apiserver_address();
        let defaults = self.defaults(&allocator);
        let service_accounts = Tokens::new(
            self.service_accounts,
            SocketAddr::from((apiserver_address, 443)).to_string(),
            || match &certificates {
                Some(directory) => signing_key::load_or_generate(directory),
                None => signing_key::generate(),
            },
        )
        .map_err(BuildError::Option)?;
        let (stopping, stops) = watch::channel(false);
        let rbac = Rbac::default();
        let pods = self.authorization.has_nodes().then(PodsByNode::default);
        let (policies, webhooks) = (Policies::default(), Webhooks::default());
        let limits = self.limits.unwrap_or_default();
        let clock_rng = Arc::new(self.seed.map_or_else(ClockRng::system, ClockRng::seeded));
        let faults = self.faults.map(|(plan, log)| Faults::new(plan, log, clock_rng.clone()));
        let audit = self.audit.map(|(policy, sink)| Audit::new(policy, sink, clock_rng.clone()));
        let core = Arc::new(Core {
            webhooks: webhook::Client::new(store.clone(), reach),
            registry: Registry::new(&store, &self.runtime_config),
            crds: Crds::default(),
            clock_rng,
            admission: admission::chain(&self.admission_plugins, &policies, &webhooks)
                .map_err(BuildError::Option)?,
            authenticator: Authenticator {
                token_file: self.tokens,
                service_accounts,
                anonymous: !self.no_anonymous,
            },
            authorizer: self.authorization.authorizer(&store, &rbac, pods.as_ref()),
            access: self.access,
            audit: audit.map(Arc::new),
            rbac,
            hooks: hooks::table(allocator, &policies, &webhooks, pods),
            flow_control: FlowControl::new(limits.seats()),
            event_ttl: EventTtl::new(self.event_ttl),
            metrics: Metrics::default(),
            components: Components::default(),
            compactor: Compactor::new(self.compaction_interval),
            throttle: Arc::new(Throttle::new(limits)),
            stopping: self.stop_with.unwrap_or(stops),
            store,
        });
        collect::register(&core);
        bootstrap::run(&core, defaults, self.objects)
            .await
            .map_err(|status| BuildError::Bootstrap(status.message().to_owned()))?;
        Ok(ApiServer {
            core,
            stopping,
            apiserver_address,
            certificates,
            authority: Mutex::default(),
            faults: faults.map(Arc::new),
        })
    }
}

impl std::fmt::Debug for ApiServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServerBuilder")
            .field("data_dir", &self.data_dir)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl ServerHandle {
    /// Returns the address of the listener, with its actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns the content of a kubeconfig file for the administrator.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Writes the kubeconfig to `path` with owner-only permissions.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        kubeconfig::write_atomically(path.as_ref(), self.kubeconfig.as_bytes(), 0o600)
    }

    /// Stops listening, waits for responses in flight, and returns when all connections are closed.
    pub async fn stop(mut self) {
        self.shutdown.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

impl std::fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerHandle").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
