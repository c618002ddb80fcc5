//! The builder of managers.

use std::cell::Cell;
#[cfg(feature = "otel")]
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::args::{self, Args, Program};
use super::bind::BindAddress;
#[cfg(unix)]
use super::debug;
use super::servers::{self, CertificateFiles, ServerOptions, Servers};
use super::{Inner, Manager, collect, describe};
use crate::cache::{Cache, CacheOptions};
use crate::client::Client;
use crate::clock::Clock;
use crate::connect::{self, ConfigError, Observer, Transport};
use crate::controller::{Environment, OnReconcile};
use crate::error::Result;
use crate::events;
use crate::journal::Record;
use crate::leader::{Elections, InvalidLeaderElection, LeaderElection};
use crate::logging::ExtraLayer;
use crate::metrics::Metrics;
#[cfg(feature = "otel")]
use crate::otel::{self, OtelExporter, OtelOptions};
use crate::queue::TokenBucket;
use crate::random::Random;
use crate::webhook::{WebhookOptions, Webhooks};

/// Builds a manager; see [`Manager::builder`].
///
/// [`build`](Self::build) takes a client, [`connect`](Self::connect) reads the configuration from
/// the environment, and [`connect_with_args`](Self::connect_with_args) from the command line.
///
/// ```no_run
/// use std::time::Duration;
///
/// use evenkeel::Manager;
///
/// # async fn example(client: evenkeel::kube::Client) -> evenkeel::Result<()> {
/// let manager = Manager::builder("greeter")
///     .version(env!("CARGO_PKG_VERSION"))
///     .graceful_shutdown_timeout(Some(Duration::from_secs(10)))
///     .kubeconfig(std::path::PathBuf::from("admin.conf"))
///     .connect()
///     .await?;
/// let in_a_test = Manager::builder("greeter").seed(1).build(client);
/// # let _ = (manager, in_a_test);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ManagerBuilder {
    name: String,
    version: Option<String>,
    crds: Vec<CustomResourceDefinition>,
    rules: Vec<PolicyRule>,
    /// The flags of the command line, if it is parsed here.
    flags: Vec<&'static str>,
    described_flags: Option<Vec<&'static str>>,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    /// Of the process, which is part of the instance in events.
    hostname: Option<String>,
    cache: CacheOptions,
    clock: Clock,
    seed: Option<u64>,
    grace_period: Option<Duration>,
    on_reconcile: Option<OnReconcile>,
    records_events: bool,
    metrics: Arc<Metrics>,
    client_limit: Option<TokenBucket>,
    servers: ServerOptions,
    leader_election: Option<LeaderElection>,
    #[cfg(feature = "otel")]
    otel: Option<OtelExporter>,
    webhooks: WebhookOptions,
}

/// The variable that `evenkeel dev` sets: the operator runs outside of the cluster and installs its
/// webhooks itself.
const DEVELOPMENT: &str = "EVENKEEL_DEVELOPMENT";

