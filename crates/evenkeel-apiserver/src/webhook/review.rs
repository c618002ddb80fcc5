//! Decodes the review that a webhook responds with.

use evenkeel_types::go;
use serde_json::{Map, Value};

use crate::{json, yaml};

/// Decodes a body as upstream's codec does: as JSON if it begins like an object, else as YAML. The
/// error is the reason only.
pub(crate) fn decode_review(body: &[u8]) -> Result<Map<String, Value>, String> {
    let failed = |why: &str| format!("couldn't get version/kind; json parse error: {why}");
    let review = if body.trim_ascii_start().starts_with(b"{") {
        json::decode(body).map_err(|why| failed(&why))?.0
    } else {
        yaml::decode(body).map_err(|why| failed(&why))?
    };
    match review {
        Value::Object(review) => Ok(review),
        // Go decodes a null as nothing.
        Value::Null => Ok(Map::new()),
        other => Err(failed(&format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}",
            go::json_kind(&other)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_are_reviews() {
        assert!(decode_review(b" {\"a\": 1}").unwrap().contains_key("a"));
        assert!(decode_review(b"null").unwrap().is_empty());
        for (body, why) in [
            (&b"not json"[..], "cannot unmarshal string into"),
            (b"[]", "cannot unmarshal array into"),
            (b"{\"a\":", "unexpected end of JSON input"),
            (b"{}{}", "invalid character '{' after top-level value"),
        ] {
            let error = decode_review(body).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
