//! The likely cause of a violation, and what in the framework prevents it.

use super::Finding;
use crate::oracle::Oracle;
use crate::plan::Effect;

/// Returns the hint for a finding.
pub(super) fn hint(finding: &Finding) -> &'static str {
    let effect = finding.plan.faults.first().map(|fault| fault.effect);
    match (finding.violation.oracle, effect) {
        (Oracle::Determinism, _) => {
            "the operator uses a clock, randomness or an order that is not injected; use the \
             manager's clock and seed, and maps with an order"
        }
        (Oracle::Panics, _) => {
            "a case that the reconciler does not expect; return an error instead"
        }
        (Oracle::Idempotency, _) => {
            "the reconciler writes unconditionally, or writes a value that differs each time (a \
             timestamp, a random name); `cx.status(..)` and `cx.apply_owned(..)` send nothing if \
             nothing differs"
        }
        (Oracle::Secrets, _) => "data of a Secret is copied; refer to the Secret by name",
        (Oracle::Deletion, _) => {
            "a finalizer is removed only if an earlier step succeeds that cannot succeed any more; \
             clean up idempotently with `cx.finalize(..)`"
        }
        (Oracle::Leftovers, _) => {
            "an object has no owner reference and is not deleted by a finalizer; `cx.apply_owned(..)` \
             sets the owner"
        }
        (Oracle::Ownership, _) => {
            "objects are found by label or name; check the controller's uid before a deletion"
        }
        (Oracle::Status, _) => {
            "the status is written before the work is done, or by an early return; write it last \
             with `cx.status(..)`, which sets observedGeneration"
        }
        (_, Some(Effect::CrashAfter | Effect::CrashBefore | Effect::StaleRestart)) => {
            "the reconciler depends on two writes that happen together, or on memory that is lost; \
             derive every step from the state of the cluster"
        }
        (_, Some(Effect::LoseResponse)) => {
            "the write was committed although the client saw an error; make the retry idempotent: a \
             deterministic name, or server-side apply"
        }
        (_, Some(Effect::Touch | Effect::Reject(_))) => {
            "an error of a write is ignored; return it, so that the object is requeued"
        }
        (_, Some(Effect::Lag(_) | Effect::LagUntilWrite)) => {
            "a decision is made from an older state of the cache; use the manager's client, which \
             reads its own writes, and deterministic names"
        }
        (_, Some(Effect::Gap | Effect::Cut | Effect::Expire)) => {
            "the reconciler depends on seeing every state; compare the desired with the actual state"
        }
        (_, Some(Effect::DeleteObject | Effect::RecreateObject)) => {
            "changes of a child do not cause a reconcile, or are not compared; declare the type with \
             `.owns::<K>()`"
        }
        _ => "see the timeline",
    }
}
