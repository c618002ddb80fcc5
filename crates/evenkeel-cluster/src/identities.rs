//! The users that the controllers are on the API server, with the permissions of its bootstrap roles.
//!
//! As with `kube-controller-manager --use-service-account-credentials`: each controller writes as its
//! service account in `kube-system`, and all share informers of `system:kube-controller-manager`.

use std::convert::Infallible;
use std::task::{Context, Poll};

use evenkeel::client::Requestor;
use evenkeel_apiserver::identity::Identity;
use evenkeel_apiserver::{ApiServer, Body, PolicyRule, Service};
use http::{Request, Response};

use crate::requestors::{NODE_CONTROLLER, NODE_PREFIX};
use crate::{
    certificates, clusterrole_aggregation, cronjob, daemonset, deployment, disruption, endpoints,
    garbage, job, namespace, node_lifecycle, policy_status, quota, replicaset, scheduler,
    serviceaccount, statefulset, storage_version_migrator, volumes,
};

/// The service accounts of controllers, in the namespace `kube-system`.
const SERVICE_ACCOUNTS: &[(&str, &str)] = &[
    (certificates::APPROVER, "certificate-controller"),
    (certificates::CLEANER, "certificate-controller"),
    (certificates::SIGNER, "certificate-controller"),
    (clusterrole_aggregation::NAME, "clusterrole-aggregation-controller"),
    (cronjob::NAME, "cronjob-controller"),
    (daemonset::NAME, "daemon-set-controller"),
    (deployment::NAME, "deployment-controller"),
    (disruption::NAME, "disruption-controller"),
    (endpoints::LEGACY, "endpoint-controller"),
    (endpoints::MIRROR, "endpointslicemirroring-controller"),
    (endpoints::SLICES, "endpointslice-controller"),
    (garbage::NAME, "generic-garbage-collector"),
    (job::NAME, "job-controller"),
    (job::TTL, "ttl-after-finished-controller"),
    (namespace::NAME, "namespace-controller"),
    (node_lifecycle::EVICTION, NODE_CONTROLLER),
    (node_lifecycle::NAME, NODE_CONTROLLER),
    (node_lifecycle::POD_GC, "pod-garbage-collector"),
    (policy_status::NAME, "validatingadmissionpolicy-status-controller"),
    (quota::NAME, "resourcequota-controller"),
    (replicaset::NAME, "replicaset-controller"),
    (replicaset::REPLICATION_CONTROLLER, "replication-controller"),
    (serviceaccount::ACCOUNTS, "service-account-controller"),
    (serviceaccount::cleaner::NAME, "legacy-service-account-token-cleaner"),
    (serviceaccount::ROOT_CA, "root-ca-cert-publisher"),
    (statefulset::NAME, "statefulset-controller"),
    (storage_version_migrator::NAME, "storage-version-migrator-controller"),
    (storage_version_migrator::RUNNER, "storage-version-migrator-controller"),
    (volumes::BINDER, "persistent-volume-binder"),
    (volumes::CLAIM_PROTECTION, "pvc-protection-controller"),
    (volumes::CLASS_PROTECTION, "volumeattributesclass-protection-controller"),
    (volumes::VOLUME_PROTECTION, "pv-protection-controller"),
];

/// The user of the informers that all controllers share.
const SHARED: &str = "system:kube-controller-manager";

/// The rules that controllers need besides those of upstream's roles: they patch statuses that
/// upstream's update, read objects whose state is unknown after a failed request, and create the
/// default StorageClass.
const OTHER_RULES: &[(&str, &str, &str, &str)] = &[
    ("cronjob-controller", "batch", "cronjobs/status", "patch"),
    ("daemon-set-controller", "apps", "daemonsets/status", "patch"),
    ("daemon-set-controller", "", "pods", "get"),
    ("deployment-controller", "apps", "deployments/status", "patch"),
    ("job-controller", "batch", "jobs/status", "patch"),
    ("job-controller", "", "pods", "get"),
    ("persistent-volume-binder", "storage.k8s.io", "storageclasses", "create"),
    ("pod-garbage-collector", "", "pods", "get"),
    ("replicaset-controller", "apps", "replicasets/status", "patch"),
    ("replicaset-controller", "", "pods", "get"),
    ("replication-controller", "", "replicationcontrollers/status", "patch"),
    ("replication-controller", "", "pods", "get"),
    ("statefulset-controller", "apps", "statefulsets/status", "patch"),
];

/// Grants the rules that controllers need besides those of upstream's roles.
fn grant(server: &ApiServer) {
    let rule = |group: &str, resource: &str, verb: &str| PolicyRule {
        verbs: vec![verb.to_owned()],
        api_groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        ..PolicyRule::default()
    };
    for (account, group, resource, verb) in OTHER_RULES {
        let user = Identity::service_account("kube-system", account).user;
        server.grant(&user, [rule(group, resource, verb)]);
    }
    // It can list and watch all objects already.
    server.grant(SHARED, [rule("*", "*", "get")]);
}

/// Returns whether a requestor is the controller `name` or a part of it, such as `scheduler-nodes`.
fn is_of(requestor: &str, name: &str) -> bool {
    requestor.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the identity of a controller or kubelet.
fn identity(requestor: Option<&str>) -> Identity {
    match requestor {
        Some(name) if is_of(name, scheduler::NAME) => {
            Identity::authenticated("system:kube-scheduler", [""; 0])
        }
        Some(node) if node.starts_with(NODE_PREFIX) => {
            Identity::authenticated(node, ["system:nodes"])
        }
        other => {
            let found = SERVICE_ACCOUNTS.iter().find(|(name, account)| {
                other.is_some_and(|other| is_of(other, name) || other == *account)
            });
            match found {
                Some((_, account)) => Identity::service_account("kube-system", account),
                None => Identity::authenticated(SHARED, [""; 0]),
            }
        }
    }
}

/// An API server whose requests are those of the controllers that send them.
#[derive(Clone)]
pub(crate) struct AsControllers(Service);

impl AsControllers {
    pub(crate) fn new(server: &ApiServer) -> Self {
        grant(server);
        Self(server.authenticating_service())
    }
}

impl tower_service::Service<Request<kube::client::Body>> for AsControllers {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <Service as tower_service::Service<Request<kube::client::Body>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<kube::client::Body>) -> Self::Future {
        let requestor = request.extensions().get::<Requestor>();
        let identity = identity(requestor.map(|Requestor(name)| &**name));
        request.extensions_mut().insert(identity);
        tower_service::Service::call(&mut self.0, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_has_its_own_account() {
        for name in crate::controllers::names() {
            let user = identity(Some(name)).user;
            let shared = [
                // These have no account of their own in kube-controller-manager either, or are
                // those of each node.
                serviceaccount::tokens::NAME,
                crate::nodes::NAME,
                crate::kubelet::NAME,
            ];
            let own = user != SHARED;
            assert_eq!(own, !shared.contains(&name), "{name} is {user}");
        }
        let node = identity(Some(&crate::requestors::node("n1")));
        assert_eq!(node.groups, ["system:nodes", "system:authenticated"]);
        let account = identity(Some(NODE_CONTROLLER));
        assert_eq!(account.user, "system:serviceaccount:kube-system:node-controller");
    }
}
