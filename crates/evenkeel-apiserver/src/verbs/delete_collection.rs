//! `deletecollection`: deletes every selected object, one after the other.

use super::list::select;
use crate::context::RequestContext;
use crate::pipeline::encode::Reply;
use crate::pipeline::{self, delete};
use crate::request::query::ListOptions;
use crate::selector::Filter;
use crate::status::Status;

pub(super) async fn handle(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let options = ListOptions { watch: false, ..ListOptions::parse(&cx.query)? };
    let filter = Filter::parse(&cx.resource, &options.label_selector, &options.field_selector)?;
    let deletion = delete::parse_options(cx, body)?;
    let list = select(cx, &options, &filter).await?;
    for record in list.records() {
        cx.check_cancelled()?;
        let item = cx.in_namespace(record.key.namespace());
        match pipeline::delete(&item, record.key.name(), &deletion).await {
            Ok(_) => {}
            // Deleted concurrently.
            Err(status) if status.code() == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(Reply::List(list))
}
