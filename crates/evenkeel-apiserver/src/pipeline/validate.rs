//! Stage 8: plugins may refuse the object.

use serde_json::Value;

use super::validate_schema::Checked;
use crate::admission::{Attributes, Operation};
use crate::call::Call;
use crate::status::Status;

/// An object that may be stored.
pub(crate) struct Admitted(pub(super) Value);

impl Admitted {
    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    /// An object that the server itself has changed, for a request admitted before.
    pub(crate) fn as_is(object: Value) -> Self {
        Self(object)
    }
}

pub(crate) fn on_create(call: &Call, object: Checked) -> Result<Admitted, Status> {
    validate(call, Operation::Create, object)
}

pub(crate) fn on_update(call: &Call, object: Checked) -> Result<Admitted, Status> {
    validate(call, Operation::Update, object)
}

/// Deletion is admitted by both kinds of plugins at once.
pub(crate) fn on_delete(call: &Call) -> Result<(), Status> {
    let mut attributes = Attributes { call, operation: Operation::Delete, object: None };
    call.core.admission.mutate(&mut attributes)?;
    call.core.admission.validate(&attributes)
}

fn validate(
    call: &Call,
    operation: Operation,
    Checked(mut object): Checked,
) -> Result<Admitted, Status> {
    let attributes = Attributes { call, operation, object: Some(&mut object) };
    call.core.admission.validate(&attributes)?;
    Ok(Admitted(object))
}
