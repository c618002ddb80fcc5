//! The class of a bug: from the oracle that is violated and the fault that shows it.

use std::fmt;

use serde::Serialize;

use crate::oracle::{Oracle, Violation};
use crate::plan::{Effect, Plan};

/// What kind of bug a finding is.
///
/// ```
/// use evenkeel_sim::BugClass;
///
/// assert_eq!(BugClass::StaleView.to_string(), "stale view");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum BugClass {
    /// A decision is made from a cache that lags behind, or from a list that is older.
    StaleView,
    /// Two writes must happen together, or something is known to one process only.
    CrashBetweenWrites,
    /// A write that was committed counts as failed.
    LostResponse,
    /// An event that is missed, an error that is ignored or a change that causes no reconcile.
    LostWakeUp,
    /// A spec is not reconciled, without any fault: another start, a rollback, a recreation.
    StateTransition,
    /// Objects of other owners are deleted, own objects are left behind or never deleted.
    Ownership,
    /// Writes without an end.
    HotLoop,
    /// The status states what is not true yet.
    PrematureStatus,
    /// Two replicas write, or one without its lease.
    Leadership,
    /// One object delays others.
    Isolation,
    /// A webhook rejects what it needs to work.
    WebhookDeadlock,
    /// A panic, or the end of the process.
    Panic,
    /// A permission that is not declared.
    MissingPermission,
    /// Data of a Secret in another place.
    ExposedSecret,
    /// Tasks or watches that grow with the number of reconciles.
    Leak,
    /// The same plan runs differently each time.
    Nondeterminism,
    /// An invariant of the author.
    BrokenInvariant,
}

impl BugClass {
    /// Returns the class of a violation under a plan.
    #[must_use]
    pub fn of(violation: &Violation, plan: &Plan) -> Self {
        match violation.oracle {
            Oracle::Convergence | Oracle::Lifecycle => {
                let classes = plan.faults.iter().map(|fault| by_effect(fault.effect, violation));
                // Of two faults, the one that changes what the operator sees is the reason.
                classes.min().unwrap_or(Self::StateTransition)
            }
            Oracle::Transition => Self::StateTransition,
            Oracle::Ownership | Oracle::Leftovers | Oracle::Deletion => Self::Ownership,
            Oracle::Idempotency | Oracle::WriteBudget => Self::HotLoop,
            Oracle::Status => Self::PrematureStatus,
            Oracle::Panics => Self::Panic,
            Oracle::Secrets => Self::ExposedSecret,
            Oracle::Leadership => Self::Leadership,
            Oracle::Isolation => Self::Isolation,
            Oracle::Webhooks => Self::WebhookDeadlock,
            Oracle::Permissions => Self::MissingPermission,
            Oracle::Determinism | Oracle::Escapes => Self::Nondeterminism,
            Oracle::Leaks => Self::Leak,
            Oracle::Invariant => Self::BrokenInvariant,
        }
    }
}

fn by_effect(effect: Effect, violation: &Violation) -> BugClass {
    // An object that is created or deleted once too often was not read; one that is missing for good
    // was to be created in a state that has passed.
    let surplus = violation.oracle == Oracle::Lifecycle || violation.expected == "absent";
    match effect {
        Effect::StaleRestart => BugClass::StaleView,
        Effect::Lag(_)
        | Effect::LagUntilWrite
        | Effect::Gap
        | Effect::Freeze
        | Effect::Reorder
        | Effect::Outage(_)
        | Effect::RestartServer
        | Effect::Restore(_)
            if surplus =>
        {
            BugClass::StaleView
        }
        Effect::CrashBefore | Effect::CrashAfter | Effect::Restart => BugClass::CrashBetweenWrites,
        Effect::LoseResponse => BugClass::LostResponse,
        _ => BugClass::LostWakeUp,
    }
}

impl fmt::Display for BugClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::StaleView => "stale view",
            Self::CrashBetweenWrites => "crash between two writes",
            Self::LostResponse => "lost response",
            Self::LostWakeUp => "lost wake-up",
            Self::StateTransition => "state transition",
            Self::Ownership => "ownership and deletion",
            Self::HotLoop => "hot loop",
            Self::PrematureStatus => "premature status",
            Self::Leadership => "leadership",
            Self::Isolation => "isolation",
            Self::WebhookDeadlock => "webhook deadlock",
            Self::Panic => "panic",
            Self::MissingPermission => "missing permission",
            Self::ExposedSecret => "exposed Secret",
            Self::Leak => "leak",
            Self::Nondeterminism => "nondeterminism",
            Self::BrokenInvariant => "broken invariant",
        })
    }
}
