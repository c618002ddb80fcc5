//! The server as a thing to hold: built once, reached in process or over TLS, stopped at the end.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admission::Chain;
use crate::authn::Authenticator;
use crate::authz::{AllowAuthenticated, Authorizer};
use crate::body::Body;
use crate::clock_rng::ClockRng;
use crate::compactor::Compactor;
use crate::context::ShutdownSignal;
use crate::core::Core;
use crate::identity::token_file::TokenFile;
use crate::identity::{Identity, MASTERS};
use crate::limits::Limits;
use crate::listen::certificates::{self, Authority};
use crate::listen::kubeconfig::{self, Credential, Kubeconfig};
use crate::listen::tls::{self, Tls};
use crate::listen::{BindError, Listener, Options as ListenOptions};
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::registry::custom::Crds;
use crate::service::Allocator;
use crate::storage::{self, Store, Window};
use crate::throttle::Throttle;
use crate::verbs::Components;
use crate::{bootstrap, pipeline};

/// An API server. Dropping it ends its open watches; stored data lives on in its directory, if
/// it has one.
pub struct ApiServer {
    core: Arc<Core>,
    stopping: watch::Sender<bool>,
    /// Where the certificate authority is kept across restarts.
    certificates: Option<PathBuf>,
}

/// How an [`ApiServer`] is to be.
#[derive(Default)]
#[must_use]
pub struct Builder {
    data_dir: Option<PathBuf>,
    durability: storage::Durability,
    window: Option<Window>,
    compaction_interval: Option<Duration>,
    seed: Option<u64>,
    disabled_admission_plugins: Vec<String>,
    tokens: Option<TokenFile>,
    authorizer: Option<Box<dyn Authorizer>>,
    no_anonymous: bool,
    service_cluster_ip_range: Option<String>,
    stop_with: Option<watch::Receiver<bool>>,
    limits: Option<Limits>,
    #[cfg(feature = "_planted-bugs")]
    commits_no_changes: bool,
}

/// Why a server could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Storage(#[from] storage::OpenError),
    /// An option has no meaning.
    #[error("bad option: {0}")]
    Option(String),
    /// The objects every cluster has could not be made.
    #[error("cannot make the initial objects: {0}")]
    Bootstrap(String),
}

