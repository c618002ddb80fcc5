//! Manifests as YAML, for `kubectl apply -f`.

use kube::CustomResourceExt;
use serde::Serialize;

/// An object cannot be serialized as YAML.
#[derive(Debug, thiserror::Error)]
#[error("cannot serialize the object as YAML")]
pub struct ManifestError(#[source] serde_saphyr::SerializeError);

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
    serde_saphyr::to_string(object).map_err(ManifestError)
}

/// Returns the YAML of the CRD of `K`.
///
/// An operator that calls [`ManagerBuilder::crd`](crate::manager::ManagerBuilder::crd) prints it
/// for the flag `--print-crds`.
///
/// # Errors
/// When the CRD cannot be serialized.
pub fn crd_yaml<K: CustomResourceExt>() -> Result<String, ManifestError> {
    yaml(&K::crd())
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
