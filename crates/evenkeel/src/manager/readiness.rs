//! Readiness of a manager.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cache::Cache;
use crate::controller::{ControllerHandle, Phase};
use crate::kind::Kind;
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

/// A watch that delivered nothing for this long is not alive: servers end watches within a minute.
const SILENT_MAX: Duration = Duration::from_secs(300);

/// A reconcile that runs this long after its timeout blocks its thread.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Returns the checks of `/healthz` and their problems.
pub(super) fn liveness(
    controllers: &[ControllerHandle],
    elections: &[LeaderElectionHandle],
) -> Vec<(String, Option<String>)> {
    let stuck = controllers.iter().find_map(|controller| {
        let (key, running) = controller.queue().snapshot().longest_running?;
        is_stuck(running, controller.reconcile_timeout()).then(|| {
            format!(
                "the reconcile of {key} by {} has been running for {} seconds, in spite of its timeout",
                controller.name(),
                running.as_secs()
            )
        })
    });
    let elections = elections.iter().map(|it| (election_check(it), it.check_leader().err()));
    elections.chain([("workers".to_owned(), stuck)]).collect()
}

/// Returns the name of the check of an election.
fn election_check(election: &LeaderElectionHandle) -> String {
    format!("leader-election/{}", election.lease())
}

fn is_stuck(running: Duration, timeout: Duration) -> bool {
    running > timeout.saturating_add(STUCK_AFTER)
}

pub(super) fn of(
    controllers: &[ControllerHandle],
    cache: &Cache,
    elections: &[LeaderElectionHandle],
    webhooks: &Webhooks,
) -> Readiness {
    let controllers = controllers.iter().map(|controller| Check {
        name: format!("controller/{}", controller.name()),
        problem: match controller.phase() {
            // A standby is ready to take over.
            Phase::Running | Phase::Standby => None,
            Phase::New => Some("not started".to_owned()),
            Phase::Syncing(sources) => Some(format!("waiting for {}", sources.join(", "))),
            Phase::SyncTimedOut(error) => Some(error),
            Phase::Stopped => Some("stopped".to_owned()),
        },
    });
    let ages = cache.stats().types.into_iter().map(|stats| (stats.kind, stats.watch_age));
    let ages: BTreeMap<_, _> = ages.collect();
    let silent = |kind: &Kind| {
        let age = ages.get(kind).copied().flatten().filter(|age| *age > SILENT_MAX)?;
        Some(format!("the watch has delivered nothing for {} seconds", age.as_secs()))
    };
    let informers = cache.health().into_iter().map(|health| Check {
        name: format!("informer/{}", health.kind),
        problem: match health.failure {
            _ if health.absent => None,
            Some(failure) => Some(failure.to_string()),
            None if !health.synced => Some("not synced".to_owned()),
            None => silent(&health.kind),
        },
    });
    let elections = elections
        .iter()
        .map(|election| Check { name: election_check(election), problem: election.check().err() });
    let webhooks = webhooks.problem().into_iter();
    let webhooks = webhooks.map(|problem| Check { name: "webhooks".to_owned(), problem });
    Readiness { checks: controllers.chain(informers).chain(elections).chain(webhooks).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_stuck_if_its_timeout_has_no_effect() {
        let seconds = Duration::from_secs;
        assert!(!is_stuck(seconds(660), seconds(600)), "the timeout may just have elapsed");
        assert!(is_stuck(seconds(661), seconds(600)));
        assert!(!is_stuck(seconds(100_000), Duration::MAX), "there is no timeout");
    }
}
