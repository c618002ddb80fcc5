//! Server-side apply: merges a configuration, and leaves other fields to their managers.

use evenkeel_types::go;
use http::StatusCode;
use serde_json::Value;

use super::super::create::{self, check_namespace};
use super::super::update::{check_named, may_create, ok_reply, replace_managed};
use crate::context::RequestContext;
use crate::json;
use crate::object::Metadata as _;
use crate::pipeline::encode::Reply;
use crate::pipeline::manage;
use crate::pipeline::persist::{self, Persisted};
use crate::pipeline::prepare::Part;
use crate::request::query::{FieldValidation, WriteOptions};
use crate::status::Status;
use crate::yaml::{self, already_set};

/// Attempts when the object is created or deleted concurrently.
const ATTEMPTS: usize = 8;

pub(crate) async fn handle(
    cx: &RequestContext,
    body: &[u8],
    options: &WriteOptions,
) -> Result<Reply, Status> {
    let config = Config::parse(body);
    let part = Part::of(cx.subresource.as_deref());
    for _ in 0..ATTEMPTS {
        let exists = cx.resource.table.get(&cx.key(cx.name())).is_some();
        let creates = part == Part::Main || (part == Part::Status && may_create(cx));
        if exists || !creates {
            let done = persist::update(cx, cx.name(), options.dry_run, |old, record| {
                let config = config.as_ref().map_err(Status::clone)?;
                let mut managed = manage::on_apply(cx, &config.value, Some(old), options)?;
                config.report(cx, options.field_validation)?;
                check_namespace(cx, managed.value_mut())?;
                check_named(cx, managed.value())?;
                let version = managed.value().meta_str("resourceVersion").to_owned();
                replace_managed(cx, managed, &version, old, record, part)
            })
            .await;
            return match done {
                // Deleted concurrently: create it.
                Err(status) if status.code() == 404 && creates => continue,
                other => other.map(ok_reply),
            };
        }
        let config = config.as_ref().map_err(Status::clone)?;
        match create(cx, config, options).await {
            Err(status) if status.reason() == "AlreadyExists" => {}
            other => return other,
        }
    }
    Err(Status::modified(cx.resource.group_resource(), cx.name()))
}

async fn create(
    cx: &RequestContext,
    config: &Config,
    options: &WriteOptions,
) -> Result<Reply, Status> {
    let mut managed = manage::on_apply(cx, &config.value, None, options)?;
    config.report(cx, options.field_validation)?;
    let uid = managed.value().meta_str("uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was \
             found"
        );
        return Err(Status::conflict(cx.resource.group_resource(), cx.name(), &why));
    }
    check_namespace(cx, managed.value_mut())?;
    check_named(cx, managed.value())?;
    Ok(match create::create_managed(cx, managed, options).await? {
        Persisted::Stored(record) => Reply::Record(StatusCode::CREATED, record),
        Persisted::Value(value) => Reply::Object(StatusCode::CREATED, value),
    })
}

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
