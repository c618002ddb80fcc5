//! Namespaces: deleted once they are empty.

use serde_json::Value;

use crate::context::{Deletion, FailedPrecondition, Hooks, RequestContext};
use crate::object::{Metadata as _, set_finalizers, set_meta};
use crate::request::delete_options::{DeleteOptions, FOREGROUND, ORPHAN, Policy};
use crate::status::Status;

/// The hooks of Namespaces.
pub(super) struct Namespaces;

impl Hooks for Namespaces {
    /// A namespace is deleted when the finalizers of its spec, which stand for its content, are
    /// gone.
    fn should_delete_during_update(&self, namespace: &Value) -> bool {
        !has_content(namespace)
    }

    /// Upstream checks the preconditions of a namespace earlier and with another message.
    fn failed_precondition(
        &self,
        cx: &RequestContext,
        name: &str,
        failed: &FailedPrecondition<'_>,
    ) -> Status {
        let FailedPrecondition { what, requested, stored } = failed;
        let why = format!(
            "Precondition failed: {what} in precondition: {requested}, {what} in object meta: \
             {stored}"
        );
        Status::conflict(cx.resource.group_resource(), name, &why)
    }

    /// Marks a namespace as Terminating; it is deleted like other objects once it is empty.
    fn decide_deletion(
        &self,
        cx: &RequestContext,
        options: &DeleteOptions,
        namespace: &Value,
    ) -> Option<Deletion> {
        if namespace.is_deleting() {
            return has_content(namespace).then_some(Deletion::Keep);
        }
        let mut next = namespace.clone();
        let now = cx.core.clock_rng.timestamp();
        set_meta(&mut next, "deletionTimestamp", Some(now.into()));
        next["status"]["phase"] = "Terminating".into();
        let mut finalizers: Vec<String> =
            namespace.finalizers().into_iter().map(str::to_owned).collect();
        for (name, policy, unless_orphaned) in
            [(ORPHAN, Policy::Orphan, false), (FOREGROUND, Policy::Foreground, true)]
        {
            let requested = match (options.orphan_dependents, options.policy) {
                (Some(orphan), _) => orphan != unless_orphaned,
                (None, Some(given)) => given == policy,
                (None, None) => continue,
            };
            finalizers.retain(|other| other != name);
            if requested {
                finalizers.push(name.to_owned());
            }
        }
        set_finalizers(&mut next, finalizers);
        Some(Deletion::Mark(next))
    }
}

fn has_content(namespace: &Value) -> bool {
    let finalizers = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|all| !all.is_empty())
}
