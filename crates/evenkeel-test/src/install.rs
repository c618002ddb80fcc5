//! Installs CRDs from Rust types and from YAML.

use evenkeel::client::Error;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::TestCluster;

/// Why a CRD cannot be installed.
///
/// ```
/// use evenkeel_test::{InstallError, TestCluster};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let cluster = TestCluster::start().await;
/// let error = cluster.install_yaml("- not a CRD").await.unwrap_err();
/// assert!(matches!(error, InstallError::Parse(_)));
/// # cluster.stop().await;
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The text is not YAML of CRDs.
    #[error("cannot parse CustomResourceDefinition: {0}")]
    Parse(String),
    /// The API server rejected it.
    #[error(transparent)]
    Apply(#[from] Error),
}

impl TestCluster {
    /// Installs the CRD of a type and waits until it is established.
    ///
    /// # Errors
    /// If the API server rejects it.
    pub async fn install<K: CustomResourceExt>(&self) -> Result<(), InstallError> {
        Ok(self.client().install_crd::<K>().await?)
    }

    /// Installs all CRDs of a multi-document YAML text and waits until they are established.
    ///
    /// # Errors
    /// If the text is not YAML of CRDs, or the API server rejects one.
    pub async fn install_yaml(&self, text: &str) -> Result<(), InstallError> {
        let crds: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(text)
            .map_err(|error| InstallError::Parse(error.to_string()))?;
        for crd in &crds {
            self.client().install_crd_from(crd).await?;
        }
        Ok(())
    }
}
