//! Jobs: a deletion that orphans the pods by default.

use crate::context::Hooks;
use crate::request::delete_options::DeleteOptions;

/// The hooks of Jobs.
pub(super) struct Jobs;

impl Hooks for Jobs {
    fn delete_warning(&self, options: &DeleteOptions) -> Option<&'static str> {
        (options.policy.is_none() && options.orphan_dependents.is_none()).then_some(
            "child pods are preserved by default when jobs are deleted; set \
             propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
             suppress this warning",
        )
    }
}
