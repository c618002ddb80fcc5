//! Server-side apply: declare what you care about, leave the rest to its owners.

use evenkeel_types::go;
use http::StatusCode;
use serde_json::Value;

use super::super::create::{self, settle_namespace};
use super::super::update::{check_named, may_create, ok, replace_managed};
use crate::call::Call;
use crate::json;
use crate::object::Metadata as _;
use crate::pipeline::encode::Answer;
use crate::pipeline::manage;
use crate::pipeline::persist::{self, Persisted};
use crate::pipeline::validate_schema::Part;
use crate::query::{FieldValidation, WriteOptions};
use crate::status::Status;
use crate::yaml;

/// How often a create that finds the object there after all starts over.
const ATTEMPTS: usize = 8;

pub(super) async fn answer(
    call: &Call,
    body: &[u8],
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let config = Config::parse(body);
    let part = Part::of(call.subresource.as_deref());
    for _ in 0..ATTEMPTS {
        let exists = call.resource.table.get(&call.key(call.name())).is_some();
        let creates = part == Part::Main || (part == Part::Status && may_create(call));
        if exists || !creates {
            let done = persist::update(call, call.name(), options.dry_run, |old, record| {
                let config = config.as_ref().map_err(Status::clone)?;
                let mut managed = manage::on_apply(call, &config.value, Some(old), options)?;
                config.report(call, options.field_validation)?;
                settle_namespace(call, managed.value_mut())?;
                check_named(call, managed.value())?;
                let version = managed.value().meta_str("resourceVersion").to_owned();
                replace_managed(call, managed, &version, old, record, part)
            })
            .await;
            return match done {
                // It went away in between: create it.
                Err(status) if status.code() == 404 && creates => continue,
                other => other.map(ok),
            };
        }
        let config = config.as_ref().map_err(Status::clone)?;
        match create(call, config, options).await {
            Err(status) if status.reason() == "AlreadyExists" => {}
            other => return other,
        }
    }
    Err(Status::modified(call.resource.named(), call.name()))
}

async fn create(call: &Call, config: &Config, options: &WriteOptions) -> Result<Answer, Status> {
    let mut managed = manage::on_apply(call, &config.value, None, options)?;
    config.report(call, options.field_validation)?;
    let uid = managed.value().meta_str("uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was \
             found"
        );
        return Err(Status::conflict(call.resource.named(), call.name(), &why));
    }
    settle_namespace(call, managed.value_mut())?;
    check_named(call, managed.value())?;
    Ok(match create::create_managed(call, managed, options).await? {
        Persisted::Stored(record) => Answer::Record(StatusCode::CREATED, record),
        Persisted::Shown(value) => Answer::Object(StatusCode::CREATED, value),
    })
}

/// What somebody applies.
pub(in crate::verbs) struct Config {
    pub(in crate::verbs) value: Value,
    /// The first key that is there twice, in the words of a strict reader.
    repeated: Option<String>,
}

impl Config {
    /// Reads a configuration: YAML, of which JSON is a part.
    pub(in crate::verbs) fn parse(body: &[u8]) -> Result<Self, Status> {
        let (mut value, repeated) = match json::decode(body) {
            Ok((value, duplicates)) if duplicates.is_empty() => (value, None),
            Ok((value, _)) => (value, yaml::repeated_key(body)),
            Err(_) => {
                let value = yaml::decode(body).map_err(|why| {
                    Status::bad_request(format!(
                        "error decoding YAML: error converting YAML to JSON: yaml: {why}"
                    ))
                })?;
                (value, yaml::repeated_key(body))
            }
        };
        json::settle_floats(&mut value);
        match value {
            Value::Object(_) => Ok(Self { value, repeated }),
            // As an object without anything in it.
            Value::Null => Err(Status::bad_request("invalid object type: /, Kind=")),
            other => Err(Status::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
                 unmarshal {} into Go value of type map[string]interface {{}}",
                go::json_kind(&other)
            ))),
        }
    }

    /// Warns of or refuses a key that is there twice. Unknown fields have been refused by now.
    pub(in crate::verbs) fn report(
        &self,
        call: &Call,
        validation: FieldValidation,
    ) -> Result<(), Status> {
        match (&self.repeated, validation) {
            (None, _) | (_, FieldValidation::Ignore) => {}
            (Some(repeated), FieldValidation::Warn) => call.warnings.add(repeated.clone()),
            (Some(repeated), FieldValidation::Strict) => {
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal \
                     errors:\n  {repeated}"
                )));
            }
        }
        Ok(())
    }
}
