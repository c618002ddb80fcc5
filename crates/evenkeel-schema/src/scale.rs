//! The `scale` subresource of a custom resource: the paths of replicas and selector.

use evenkeel_types::go;
use serde_json::{Map, Value};

use crate::field::Error;

/// The field paths in `subresources.scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    spec_replicas: String,
    status_replicas: String,
    label_selector: Option<String>,
}

/// The values at the paths of a scale subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleValues {
    /// Desired replicas; `None` if the field is absent.
    pub spec: Option<i64>,
    /// Observed replicas; 0 if the field is absent.
    pub status: i64,
    /// Serialized label selector; empty if the field is absent.
    pub selector: String,
}

impl Scale {
    /// Parses `subresources.scale` of a version.
    pub fn new(scale: &Value) -> Option<Self> {
        let path = |key: &str| scale.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            spec_replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            label_selector: path("labelSelectorPath").filter(|path| !path.is_empty()),
        })
    }

    /// Returns the path of the desired replicas.
    pub fn spec_path(&self) -> &str {
        &self.spec_replicas
    }

    /// Reads the scale of an object. The error is upstream's text.
    pub fn read(&self, object: &Value) -> Result<ScaleValues, String> {
        Ok(ScaleValues {
            spec: integer(object, &self.spec_replicas)?,
            status: integer(object, &self.status_replicas)?.unwrap_or(0),
            selector: match &self.label_selector {
                Some(path) => text(object, path)?.unwrap_or_default(),
                None => String::new(),
            },
        })
    }

    /// Sets the desired replicas. Returns false if a parent field is not an object.
    pub fn set_replicas(&self, object: &mut Value, replicas: i64) -> bool {
        let mut current = object;
        for step in steps(&self.spec_replicas) {
            let Some(map) = current.as_object_mut() else { return false };
            current = map.entry(step).or_insert_with(|| Value::Object(Map::new()));
        }
        *current = replicas.into();
        true
    }

    /// Validates the desired replicas. Runs after schema validation.
    pub(crate) fn validate_spec(&self, object: &Value) -> Vec<Error> {
        check_replicas(object, &self.spec_replicas).into_iter().collect()
    }

    /// Validates the observed replicas and the selector. Runs after [`Self::validate_spec`].
    pub(crate) fn validate_status(&self, object: &Value) -> Vec<Error> {
        let mut errors: Vec<Error> =
            check_replicas(object, &self.status_replicas).into_iter().collect();
        if let Some(path) = &self.label_selector
            && let Err(reason) = text(object, path)
        {
            errors.push(Error::invalid(path.as_str(), "", reason));
        }
        errors
    }
}

fn check_replicas(object: &Value, path: &str) -> Option<Error> {
    const MAX: i64 = i32::MAX as i64;
    match integer(object, path) {
        Err(reason) => Some(Error::invalid(path, 0, reason)),
        Ok(Some(n)) if n < 0 => Some(Error::invalid(path, n, "should be a non-negative integer")),
        Ok(Some(n)) if n > MAX => {
            Some(Error::invalid(path, n, format!("should be less than or equal to {MAX}")))
        }
        Ok(_) => None,
    }
}

fn integer(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(n) => Ok(Some(n)),
            None => Err(wrong_type(path, value, "int64")),
        },
    }
}

fn text(object: &Value, path: &str) -> Result<Option<String>, String> {
    match nested(object, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(value) => Err(wrong_type(path, value, "string")),
    }
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

fn nested<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let path = path.strip_prefix('.').unwrap_or(path);
    let mut value = object;
    let mut at = 0;
    for step in steps(path) {
        at += step.len() + 1;
        value = match value {
            Value::Null => return Ok(None),
            Value::Object(map) => match map.get(step) {
                Some(child) => child,
                None => return Ok(None),
            },
            other => {
                return Err(wrong_type(&path[..at - 1], other, "map[string]interface{}"));
            }
        };
    }
    Ok(Some(value))
}

fn wrong_type(path: &str, value: &Value, expected: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    let (shown, kind) = (go::format_v(value), go::type_name(value));
    format!(".{path} accessor error: {shown} is of the type {kind}, expected {expected}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scale() -> Scale {
        Scale::new(&json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }))
        .unwrap()
    }

    #[test]
    fn absent_fields_read_as_unset() {
        assert_eq!(scale().read(&json!({"spec": {}})).unwrap(), ScaleValues::default());
        let object = json!({"spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "a=b"}});
        let want = ScaleValues { spec: Some(2), status: 1, selector: "a=b".to_owned() };
        assert_eq!(scale().read(&object).unwrap(), want);
    }

    #[test]
    fn set_replicas_writes_to_the_spec_path() {
        let mut object = json!({});
        assert!(scale().set_replicas(&mut object, 4));
        assert_eq!(object, json!({"spec": {"replicas": 4}}));
        assert!(!scale().set_replicas(&mut json!({"spec": 5}), 4));
    }

    #[test]
    fn out_of_range_and_ill_typed_replicas_are_rejected() {
        let texts = |object: Value| -> Vec<String> {
            let errors = [scale().validate_spec(&object), scale().validate_status(&object)];
            errors.concat().iter().map(Error::to_string).collect()
        };
        assert_eq!(
            texts(json!({"spec": {"replicas": -1}, "status": {"replicas": 2147483648u32}})),
            [
                ".spec.replicas: Invalid value: -1: should be a non-negative integer",
                ".status.replicas: Invalid value: 2147483648: should be less than or equal to \
                 2147483647",
            ]
        );
        assert_eq!(
            texts(json!({"spec": {"replicas": "x"}, "status": {"selector": {"a": [1, null]}}})),
            [
                ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type \
                 string, expected int64",
                ".status.selector: Invalid value: \"\": .status.selector accessor error: \
                 map[a:[1 <nil>]] is of the type map[string]interface {}, expected string",
            ]
        );
        assert_eq!(
            texts(json!({"spec": 5})),
            [".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 5 is of the type \
              int64, expected map[string]interface{}"]
        );
    }
}
