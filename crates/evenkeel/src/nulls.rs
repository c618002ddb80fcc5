//! Decodes objects as Go does: a `null` is a missing field.
//!
//! Go encodes the zero value of some types as `null`, for example `lastTransitionTime: null`, and
//! API servers store and return it. Go decodes it as the zero value of any type; serde only for
//! `Option`. If an object does not decode, it is decoded again with these rules:
//!
//! - a `null` field of a struct is skipped, so that the default of the field applies;
//! - a field without a default, a list item and a map value get the zero value of their type;
//! - in a `serde_json::Value` a `null` is kept.

mod node;

use std::collections::BTreeSet;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

use self::node::Node;
use crate::kind::Kind;

/// Decodes `bytes`, with `null` as in Go.
///
/// # Errors
/// When the bytes do not decode without nulls either; the error is that of the first attempt.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes).or_else(|error| tolerant(bytes).ok_or(error))
}

/// Returns why an object of `kind` does not decode. The errors of serde quote the value, which must
/// not be printed if it is part of a Secret.
pub(crate) fn message(kind: &Kind, error: &serde_json::Error) -> String {
    if !kind.is_confidential() {
        return error.to_string();
    }
    let (line, column) = (error.line(), error.column());
    format!("the content does not match the type, at line {line} column {column}")
}

fn tolerant<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let mut zeroed = BTreeSet::new();
    loop {
        let error = match T::deserialize(Node { value: &value, zeroed: &zeroed }) {
            Ok(object) => return Some(object),
            Err(error) => error,
        };
        // A field without a default gets the zero value in the next attempt.
        match error {
            Problem::Missing(field) if zeroed.insert(field) => {}
            Problem::Missing(_) | Problem::Other(_) => return None,
        }
    }
}

/// Why an object does not decode.
#[derive(Debug)]
enum Problem {
    /// A required field is missing.
    Missing(&'static str),
    Other(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(field) => write!(f, "missing field `{field}`"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Problem {}

impl serde::de::Error for Problem {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::Other(text.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, Service};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    use kube::core::DynamicObject;
    use serde::Deserialize;
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;

    fn decoded<T: DeserializeOwned>(value: &Value) -> T {
        decode(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_required_time_that_is_null_is_gos_zero_time() {
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "R", "message": null,
            "lastTransitionTime": null,
        });
        let condition: Condition = decoded(&condition);
        assert_eq!(condition.last_transition_time.0.to_string(), "0001-01-01T00:00:00Z");
        assert_eq!((&*condition.type_, &*condition.message), ("Ready", ""));
    }

    #[test]
    fn built_in_types_decode_with_nulls_in_every_place() {
        let service: Service = decoded(&json!({
            "metadata": {"name": "web", "labels": {"a": null}, "finalizers": [null], "uid": null,
                "ownerReferences": [{"kind": "X", "name": null, "uid": "1", "apiVersion": "v1"}]},
            "spec": {"ports": [{"port": null, "name": null, "targetPort": null}], "selector": null,
                "clusterIPs": [null, "10.0.0.1"]},
            "status": {"loadBalancer": null, "conditions": [{
                "lastTransitionTime": null, "message": "", "reason": "", "status": "True",
                "type": "A"}]},
        }));
        let spec = service.spec.unwrap();
        assert_eq!(spec.ports.unwrap()[0].port, 0);
        assert_eq!(spec.cluster_ips.unwrap(), ["", "10.0.0.1"]);
        assert_eq!(service.metadata.labels.unwrap()["a"], "");
        assert_eq!(service.status.unwrap().conditions.unwrap().len(), 1);

        let map: ConfigMap = decoded(&json!({"metadata": null, "data": {"a": null, "b": "c"}}));
        assert_eq!(map.data.unwrap(), [("a", ""), ("b", "c")].map(owned).into());
        let secret: Secret = decoded(&json!({"metadata": {}, "data": {"a": null, "b": "eA=="}}));
        assert_eq!(secret.data.unwrap()["b"].0, b"x");
        let node: Node = decoded(&json!({"status": {"capacity": {"cpu": null}, "conditions": null,
            "images": [null, {"sizeBytes": null}]}}));
        let status = node.status.unwrap();
        assert_eq!(status.capacity.unwrap()["cpu"].0, "0");
        assert_eq!(status.images.unwrap().len(), 2);
    }

    fn owned((key, value): (&str, &str)) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Plain {
        count: u32,
        ratio: f64,
        on: bool,
        name: String,
        list: Vec<i32>,
        map: BTreeMap<String, bool>,
        inner: Inner,
        #[serde(default = "seven")]
        defaulted: u8,
        optional: Option<u8>,
        kept: Value,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Inner {
        size: i64,
    }

    fn seven() -> u8 {
        7
    }

    #[test]
    fn a_users_type_gets_its_defaults_or_zero_values() {
        let plain: Plain = decoded(&json!({
            "count": null, "ratio": null, "on": null, "name": null, "list": null,
            "map": {"x": null}, "inner": {"size": null}, "defaulted": null, "optional": null,
            "kept": {"a": null, "b": [null]},
        }));
        let expected = Plain {
            count: 0,
            ratio: 0.0,
            on: false,
            name: String::new(),
            list: vec![],
            map: [("x".to_owned(), false)].into(),
            inner: Inner { size: 0 },
            defaulted: 7,
            optional: None,
            kept: json!({"a": null, "b": [null]}),
        };
        assert_eq!(plain, expected);
    }

    #[test]
    fn a_field_that_is_not_there_stays_missing() {
        #[derive(Debug, Deserialize)]
        struct Strict {
            #[expect(dead_code, reason = "only its absence matters")]
            name: String,
        }
        let error = decode::<Strict>(br#"{"other":null}"#).unwrap_err();
        assert!(error.to_string().starts_with("missing field `name`"), "{error}");
        let error = decode::<Strict>(br#"{"name":1}"#).unwrap_err();
        assert!(error.to_string().contains("line 1 column"), "the plain error: {error}");
        assert!(decode::<Strict>(b"{").is_err());
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    enum Shape {
        None,
        Round { radius: u32 },
        Named(String),
        Pair(u32, u32),
    }

    #[test]
    fn enums_and_raw_values_decode_around_a_null() {
        #[derive(Deserialize)]
        struct Holder {
            count: u32,
            shapes: Vec<Shape>,
            raw: Box<RawValue>,
        }
        let holder: Holder = decoded(&json!({
            "count": null, "raw": {"a": null},
            "shapes": ["none", {"round": {"radius": null}}, {"named": null}, {"pair": [null, 2]}],
        }));
        let expected = [
            Shape::None,
            Shape::Round { radius: 0 },
            Shape::Named(String::new()),
            Shape::Pair(0, 2),
        ];
        assert_eq!((holder.count, &holder.shapes[..]), (0, &expected[..]));
        assert_eq!(holder.raw.get(), r#"{"a":null}"#);
    }

    #[test]
    fn a_dynamic_object_keeps_the_nulls_of_its_data() {
        let object: DynamicObject = decoded(&json!({
            "apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "labels": {"l": null}},
            "spec": {"nullable": null},
        }));
        assert_eq!(object.data, json!({"spec": {"nullable": null}}));
        assert_eq!(object.metadata.labels.unwrap()["l"], "");
    }
}
