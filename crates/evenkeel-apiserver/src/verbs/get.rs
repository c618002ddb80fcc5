//! `get`: returns one object.

use evenkeel_schema::names;
use evenkeel_types::go::Quoted;
use http::StatusCode;

use crate::context::RequestContext;
use crate::conversion;
use crate::pipeline::encode::Reply;
use crate::status::Status;

pub(crate) async fn handle(cx: &RequestContext) -> Result<Reply, Status> {
    check_name(cx.name())?;
    let version = cx.query.get("resourceVersion").unwrap_or("");
    if !version.is_empty() {
        let requested = super::list::parse_version(version)?;
        let current = cx.core.store.revision();
        if requested > current {
            return Err(Status::too_large_resource_version(requested, current));
        }
    }
    match cx.resource.table.get(&cx.key(cx.name())) {
        Some(record) => {
            let record = conversion::record(&cx.core, &cx.resource, record).await?;
            Ok(Reply::record(cx, StatusCode::OK, record))
        }
        None => Err(Status::not_found(cx.resource.group_resource(), cx.name())),
    }
}

/// Rejects names that are not a path segment.
fn check_name(name: &str) -> Result<(), Status> {
    let why = match names::path_segment(name, false).first() {
        Some(why) => why.clone(),
        None => return Ok(()),
    };
    Err(Status::bad_request(format!("Name parameter invalid: {}: {why}", Quoted(name))))
}
