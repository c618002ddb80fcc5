//! Mutating admission.

use evenkeel_kinds::defaults::Applied;
use serde_json::Value;

use super::checks::{check_name, check_namespace};
use super::decode;
use super::manage::Managed;
use crate::context::{Attributes, Operation, RequestContext};
use crate::request::route::Verb;
use crate::status::Status;

/// An object after mutating admission.
pub(crate) struct Mutated {
    pub(super) object: Value,
    pub(super) applied: Applied,
}

impl Mutated {
    pub(crate) fn value(&self) -> &Value {
        &self.object
    }
}

pub(crate) async fn on_create(cx: &RequestContext, object: Managed) -> Result<Mutated, Status> {
    let mutated = mutate(cx, Operation::Create, object, None).await?;
    // A POST ignores the name in the URL of a custom resource.
    if cx.name.is_some() && cx.verb != Verb::Create {
        check_name(cx, mutated.value())?;
    }
    Ok(mutated)
}

pub(crate) async fn on_update(
    cx: &RequestContext,
    object: Managed,
    old: &Value,
) -> Result<Mutated, Status> {
    mutate(cx, Operation::Update, object, Some(old)).await
}

/// Runs mutating admission of an object that is not stored, such as a Scale or a review.
pub(crate) async fn unstored(
    cx: &RequestContext,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    cx.core.admission.mutate(&mut Attributes::new(cx, operation, Some(object), old)).await
}

/// Wraps an object that a write to its Scale has changed; the Scale was admitted.
pub(crate) fn scaled(Managed { object, applied }: Managed) -> Mutated {
    Mutated { object, applied }
}

async fn mutate(
    cx: &RequestContext,
    operation: Operation,
    Managed { mut object, applied }: Managed,
    old: Option<&Value>,
) -> Result<Mutated, Status> {
    let mut attributes = Attributes::new(cx, operation, Some(&mut object), old);
    cx.core.admission.mutate(&mut attributes).await?;
    // Webhooks may have changed what was checked before.
    check_namespace(cx, &mut object)?;
    decode::warn_duplicate_owners(cx, &mut object, " after mutating admission happens");
    Ok(Mutated { object, applied })
}
