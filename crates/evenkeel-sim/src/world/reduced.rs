//! Which parts of the cluster a simulation needs. The others are disabled: they would only cost time
//! in each of thousands of runs. A violation is confirmed on the whole cluster before it is reported.

use std::collections::BTreeSet;

use evenkeel_cluster::ClusterOptions;

use super::Run;

/// Controllers, and the resources without which they have nothing to do.
const NEEDS: &[(&str, &[&str])] = &[
    ("certificatesigningrequest-approving-controller", CERTIFICATES),
    ("certificatesigningrequest-cleaner-controller", CERTIFICATES),
    ("certificatesigningrequest-signing-controller", CERTIFICATES),
    ("clusterrole-aggregation-controller", RBAC),
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
    ("namespace-controller", &["namespaces"]),
    ("node-lifecycle-controller", &["pods"]),
    ("node-registration", &["pods"]),
    ("persistentvolume-binder-controller", VOLUMES),
    ("persistentvolume-protection-controller", VOLUMES),
    ("persistentvolumeclaim-protection-controller", VOLUMES),
    ("pod-garbage-collector-controller", &["pods"]),
    ("replicaset-controller", &["replicasets.apps"]),
    ("replicationcontroller-controller", &["replicationcontrollers"]),
    ("resourcequota-controller", &["resourcequotas"]),
    ("root-ca-certificate-publisher-controller", &["namespaces", "pods"]),
    ("scheduler", &["pods"]),
    ("serviceaccount-controller", &["namespaces", "pods"]),
    ("serviceaccount-token-controller", &["secrets"]),
    ("statefulset-controller", &["statefulsets.apps"]),
    ("storage-version-migrator-controller", &["storageversionmigrations.storagemigration.k8s.io"]),
    ("taint-eviction-controller", &["pods"]),
    ("ttl-after-finished-controller", &["jobs.batch"]),
    ("validatingadmissionpolicy-status-controller", POLICIES),
    ("volumeattributesclass-protection-controller", &["volumeattributesclasses.storage.k8s.io"]),
];

const CERTIFICATES: &[&str] = &["certificatesigningrequests.certificates.k8s.io"];
const EVENTS: &[&str] = &["events", "events.events.k8s.io"];
const HEARTBEATS: &[&str] = &["nodes", "leases.coordination.k8s.io"];
const POLICIES: &[&str] = &["validatingadmissionpolicies.admissionregistration.k8s.io"];
const RBAC: &[&str] = &[
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
];
const VOLUMES: &[&str] = &["persistentvolumes", "persistentvolumeclaims"];

/// Returns the options without what a run without faults shows to be idle.
pub(crate) fn reduced(options: &ClusterOptions, run: &Run) -> ClusterOptions {
    let written = run.requests.writes.iter().map(|write| write.call.resource.clone());
    let used: BTreeSet<String> = written.chain(run.requests.watches.keys().cloned()).collect();
    // A controller writes ClusterRoles of the server at each start.
    let rbac = RBAC.iter().any(|resource| used.contains(*resource));
    let changed = run.changes.iter().map(|it| it.object.resource.to_string());
    let changed = changed.filter(|resource| rbac || !RBAC.contains(&&**resource));
    let seen: BTreeSet<String> = changed.chain(used.iter().cloned()).collect();
    let any_seen = |resources: &[&str]| resources.iter().any(|it| seen.contains(*it));
    let mut reduced = options.clone();
    for (controller, resources) in NEEDS {
        if !any_seen(resources) {
            reduced.disabled_controllers.insert((*controller).to_owned());
        }
    }
    let is_used = |resources: &[&str]| resources.iter().any(|it| used.contains(*it));
    reduced.events &= is_used(EVENTS);
    reduced.heartbeats &= is_used(HEARTBEATS);
    reduced.rbac &= rbac;
    reduced.gc_resources = Some(seen);
    reduced
}
