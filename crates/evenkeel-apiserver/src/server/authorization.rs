//! What authorizes the requests of a server.

use super::ApiServerBuilder;
use crate::authz::{AllowAuthenticated, Authorizer, Union};
use crate::nodes::{NodeAuthorizer, PodsByNode};
use crate::rbac::Rbac;
use crate::storage::Store;

/// What authorizes requests.
#[derive(Default)]
pub(super) struct Authorization {
    mode: Mode,
    /// Whether nodes are authorized by their pods.
    pub(super) nodes: bool,
    /// Whether the roles and bindings of kube-apiserver are left out.
    pub(super) no_bootstrap_roles: bool,
}

#[derive(Default)]
enum Mode {
    #[default]
    AllowAuthenticated,
    Rbac,
    Other(Box<dyn Authorizer>),
}

impl Authorization {
    /// Returns the authorizer; with `pods`, nodes are authorized, too.
    pub(super) fn authorizer(
        self,
        store: &Store,
        rbac: &Rbac,
        pods: Option<&PodsByNode>,
    ) -> Box<dyn Authorizer> {
        match (self.mode, pods) {
            (Mode::AllowAuthenticated, _) => Box::new(AllowAuthenticated),
            (Mode::Rbac, None) => Box::new(rbac.clone()),
            (Mode::Rbac, Some(pods)) => {
                let nodes = NodeAuthorizer::new(store.clone(), pods.clone(), rbac.clone());
                Box::new(Union(vec![Box::new(nodes), Box::new(rbac.clone())]))
            }
            (Mode::Other(authorizer), _) => authorizer,
        }
    }
}

impl ApiServerBuilder {
    /// Authorizes requests by the stored roles and bindings. By default authenticated users may do
    /// anything.
    pub fn rbac(mut self) -> Self {
        self.authorization.mode = Mode::Rbac;
        self
    }

    /// Also authorizes the requests of nodes, by the pods that are bound to them, as the mode
    /// `Node` of kube-apiserver. Has an effect with [`rbac`](Self::rbac) only.
    pub fn authorize_nodes(mut self) -> Self {
        self.authorization.nodes = true;
        self
    }

    /// Sets whether the roles and bindings of kube-apiserver are created, which is the default.
    pub fn bootstrap_roles(mut self, created: bool) -> Self {
        self.authorization.no_bootstrap_roles = !created;
        self
    }

    /// Sets another authorizer.
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.authorization.mode = Mode::Other(Box::new(authorizer));
        self
    }
}
