//! Stage 6: plugins may change the object.

use evenkeel_kinds::defaults::Applied;
use serde_json::Value;

use super::decode;
use super::manage::Managed;
use crate::admission::{Attributes, Operation};
use crate::call::Call;
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

pub(crate) fn on_create(call: &Call, object: Managed) -> Result<Mutated, Status> {
    mutate(call, Operation::Create, object, None)
}

pub(crate) fn on_update(call: &Call, object: Managed, old: &Value) -> Result<Mutated, Status> {
    mutate(call, Operation::Update, object, Some(old))
}

fn mutate(
    call: &Call,
    operation: Operation,
    Managed { mut object, applied }: Managed,
    old: Option<&Value>,
) -> Result<Mutated, Status> {
    let mut attributes = Attributes { call, operation, object: Some(&mut object), old };
    call.core.admission.mutate(&mut attributes)?;
    decode::warn_of_owners(call, &mut object, " after mutating admission happens");
    Ok(Mutated { object, applied })
}
