//! Validating admission.

use serde_json::Value;

use super::prepare::Prepared;
use crate::context::{Attributes, Operation, RequestContext, Reservation};
use crate::request::delete_options::DeleteOptions;
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
pub(crate) async fn on_delete(
    cx: &RequestContext,
    old: &Value,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let mut attributes = Attributes::new(cx, Operation::Delete, None, Some(old));
    attributes.delete_options = Some(options);
    attributes.dry_run = options.dry_run;
    cx.core.admission.mutate(&mut attributes).await?;
    cx.core.admission.validate(&attributes).await
}

/// Runs validating admission of an object that is not stored, such as a Binding or a review.
pub(crate) async fn unstored(
    cx: &RequestContext,
    operation: Operation,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    cx.core.admission.validate(&Attributes::new(cx, operation, Some(object), old)).await
}

/// Admits an object that a write to its Scale has changed: plugins see the Scale.
pub(crate) async fn scaled(
    cx: &RequestContext,
    Prepared { object, reservation }: Prepared,
    scale: &mut Value,
    old: &Value,
) -> Result<Admitted, Status> {
    unstored(cx, Operation::Update, scale, Some(old)).await?;
    Ok(Admitted { object, reservation, charge: None })
}

async fn validate(
    cx: &RequestContext,
    operation: Operation,
    Prepared { mut object, reservation }: Prepared,
    old: Option<&Value>,
) -> Result<Admitted, Status> {
    let attributes = Attributes::new(cx, operation, Some(&mut object), old);
    cx.core.admission.validate(&attributes).await?;
    let charge = cx.core.admission.reserve(&attributes).await?;
    Ok(Admitted { object, reservation, charge })
}
