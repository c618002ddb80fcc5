//! The errors of requests that a fault rejects, in the words of kube-apiserver.

use super::place::Place;
use crate::status::{GroupResource, Status};

/// Returns the error of a rejected request.
pub(crate) fn rejection(place: &Place, code: u16) -> Status {
    let resource = place.resource.split('/').next().unwrap_or_default();
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let what = GroupResource { group, resource };
    let name = place.object.rsplit('/').next().unwrap_or_default();
    match code {
        401 => Status::unauthorized(),
        403 => Status::forbidden(what, name, "injected by the fault plan"),
        409 => Status::modified(what, name),
        429 => Status::overloaded(),
        503 => Status::unavailable(),
        504 => Status::timed_out(),
        _ => Status::internal("injected by the fault plan"),
    }
}

/// Returns the error of a watch or a continue token that has expired.
pub(crate) fn expired(place: &Place) -> Status {
    match place.token() {
        Some(token) => Status::continue_expired(token.to_owned()),
        None => Status::expired("The resourceVersion for the provided watch is too old."),
    }
}
