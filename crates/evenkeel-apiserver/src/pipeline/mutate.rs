//! Stage 8: mutating admission.

use evenkeel_kinds::defaults::Applied;
use serde_json::Value;

use super::decode;
use super::manage::Managed;
use crate::context::{Attributes, Operation, RequestContext};
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
    mutate(cx, Operation::Create, object, None).await
}

pub(crate) async fn on_update(
    cx: &RequestContext,
    object: Managed,
    old: &Value,
) -> Result<Mutated, Status> {
    mutate(cx, Operation::Update, object, Some(old)).await
}

async fn mutate(
    cx: &RequestContext,
    operation: Operation,
    Managed { mut object, applied }: Managed,
    old: Option<&Value>,
) -> Result<Mutated, Status> {
    let mut attributes = Attributes { cx, operation, object: Some(&mut object), old };
    cx.core.admission.mutate(&mut attributes).await?;
    decode::warn_duplicate_owners(cx, &mut object, " after mutating admission happens");
    Ok(Mutated { object, applied })
}
