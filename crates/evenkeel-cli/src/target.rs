//! The cluster and namespace that a command is about, chosen as kubectl does.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use evenkeel::kube;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

#[derive(Args, Clone)]
pub(crate) struct TargetArgs {
    /// Kubeconfig to use [default: KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use [default: the current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Namespace to use [default: the namespace of the context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
}

/// A connection to a cluster.
pub(crate) struct Connection {
    pub(crate) client: kube::Client,
    /// The namespace of the command.
    pub(crate) namespace: String,
    /// The context of the kubeconfig.
    pub(crate) context: String,
    /// The URL of the API server.
    pub(crate) url: String,
}

impl TargetArgs {
    /// Reads the kubeconfig.
    ///
    /// # Errors
    /// If there is none, or it has no such context.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let file = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path).map_err(|it| unusable(it, Some(path)))?,
            None => Kubeconfig::read().map_err(|it| unusable(it, None))?,
        };
        let mut connection = Connection::new(file, self.context.clone()).await?;
        if let Some(namespace) = &self.namespace {
            connection.namespace.clone_from(namespace);
        }
        Ok(connection)
    }

    /// Returns the kubeconfig that was given.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// Returns the context that was given.
    pub(crate) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }
}

impl Connection {
    /// Connects with the current context of a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) async fn to_file(path: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(path).map_err(|it| unusable(it, Some(path)))?;
        Self::new(file, None).await
    }

    async fn new(file: Kubeconfig, context: Option<String>) -> anyhow::Result<Self> {
        let context = context.or_else(|| file.current_context.clone());
        let names: Vec<&str> = file.contexts.iter().map(|it| &*it.name).collect();
        let contexts = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        match context.as_deref().filter(|it| !it.is_empty()) {
            Some(context) if names.contains(&context) => {}
            Some(context) => {
                bail!("the kubeconfig has no context {context:?}; its contexts: {contexts}")
            }
            None => bail!(
                "the kubeconfig has no current context; its contexts: {contexts}\n\
                 hint: choose one with --context NAME"
            ),
        }
        let options = KubeConfigOptions { context: context.clone(), ..Default::default() };
        let config = kube::Config::from_custom_kubeconfig(file, &options)
            .await
            .context("cannot use the kubeconfig")?;
        let namespace = config.default_namespace.clone();
        let url = config.cluster_url.to_string();
        let client = kube::Client::try_from(config).context("cannot use the kubeconfig")?;
        Ok(Self {
            client,
            namespace,
            context: context.unwrap_or_default(),
            url: url.trim_end_matches('/').to_owned(),
        })
    }

    /// Whether the API server is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.url.split_once("://").map_or(&*self.url, |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        name == "localhost"
            || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Returns the error about a kubeconfig: the one at `path`, or that of the environment.
fn unusable(error: KubeconfigError, path: Option<&Path>) -> anyhow::Error {
    let variable = std::env::var("KUBECONFIG").ok().filter(|it| !it.is_empty());
    let place = match (path, &variable) {
        (Some(path), _) => path.display().to_string(),
        (None, Some(paths)) => format!("{paths} (KUBECONFIG)"),
        (None, None) => "~/.kube/config".to_owned(),
    };
    match error {
        KubeconfigError::ReadConfig(cause, missing)
            if cause.kind() == std::io::ErrorKind::NotFound =>
        {
            anyhow!(
                "there is no kubeconfig {}\n\
                 hint: `evenkeel cluster start` starts a cluster and prints the KUBECONFIG to set; \
                 --kubeconfig FILE selects another file",
                missing.display()
            )
        }
        KubeconfigError::Parse(cause) => {
            anyhow!(*cause).context(format!("the kubeconfig {place} is not valid"))
        }
        error => anyhow!(error).context(format!("cannot use the kubeconfig {place}")),
    }
}
