//! The back ends of a test cluster: embedded, upstream executables, or an existing cluster.

use std::ffi::{OsStr, OsString};
use std::net::Ipv4Addr;
use std::sync::OnceLock;

use evenkeel::cache::CacheOptions;
use evenkeel::webhook::WebhookOptions;
use evenkeel::{BoxError, Clock, Manager};
use evenkeel_apiserver::identity::Identity;
use evenkeel_apiserver::{AccessReport, AccessTrail, ApiServer};
use evenkeel_cluster::{Cluster, ClusterOptions};
use evenkeel_upstream::{Binaries, LocateError, locate_any_release};
use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, PostParams};

use crate::access::Recorder;
use crate::account::{self, Account};
use crate::guard::SpinGuard;
use crate::rules::Rule;

/// The back end that the environment selects.
pub(crate) enum BackendKind {
    Embedded,
    Real(Binaries),
    Existing(OsString),
}

/// A running back end.
pub(crate) enum Backend {
    Embedded {
        recorder: Option<Recorder>,
        cluster: Cluster,
        clock: Option<Clock>,
        seed: Option<u64>,
    },
    Real {
        remote: Remote,
        cluster: Box<evenkeel_upstream::Cluster>,
        controllers: bool,
    },
    Existing {
        remote: Remote,
        controllers: bool,
        nodes: bool,
    },
}

/// A server that is reached over the network.
pub(crate) struct Remote {
    client: kube::Client,
    config: kube::Config,
}

impl Backend {
    /// Reads the back end from the environment.
    pub(crate) fn detect() -> Result<BackendKind, LocateError> {
        // Cached, because it runs each executable, which takes longer than a test.
        static BINARIES: OnceLock<Result<Binaries, LocateError>> = OnceLock::new();
        let locate = || BINARIES.get_or_init(locate_any_release).clone();
        BackendKind::from_env(|name| std::env::var_os(name), locate)
    }

    pub(crate) fn client(&self) -> kube::Client {
        match self {
            Self::Embedded { cluster, .. } => cluster.client(),
            Self::Real { remote, .. } | Self::Existing { remote, .. } => remote.client.clone(),
        }
    }

    /// How a client on this back end caches.
    pub(crate) fn cache_options(&self) -> CacheOptions {
        match self {
            Self::Embedded { .. } => CacheOptions::in_process(),
            Self::Real { .. } | Self::Existing { .. } => CacheOptions::default(),
        }
    }

