//! Which parts of the cluster a simulation needs. The others are disabled: they would only cost time
//! in each of thousands of runs. A violation is confirmed on the whole cluster before it is reported.

use std::collections::BTreeSet;

use evenkeel_cluster::ClusterOptions;

use super::Run;

/// Controllers, and the resources without which they have nothing to do. Those of the content of a
/// namespace have nothing to do if it exists in the template.
const NEEDS: &[(&str, &[&str])] = &[
    ("certificatesigningrequest-approving-controller", CERTIFICATES),
    ("certificatesigningrequest-cleaner-controller", CERTIFICATES),
    ("certificatesigningrequest-signing-controller", CERTIFICATES),
    ("clusterrole-aggregation-controller", RBAC),
    ("cronjob-controller", &["cronjobs.batch"]),
    ("daemonset-controller", &["daemonsets.apps"]),
    ("deployment-controller", &["deployments.apps"]),
    ("disruption-controller", &["poddisruptionbudgets.policy"]),
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

/// Controllers whose objects matter only to an operator that reads or writes them.
const PRODUCE: &[(&str, &[&str])] = &[
    ("endpoints-controller", ENDPOINTS),
    ("endpointslice-controller", ENDPOINTS),
    ("endpointslice-mirroring-controller", ENDPOINTS),
];

const CERTIFICATES: &[&str] = &["certificatesigningrequests.certificates.k8s.io"];
const ENDPOINTS: &[&str] = &["endpoints", "endpointslices.discovery.k8s.io"];
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

/// Returns the options without what a run without faults shows to be idle. They require a cluster that
/// starts with a template.
pub(crate) fn reduced(options: &ClusterOptions, run: &Run) -> ClusterOptions {
    let read = &run.requests.read;
    let written = run.requests.writes.iter().map(|write| write.call.main_resource().to_owned());
    let used: BTreeSet<String> = written.chain(read.iter().cloned()).collect();
    let any_in = |set: &BTreeSet<String>, resources: &[&str]| {
        resources.iter().any(|resource| set.contains(*resource))
    };
    let changed = run.changes[run.changes_before..].iter().map(|it| it.object.resource.clone());
    let mut seen: BTreeSet<String> = changed.chain(used.iter().cloned()).collect();
    let mut reduced = options.clone();
    for (controller, resources) in PRODUCE {
        if !any_in(&used, resources) {
            reduced.disabled_controllers.insert((*controller).to_owned());
            seen.retain(|resource| !resources.contains(&&**resource));
        }
    }
    for (controller, resources) in NEEDS {
        if !any_in(&seen, resources) {
            reduced.disabled_controllers.insert((*controller).to_owned());
        }
    }
    reduced.events &= any_in(read, EVENTS);
    reduced.heartbeats &= any_in(&used, HEARTBEATS);
    reduced.rbac &= any_in(&seen, RBAC);
    reduced.gc_resources = Some(seen);
    reduced
}
