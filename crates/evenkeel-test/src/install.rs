//! Custom resource definitions, from types and from files.

use evenkeel::client::Error;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::TestCluster;

/// A definition that could not be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The text is not a definition.
    #[error("this is not a CustomResourceDefinition: {0}")]
    Parse(String),
    /// The API server refused it.
    #[error(transparent)]
    Apply(#[from] Error),
}

impl TestCluster {
    /// Installs the definition of a type and waits until it is served.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn install<K: CustomResourceExt>(&self) -> Result<(), InstallError> {
        Ok(self.client().install_crd::<K>().await?)
    }

    /// Installs every definition of a YAML text and waits until they are served.
    ///
    /// # Errors
    /// When the text is not YAML of definitions, or the API server refuses one.
    pub async fn install_yaml(&self, text: &str) -> Result<(), InstallError> {
        let definitions: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(text)
            .map_err(|error| InstallError::Parse(error.to_string()))?;
        for definition in &definitions {
            self.client().install_crd_from(definition).await?;
        }
        Ok(())
    }
}
