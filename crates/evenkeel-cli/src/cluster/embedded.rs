//! A cluster in this process, served on a socket.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use evenkeel_apiserver::ServerHandle;
use evenkeel_apiserver::listen::ListenOptions;
use evenkeel_cluster::Cluster;
use evenkeel_pki::kubeconfig::write_atomically;

use super::connect::{self, Process};

/// A cluster that clients can reach with its kubeconfig.
pub(crate) struct Embedded {
    cluster: Cluster,
    serving: ServerHandle,
    kubeconfig: PathBuf,
    /// Whether its certificate authority is stored, so that the kubeconfig stays valid.
    durable: bool,
}

impl Embedded {
    /// Serves a cluster and writes its kubeconfig.
    ///
    /// # Errors
    /// If the address cannot be used, or the file cannot be written.
    pub(crate) async fn serve(
        cluster: Cluster,
        address: SocketAddr,
        listen: ListenOptions,
        kubeconfig: &Path,
        process: &Process,
    ) -> anyhow::Result<Self> {
        let serving =
            cluster.server().serve_with(address, listen).await.context("cannot listen")?;
        let text = connect::describe(serving.kubeconfig(), process)?;
        write_atomically(kubeconfig, text.as_bytes(), 0o600)
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let durable = process.data_dir.is_some();
        Ok(Self { cluster, serving, kubeconfig: kubeconfig.to_owned(), durable })
    }

    /// Returns the URL of the API server.
    pub(crate) fn url(&self) -> String {
        self.serving.url()
    }

    /// Stops the cluster, and deletes its kubeconfig if it is useless now.
    pub(crate) async fn stop(self) {
        let url = self.url();
        // The controllers stop first: they need the server to finish.
        self.cluster.stop().await;
        self.serving.stop().await;
        if !self.durable && kubeconfig_server(&self.kubeconfig).as_deref() == Some(&*url) {
            // An error means that it is deleted already or not writable.
            let _ = std::fs::remove_file(&self.kubeconfig);
        }
    }
}

/// Fails if the kubeconfig belongs to a running cluster, whose users would lose access.
pub(crate) async fn check_kubeconfig(path: &Path) -> anyhow::Result<()> {
    let Some(server) = kubeconfig_server(path) else { return Ok(()) };
    let Some(address) = server.strip_prefix("https://") else { return Ok(()) };
    let connect = tokio::net::TcpStream::connect(address);
    let connected = tokio::time::timeout(Duration::from_secs(1), connect).await;
    if matches!(connected, Ok(Ok(_))) {
        anyhow::bail!(
            "{} belongs to a cluster that is running at {server}\n\
             hint: stop that cluster, or write another file with --kubeconfig FILE",
            path.display()
        );
    }
    Ok(())
}

/// Returns the server URL of a kubeconfig with a single cluster.
fn kubeconfig_server(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("server:"))?;
    Some(line.trim().trim_matches('"').to_owned())
}
