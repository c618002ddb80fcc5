//! Defaults of Secrets: the type, and `stringData`, which the server merges into `data`.

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
        data.insert(key, base64(value.as_str().unwrap_or_default().as_bytes()).into());
    }
}

/// Encodes bytes with the padded standard alphabet, as Go encodes byte slices.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            if at <= chunk.len() {
                text.push(char::from(ALPHABET[(word >> (18 - 6 * at)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn bytes_are_encoded_as_padded_base64() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}?>", "w78/Pg=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
