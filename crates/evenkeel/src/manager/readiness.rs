//! Whether everything that should run does.

use crate::cache::Cache;
use crate::controller::{ControllerHandle, Phase};

/// How ready an operator is, check by check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Every check, controllers first.
    pub checks: Vec<Check>,
}

/// One thing that must be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is checked.
    pub name: String,
    /// What is wrong, if anything.
    pub problem: Option<String>,
}

impl Readiness {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.problem.is_none())
    }
}

pub(super) fn of(controllers: &[ControllerHandle], cache: &Cache) -> Readiness {
    let controllers = controllers.iter().map(|controller| Check {
        name: format!("controller {}", controller.name()),
        problem: match controller.phase() {
            Phase::Running => None,
            Phase::New => Some("not started".to_owned()),
            Phase::Syncing(sources) => Some(format!("waiting for {}", sources.join(", "))),
            Phase::Stuck(error) => Some(error),
            Phase::Stopped => Some("stopped".to_owned()),
        },
    });
    let informers = cache.health().into_iter().map(|health| Check {
        name: format!("cache of {}", health.kind),
        problem: match health.trouble {
            _ if health.absent => None,
            Some(trouble) => Some(trouble.to_string()),
            None => (!health.synced).then(|| "not listed yet".to_owned()),
        },
    });
    Readiness { checks: controllers.chain(informers).collect() }
}
