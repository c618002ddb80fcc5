//! Stage 8: plugins may refuse the object.

use serde_json::Value;

use super::validate_schema::Checked;
use crate::admission::{Attributes, Operation};
use crate::call::Call;
use crate::service::Reservation;
use crate::status::Status;

/// An object that may be stored.
pub(crate) struct Admitted {
    pub(super) object: Value,
    pub(super) reservation: Option<Reservation>,
}

impl Admitted {
    pub(crate) fn value(&self) -> &Value {
        &self.object
    }

    /// A stored object with a mark of the server's own on it: of deletion, of a node. Nothing of
    /// it comes from a client, so there is nothing to admit.
    pub(crate) fn marked(object: Value) -> Self {
        Self { object, reservation: None }
    }
}

pub(crate) fn on_create(call: &Call, object: Checked) -> Result<Admitted, Status> {
    validate(call, Operation::Create, object, None)
}

pub(crate) fn on_update(call: &Call, object: Checked, old: &Value) -> Result<Admitted, Status> {
    validate(call, Operation::Update, object, Some(old))
}

/// Deletion is admitted by both kinds of plugins at once.
pub(crate) fn on_delete(call: &Call, old: &Value) -> Result<(), Status> {
    let mut attributes =
        Attributes { call, operation: Operation::Delete, object: None, old: Some(old) };
    call.core.admission.mutate(&mut attributes)?;
    call.core.admission.validate(&attributes)
}

fn validate(
    call: &Call,
    operation: Operation,
    Checked { mut object, reservation }: Checked,
    old: Option<&Value>,
) -> Result<Admitted, Status> {
    let attributes = Attributes { call, operation, object: Some(&mut object), old };
    call.core.admission.validate(&attributes)?;
    Ok(Admitted { object, reservation })
}
