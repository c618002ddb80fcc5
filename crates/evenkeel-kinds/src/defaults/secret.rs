//! Defaults of Secrets: the type, and `stringData`, which the server merges into `data`.

use evenkeel_types::base64;
use serde_json::Value;

use super::set::{self, Object};

/// Sets the defaults of a Secret.
pub(super) fn apply(secret: &mut Object) {
    set::text(secret, "type", "Opaque");
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    if plain.is_empty() {
        return;
    }
    let Some(data) = set::structure(secret, "data") else { return };
    for (key, value) in plain {
        let bytes = value.as_str().unwrap_or_default().as_bytes();
        data.insert(key, base64::encode(bytes).into());
    }
}