impl ManagerBuilder {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: None,
            crds: Vec::new(),
            rules: Vec::new(),
            flags: Vec::new(),
            described_flags: None,
            kubeconfig: None,
            context: None,
            hostname: None,
            cache: CacheOptions::default(),
            clock: Clock::system(),
            seed: None,
            grace_period: Some(Duration::from_secs(30)),
            on_reconcile: None,
            records_events: true,
            metrics: Arc::new(Metrics::new()),
            client_limit: None,
            servers: ServerOptions::default(),
            leader_election: None,
            #[cfg(feature = "otel")]
            otel: None,
            webhooks: WebhookOptions::new(),
        }
    }

    /// Limits the requests to the API server, watches included; no limit unless set.
    ///
    /// The API server's priority and fairness limits clients better than they limit themselves: a
    /// request that it rejects (429) is repeated by the next reconcile, after the time in
    /// `Retry-After`. A limit of the client is for servers without it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use evenkeel::Manager;
    /// use evenkeel::queue::TokenBucket;
    ///
    /// // 20 requests per second, with bursts of up to 30.
    /// let limit = TokenBucket { every: Duration::from_millis(50), burst: 30 };
    /// let builder = Manager::builder("greeter").client_limit(limit);
    /// # let _ = builder;
    /// ```
    pub fn client_limit(mut self, limit: impl Into<Option<TokenBucket>>) -> Self {
        self.client_limit = limit.into();
        self
    }

    /// Sets the cache options.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// Sets the wall clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the seed of jitter and generated identifiers, for reproducible runs.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the grace period of the shutdown; 30 seconds unless set, unlimited if `None`.
    pub fn graceful_shutdown_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.grace_period = timeout;
        self
    }

    /// Enables [leader election](crate::leader): of several replicas one runs the controllers.
    ///
    /// [`connect`](Self::connect) and [`Manager::run`] check the options.
    pub fn leader_election(mut self, options: impl Into<Option<LeaderElection>>) -> Self {
        self.leader_election = options.into();
        self
    }

    /// Sets whether events are written; they are unless set. Otherwise recorders do nothing.
    pub fn record_events(mut self, record: bool) -> Self {
        self.records_events = record;
        self
    }

    /// Calls `observe` with the record of each reconcile of each controller, for tests and metrics.
    /// It runs on the worker, so it should return quickly.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use evenkeel::{Manager, client};
    ///
    /// static CONFLICTS: AtomicU64 = AtomicU64::new(0);
    ///
    /// let builder = Manager::builder("greeter").on_reconcile(|record| {
    ///     let error = record.outcome.find::<client::Error>();
    ///     if error.is_some_and(client::Error::is_conflict) {
    ///         CONFLICTS.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// });
    /// # let _ = builder;
    /// ```
    pub fn on_reconcile(mut self, observe: impl Fn(&Record) + Send + Sync + 'static) -> Self {
        self.on_reconcile = Some(Arc::new(observe));
        self
    }

    /// Runs the exporter of traces with the manager; see [`otel`](crate::otel).
    #[cfg(feature = "otel")]
    pub fn otel(mut self, exporter: OtelExporter) -> Self {
        self.otel = Some(exporter);
        self
    }

    /// Sets how webhooks are served. There is a server only if a webhook is registered.
    pub fn webhooks(mut self, options: WebhookOptions) -> Self {
        self.webhooks = options;
        self
    }

    /// Serves `/metrics` at this address. Unless set it is not served, except by
    /// [`connect_with_args`](Self::connect_with_args) in a pod, at `:8443`.
    ///
    /// It is served over HTTPS, to clients with a token whose user may `get` the path `/metrics`: the
    /// API server is queried with TokenReview and SubjectAccessReview, which the operator needs the
    /// permission for (ClusterRole `system:auth-delegator`). On loopback it is plain HTTP for
    /// all clients.
    ///
    /// ```
    /// use evenkeel::Manager;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = Manager::builder("greeter")
    ///     .metrics_bind_address(":8443".parse()?)
    ///     .health_probe_bind_address(":8081".parse()?);
    /// # let _ = builder;
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics_bind_address(mut self, address: BindAddress) -> Self {
        self.servers.metrics = Some(address);
        self
    }

    /// Sets whether `/metrics` is served over HTTPS to authorized clients only; true unless set,
    /// except on loopback. If false, it is served to all clients over HTTP.
    pub fn metrics_secure(mut self, secure: bool) -> Self {
        self.servers.metrics_secure = Some(secure);
        self
    }

    /// Sets the certificate of `/metrics` and its key, in PEM files that are read again when they
    /// change; self-signed unless set.
    pub fn metrics_certificate(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        let (certificate, key) = (certificate.into(), key.into());
        self.servers.metrics_certificate = Some(CertificateFiles { certificate, key });
        self
    }

    /// Serves `/healthz` and `/readyz` at this address, over HTTP to all clients. Unless set they are
    /// not served, except by [`connect_with_args`](Self::connect_with_args) in a pod, at `:8081`.
    pub fn health_probe_bind_address(mut self, address: BindAddress) -> Self {
        self.servers.health = Some(address);
        self
    }

    /// Sets the operator's version for `--version`: `env!("CARGO_PKG_VERSION")` in the program's
    /// crate.
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Adds a CRD to the output of `--print-crds`. The manager does not install it: that needs
    /// permissions that an operator should not have.
    ///
    /// The versions of a resource become one CRD; the version that is added first is stored, so it
    /// must be the hub of [`Conversion`](crate::webhook::Conversion).
    pub fn crd<K: CustomResourceExt>(mut self) -> Self {
        let mut crd = K::crd();
        let fits = |it: &&mut CustomResourceDefinition| {
            let (it, crd) = (&it.spec, &crd.spec);
            let has = |name: &str| it.versions.iter().any(|version| version.name == name);
            let same = it.group == crd.group && it.names.kind == crd.names.kind;
            same && it.scope == crd.scope && !crd.versions.iter().any(|it| has(&it.name))
        };
        match self.crds.iter_mut().find(fits) {
            Some(first) => {
                crd.spec.versions.iter_mut().for_each(|version| version.storage = false);
                first.spec.versions.append(&mut crd.spec.versions);
            }
            None => self.crds.push(crd),
        }
        self
    }

    /// Adds a permission that does not follow from what the controllers register, such as the
    /// deletion of objects or live reads, to the manifests that `evenkeel manifests` renders.
    ///
    /// ```
    /// use evenkeel::Manager;
    /// use evenkeel::k8s_openapi::api::rbac::v1::PolicyRule;
    ///
    /// let secrets = PolicyRule {
    ///     api_groups: Some(vec![String::new()]),
    ///     resources: Some(vec!["secrets".to_owned()]),
    ///     verbs: vec!["get".to_owned()],
    ///     ..PolicyRule::default()
    /// };
    /// let builder = Manager::builder("greeter").rule(secrets);
    /// # let _ = builder;
    /// ```
    pub fn rule(mut self, rule: PolicyRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets the kubeconfig, instead of the one from the environment.
    pub fn kubeconfig(mut self, path: impl Into<Option<PathBuf>>) -> Self {
        self.kubeconfig = path.into();
        self
    }

    /// Sets the context of the kubeconfig, instead of its current context.
    pub fn context(mut self, name: impl Into<Option<String>>) -> Self {
        self.context = name.into();
        self
    }

    /// Connects to the cluster of [`kubeconfig`](Self::kubeconfig), the variable `KUBECONFIG`, the
    /// in-cluster service account, or `~/.kube/config`, in this order.
    ///
    /// For programs that parse their own command line. They set up logging themselves, for example
    /// with [`logging::init`](crate::logging::init).
    ///
    /// # Errors
    /// When there is no usable configuration; the error lists the sources that were tried. When the
    /// options of leader election are invalid.
    pub async fn connect(mut self) -> Result<Manager, ConfigError> {
        if let Some(options) = &self.leader_election {
            let invalid = |error: InvalidLeaderElection| ConfigError::LeaderElection(error.into());
            options.validate().map_err(invalid)?;
        }
        if let Some(namespace) = describe::requested() {
            self.described_flags = Some(std::mem::take(&mut self.flags));
            let namespace = if namespace.is_empty() { self.name.clone() } else { namespace };
            return Ok(self.build(describe::refusing_client(&namespace)));
        }
        let (kubeconfig, context) = (self.kubeconfig.take(), self.context.take());
        let transport = connect::connect(kubeconfig, context, self.observer()).await?;
        // The name of the pod, in a pod.
        self.hostname = std::env::var("HOSTNAME").ok();
        if std::env::var_os(DEVELOPMENT).is_some() {
            let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
            let options = self.webhooks.port(0).bind_address(loopback);
            self.webhooks = options.url("https://127.0.0.1:0").install();
        }
        let manager = self.over(transport);
        #[cfg(unix)]
        debug::start(&manager);
        Ok(manager)
    }

    /// Parses the command line, initializes logging, and [connects](Self::connect).
    ///
    /// | flag | |
    /// |---|---|
    /// | `--kubeconfig FILE` | overrides [`kubeconfig`](Self::kubeconfig) |
    /// | `--context NAME` | overrides [`context`](Self::context) |
    /// | `--namespace NAMES` | the namespaces of [`cache`](Self::cache), separated by commas |
    /// | `--kube-api-qps NUMBER`, `--kube-api-burst NUMBER` | [`client_limit`](Self::client_limit) |
    /// | `--leader-elect` | enables [`leader_election`](Self::leader_election); `=false` disables it |
    /// | `--leader-election-id NAME`, `--leader-election-namespace NAME` | override [`LeaderElection::id`] and [`LeaderElection::namespace`] |
    /// | `--leader-elect-lease-duration DURATION`, `--leader-elect-renew-deadline DURATION`, `--leader-elect-retry-period DURATION` | override the durations of [`LeaderElection`] |
    /// | `--metrics-bind-address ADDRESS` | overrides [`metrics_bind_address`](Self::metrics_bind_address); `:8443` in a pod unless set |
    /// | `--metrics-secure[=BOOL]` | overrides [`metrics_secure`](Self::metrics_secure) |
    /// | `--metrics-cert-path DIR`, `--metrics-cert-name FILE`, `--metrics-cert-key FILE` | override [`metrics_certificate`](Self::metrics_certificate) |
    /// | `--health-probe-bind-address ADDRESS` | overrides [`health_probe_bind_address`](Self::health_probe_bind_address); `:8081` in a pod unless set |
    /// | `--log-level LEVEL` | see [`logging::init`](crate::logging::init) |
    /// | `--log-format text\|json` | see [`LogFormat`](crate::logging::LogFormat) |
    /// | `--webhook-port PORT`, `--webhook-bind-address ADDRESS`, `--webhook-cert-path DIR`, `--webhook-cert-name FILE`, `--webhook-cert-key FILE` | override [`webhooks`](Self::webhooks) |
    /// | `--print-crds` | prints the YAML of every [`crd`](Self::crd) and exits |
    /// | `--help`, `--version` | print and exit |
    ///
    /// Any other argument exits with code 2. A program with its own flags parses them itself and
    /// calls [`connect`](Self::connect).
    ///
    /// # Errors
    /// Same as [`connect`](Self::connect).
    pub async fn connect_with_args(mut self) -> Result<Manager, ConfigError> {
        let layer = Cell::new(self.trace_layer());
        let program =
            Program { layer, name: &self.name, version: self.version.as_deref(), crds: &self.crds };
        let args = program.start(std::env::args_os().skip(1));
        self.flags = args::flag_names();
        self.with(args).connect().await
    }

    /// Applies the flags that are given.
    fn with(mut self, args: Args) -> Self {
        self.client_limit = args.client_limit().or(self.client_limit);
        self.webhooks = args.webhooks.apply(self.webhooks);
        self.kubeconfig = args.kubeconfig.or(self.kubeconfig);
        self.context = args.context.or(self.context);
        let pod = connect::uses_service_account(self.kubeconfig.as_deref());
        self.servers = args.servers.apply(self.servers, pod);
        self.leader_election = args.leader_election.apply(self.leader_election);
        if let Some(namespaces) = args.namespaces {
            self.cache = self.cache.namespaces(namespaces);
        }
        self
    }

    /// Builds the manager with an existing client.
    ///
    /// The client must not retry (`kube::Config::default_retry` off): the runtime has its own
    /// deadlines and backoff.
    #[must_use]
    pub fn build(self, client: kube::Client) -> Manager {
        let transport = Transport::observed(client, self.observer());
        self.over(transport)
    }

    fn observer(&self) -> Observer {
        Observer::new(self.metrics.rest_client.clone(), self.client_limit)
    }

    /// Returns the layer that exports traces, if the variables of OpenTelemetry are set and the
    /// program has not set an exporter.
    #[cfg(feature = "otel")]
    fn trace_layer(&mut self) -> Option<ExtraLayer> {
        let variables = OtelOptions::from_variables(&self.name, |name| std::env::var(name).ok());
        match variables {
            Ok(Some(options)) if self.otel.is_none() => {
                let (layer, exporter) = otel::layer(options);
                self.otel = Some(exporter);
                Some(Box::new(layer))
            }
            Ok(_) => None,
            Err(error) => {
                // The subscriber is not installed yet.
                let text = format!("warning: traces are not exported: {error}\n");
                let _ = std::io::stderr().write_all(text.as_bytes());
                None
            }
        }
    }

    #[cfg(not(feature = "otel"))]
    fn trace_layer(&mut self) -> Option<ExtraLayer> {
        None
    }

    fn over(self, transport: Transport) -> Manager {
        #[cfg(feature = "otel")]
        let observer = self.observer();
        let servers = self.servers;
        let mut random = self.seed.map_or_else(Random::from_entropy, Random::new);
        let mut options = self.cache;
        options.seed = options.seed.or_else(|| Some(random.next()));
        let cache = Cache::over(transport.clone(), options);
        let names = Random::new(random.next());
        let client = Client::new(transport, cache, &self.name, names);
        let instance = match &self.hostname {
            Some(hostname) => format!("{}-{hostname}", self.name),
            None => self.name.clone(),
        };
        let (event_sender, event_writer) = events::channel(&instance, self.records_events);
        let elections = Elections::new(
            self.leader_election,
            &self.name,
            &client,
            &self.metrics,
            self.clock.follows_tokio(),
            &mut random,
        );
        let environment = Environment::new(
            client,
            self.clock,
            random,
            event_sender,
            self.on_reconcile,
            self.metrics,
            elections,
        );
        let name: Arc<str> = self.name.into();
        let namespace = environment.client.kube().default_namespace().to_owned();
        let metrics = environment.metrics.clone();
        let manager = Manager(Arc::new(Inner {
            #[cfg(feature = "otel")]
            otel: self.otel.map(|exporter| (exporter, observer)),
            webhooks: Webhooks::new(name.clone(), self.webhooks, &namespace, metrics),
            environment,
            name,
            grace_period: self.grace_period,
            cached_types: Mutex::default(),
            servers: Servers::default(),
            event_writer,
            stop: CancellationToken::new(),
            version: self.version,
            crds: self.crds,
            rules: self.rules,
            described_flags: self.described_flags,
        }));
        collect::register(&manager.0);
        servers::register(&manager.0, servers);
        manager
    }

    /// Makes the run reproducible: seeds all randomness with `seed`, and starts a wall clock at
    /// `start` that follows tokio's clock.
    pub fn deterministic(self, seed: u64, start: Timestamp) -> Self {
        self.seed(seed).clock(Clock::starting_at(start))
    }
}
