//! The configuration of a server-side apply.

use evenkeel_types::go;
use serde_json::Value;

use crate::context::RequestContext;
use crate::json;
use crate::request::query::FieldValidation;
use crate::status::Status;
use crate::yaml::{self, already_set};

/// An applied configuration.
pub(crate) struct Config {
    pub(crate) value: Value,
    /// Duplicate keys, as messages of a strict decoder; for YAML only the first.
    duplicates: Vec<String>,
}

impl Config {
    /// Parses a configuration: YAML, which includes JSON.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Status> {
        let (mut value, duplicates) = match json::decode(body) {
            Ok((value, duplicates)) if duplicates.is_empty() => (value, Vec::new()),
            Ok((value, _)) => (value, duplicates_in_json(body)),
            Err(_) => {
                let value = yaml::decode(body).map_err(|why| {
                    Status::bad_request(format!(
                        "error decoding YAML: error converting YAML to JSON: yaml: {why}"
                    ))
                })?;
                let duplicates = match json::decode_first(body) {
                    Some(_) => duplicates_in_json(body),
                    None => yaml::duplicate_key(body).into_iter().collect(),
                };
                (value, duplicates)
            }
        };
        json::normalize_floats(&mut value);
        match value {
            Value::Object(_) => Ok(Self { value, duplicates }),
            // Treated like an empty object.
            Value::Null => Err(Status::bad_request("invalid object type: /, Kind=")),
            other => Err(Status::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
                 unmarshal {} into Go value of type map[string]interface {{}}",
                go::json_kind(&other)
            ))),
        }
    }

    /// Warns of or rejects duplicate keys. Unknown fields have been rejected before.
    pub(crate) fn report(
        &self,
        cx: &RequestContext,
        validation: FieldValidation,
    ) -> Result<(), Status> {
        match validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                self.duplicates.iter().for_each(|duplicates| cx.warnings.add(duplicates.clone()));
            }
            FieldValidation::Strict if self.duplicates.is_empty() => {}
            FieldValidation::Strict => {
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal \
                     errors:\n  {}",
                    self.duplicates.join("\n  ")
                )));
            }
        }
        Ok(())
    }
}

fn duplicates_in_json(body: &[u8]) -> Vec<String> {
    let duplicates = json::duplicate_keys(body).into_iter();
    duplicates.map(|duplicate| already_set(duplicate.line, &duplicate.key)).collect()
}
