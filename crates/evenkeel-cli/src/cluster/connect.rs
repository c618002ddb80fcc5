//! Finds a cluster by the kubeconfig that `cluster start` wrote.
//!
//! The kubeconfig has an extension that describes the process (as minikube's has), so there is no
//! other file to keep in step with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use evenkeel::kube;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::{Deserialize, Serialize};

/// The name of the extension.
const EXTENSION: &str = "evenkeel.dev/cluster";

/// How long a cluster may take to respond.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the kubeconfig records about the process of a cluster.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    /// The process id.
    pub(crate) pid: u32,
    /// The arguments after `cluster start` that started it in the background; `None` if it runs in
    /// the foreground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) background: Option<Vec<String>>,
    /// The file that its log is written to, in the background.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<PathBuf>,
    /// Where its objects are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Adds the description of the process to a kubeconfig with one cluster.
///
/// # Errors
/// If the description cannot be encoded.
pub(crate) fn describe(kubeconfig: &str, process: &Process) -> anyhow::Result<String> {
    // JSON is YAML, and stays on one line.
    let process = serde_json::to_string(process)?;
    let extension = format!(
        "\n  cluster:\n    extensions:\n    - name: {EXTENSION}\n      extension: {process}\n"
    );
    Ok(kubeconfig.replacen("\n  cluster:\n", &extension, 1))
}

/// A cluster that `cluster start` started.
pub(crate) struct Cluster {
    pub(crate) url: String,
    pub(crate) process: Process,
    config: Kubeconfig,
}

impl Cluster {
    /// Reads the kubeconfig.
    ///
    /// # Errors
    /// If there is none, or `cluster start` did not write it.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        if !path.exists() {
            bail!(
                "there is no {}\nhint: run this where the cluster was started, or pass \
                 --kubeconfig FILE",
                path.display()
            );
        }
        let config = Kubeconfig::read_from(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let cluster = config.clusters.first().and_then(|named| named.cluster.as_ref());
        let process = cluster.and_then(|cluster| {
            let extensions = cluster.extensions.as_ref()?;
            let found = extensions.iter().find(|it| it.name == EXTENSION)?;
            serde_json::from_value::<Process>(found.extension.clone()).ok()
        });
        let url = cluster.and_then(|cluster| cluster.server.clone());
        let (Some(process), Some(url)) = (process, url) else {
            bail!("{} was not written by `evenkeel cluster start`", path.display());
        };
        Ok(Self { url, process, config })
    }

    /// Reads the kubeconfig and checks that its cluster runs.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) async fn running(path: &Path) -> anyhow::Result<Self> {
        let cluster = Self::read(path)?;
        match cluster.version().await {
            Ok(_) => Ok(cluster),
            Err(error) => Err(error.context(format!(
                "the cluster of {} is not running at {}",
                path.display(),
                cluster.url
            ))),
        }
    }

    /// Returns an admin client.
    ///
    /// # Errors
    /// If the kubeconfig is invalid.
    pub(crate) async fn client(&self) -> anyhow::Result<kube::Client> {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(self.config.clone(), &options).await?;
        Ok(kube::Client::try_from(config)?)
    }

    /// Returns the version that the server reports. The certificates of the kubeconfig prove that
    /// it is this cluster and no other server on the same port.
    ///
    /// # Errors
    /// If the server does not respond in time.
    pub(crate) async fn version(&self) -> anyhow::Result<String> {
        let client = self.client().await?;
        let version = tokio::time::timeout(TIMEOUT, client.apiserver_version()).await;
        let version = version.map_err(|_| anyhow!("no response within {TIMEOUT:?}"))??;
        Ok(version.git_version)
    }

    /// Returns the text of a path such as `/readyz?verbose`, also if its status is not 200.
    ///
    /// # Errors
    /// If the server does not respond in time.
    pub(crate) async fn text(&self, path: &str) -> anyhow::Result<String> {
        let request = http::Request::get(path).body(Vec::new())?;
        let client = self.client().await?;
        let text = tokio::time::timeout(TIMEOUT, client.request_text(request)).await;
        Ok(text.map_err(|_| anyhow!("no response within {TIMEOUT:?}"))??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_found_in_the_kubeconfig() {
        let text = "apiVersion: v1\nkind: Config\nclusters:\n- name: e\n  cluster:\n    server: \
                    \"https://127.0.0.1:1\"\n";
        let process = Process {
            pid: 7,
            background: Some(vec!["--nodes=2".to_owned()]),
            log: Some("/logs/it's.log".into()),
            data_dir: None,
        };
        let path = std::env::temp_dir().join(format!("evenkeel-connect-{}", std::process::id()));
        std::fs::write(&path, describe(text, &process).unwrap()).unwrap();
        let found = Cluster::read(&path).unwrap();
        std::fs::write(&path, text).unwrap();
        let foreign = Cluster::read(&path).err().unwrap().to_string();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.process, process);
        assert_eq!(found.url, "https://127.0.0.1:1");
        assert!(foreign.contains("was not written by"), "{foreign}");
    }
}
