//! Manifests as YAML, for `kubectl apply -f`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde::Serialize;

/// Why there is no manifest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// An object cannot be serialized as YAML.
    #[error("cannot serialize the object as YAML")]
    Yaml(#[source] serde_saphyr::SerializeError),
    /// An object cannot be serialized as JSON.
    #[error("cannot serialize the object as JSON")]
    Json(#[source] serde_json::Error),
    /// API servers reject the CRD.
    #[error("the CRD {name} is not valid: {}", errors.join("; "))]
    Crd {
        /// The name of the CRD.
        name: String,
        /// The errors of the API server.
        errors: Vec<String>,
    },
}

/// Returns the YAML of an object.
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
/// When the object cannot be serialized.
pub fn yaml(object: &impl Serialize) -> Result<String, ManifestError> {
    serde_saphyr::to_string(object).map_err(ManifestError::Yaml)
}

/// Returns the YAML of the CRD of `K`.
///
/// An operator that calls [`ManagerBuilder::crd`](crate::manager::ManagerBuilder::crd) prints it
/// for the flag `--print-crds`.
///
/// # Errors
/// When the CRD cannot be serialized, or is not valid ([`check_crd`]).
pub fn crd_yaml<K: CustomResourceExt>() -> Result<String, ManifestError> {
    let crd = K::crd();
    check_crd(&crd)?;
    yaml(&crd)
}

/// Checks a CRD as kube-apiserver 1.36 does when it is created: its names, its schemas, and the types
/// and costs of its validation rules.
///
/// ```
/// use evenkeel::prelude::*;
/// use kube::KubeSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
/// #[kube(group = "example.com", version = "v1", kind = "Cache", namespaced)]
/// #[x_kube(validation = "self.min <= self.maximum")]
/// struct CacheSpec {
///     min: i32,
///     max: i32,
/// }
///
/// let error = evenkeel::manifest::check_crd(&Cache::crd()).unwrap_err();
/// assert!(error.to_string().contains("undefined field 'maximum'"), "{error}");
/// ```
///
/// # Errors
/// When API servers reject the CRD.
pub fn check_crd(crd: &CustomResourceDefinition) -> Result<(), ManifestError> {
    let mut json = serde_json::to_value(crd).map_err(ManifestError::Json)?;
    evenkeel_schema::default_crd(&mut json);
    let errors = evenkeel_schema::validate_crd(&json);
    if errors.is_empty() {
        return Ok(());
    }
    Err(ManifestError::Crd {
        name: crd.metadata.name.clone().unwrap_or_default(),
        errors: errors.iter().map(ToString::to_string).collect(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn strings_that_yaml_1_1_would_convert_are_quoted() {
        // YAML 1.1 would parse these as booleans, numbers or null.
        let words = ["yes", "on", "n", "null", "~", "", "0755", "1:30", "1e3", "0x1f", "1_000"];
        let object = json!({ "words": words, "lines": "a\n  b\n", "brace": "{x}: #y" });
        let text = yaml(&object).unwrap();
        for word in words {
            assert!(
                text.contains(&format!("\"{word}\"")) || text.contains(&format!("'{word}'")),
                "{word:?} is not quoted:\n{text}"
            );
        }
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), object);
    }
}
