//! `deletecollection`: every object a selection meets, one after the other.

use super::delete::{Deletion, delete_named};
use super::list::{Filter, select};
use crate::call::Call;
use crate::pipeline::encode::Answer;
use crate::query::ListOptions;
use crate::status::Status;

pub(super) async fn answer(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = ListOptions { watch: false, ..ListOptions::parse(&call.query)? };
    let filter = Filter::parse(&call.resource, &options)?;
    let deletion = Deletion::parse(call, body)?;
    let list = select(call, &options, &filter).await?;
    for record in list.records() {
        call.check_client()?;
        let item = call.at(record.key.namespace());
        match delete_named(&item, record.key.name(), &deletion).await {
            Ok(_) => {}
            // Somebody else was faster, which is what was wanted.
            Err(status) if status.code() == 404 => {}
            Err(status) => return Err(status),
        }
    }
    Ok(Answer::List(list))
}
