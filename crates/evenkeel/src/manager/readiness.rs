//! Readiness of a manager.

use crate::cache::Cache;
use crate::controller::{ControllerHandle, Phase};
use crate::leader::LeaderElectionHandle;
use crate::webhook::Webhooks;

/// The readiness checks of an operator.
///
/// ```no_run
/// # fn example(manager: &evenkeel::Manager) {
/// let readiness = manager.readiness();
/// if !readiness.is_ready() {
///     for check in readiness.checks {
///         println!("{}: {}", check.name, check.problem.as_deref().unwrap_or("ok"));
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readiness {
    /// Every check, controllers first.
    pub checks: Vec<Check>,
}

/// One readiness check.
///
/// ```
/// use evenkeel::manager::{Check, Readiness};
///
/// fn failing(readiness: &Readiness) -> impl Iterator<Item = &Check> {
///     readiness.checks.iter().filter(|check| check.problem.is_some())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The name of the check.
    pub name: String,
    /// Why the check fails, if it does.
    pub problem: Option<String>,
}

impl Readiness {
    /// Returns whether all checks pass.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.problem.is_none())
    }
}

pub(super) fn of(
    controllers: &[ControllerHandle],
    cache: &Cache,
    elections: &[LeaderElectionHandle],
    webhooks: &Webhooks,
) -> Readiness {
    let controllers = controllers.iter().map(|controller| Check {
        name: format!("controller {}", controller.name()),
        problem: match controller.phase() {
            // A standby is ready to take over.
            Phase::Running | Phase::Standby => None,
            Phase::New => Some("not started".to_owned()),
            Phase::Syncing(sources) => Some(format!("waiting for {}", sources.join(", "))),
            Phase::SyncTimedOut(error) => Some(error),
            Phase::Stopped => Some("stopped".to_owned()),
        },
    });
    let informers = cache.health().into_iter().map(|health| Check {
        name: format!("cache of {}", health.kind),
        problem: match health.failure {
            _ if health.absent => None,
            Some(failure) => Some(failure.to_string()),
            None => (!health.synced).then(|| "not synced".to_owned()),
        },
    });
    let elections = elections.iter().map(|election| Check {
        name: format!("leader election {}", election.lease()),
        problem: election.check().err(),
    });
    let webhooks = webhooks.problem().into_iter();
    let webhooks = webhooks.map(|problem| Check { name: "webhooks".to_owned(), problem });
    Readiness { checks: controllers.chain(informers).chain(elections).chain(webhooks).collect() }
}
