//! Validates ConfigMaps and Secrets.

use evenkeel_types::base64;
use serde_json::Value;

use super::checks;
use super::read::Read;
use super::report::{Errors, Path};
use super::{builtin_create, builtin_update};
use crate::names::{self, NameRule};

/// Maximum total size of the values of one object.
const MAX_BYTES: usize = 1024 * 1024;
const IMMUTABLE_SET: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(errs: &mut Errors, config: &Value) {
    builtin_create(errs, config, true, NameRule::Subdomain);
    let (data, binary) = (Path::root("data"), Path::root("binaryData"));
    let mut bytes = 0;
    for (key, value) in config.entries("data") {
        errs.reasons(data.key(key), key, names::config_key(key));
        if has_key(config.at("binaryData"), key) {
            errs.invalid(data.key(key), key, "duplicate of key present in binaryData");
        }
        bytes += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in config.entries("binaryData") {
        errs.reasons(binary.key(key), key, names::config_key(key));
        bytes += decoded_len(value.as_str().unwrap_or_default());
    }
    if bytes > MAX_BYTES {
        errs.too_long(Path::root(""), MAX_BYTES);
    }
}

pub(super) fn config_map_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    check_immutable(errs, new, old, &["data", "binaryData"]);
    config_map(errs, new);
}

pub(super) fn secret(errs: &mut Errors, secret: &Value) {
    builtin_create(errs, secret, true, NameRule::Subdomain);
    let path = Path::root("data");
    let mut bytes = 0;
    for (key, value) in secret.entries("data") {
        errs.reasons(path.key(key), key, names::config_key(key));
        bytes += decoded_len(value.as_str().unwrap_or_default());
    }
    if bytes > MAX_BYTES {
        errs.too_long(path, MAX_BYTES);
    }
    secret_type(errs, path, secret);
}

fn secret_type(errs: &mut Errors, path: Path<'_>, secret: &Value) {
    let data = secret.at("data");
    let require = |errs: &mut Errors, key: &str| errs.required(path.key(key), "");
    match secret.text("type") {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if secret.at("metadata").at("annotations").text(ACCOUNT).is_empty() {
                let path = Path::root("metadata");
                errs.required(path.child("annotations").key(ACCOUNT), "");
            }
        }
        "kubernetes.io/dockercfg" => docker_config(errs, path, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => docker_config(errs, path, data, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has_key(data, "username") && !has_key(data, "password") => {
            require(errs, "username");
            require(errs, "password");
        }
        "kubernetes.io/ssh-auth" if data.text("ssh-privatekey").is_empty() => {
            require(errs, "ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !has_key(data, key) {
                    require(errs, key);
                }
            }
        }
        _ => {}
    }
}

/// Returns whether a map of bytes has the key. A null value counts as present.
fn has_key(data: &Value, key: &str) -> bool {
    data.get(key).is_some()
}

/// Checks that a Docker configuration is a JSON object.
fn docker_config(errs: &mut Errors, path: Path<'_>, data: &Value, key: &str) {
    let Some(encoded) = data.text_opt(key) else {
        errs.required(path.key(key), "");
        return;
    };
    let bytes = decoded(encoded);
    let reason = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let kind = match other {
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                _ => "array",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(error) => json_error(&bytes, &error),
    };
    errs.invalid(path.key(key), "<secret contents redacted>", reason);
}

/// Returns the messages of Go's JSON decoder for the most common errors.
fn json_error(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    match first {
        Some(&byte)
            if !matches!(byte, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') =>
        {
            let shown = char::from(byte);
            format!("invalid character '{shown}' looking for beginning of value")
        }
        _ => "invalid character".to_owned(),
    }
}

pub(super) fn secret_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    if new.text("type") != old.text("type") {
        errs.invalid(Path::root("type"), new.text("type"), checks::IMMUTABLE);
    }
    check_immutable(errs, new, old, &["data"]);
    secret(errs, new);
}

/// Checks that an immutable object stays immutable and keeps its data.
fn check_immutable(errs: &mut Errors, new: &Value, old: &Value, fields: &[&str]) {
    if !old.is("immutable") {
        return;
    }
    if !new.is("immutable") {
        errs.forbidden(Path::root("immutable"), IMMUTABLE_SET);
    }
    for field in fields {
        if new.at(field) != old.at(field) {
            errs.forbidden(Path::root(field), IMMUTABLE_SET);
        }
    }
}

/// Returns the decoded length of a base64 text.
pub(super) fn decoded_len(encoded: &str) -> usize {
    let padding = encoded.bytes().rev().take_while(|b| *b == b'=').count();
    (encoded.len() / 4 * 3).saturating_sub(padding)
}

/// Returns the bytes of a base64 text. Validated objects were conformed, so it is base64.
pub(super) fn decoded(encoded: &str) -> Vec<u8> {
    base64::decode(encoded).unwrap_or_default()
}
