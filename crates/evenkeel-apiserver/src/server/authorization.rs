//! What authorizes the requests of a server.

use super::ApiServerBuilder;
use crate::authz::{AllowAuthenticated, AlwaysDeny, Authorizer, Privileged, Union};
use crate::nodes::{NodeAuthorizer, PodsByNode};
use crate::rbac::Rbac;
use crate::storage::Store;

/// What authorizes requests.
#[derive(Default)]
pub(super) struct Authorization {
    /// `None` if `modes` do.
    other: Option<Box<dyn Authorizer>>,
    /// In order; all authenticated users may do anything if empty.
    modes: Vec<AuthorizationMode>,
    /// Whether the roles and bindings of kube-apiserver are left out.
    pub(super) no_bootstrap_roles: bool,
}

/// An authorizer, by its name in kube-apiserver's `--authorization-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthorizationMode {
    /// Allows everything to authenticated users.
    AlwaysAllow,
    /// Allows nothing.
    AlwaysDeny,
    /// By the stored roles and bindings.
    Rbac,
    /// Nodes, by the pods that are bound to them.
    Node,
}

impl Authorization {
    /// Returns whether nodes are authorized by their pods.
    pub(super) fn has_nodes(&self) -> bool {
        self.other.is_none() && self.modes.contains(&AuthorizationMode::Node)
    }

    /// Returns the authorizer; `pods` are those of [`AuthorizationMode::Node`].
    pub(super) fn authorizer(
        self,
        store: &Store,
        rbac: &Rbac,
        pods: Option<&PodsByNode>,
    ) -> Box<dyn Authorizer> {
        let authorizer = |mode: AuthorizationMode| -> Box<dyn Authorizer> {
            match mode {
                AuthorizationMode::AlwaysAllow => Box::new(AllowAuthenticated),
                AuthorizationMode::AlwaysDeny => Box::new(AlwaysDeny),
                AuthorizationMode::Rbac => Box::new(rbac.clone()),
                AuthorizationMode::Node => {
                    let pods = pods.cloned().unwrap_or_default();
                    Box::new(NodeAuthorizer::new(store.clone(), pods, rbac.clone()))
                }
            }
        };
        match (self.other, self.modes.as_slice()) {
            (Some(other), _) => other,
            (None, []) => authorizer(AuthorizationMode::AlwaysAllow),
            // It allows everything to `system:masters` itself.
            (None, [AuthorizationMode::Rbac]) => authorizer(AuthorizationMode::Rbac),
            (None, modes) => {
                let privileged: Box<dyn Authorizer> = Box::new(Privileged);
                let modes = modes.iter().copied().map(authorizer);
                Box::new(Union(std::iter::once(privileged).chain(modes).collect()))
            }
        }
    }
}

impl ApiServerBuilder {
    /// Authorizes requests by the stored roles and bindings, unless the
    /// [modes](Self::authorization_modes) contain that already. By default authenticated users may do
    /// anything.
    pub fn rbac(self) -> Self {
        if self.authorization.modes.contains(&AuthorizationMode::Rbac) {
            return self;
        }
        self.authorization_modes([AuthorizationMode::Rbac])
    }

    /// Sets what authorizes requests: of several modes, the first that allows a request decides.
    /// Members of `system:masters` may do anything in every mode.
    pub fn authorization_modes(
        mut self,
        modes: impl IntoIterator<Item = AuthorizationMode>,
    ) -> Self {
        self.authorization.modes = modes.into_iter().collect();
        self.authorization.other = None;
        self
    }

    /// Sets whether the roles and bindings of kube-apiserver are created, which is the default.
    pub fn bootstrap_roles(mut self, created: bool) -> Self {
        self.authorization.no_bootstrap_roles = !created;
        self
    }

    /// Sets another authorizer.
    pub fn authorizer(mut self, authorizer: impl Authorizer + 'static) -> Self {
        self.authorization.other = Some(Box::new(authorizer));
        self
    }
}
