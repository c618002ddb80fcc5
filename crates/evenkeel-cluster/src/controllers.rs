//! The built-in controllers, by their names in `kube-controller-manager`.

use evenkeel::{BoxError, Manager};

use crate::options::ClusterOptions;
use crate::{
    StartError, certificates, clusterrole_aggregation, controller_ref, cronjob, daemonset,
    deployment, disruption, endpoints, garbage, job, kubelet, namespace, node_lifecycle, nodes,
    policy_status, quota, replicaset, scheduler, serviceaccount, statefulset,
    storage_version_migrator, volumes,
};

type Register = fn(&Manager, &ClusterOptions) -> Result<(), BoxError>;

/// All controllers, in no particular order.
const ALL: &[(&str, Register)] = &[
    (garbage::NAME, garbage::register),
    (namespace::NAME, namespace::register),
    (serviceaccount::ACCOUNTS, serviceaccount::register_accounts),
    (clusterrole_aggregation::NAME, clusterrole_aggregation::register),
    (serviceaccount::ROOT_CA, serviceaccount::register_root_ca),
    (serviceaccount::tokens::NAME, serviceaccount::tokens::register),
    (serviceaccount::cleaner::NAME, serviceaccount::cleaner::register),
    (endpoints::SLICES, endpoints::register_slices),
    (endpoints::LEGACY, endpoints::register_legacy),
    (endpoints::MIRROR, endpoints::register_mirror),
    (volumes::BINDER, volumes::register_binder),
    (volumes::CLAIM_PROTECTION, volumes::register_claim_protection),
    (volumes::VOLUME_PROTECTION, volumes::register_volume_protection),
    (volumes::CLASS_PROTECTION, volumes::register_class_protection),
    (disruption::NAME, disruption::register),
    (certificates::APPROVER, certificates::register_approver),
    (certificates::SIGNER, certificates::register_signer),
    (certificates::CLEANER, certificates::register_cleaner),
    (cronjob::NAME, cronjob::register),
    (daemonset::NAME, daemonset::register),
    (deployment::NAME, deployment::register),
    (job::NAME, job::register),
    (job::TTL, job::register_ttl),
    (kubelet::NAME, kubelet::register),
    (node_lifecycle::EVICTION, node_lifecycle::register_eviction),
    (node_lifecycle::POD_GC, node_lifecycle::register_pod_gc),
    (node_lifecycle::NAME, node_lifecycle::register),
    (nodes::NAME, nodes::register),
    (policy_status::NAME, policy_status::register),
    (quota::NAME, quota::register),
    (replicaset::NAME, replicaset::register),
    (replicaset::REPLICATION_CONTROLLER, replicaset::register_replication_controllers),
    (scheduler::NAME, scheduler::register),
    (storage_version_migrator::NAME, storage_version_migrator::register),
    (statefulset::NAME, statefulset::register),
];

/// Registers all controllers that are not disabled.
pub(crate) fn register(manager: &Manager, options: &ClusterOptions) -> Result<(), StartError> {
    if let Some(unknown) =
        options.disabled_controllers.iter().find(|name| !names().any(|known| known == *name))
    {
        return Err(StartError::UnknownController { name: unknown.clone() });
    }
    controller_ref::add_indexes(manager)
        .map_err(|source| StartError::Controller { name: "indexes", source: source.into() })?;
    for (name, register) in ALL {
        if !options.disabled_controllers.contains(*name) {
            register(manager, options).map_err(|source| StartError::Controller { name, source })?;
        }
    }
    Ok(())
}

/// Returns the names of all controllers.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}
