//! `get`: one object.

use evenkeel_schema::names;
use evenkeel_types::go::Quoted;
use http::StatusCode;

use crate::call::Call;
use crate::pipeline::encode::Answer;
use crate::status::Status;

pub(super) fn answer(call: &Call) -> Result<Answer, Status> {
    check_name(call.name())?;
    let version = call.query.get("resourceVersion").unwrap_or("");
    if !version.is_empty() {
        let requested = super::list::parse_version(version)?;
        let current = call.core.store.revision();
        if requested > current {
            return Err(Status::too_large_resource_version(requested, current));
        }
    }
    match call.resource.table.get(&call.key(call.name())) {
        Some(record) => Ok(Answer::Record(StatusCode::OK, record)),
        None => Err(Status::not_found(call.resource.named(), call.name())),
    }
}

/// A name that would lead somewhere else in storage.
fn check_name(name: &str) -> Result<(), Status> {
    let why = match names::path_segment(name, false).first() {
        Some(why) => why.clone(),
        None => return Ok(()),
    };
    Err(Status::bad_request(format!("Name parameter invalid: {}: {why}", Quoted(name))))
}
