//! The likely cause of a finding, and what in the framework prevents it.

use super::Finding;
use crate::oracle::Oracle;
use crate::plan::{Effect, Fault};

/// What to look for and what to use instead.
pub(super) struct Hint {
    pub(super) cause: String,
    pub(super) prevention: &'static str,
}

/// Returns the hint for a finding.
pub(super) fn hint(finding: &Finding) -> Hint {
    match by_oracle(finding.violation.oracle) {
        Some((cause, prevention)) => Hint { cause: cause.to_owned(), prevention },
        None => by_fault(finding.plan.faults.first()),
    }
}

/// Returns the hint where the oracle alone shows the cause.
fn by_oracle(oracle: Oracle) -> Option<(&'static str, &'static str)> {
    Some(match oracle {
        Oracle::Determinism => (
            "the operator uses a clock, randomness or an order that is not injected",
            "`cx.clock()`, the manager's seed, and maps with an order",
        ),
        Oracle::Panics => (
            "a case that the operator does not expect: an index, an `unwrap()`, an overflow",
            "errors: a returned error is retried and reported; a panic of a reconcile is an error \
             of its object only",
        ),
        Oracle::Leadership => (
            "work of the leader runs on every replica, or continues after the lease was lost",
            "controllers and `Manager::spawn`, which need the lease, and `cx.client()`, which sends \
             nothing without it",
        ),
        Oracle::Isolation => (
            "a reconcile waits or retries within itself, and other objects wait for its worker",
            "a returned error, which is retried with a delay while other objects are reconciled",
        ),
        Oracle::Webhooks => (
            "a webhook with `failurePolicy: Fail` matches what the operator needs to serve it: its own \
             pods or lease, or what it writes when it starts",
            "`Manager::webhook`, whose configuration leaves out the namespace of the operator, and \
             `object_selector(..)` or `match_condition(..)` for its own writes elsewhere",
        ),
        Oracle::Permissions => (
            "the ClusterRole of the operator lacks a rule",
            "`Manager::rules`, which lists what the registered controllers need",
        ),
        Oracle::Escapes => (
            "a task is spawned that the manager does not stop, or a thread sends requests",
            "`Manager::spawn`, whose tasks end with the manager",
        ),
        Oracle::Leaks => (
            "a reconcile spawns a task or opens a watch that does not end with it",
            "`.watches(..)` and `.owns(..)`, which share one watch, and `Manager::spawn` for what \
             runs as long as the manager",
        ),
        Oracle::Idempotency | Oracle::WriteBudget => (
            "a write is sent unconditionally, with a value that differs each time (a timestamp, a \
             counter, an unordered map), or two objects write the same field",
            "`cx.status(..)` and `cx.apply_owned(..)`, which send nothing if nothing differs and \
             reject a child that another object controls",
        ),
        Oracle::Secrets => (
            "data of a Secret is copied into another object, a message or an error",
            "a reference to the Secret by name; `Redacted` for values in memory",
        ),
        Oracle::Deletion => (
            "the finalizer is removed only after a step that cannot succeed any more: it was \
             completed before, or the namespace accepts no new objects",
            "`cx.finalize(..)` with a cleanup that succeeds if there is nothing left to do",
        ),
        Oracle::Leftovers => (
            "an object has no owner reference, and no finalizer deletes it",
            "`cx.apply_owned(..)`, which sets the owner",
        ),
        Oracle::Ownership => (
            "objects are found by label or name instead of the uid of their controller, or an owner \
             reference crosses namespaces",
            "`evenkeel::owner::is_controller` and `set_controller_reference`, which check uid and \
             scope; `cx.client().delete(..)`, which deletes the object that was read",
        ),
        Oracle::Status => (
            "the status is written before the work is done, or by an early return, or only when it \
             changes",
            "`cx.status(..)` as the last write, which sets observedGeneration each time",
        ),
        Oracle::Convergence | Oracle::Transition | Oracle::Lifecycle | Oracle::Invariant => {
            return None;
        }
    })
}

/// Returns the hint of the fault that shows the bug.
fn by_fault(fault: Option<&Fault>) -> Hint {
    let Some(Fault { at, effect }) = fault else {
        return Hint {
            cause: "the new spec is compared with something other than the cluster: a phase, a \
                    generation or a name that was remembered"
                .to_owned(),
            prevention: "a reconcile that derives each write from spec and cluster, whatever was \
                         done before",
        };
    };
    let (cause, prevention) = match effect {
        Effect::CrashAfter | Effect::CrashBefore | Effect::Restart => (
            format!(
                "what follows {at} is done only by the process that sent it: a check covers the \
                 first of several writes, or progress is kept in memory"
            ),
            "checks of each child on its own; `cx.apply_owned(..)` can be repeated at no cost",
        ),
        Effect::StaleRestart => (
            format!(
                "after a restart the first list is older than {at}, and the operator acts on it: \
                 generated names, or deletions by name or label"
            ),
            "names derived from the owner, and deletions with the uid of the object that was read: \
             `cx.client().delete(..)`",
        ),
        Effect::LoseResponse => (
            format!(
                "{at} was committed although the operator got an error; its retry is not idempotent"
            ),
            "`cx.apply_owned(..)`, or a name derived from the owner, so that a retry finds the object",
        ),
        Effect::Touch | Effect::Reject(_) | Effect::Outage(_) => (
            format!("the error of {at} is ignored, or counts as final"),
            "`?` on each request: an error requeues the object with back-off",
        ),
        Effect::Lag(_) | Effect::LagUntilWrite => (
            format!(
                "a decision is made while {} lags behind the operator's own writes",
                at.resource
            ),
            "`cx.client()`, whose reads include its own writes, and names derived from the owner",
        ),
        Effect::TakeName(_) => (
            format!("{} that exists is taken for a child, or never tried again", at.resource),
            "`cx.apply_owned(..)`, which changes no object of another owner, and `?` on its error",
        ),
        Effect::EvictPod => (
            "a pod with the phase Failed counts as one that exists".to_owned(),
            "a comparison of `status.phase`: a kubelet never restarts a failed pod",
        ),
        Effect::DeleteObject | Effect::RecreateObject => (
            format!("the deletion of {} causes no reconcile, or is not noticed by it", at.resource),
            "`.owns::<K>()`, and a comparison with the object that exists",
        ),
        _ => (
            format!("the operator depends on each single event of {}", at.resource),
            "a comparison of the desired with the actual state instead of a transition",
        ),
    };
    Hint { cause, prevention }
}
