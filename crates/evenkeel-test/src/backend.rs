//! Where a test's cluster runs: in this process, as real executables, or elsewhere.

use std::ffi::OsString;

use evenkeel::{BoxError, Clock, Manager};
use evenkeel_apiserver::ApiServer;
use evenkeel_apiserver::identity::Identity;
use evenkeel_cluster::{Cluster, Settings};
use k8s_openapi::api::core::v1::Namespace;

use crate::fail;
use crate::rules::{Rule, Ruled};

/// Which back end the environment asks for.
pub(crate) enum Found {
    Embedded,
    Real,
    Existing(OsString),
}

/// A running back end.
pub(crate) enum Backend {
    Embedded {
        cluster: Cluster,
        clock: Option<Clock>,
        seed: Option<u64>,
        ruled: Ruled,
    },
    Real {
        client: kube::Client,
        #[expect(dead_code, reason = "held for as long as the test runs")]
        cluster: Box<evenkeel_upstream::Cluster>,
    },
    Existing {
        client: kube::Client,
    },
}

impl Backend {
    pub(crate) fn find() -> Found {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(path) = set("EVENKEEL_TEST_KUBECONFIG") {
            return Found::Existing(path);
        }
        let real = ["EVENKEEL_TEST_KUBE_APISERVER", "TEST_ASSET_KUBE_APISERVER"];
        if real.into_iter().any(|name| set(name).is_some()) { Found::Real } else { Found::Embedded }
    }

    pub(crate) fn client(&self) -> kube::Client {
        match self {
            Self::Embedded { cluster, .. } => cluster.client(),
            Self::Real { client, .. } | Self::Existing { client } => client.clone(),
        }
    }

    pub(crate) fn runs_pods(&self) -> bool {
        match self {
            Self::Embedded { cluster, .. } => {
                cluster.manager().controllers().iter().any(|it| it.name() == "kubelet")
            }
            Self::Real { .. } => false,
            Self::Existing { .. } => true,
        }
    }

    /// A manager on this back end, restricted if there are rules.
    pub(crate) fn manager(&self, name: &str, rules: Option<&[Rule]>) -> Manager {
        let mut builder = Manager::builder(name);
        let client = match (self, rules) {
            (_, None) => self.client(),
            (Self::Embedded { cluster, ruled, .. }, Some(rules)) => {
                let user = format!("system:serviceaccount:default:{name}");
                ruled.allow(&user, rules);
                let groups = ["system:serviceaccounts", "system:serviceaccounts:default"];
                let identity = Identity::authenticated(user, groups);
                kube::Client::new(cluster.server().service_as(identity), "default")
            }
            _ => fail("the permissions of this back end are not this process's to give"),
        };
        if let Self::Embedded { clock, seed, .. } = self {
            if let Some(clock) = clock {
                builder = builder.clock(clock.clone());
            }
            if let Some(seed) = seed {
                builder = builder.seed(seed.wrapping_add(1));
            }
        }
        builder.build(client)
    }

    /// The namespace for the test's own objects: a cluster of its own has `default` to itself.
    pub(crate) async fn namespace(&self, observer: &Manager) -> String {
        if matches!(self, Self::Embedded { .. } | Self::Real { .. }) {
            return "default".to_owned();
        }
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some("evenkeel-test-".to_owned());
        match observer.client().create(&namespace).await {
            Ok(created) => created.metadata.name.clone().unwrap_or_default(),
            Err(error) => fail(&format!("no namespace for the test: {error}")),
        }
    }

    pub(crate) async fn stop(self) {
        if let Self::Embedded { cluster, .. } = self {
            cluster.stop().await;
        }
    }
}

impl Found {
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    pub(crate) async fn start(self, settings: &Settings, bare: bool) -> Result<Backend, BoxError> {
        match self {
            Self::Embedded => {
                let ruled = Ruled::default();
                let mut builder = ApiServer::builder().authorizer(ruled.clone());
                if let Some(seed) = settings.seed {
                    builder = builder.seed(seed);
                }
                let server = builder.build().await?;
                let cluster =
                    if bare { Cluster::bare(server) } else { Cluster::on(server, settings)? };
                let (clock, seed) = (settings.clock.clone(), settings.seed);
                Ok(Backend::Embedded { cluster, clock, seed, ruled })
            }
            Self::Real => {
                let binaries = evenkeel_upstream::locate()?;
                let mut options = evenkeel_upstream::Options::default();
                options.controllers = !bare;
                let cluster =
                    Box::new(evenkeel_upstream::Cluster::start(&binaries, &options).await?);
                let client = connect(cluster.kubeconfig().as_os_str().to_owned()).await?;
                Ok(Backend::Real { client, cluster })
            }
            Self::Existing(path) => Ok(Backend::Existing { client: connect(path).await? }),
        }
    }
}

async fn connect(path: OsString) -> Result<kube::Client, BoxError> {
    let kubeconfig = kube::config::Kubeconfig::read_from(&path)?;
    let options = kube::config::KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}
