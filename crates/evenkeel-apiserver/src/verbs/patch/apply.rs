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
use crate::yaml::{self, already_set};

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
    /// Keys that are there twice, in the words of a strict reader; of YAML, the first.
    repeated: Vec<String>,
}

impl Config {
    /// Reads a configuration: YAML, of which JSON is a part.
    pub(in crate::verbs) fn parse(body: &[u8]) -> Result<Self, Status> {
        let (mut value, repeated) = match json::decode(body) {
            Ok((value, duplicates)) if duplicates.is_empty() => (value, Vec::new()),
            Ok((value, _)) => (value, repeated_in_json(body)),
            Err(_) => {
                let value = yaml::decode(body).map_err(|why| {
                    Status::bad_request(format!(
                        "error decoding YAML: error converting YAML to JSON: yaml: {why}"
                    ))
                })?;
                let repeated = match json::decode_first(body) {
                    Some(_) => repeated_in_json(body),
                    None => yaml::repeated_key(body).into_iter().collect(),
                };
                (value, repeated)
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

    /// Warns of or refuses keys that are there twice. Unknown fields have been refused by now.
    pub(in crate::verbs) fn report(
        &self,
        call: &Call,
        validation: FieldValidation,
    ) -> Result<(), Status> {
        match validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                self.repeated.iter().for_each(|repeated| call.warnings.add(repeated.clone()));
            }
            FieldValidation::Strict if self.repeated.is_empty() => {}
            FieldValidation::Strict => {
                return Err(Status::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal \
                     errors:\n  {}",
                    self.repeated.join("\n  ")
                )));
            }
        }
        Ok(())
    }
}

fn repeated_in_json(body: &[u8]) -> Vec<String> {
    let repeated = json::repeated_keys(body).into_iter();
    repeated.map(|again| already_set(again.line, &again.key)).collect()
}
