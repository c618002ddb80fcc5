//! Digests that become part of names and labels.
//!
//! They are stored, so the function and the alphabet must never change. Upstream digests Go's own
//! dump of the template, which nobody else can reproduce; here it is the template as JSON with
//! sorted keys. Nothing but equality is ever read from them.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;

/// Letters and digits that form neither words nor numbers one misreads.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The `pod-template-hash` of a template; `collisions` makes another one when it is taken.
pub(crate) fn of_template(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    of_value(&serde_json::to_value(template).unwrap_or(Value::Null), collisions)
}

/// The digest of any JSON.
pub(crate) fn of_value(value: &Value, collisions: Option<i32>) -> String {
    let mut hash = fnv(0x811c_9dc5, value.to_string().as_bytes());
    if let Some(collisions) = collisions {
        hash = fnv(hash, &collisions.to_le_bytes());
    }
    safe(&hash.to_string())
}

/// FNV-1a.
fn fnv(hash: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn safe(text: &str) -> String {
    let letter = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_templates_have_equal_digests_and_a_collision_changes_it() {
        let value = serde_json::json!({"spec": {"containers": [{"name": "a"}]}});
        assert_eq!(of_value(&value, None), of_value(&value.clone(), None));
        assert_ne!(of_value(&value, None), of_value(&value, Some(1)));
        assert!(of_value(&value, None).bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}
