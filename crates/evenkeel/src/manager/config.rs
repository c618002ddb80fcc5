//! Which cluster: from what the program names, the environment, the pod, or the user's kubeconfig.

use std::path::PathBuf;

use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::connect::{self, Transport};
use crate::error::chain;

/// No cluster could be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {from}")]
    Kubeconfig {
        /// Where it was named.
        from: String,
        /// What is wrong with it.
        source: Box<kube::config::KubeconfigError>,
    },
    /// The pod's own access cannot be used.
    #[error("the access of the pod: {0}")]
    Pod(String),
    /// Nothing names a cluster.
    #[error(
        "no cluster: --kubeconfig and KUBECONFIG are not set, this is not a pod ({pod}), and \
         there is no usable ~/.kube/config ({home})"
    )]
    Nowhere {
        /// Why the pod's own access cannot be used.
        pod: String,
        /// Why the user's kubeconfig cannot be used.
        home: String,
    },
    /// The cluster's access cannot be set up.
    #[error("the cluster cannot be reached as configured: {0}")]
    Client(Box<kube::Error>),
}

/// Where the configuration of a cluster is read from, at the start and again later.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    from: From,
    context: Option<String>,
}

#[derive(Clone, Debug)]
enum From {
    /// A kubeconfig of this name.
    File(PathBuf),
    /// The kubeconfig that the variable `KUBECONFIG` names.
    Environment,
    /// The user's own kubeconfig.
    Home,
    /// The pod that the program runs in.
    Pod,
}

impl Access {
    /// The kubeconfig at `path`, in this context or its current one.
    pub(crate) fn file(path: PathBuf, context: Option<String>) -> Self {
        Self { from: From::File(path), context }
    }

    /// Reads the configuration.
    pub(crate) async fn load(&self) -> Result<kube::Config, ConfigError> {
        let options =
            KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let failed =
            |from: String| move |source| ConfigError::Kubeconfig { from, source: Box::new(source) };
        let mut config = match &self.from {
            From::File(path) => {
                let failed = failed(path.display().to_string());
                let kubeconfig = match Kubeconfig::read_from(path) {
                    Ok(kubeconfig) => kubeconfig,
                    Err(source) => return Err(failed(source)),
                };
                kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(failed)?
            }
            From::Environment => kube::Config::from_kubeconfig(&options)
                .await
                .map_err(failed("in KUBECONFIG".to_owned()))?,
            From::Home => kube::Config::from_kubeconfig(&options)
                .await
                .map_err(failed("~/.kube/config".to_owned()))?,
            From::Pod => {
                kube::Config::incluster().map_err(|error| ConfigError::Pod(error.to_string()))?
            }
        };
        config.default_retry = false;
        Ok(config)
    }
}

/// The way to the cluster that `kubeconfig` names, or else the environment; `context` is the one of
/// the kubeconfig to use.
pub(super) async fn connect(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
) -> Result<Transport, ConfigError> {
    let access = if let Some(path) = kubeconfig {
        Access::file(path, context)
    } else if std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()) {
        Access { from: From::Environment, context }
    } else if let Err(pod) = kube::Config::incluster() {
        let home = Access { from: From::Home, context };
        if let Err(error) = home.load().await {
            let (pod, home) = (pod.to_string(), chain(&error));
            return Err(ConfigError::Nowhere { pod, home });
        }
        home
    } else {
        Access { from: From::Pod, context }
    };
    connect::connect(access).await
}