    pub(crate) fn runs_controllers(&self) -> bool {
        match self {
            Self::Embedded { cluster, .. } => !cluster.manager().controllers().is_empty(),
            Self::Real { controllers, .. } | Self::Existing { controllers, .. } => *controllers,
        }
    }

    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded { .. })
    }

    pub(crate) fn runs_pods(&self) -> bool {
        match self {
            Self::Embedded { cluster, .. } => {
                cluster.manager().controllers().iter().any(|it| it.name() == "kubelet")
            }
            Self::Real { .. } => false,
            Self::Existing { controllers, nodes, .. } => *controllers && *nodes,
        }
    }

    /// Creates a manager with all permissions.
    pub(crate) fn manager(&self, name: &str, namespace: &str, guard: &SpinGuard) -> Manager {
        let client = match self {
            // Its requests are distinguished from those of the test by their user.
            Self::Embedded { cluster, recorder: Some(recorder), .. } => {
                let user = service_account(namespace, name);
                recorder.add(&user);
                let identity = Identity::authenticated(user, ["system:masters"]);
                kube::Client::new(cluster.server().service_as(identity), "default")
            }
            _ => self.client(),
        };
        self.manager_of(name, namespace, client, guard)
    }

    /// Creates a manager that authenticates as a service account with the permissions in `rules`.
    pub(crate) async fn restricted_manager(
        &self,
        name: &str,
        namespace: &str,
        rules: &[Rule],
        guard: &SpinGuard,
    ) -> Result<(Manager, Option<Account>), BoxError> {
        let (client, account) = match self {
            Self::Embedded { cluster, recorder, .. } => {
                // Its objects end with the server.
                Account::create(&cluster.client(), namespace, name, rules).await?;
                let all = "system:serviceaccounts".to_owned();
                let user = service_account(namespace, name);
                if let Some(recorder) = recorder {
                    recorder.add(&user);
                }
                let identity = Identity::authenticated(user, [format!("{all}:{namespace}"), all]);
                (kube::Client::new(cluster.server().service_as(identity), "default"), None)
            }
            Self::Real { remote, .. } | Self::Existing { remote, .. } => {
                let account = Account::create(&remote.client, namespace, name, rules).await?;
                (account.client(&remote.config, rules).await?, Some(account))
            }
        };
        Ok((self.manager_of(name, namespace, client, guard), account))
    }

    /// Compares the requests of a service account with its permissions, on the embedded back end.
    pub(crate) fn access_report(&self, namespace: &str, name: &str) -> Option<AccessReport> {
        let Self::Embedded { cluster, .. } = self else { return None };
        cluster.server().access_report(&service_account(namespace, name))
    }

    fn manager_of(
        &self,
        name: &str,
        namespace: &str,
        client: kube::Client,
        guard: &SpinGuard,
    ) -> Manager {
        let guard = guard.clone();
        let mut builder = Manager::builder(name)
            .on_reconcile(move |record| guard.observe(record))
            .cache(self.cache_options())
            .webhooks(self.webhooks(name));
        match self {
            Self::Embedded { clock, seed, .. } => {
                if let Some(clock) = clock {
                    builder = builder.clock(clock.clone());
                }
                if let Some(seed) = seed {
                    builder = builder.seed(seed.wrapping_add(1));
                }
            }
            Self::Real { .. } => {}
            // Other tests and users have operators and objects in the same cluster.
            Self::Existing { .. } => {
                builder = builder.cache(CacheOptions::new().namespaces([namespace]));
            }
        }
        builder.build(client)
    }

    /// How webhooks of the operator are reached: in process, or by a server on the same machine.
    fn webhooks(&self, name: &str) -> WebhookOptions {
        let options = WebhookOptions::new();
        match self {
            // Not the namespace of the test, whose objects are to be admitted.
            Self::Embedded { .. } => {
                options.in_process().service_namespace(&format!("{name}-system"))
            }
            Self::Real { .. } | Self::Existing { .. } => options
                .bind_address(Ipv4Addr::LOCALHOST.into())
                .port(0)
                .url("https://127.0.0.1:0")
                .service_namespace("kube-system")
                .install(),
        }
    }

    /// Makes the embedded server call the webhooks of a manager. On other back ends the manager
    /// installs them itself.
    pub(crate) fn serve_webhooks(&self, manager: &Manager) -> Result<(), BoxError> {
        let Self::Embedded { cluster, .. } = self else { return Ok(()) };
        // The server keeps its objects in memory, so it need not wait.
        let served = tokio::task::unconstrained(cluster.serve_webhooks(manager)).now_or_never();
        served.ok_or("the webhooks were not installed synchronously")?.map_err(Into::into)
    }

    /// Returns the namespace of the test: a new one on an existing cluster, else `default`.
    pub(crate) async fn namespace(&self) -> Result<String, BoxError> {
        let Self::Existing { remote, .. } = self else { return Ok("default".to_owned()) };
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some("evenkeel-test-".to_owned());
        namespace.metadata.labels = Some(account::labels());
        let namespaces = Api::<Namespace>::all(remote.client.clone());
        let created = namespaces.create(&PostParams::default(), &namespace).await?;
        Ok(created.metadata.name.unwrap_or_default())
    }

    /// Deletes the test's namespace on an existing cluster.
    ///
    /// Returns whether to wait for it: only the namespace controller finishes the deletion.
    pub(crate) async fn delete_namespace(&self, namespace: &str) -> Result<bool, BoxError> {
        let Self::Existing { remote, controllers, .. } = self else { return Ok(false) };
        let namespaces = Api::<Namespace>::all(remote.client.clone());
        namespaces.delete(namespace, &DeleteParams::default()).await?;
        Ok(*controllers)
    }

    pub(crate) async fn stop(self) {
        match self {
            Self::Embedded { cluster, .. } => cluster.stop().await,
            Self::Real { cluster, .. } => drop(cluster),
            Self::Existing { .. } => {}
        }
    }
}

