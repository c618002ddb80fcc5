//! State shared by all requests of one server.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Chain, Components, HookTable};
use crate::access::AccessTrail;
use crate::audit::Audit;
use crate::authz::{Attributes, Authorizer, Decision};
use crate::clock_rng::ClockRng;
use crate::compactor::Compactor;
use crate::event_ttl::EventTtl;
use crate::flow_control::FlowControl;
use crate::metrics::Metrics;
use crate::rbac::Rbac;
use crate::registry::Registry;
use crate::registry::custom::Crds;
use crate::request::authenticate::{Authenticator, State};
use crate::storage::Store;
use crate::throttle::Throttle;
use crate::webhook;

/// The state behind the in-process service and the listener.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) compactor: Compactor,
    pub(crate) registry: Registry,
    pub(crate) crds: Crds,
    pub(crate) clock_rng: Arc<ClockRng>,
    pub(crate) admission: Chain,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Box<dyn Authorizer>,
    /// Records the decisions of the authorizer, if wanted.
    pub(crate) access: Option<AccessTrail>,
    /// Records requests, if wanted.
    pub(crate) audit: Option<Arc<Audit>>,
    /// The roles and bindings, whatever the authorizer.
    pub(crate) rbac: Rbac,
    pub(crate) hooks: HookTable,
    pub(crate) flow_control: FlowControl,
    pub(crate) event_ttl: EventTtl,
    /// The caller of webhooks.
    pub(crate) webhooks: webhook::Client,
    pub(crate) metrics: Metrics,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) components: Components,
    /// Becomes true when the server stops, so that open watches end.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Core {
    /// Decides a check that is part of a request, and records it in the access trail.
    pub(crate) fn decide(&self, check: &Attributes<'_>) -> Decision {
        let decision = self.authorizer.decide(check);
        self.record_access(check, decision == Decision::Allow);
        decision
    }

    /// Returns whether a permission is granted without which the request may be allowed, too. It is
    /// recorded only if it is granted: a denied one is not needed for all requests.
    pub(crate) fn decide_optional(&self, check: &Attributes<'_>) -> bool {
        let allowed = self.authorizer.decide(check) == Decision::Allow;
        if allowed {
            self.record_access(check, true);
        }
        allowed
    }

    /// Records a check in the access trail.
    pub(crate) fn record_access(&self, check: &Attributes<'_>, allowed: bool) {
        if let Some(trail) = &self.access {
            trail.record(check, allowed);
        }
    }

    /// Returns what tokens are checked against now.
    pub(crate) fn authentication_state(&self) -> State<'_> {
        State { store: &self.store, now: self.clock_rng.now() }
    }

    /// Returns a built-in resource in its first version.
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