/// Why a server cannot be reached from outside its process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No certificate could be made or read.
    #[error(transparent)]
    Certificates(#[from] certificates::Error),
    /// The certificates do not work together.
    #[error(transparent)]
    Tls(#[from] tls::Error),
}

/// The address a served [`ApiServer`] listens on, and what clients need to talk to it.
///
/// Dropping it closes all connections at once; [`stop`](Self::stop) lets answers finish.
pub struct ServerHandle {
    address: SocketAddr,
    kubeconfig: String,
    shutdown: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl ApiServer {
    /// Starts to describe a server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use evenkeel_apiserver::ApiServer;
    ///
    /// let server = ApiServer::builder().build().await?;
    /// let serving = server.serve(([127, 0, 0, 1], 0).into()).await?;
    /// assert!(serving.url().starts_with("https://127.0.0.1:"));
    /// assert!(serving.kubeconfig().contains("client-certificate-data"));
    /// serving.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The server without a socket: a tower service whose caller is the administrator.
    ///
    /// It plugs straight into `kube::Client::new`.
    pub fn service(&self) -> Service {
        self.service_as(Identity::admin())
    }

    /// The server without a socket, for a caller of your choice.
    pub fn service_as(&self, identity: Identity) -> Service {
        Service { core: self.core.clone(), identity: Some(identity), shutdown_signal: None }
    }

    /// The service to put behind a listener of your own: callers are who their credentials say.
    pub fn authenticating_service(&self) -> Service {
        Service { core: self.core.clone(), identity: None, shutdown_signal: None }
    }

    /// As [`authenticating_service`](Self::anonymous_service), for a server nobody needs to hold.
    pub fn into_service(self) -> Service {
        self.authenticating_service()
    }

    /// Listens on `address` with TLS, certificates of its own and HTTP/1.1 and HTTP/2.
    ///
    /// # Errors
    ///
    /// If the address is not a loopback one (see [`serve_with`](Self::serve_with)) or cannot be
    /// bound.
    pub async fn serve(&self, address: SocketAddr) -> Result<ServerHandle, ServeError> {
        self.serve_with(address, ListenOptions::default()).await
    }

    /// As [`serve`](Self::serve), with options; among them the leave to listen beyond loopback.
    ///
    /// # Errors
    ///
    /// If the address cannot be bound or may not be without that leave.
    pub async fn serve_with(
        &self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<ServerHandle, ServeError> {
        let now = self.core.clock_rng.now().as_second().unsigned_abs();
        let (authority, admin) = match &self.certificates {
            Some(directory) => {
                let authority = Authority::load_or_generate(directory, "evenkeel", now)?;
                let admin = authority.load_or_issue_admin(directory)?;
                (authority, admin)
            }
            None => {
                let authority = Authority::generate("evenkeel", now)?;
                let admin = authority.issue_client("admin", Some(MASTERS))?;
                (authority, admin)
            }
        };
        let addresses = [address.ip(), IpAddr::V4(self.core.services.apiserver_address())];
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
        let mut server_stops = self.stopping.subscribe();
        let mut watches_stop = self.core.stopping.clone();
        let core = self.core.clone();
        tasks.spawn(async move {
            let mut stopping = stopping;
            let ended = async {
                tokio::select! {
                    biased;
                    // An error means that the handle is gone: stop as well.
                    _ = stopping.wait_for(|stopping| *stopping) => {}
                    _ = server_stops.wait_for(|stopping| *stopping) => {}
                    _ = watches_stop.wait_for(|stopping| *stopping) => {}
                }
                // Or the listener would wait for watches that never end by themselves.
                end.send_replace(true);
            };
            listener.serve(service, ended).await;
            // Threads cannot be cut off; what they do has lost its client and ends soon.
            core.throttle.idle().await;
        });
        Ok(ServerHandle { address, kubeconfig, shutdown, tasks })
    }

    /// Tells clients where the server is reached, by the endpoints of the service `kubernetes`;
    /// [`serve`](Self::serve) does. For whoever listens on behalf of [`service`](Self::service).
    pub async fn advertise(&self, address: SocketAddr) {
        if let Err(status) = bootstrap::advertise(&self.core, address).await {
            tracing::warn!(why = status.message(), "the server's endpoints are not told");
        }
    }

    /// Reports a component of the control plane, `controller-manager` or `scheduler`, as healthy in
    /// its ComponentStatus.
    pub fn mark_component_healthy(&self, name: &str) {
        self.core.components.add(name);
    }

    /// Ends all open watches and closes every address the server is served on.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.core.store.revision()
    }

    /// Forgets everything before the current revision at once, so that older watches and continue
    /// tokens expire, at a moment a test can choose.
    pub fn compact(&self) {
        self.core.store.compact(self.core.store.revision());
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

impl Builder {
    /// Keeps all objects in `directory`, across restarts and crashes, and the certificate
    /// authority, so that kubeconfigs go on working. Without it they live in memory.
    pub fn data_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.data_dir = Some(directory.as_ref().to_owned());
        self
    }

    /// What an acknowledged write survives; the default is everything but a broken disk.
    pub fn durability(mut self, durability: storage::Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How much of the past each resource keeps for watches and paged lists.
    pub fn window(mut self, window: Window) -> Self {
        self.window = Some(window);
        self
    }

    /// How often superseded versions are compacted; five minutes by default, never if zero.
    /// Continue tokens and lists at an exact version work for one to two intervals.
    pub fn compaction_interval(mut self, interval: Duration) -> Self {
        self.compaction_interval = Some(interval);
        self
    }

    /// Makes the server reproducible: uids, generated names and jitter follow from `seed`, and
    /// wall-clock time is tokio's, paused or not, from a fixed day on.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Switches admission plugins off, by the names kube-apiserver's flag uses.
    pub fn disable_admission_plugins(
        mut self,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.disabled_admission_plugins.extend(names.into_iter().map(Into::into));
        self
    }

    /// Accepts the bearer tokens of a static token file.
    pub fn tokens(mut self, tokens: TokenFile) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Whether requests without credentials go on as `system:anonymous`, which authorization may
    /// then refuse with 403; otherwise they are answered with 401. On by default.
    pub fn anonymous_auth(mut self, enabled: bool) -> Self {
        self.no_anonymous = !enabled;
        self
    }

    /// Decides who may do what; by default everyone who is authenticated may do anything.
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.authorizer = Some(Box::new(authorizer));
        self
    }

    /// Where services get their cluster IPs from; `10.0.0.0/16` by default.
    pub fn service_cluster_ip_range(mut self, range: impl Into<String>) -> Self {
        self.service_cluster_ip_range = Some(range.into());
        self
    }

    /// Ends open watches when `stopping` turns true, for servers behind a listener of your own.
    pub fn stop_with(mut self, stopping: watch::Receiver<bool>) -> Self {
        self.stop_with = Some(stopping);
        self
    }

    /// Bounds what clients may take of the server through sockets.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Plants a fault for a comparison to find: updates that change nothing commit all the same.
    #[cfg(feature = "_planted-bugs")]
    #[doc(hidden)]
    pub fn commit_no_changes(mut self) -> Self {
        self.commits_no_changes = true;
        self
    }

    /// Opens the storage and makes the objects every cluster has.
    ///
    /// # Errors
    ///
    /// If the data directory cannot be used, or an option has no meaning.
    pub async fn build(self) -> Result<ApiServer, BuildError> {
        let options = storage::Options {
            window: self.window.unwrap_or_default(),
            data_dir: self.data_dir.clone(),
            durability: self.durability,
            ..storage::Options::default()
        };
        let store = match options.data_dir {
            Some(_) => Store::open(&options)?,
            None => Store::in_memory(&options),
        };
        let certificates = options.data_dir.map(|directory| directory.join("pki"));
        self.build_on(store, certificates).await
    }

    /// As [`build`](Self::build), on a store that is open.
    pub(crate) async fn build_on(
        self,
        store: Store,
        certificates: Option<PathBuf>,
    ) -> Result<ApiServer, BuildError> {
        let range = self.service_cluster_ip_range.as_deref().unwrap_or("10.0.0.0/16");
        let (stopping, stops) = watch::channel(false);
        let core = Arc::new(Core {
            registry: Registry::new(&store),
            crds: Crds::default(),
            clock_rng: self.seed.map_or_else(ClockRng::system, ClockRng::seeded),
            admission: Chain::new(&self.disabled_admission_plugins).map_err(BuildError::Option)?,
            authenticator: Authenticator { tokens: self.tokens, anonymous: !self.no_anonymous },
            authorizer: self.authorizer.unwrap_or_else(|| Box::new(AllowAuthenticated)),
            services: Allocator::new(range).map_err(BuildError::Option)?,
            metrics: Metrics::default(),
            components: Components::default(),
            compactor: Compactor::new(self.compaction_interval),
            throttle: Throttle::new(self.limits.unwrap_or_default()),
            stopping: self.stop_with.unwrap_or(stops),
            #[cfg(feature = "_planted-bugs")]
            commits_no_changes: self.commits_no_changes,
            store,
        });
        bootstrap::run(&core)
            .await
            .map_err(|status| BuildError::Bootstrap(status.message().to_owned()))?;
        Ok(ApiServer { core, stopping, certificates })
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("data_dir", &self.data_dir)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl ServerHandle {
    /// Where the server listens, with its actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A kubeconfig file's content for the administrator; any Kubernetes client takes it.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Writes the kubeconfig to `path`, readable by its owner alone.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        kubeconfig::write_atomically(path.as_ref(), self.kubeconfig.as_bytes(), 0o600)
    }

    /// Stops listening, lets answers under way finish, and returns when all is closed.
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

/// The API server as a tower service: the same pipeline as behind the socket.
#[derive(Clone)]
pub struct Service {
    core: Arc<Core>,
    identity: Option<Identity>,
    shutdown_signal: Option<ShutdownSignal>,
}

impl<B> tower_service::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let core = self.core.clone();
        if let Some(identity) = &self.identity {
            request.extensions_mut().insert(identity.clone());
        }
        if let Some(shutdown_signal) = &self.shutdown_signal {
            request.extensions_mut().insert(shutdown_signal.clone());
        }
        Box::pin(async move { Ok(pipeline::run(&core, request).await) })
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("identity", &self.identity).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
