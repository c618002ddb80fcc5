//! Loads the cluster configuration: explicit kubeconfig, `KUBECONFIG`, in-cluster,
//! `~/.kube/config`.

use std::path::{Path, PathBuf};

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::{Observer, Transport};
use crate::error::{BoxError, chain};

/// Why the cluster configuration cannot be loaded.
///
/// ```no_run
/// use evenkeel::Manager;
///
/// # async fn example() {
/// if let Err(error) = Manager::builder("greeter").connect().await {
///     println!("{}", evenkeel::chain(&error)); // the sources that were tried
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A kubeconfig cannot be used.
    #[error("cannot use the kubeconfig {from}")]
    Kubeconfig {
        /// Where the kubeconfig is configured.
        from: String,
        /// The cause.
        source: BoxError,
    },
    /// The in-cluster configuration cannot be used.
    #[error("cannot use the in-cluster configuration")]
    InCluster(#[source] BoxError),
    /// There is no cluster configuration.
    #[error(
        "no cluster configuration: --kubeconfig and KUBECONFIG are not set, not running in a pod \
         ({pod}), and no usable ~/.kube/config ({home})"
    )]
    NoConfiguration {
        /// Why the in-cluster configuration cannot be used.
        pod: String,
        /// Why the user's kubeconfig cannot be used.
        home: String,
    },
    /// The options of leader election are invalid.
    #[error("invalid options of leader election")]
    LeaderElection(#[source] BoxError),
    /// The client cannot be created from the configuration.
    #[error("cannot create a client from the cluster configuration")]
    Client(#[source] BoxError),
}

/// The source of the cluster configuration, which is read again later.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    from: From,
    context: Option<String>,
}

#[derive(Clone, Debug)]
enum From {
    /// The kubeconfig at this path.
    File(PathBuf),
    /// The kubeconfig of the variable `KUBECONFIG`.
    Environment,
    /// `~/.kube/config`.
    Home,
    /// The in-cluster service account.
    Pod,
}

impl Access {
    /// Returns the kubeconfig at `path` with `context`, or its current context.
    pub(crate) fn file(path: PathBuf, context: Option<String>) -> Self {
        Self { from: From::File(path), context }
    }

    /// Reads the configuration.
    pub(crate) async fn load(&self) -> Result<kube::Config, ConfigError> {
        let options =
            KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let failed = |from: String| {
            move |error: KubeconfigError| ConfigError::Kubeconfig { from, source: error.into() }
        };
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
                kube::Config::incluster().map_err(|error| ConfigError::InCluster(error.into()))?
            }
        };
        config.default_retry = false;
        Ok(config)
    }
}

/// Returns whether [`connect`] uses the service account of the pod that this process runs in.
pub(crate) fn uses_service_account(kubeconfig: Option<&Path>) -> bool {
    kubeconfig.is_none() && !has_variable() && kube::Config::incluster().is_ok()
}

fn has_variable() -> bool {
    std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty())
}

/// Connects with `kubeconfig` and its `context`, or with the configuration of the environment.
pub(crate) async fn connect(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    observer: Observer,
) -> Result<Transport, ConfigError> {
    let access = if let Some(path) = kubeconfig {
        Access::file(path, context)
    } else if has_variable() {
        Access { from: From::Environment, context }
    } else if let Err(pod) = kube::Config::incluster() {
        let home = Access { from: From::Home, context };
        if let Err(error) = home.load().await {
            let (pod, home) = (pod.to_string(), chain(&error));
            return Err(ConfigError::NoConfiguration { pod, home });
        }
        home
    } else {
        Access { from: From::Pod, context }
    };
    super::open(access, observer).await
}
