//! Hashes used in names and labels.
//!
//! They are stored, so they must never change. Upstream hashes a Go dump of the template, which
//! cannot be reproduced outside of Go; this is a hash of the template as JSON with sorted keys.
//! Hashes are only compared for equality.

use evenkeel_types::hash::fnv1a;
use evenkeel_types::random::NAME_ALPHABET;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

/// Returns the `pod-template-hash` of a template; `collisions` changes it if the name is taken.
pub(crate) fn of_template(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    of_value(&serde_json::to_value(template).unwrap_or(Value::Null), collisions)
}

/// Returns the hash of a JSON value.
pub(crate) fn of_value(value: &Value, collisions: Option<i32>) -> String {
    let text = value.to_string();
    let collisions = collisions.into_iter().flat_map(i32::to_le_bytes);
    safe_encode(&fnv1a(text.bytes().chain(collisions)).to_string())
}

/// Replaces each byte by a letter or digit that forms no words, as `SafeEncodeString` upstream.
fn safe_encode(text: &str) -> String {
    let letter = |byte: u8| char::from(NAME_ALPHABET[usize::from(byte) % NAME_ALPHABET.len()]);
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_templates_have_equal_hashes_and_a_collision_changes_them() {
        let value = serde_json::json!({"spec": {"containers": [{"name": "a"}]}});
        assert_eq!(of_value(&value, None), of_value(&value.clone(), None));
        assert_ne!(of_value(&value, None), of_value(&value, Some(1)));
        assert!(of_value(&value, None).bytes().all(|byte| NAME_ALPHABET.contains(&byte)));
    }
}
