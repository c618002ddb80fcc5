//! Which controllers of the cluster a simulation needs. The others are disabled: they would only
//! cost time in each of thousands of runs.

use std::collections::BTreeSet;

use evenkeel_cluster::ClusterOptions;

use super::Run;

/// Controllers, and the resources without which they have nothing to do.
const NEEDS: &[(&str, &[&str])] = &[
    ("certificatesigningrequest-approving-controller", CERTIFICATES),
    ("certificatesigningrequest-cleaner-controller", CERTIFICATES),
    ("certificatesigningrequest-signing-controller", CERTIFICATES),
    ("cronjob-controller", &["cronjobs.batch"]),
    ("daemonset-controller", &["daemonsets.apps"]),
    ("deployment-controller", &["deployments.apps"]),
    ("disruption-controller", &["poddisruptionbudgets.policy"]),
    ("endpoints-controller", &["services"]),
    ("endpointslice-controller", &["services"]),
    ("endpointslice-mirroring-controller", &["endpoints"]),
    ("job-controller", &["jobs.batch"]),
    ("kubelet", &["pods"]),
    ("legacy-serviceaccount-token-cleaner-controller", &["secrets"]),
    ("node-lifecycle-controller", &["pods"]),
    ("node-registration", &["pods"]),
    ("persistentvolume-binder-controller", VOLUMES),
    ("persistentvolume-protection-controller", VOLUMES),
    ("persistentvolumeclaim-protection-controller", VOLUMES),
    ("pod-garbage-collector-controller", &["pods"]),
    ("replicaset-controller", &["replicasets.apps"]),
    ("replicationcontroller-controller", &["replicationcontrollers"]),
    ("resourcequota-controller", &["resourcequotas"]),
    ("scheduler", &["pods"]),
    ("serviceaccount-token-controller", &["secrets"]),
    ("statefulset-controller", &["statefulsets.apps"]),
    ("storage-version-migrator-controller", &["storageversionmigrations.storagemigration.k8s.io"]),
    ("taint-eviction-controller", &["pods"]),
    ("ttl-after-finished-controller", &["jobs.batch"]),
    ("volumeattributesclass-protection-controller", &["volumeattributesclasses.storage.k8s.io"]),
];

const CERTIFICATES: &[&str] = &["certificatesigningrequests.certificates.k8s.io"];
const VOLUMES: &[&str] = &["persistentvolumes", "persistentvolumeclaims"];

/// Returns the options with the controllers disabled that a run without faults shows to be idle.
pub(crate) fn reduced(options: &ClusterOptions, run: &Run) -> ClusterOptions {
    let seen: BTreeSet<&str> = run.changes.iter().map(|it| &*it.object.resource).collect();
    let mut reduced = options.clone();
    for (controller, resources) in NEEDS {
        if !resources.iter().any(|resource| seen.contains(resource)) {
            reduced.disabled_controllers.insert((*controller).to_owned());
        }
    }
    reduced
}