/// Returns the user name of a service account.
fn service_account(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

impl BackendKind {
    fn from_env(
        variable: impl Fn(&str) -> Option<OsString>,
        locate: impl Fn() -> Result<Binaries, LocateError>,
    ) -> Result<Self, LocateError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(path) = set("EVENKEEL_TEST_KUBECONFIG") {
            return Ok(Self::Existing(path));
        }
        let programs = ["EVENKEEL_TEST_KUBE_APISERVER", "TEST_ASSET_KUBE_APISERVER"];
        let written = programs.into_iter().any(|name| set(name).is_some());
        if !written && set("KUBEBUILDER_ASSETS").is_none() {
            return Ok(Self::Embedded);
        }
        match locate() {
            // `KUBEBUILDER_ASSETS` is often set for envtest suites. Its drop-in runs the same
            // server as the embedded back end.
            Err(missing) if missing.is_evenkeel() && !written => Ok(Self::Embedded),
            found => found.map(Self::Real),
        }
    }

    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    pub(crate) async fn start(
        self,
        options: &ClusterOptions,
        api_only: bool,
    ) -> Result<Backend, BoxError> {
        match self {
            Self::Embedded => {
                let trail = AccessTrail::default();
                let recorder = Recorder::from_env(&trail);
                let builder = if api_only { ApiServer::builder() } else { options.server() };
                let mut builder = builder.rbac().record_access(trail);
                if let Some(seed) = options.seed {
                    builder = builder.seed(seed);
                }
                let server = builder.build().await?;
                let cluster = if api_only {
                    Cluster::api_only(server)
                } else {
                    Cluster::with_server(server, options)?
                };
                let (clock, seed) = (options.clock.clone(), options.seed);
                Ok(Backend::Embedded { recorder, cluster, clock, seed })
            }
            Self::Real(binaries) => {
                let controllers = !api_only && binaries.kube_controller_manager.is_some();
                let mut options = evenkeel_upstream::UpstreamOptions::default();
                options.controllers = controllers;
                let cluster =
                    Box::new(evenkeel_upstream::Cluster::start(&binaries, &options).await?);
                let remote = Remote::connect(cluster.kubeconfig().as_os_str()).await?;
                Ok(Backend::Real { remote, cluster, controllers })
            }
            Self::Existing(path) => {
                let remote = Remote::connect(&path).await?;
                let nodes = Api::<Node>::all(remote.client.clone());
                let nodes = nodes.list_metadata(&ListParams::default().limit(1)).await?;
                // The service account controller creates this one in every namespace.
                let accounts =
                    Api::<ServiceAccount>::namespaced(remote.client.clone(), "kube-system");
                let controllers = accounts.get_metadata_opt("default").await?.is_some();
                Ok(Backend::Existing { remote, controllers, nodes: !nodes.items.is_empty() })
            }
        }
    }
}

impl Remote {
    async fn connect(path: &OsStr) -> Result<Self, BoxError> {
        let kubeconfig = kube::config::Kubeconfig::read_from(path)?;
        let options = kube::config::KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.default_retry = false;
        Ok(Self { client: kube::Client::try_from(config.clone())?, config })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(set: &[&str], reason: &str) -> Result<BackendKind, LocateError> {
        let variable = |name: &str| set.contains(&name).then(|| OsString::from("/somewhere"));
        let rejected = || LocateError::Rejected {
            origin: "a test".to_owned(),
            path: "/somewhere".into(),
            reason: reason.to_owned(),
        };
        BackendKind::from_env(variable, || Err(rejected()))
    }

    #[test]
    fn environment_selects_the_backend() {
        let stand_in = "is Evenkeel's drop-in, not the upstream program";
        let assets = "KUBEBUILDER_ASSETS";
        assert!(matches!(found(&[], "is broken"), Ok(BackendKind::Embedded)));
        let both = [assets, "EVENKEEL_TEST_KUBECONFIG"];
        assert!(matches!(found(&both, "is broken"), Ok(BackendKind::Existing(_))));
        assert!(matches!(found(&[assets], stand_in), Ok(BackendKind::Embedded)));
        assert!(found(&[assets], "is broken").is_err());
        for name in ["EVENKEEL_TEST_KUBE_APISERVER", "TEST_ASSET_KUBE_APISERVER"] {
            assert!(found(&[name], stand_in).is_err(), "{name} names an upstream executable");
        }
    }
}
