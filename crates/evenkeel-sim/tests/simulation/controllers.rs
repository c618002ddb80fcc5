//! The controllers of Kubernetes as the operator under test: they crash right after each of their
//! writes, and new ones continue on the same API server. The cluster must reach the state of an
//! undisturbed run.

use evenkeel_cluster::{Cluster, ClusterOptions};
use evenkeel_sim::{At, Effect, Fault, Oracle, Plan, Simulation};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Service};
use serde_json::json;

/// What every workload needs.
const ALWAYS: &[&str] = &[
    "garbage-collector-controller",
    "kubelet",
    "namespace-controller",
    "node-registration",
    "scheduler",
    "serviceaccount-controller",
];

/// Returns a simulation of these controllers. The cluster itself runs none.
fn controllers(name: &str, run: &[&str]) -> Simulation {
    let disabled = |run: &[&str]| {
        let mut options = ClusterOptions::new();
        let others = Cluster::controller_names().filter(|name| !run.contains(name));
        options.disabled_controllers = others.map(str::to_owned).collect();
        options
    };
    let mut under_test = disabled(&[ALWAYS, run].concat());
    under_test.gc_resources = Some(COLLECTED.iter().map(|it| (*it).to_owned()).collect());
    let simulation = evenkeel_sim::operator(name, move |manager| {
        Cluster::register_controllers(manager, &under_test)
    });
    simulation.cluster(disabled(&[])).only_faults([Effect::CrashAfter])
}

/// Crashes after each of these writes, given by verb, resource and number. With a budget in
/// `SIM_BUDGET`, after every write.
#[track_caller]
fn check(simulation: Simulation, slice: &[(&str, &str, u32)]) {
    if std::env::var_os("SIM_BUDGET").is_some() {
        return simulation.check();
    }
    let plans = slice.iter().map(|(verb, resource, nth)| {
        let mut plan = Plan::default();
        plan.faults.push(Fault::new(At::new(verb, resource, "", *nth), Effect::CrashAfter));
        plan
    });
    let report = simulation.replay(plans).explore();
    assert!(report.finding.is_none(), "{report}");
    assert_eq!((report.coverage.run, report.coverage.missed), (slice.len(), 0), "{report}");
}

/// What the garbage collector watches: the objects of these workloads.
const COLLECTED: &[&str] = &[
    "configmaps",
    "controllerrevisions.apps",
    "deployments.apps",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "jobs.batch",
    "persistentvolumeclaims",
    "pods",
    "replicasets.apps",
    "services",
    "statefulsets.apps",
];

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'web:1'}]}
";

#[test]
fn deployment_is_scaled_and_rolled_out_by_controllers_that_crash() {
    let image = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "web", "image": "web:2"}]}}}});
    let simulation = controllers("deployment", &["deployment-controller", "replicaset-controller"])
        .sample(WEB)
        .patch::<Deployment>("web", json!({"spec": {"replicas": 3}}))
        .patch::<Deployment>("web", image)
        .patch::<Deployment>("web", json!({"spec": {"replicas": 1}}));
    check(
        simulation,
        &[
            ("create", "replicasets.apps", 1),
            ("create", "pods", 1),
            ("create", "pods", 3),
            ("create", "replicasets.apps", 2),
        ],
    );
}

const DATABASE: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: 'db:1'}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
";

#[test]
fn stateful_set_and_its_claims_are_managed_by_controllers_that_crash() {
    let simulation = controllers(
        "statefulset",
        &[
            "statefulset-controller",
            "persistentvolume-binder-controller",
            "persistentvolumeclaim-protection-controller",
        ],
    )
    .sample(DATABASE)
    .patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}}))
    .patch::<StatefulSet>("db", json!({"spec": {"replicas": 2}}))
    .disable(Oracle::Leftovers, "the claims of a StatefulSet are kept");
    check(simulation, &[("create", "pods", 1), ("create", "persistentvolumes", 1)]);
}

#[test]
fn job_completes_with_controllers_that_crash() {
    let simulation = controllers("job", &["job-controller"]).sample(
        "
apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  completions: 3
  parallelism: 2
  template:
    spec: {restartPolicy: Never, containers: [{name: report, image: 'report:1'}]}
",
    );
    check(simulation, &[("create", "pods", 1), ("create", "pods", 2)]);
}

#[test]
fn endpoints_follow_pods_with_controllers_that_crash() {
    let simulation = controllers(
        "service",
        &[
            "deployment-controller",
            "replicaset-controller",
            "endpointslice-controller",
            "endpoints-controller",
        ],
    )
    .sample(
        "{apiVersion: v1, kind: Service, metadata: {name: web}, \
                 spec: {selector: {app: web}, ports: [{port: 80}]}}",
    )
    .sample(WEB)
    .patch::<Deployment>("web", json!({"spec": {"replicas": 1}}))
    .delete::<Service>("web");
    check(
        simulation,
        &[
            ("create", "endpointslices.discovery.k8s.io", 1),
            ("create", "pods", 2),
            ("delete", "pods", 1),
        ],
    );
}

#[test]
fn claim_is_bound_and_released_by_controllers_that_crash() {
    let simulation = controllers(
        "claim",
        &[
            "persistentvolume-binder-controller",
            "persistentvolumeclaim-protection-controller",
            "persistentvolume-protection-controller",
        ],
    )
    .sample(
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, \
                 spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}",
    )
    .sample(
        "{apiVersion: v1, kind: Pod, metadata: {name: writer}, spec: {\
                 containers: [{name: main, image: 'writer:1'}], \
                 volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}",
    );
    check(simulation, &[("create", "persistentvolumes", 1)]);
}

#[test]
fn namespace_is_emptied_by_controllers_that_crash() {
    let web = WEB.replace("{name: web}\nspec", "{name: web, namespace: team}\nspec");
    let simulation = controllers(
        "namespace",
        &[
            "deployment-controller",
            "replicaset-controller",
            "root-ca-certificate-publisher-controller",
        ],
    )
    .sample("{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
    .sample(&web)
    .sample("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: team}}")
    .delete::<Namespace>("team");
    check(
        simulation,
        &[
            ("create", "pods", 1),
            ("create", "replicasets.apps", 1),
            ("update", "namespaces/finalize", 1),
        ],
    );
}
