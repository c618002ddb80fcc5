//! Values of Secrets are replaced by a keyed digest: equal values stay equal, and the value cannot be
//! found from it.

use anyhow::anyhow;
use evenkeel::k8s_openapi::ByteString;
use ring::hmac;
use ring::rand::SystemRandom;
use serde_json::{Value, json};

/// The annotation in which `kubectl apply` keeps the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Replaces the values of Secrets, with a key of this process.
pub(super) struct Redactor(hmac::Key);

impl Redactor {
    /// Creates a redactor with a random key.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new() -> anyhow::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Ok(Self(key.map_err(|_| anyhow!("cannot generate a random key"))?))
    }

    /// Replaces the values of a Secret by others that are valid in the API. Other objects stay as
    /// they are.
    pub(super) fn redact_stored(&self, object: &mut Value) {
        // The API server requires these types to be JSON.
        let is_json =
            object["type"].as_str().is_some_and(|it| it.starts_with("kubernetes.io/docker"));
        self.redact(object, |digest| {
            let text = match is_json {
                true => json!({"redacted": digest}).to_string(),
                false => format!("redacted-{digest}"),
            };
            serde_json::to_value(ByteString(text.into_bytes())).unwrap_or_default()
        });
    }

    /// Replaces the values of a Secret by readable ones. Other objects stay as they are.
    pub(super) fn redact_printed(&self, object: &mut Value) {
        self.redact(object, |digest| format!("redacted-{digest}").into());
    }

    fn redact(&self, object: &mut Value, replacement: impl Fn(&str) -> Value) {
        if object["apiVersion"] != "v1" || object["kind"] != "Secret" {
            return;
        }
        if let Some(annotation) = object.pointer_mut("/metadata/annotations")
            && let Some(applied) = annotation.get_mut(LAST_APPLIED)
        {
            *applied = "redacted".into();
        }
        for value in object["data"].as_object_mut().into_iter().flat_map(|data| data.values_mut()) {
            let text = value.as_str().unwrap_or_default();
            let digest = hmac::sign(&self.0, text.as_bytes());
            let digest: String =
                digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            *value = replacement(&digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_stay_equal_and_no_value_is_kept() {
        let redactor = Redactor::new().unwrap();
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"annotations": {LAST_APPLIED: "{\"data\":{\"a\":\"aHVudGVy\"}}"}},
            "data": {"a": "aHVudGVy", "b": "aHVudGVy", "c": "b3RoZXI="},
        });
        let (mut stored, mut map) = (secret.clone(), secret.clone());
        redactor.redact_printed(&mut secret);
        redactor.redact_stored(&mut stored);
        for redacted in [&secret, &stored] {
            assert!(!redacted.to_string().contains("aHVudGVy"), "{redacted}");
            assert_eq!(redacted["data"]["a"], redacted["data"]["b"]);
            assert_ne!(redacted["data"]["a"], redacted["data"]["c"]);
        }
        map["kind"] = "ConfigMap".into();
        let before = map.clone();
        redactor.redact_printed(&mut map);
        assert_eq!(map, before);
    }

    #[test]
    fn redacted_registry_credentials_are_json() {
        let redactor = Redactor::new().unwrap();
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": "e30="},
        });
        redactor.redact_stored(&mut secret);
        let value: ByteString =
            serde_json::from_value(secret["data"][".dockerconfigjson"].clone()).unwrap();
        assert!(serde_json::from_slice::<Value>(&value.0).is_ok());
    }
}
