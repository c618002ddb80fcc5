//! What all requests of one server share.

use std::sync::Arc;

use tokio::sync::watch;

use crate::admission::Chain;
use crate::authn::Authenticator;
use crate::authz::Authorizer;
use crate::clock_rng::ClockRng;
use crate::compactor::Compactor;
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::registry::custom::Crds;
use crate::service::Allocator;
use crate::storage::Store;
use crate::throttle::Throttle;
use crate::verbs::Components;

/// The state behind both faces of a server.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) compactor: Compactor,
    pub(crate) registry: Registry,
    pub(crate) crds: Crds,
    pub(crate) clock_rng: ClockRng,
    pub(crate) admission: Chain,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Box<dyn Authorizer>,
    pub(crate) services: Allocator,
    pub(crate) metrics: Metrics,
    pub(crate) throttle: Throttle,
    pub(crate) components: Components,
    /// Turns true when the server stops: open watches end.
    pub(crate) stopping: watch::Receiver<bool>,
    /// A fault to be found: updates that change nothing commit all the same.
    #[cfg(feature = "_planted-bugs")]
    pub(crate) commits_no_changes: bool,
}

impl Core {
    /// A resource that is built in, by its place in the table.
    pub(crate) fn builtin(
        &self,
        group: &str,
        plural: &str,
    ) -> Option<Arc<crate::registry::resource::Resource>> {
        let snapshot = self.registry.snapshot();
        let version = &snapshot.group(group)?.versions.first()?.version;
        snapshot.resource(group, version, plural).cloned()
    }
}
