//! When the cluster is at rest.

use std::time::Duration;

use crate::plan::{Effect, Plan};
use crate::simulation::Config;

/// How long the cluster must not change to be at rest.
pub(super) const QUIET: Duration = Duration::from_secs(15);

/// The same if a fault hits watches: longer than a watch of the operator lasts, and longer than the
/// longest delay before a watch is opened again.
const QUIET_WATCHES: Duration = Duration::from_secs(60);

/// The same if a watch is silent: it may be the list of a start, for which the runtime waits 65 seconds
/// before it is repeated.
const QUIET_SILENT: Duration = Duration::from_secs(100);

/// Returns how long the cluster must not change to be at rest.
pub(crate) fn quiet(config: &Config, plan: &Plan) -> Duration {
    let quiet = match plan.hits_watches() {
        _ if plan.faults.iter().any(|fault| fault.effect == Effect::Freeze) => QUIET_SILENT,
        true => QUIET_WATCHES,
        false => QUIET,
    };
    quiet.max(config.quiet).max(plan.longest_retry())
}
