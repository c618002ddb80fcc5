//! Stage 10: validating admission.

use serde_json::Value;

use super::prepare::Prepared;
use crate::context::{Attributes, Operation, RequestContext, Reservation};
use crate::status::Status;

/// An admitted object, which may be stored.
pub(crate) struct Admitted {
    pub(super) object: Value,
    /// What the kind has reserved.
    pub(super) reservation: Option<Box<dyn Reservation>>,
    /// What admission has reserved.
    pub(super) charge: Option<Box<dyn Reservation>>,
}

impl Admitted {
    pub(crate) fn value(&self) -> &Value {
        &self.object
    }

    /// Wraps a stored object that the server has changed, for example marked as deleted or bound to
    /// a node. Nothing in it comes from a client, so it is not admitted again.
    pub(crate) fn by_server(object: Value) -> Self {
        Self { object, reservation: None, charge: None }
    }
}

pub(crate) async fn on_create(cx: &RequestContext, object: Prepared) -> Result<Admitted, Status> {
    validate(cx, Operation::Create, object, None).await
}

pub(crate) async fn on_update(
    cx: &RequestContext,
    object: Prepared,
    old: &Value,
) -> Result<Admitted, Status> {
    validate(cx, Operation::Update, object, Some(old)).await
}

/// Runs mutating and validating admission for a delete.
pub(crate) async fn on_delete(cx: &RequestContext, old: &Value) -> Result<(), Status> {
    let mut attributes =
        Attributes { cx, operation: Operation::Delete, object: None, old: Some(old) };
    cx.core.admission.mutate(&mut attributes).await?;
    cx.core.admission.validate(&attributes).await
}

async fn validate(
    cx: &RequestContext,
    operation: Operation,
    Prepared { mut object, reservation }: Prepared,
    old: Option<&Value>,
) -> Result<Admitted, Status> {
    let attributes = Attributes { cx, operation, object: Some(&mut object), old };
    cx.core.admission.validate(&attributes).await?;
    let charge = cx.core.admission.reserve(&attributes).await?;
    Ok(Admitted { object, reservation, charge })
}
