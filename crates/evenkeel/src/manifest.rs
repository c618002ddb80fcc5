//! Manifests as YAML, for `kubectl apply -f`.

use kube::CustomResourceExt;
use serde::Serialize;

/// An object that cannot be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("the object cannot be written as YAML")]
pub struct ManifestError(#[source] serde_saphyr::SerializeError);

/// The YAML of an object, as kubectl takes it.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
///
/// let mut map = ConfigMap::default();
/// map.metadata.name = Some("settings".to_owned());
/// let yaml = evenkeel::manifest::yaml(&map)?;
/// assert_eq!(yaml, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n");
/// # Ok::<(), evenkeel::manifest::ManifestError>(())
/// ```
///
/// # Errors
/// When the object does not serialize.
pub fn yaml(object: &impl Serialize) -> Result<String, ManifestError> {
    serde_saphyr::to_string(object).map_err(ManifestError)
}

/// The YAML of the CustomResourceDefinition of `K`.
///
/// An operator that calls [`ManagerBuilder::crd`](crate::manager::ManagerBuilder::crd) prints it for
/// the flag `--print-crds`.
///
/// # Errors
/// When the definition does not serialize.
pub fn crd_yaml<K: CustomResourceExt>() -> Result<String, ManifestError> {
    yaml(&K::crd())
}
