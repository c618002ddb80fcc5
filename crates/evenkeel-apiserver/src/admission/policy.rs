//! `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`: evaluate the expressions of the stored
//! policies that match a request and have a matching binding.
//!
//! Policies are compiled when they are written, so a request without policies evaluates nothing.
//! They are evaluated by name, their bindings by name; upstream's order is random.

mod index;

mod matching;

mod mutating;

mod namespace;

mod params;

mod validating;

use std::sync::Arc;

pub(crate) use self::index::{Evaluator, Index, Policies};
pub(crate) use self::mutating::Mutations;
pub(crate) use self::validating::Validations;

use crate::context::{Attributes, HookFuture, Operation, Plugin};
use crate::status::Status;

/// Resources that policies never see: those that configure admission, and reviews.
const EXEMPT: [(&str, &[&str]); 3] = [
    (
        "admissionregistration.k8s.io",
        &[
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ],
    ),
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
    ),
];

/// Evaluates mutating policies.
pub(super) struct Mutating(pub(super) Arc<Index<Mutations>>);

/// Evaluates validating policies.
pub(super) struct Validating(pub(super) Arc<Index<Validations>>);

impl Plugin for Mutating {
    fn mutate_async<'a, 'b: 'a>(
        &'a self,
        attributes: &'a mut Attributes<'b>,
    ) -> Option<HookFuture<'a, Result<(), Status>>> {
        let policies = self.0.policies();
        if policies.is_empty() || attributes.operation == Operation::Delete || is_exempt(attributes)
        {
            return None;
        }
        Some(Box::pin(async move { mutating::dispatch(attributes, &policies).await }))
    }
}

impl Plugin for Validating {
    fn validate_async<'a, 'b: 'a>(
        &'a self,
        attributes: &'a Attributes<'b>,
    ) -> Option<HookFuture<'a, Result<(), Status>>> {
        let policies = self.0.policies();
        if policies.is_empty() || is_exempt(attributes) {
            return None;
        }
        Some(Box::pin(async move { validating::dispatch(attributes, &policies).await }))
    }
}

fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let resource = &attributes.cx.resource;
    let of_group = EXEMPT.iter().find(|(group, _)| **group == *resource.group);
    of_group.is_some_and(|(_, plurals)| plurals.contains(&&*resource.plural))
}
