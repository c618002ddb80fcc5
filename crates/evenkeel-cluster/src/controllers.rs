//! The controllers of a cluster, by the names `kube-controller-manager` gives them.

use evenkeel::{BoxError, Manager};

use crate::settings::Settings;
use crate::{
    StartError, claim, cronjob, daemonset, deployment, job, kubelet, node_lifecycle, nodes,
    replicaset, scheduler, statefulset,
};

type Register = fn(&Manager, &Settings) -> Result<(), BoxError>;

/// Every controller; the order has no meaning.
const ALL: &[(&str, Register)] = &[
    (cronjob::NAME, cronjob::register),
    (daemonset::NAME, daemonset::register),
    (deployment::NAME, deployment::register),
    (job::NAME, job::register),
    (job::TTL, job::register_ttl),
    (kubelet::NAME, kubelet::register),
    (node_lifecycle::EVICTION, node_lifecycle::register_eviction),
    (node_lifecycle::GARBAGE, node_lifecycle::register_garbage),
    (node_lifecycle::NAME, node_lifecycle::register),
    (nodes::NAME, nodes::register),
    (replicaset::NAME, replicaset::register),
    (scheduler::NAME, scheduler::register),
    (statefulset::NAME, statefulset::register),
];

/// Registers all that are not switched off.
pub(crate) fn register(manager: &Manager, settings: &Settings) -> Result<(), StartError> {
    claim::index(manager)
        .map_err(|source| StartError::Controller { name: "indexes", source: source.into() })?;
    for (name, register) in ALL {
        if !settings.without.contains(*name) {
            register(manager, settings)
                .map_err(|source| StartError::Controller { name, source })?;
        }
    }
    Ok(())
}
