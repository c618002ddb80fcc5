//! Jobs on a whole cluster, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{FINALIZER, INDEX, has_condition, is_finished};
use crate::pods::is_active;
use crate::testing::virtual_cluster::{VirtualCluster, until};
use crate::{ClusterOptions, Delays, POD_SIMULATION_ANNOTATION};

fn job(spec: &Value, simulation: &str) -> Value {
    let mut job = json!({
        "metadata": {"name": "sum"},
        "spec": {
            "template": {
                "metadata": {"annotations": {POD_SIMULATION_ANNOTATION: simulation}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "app", "image": "sum:1"}],
                },
            },
        },
    });
    for (name, value) in spec.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    job
}

fn reason(job: &Job) -> Option<String> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let end = conditions.iter().find(|c| matches!(c.type_.as_str(), "Complete" | "Failed"))?;
    end.reason.clone()
}

#[tokio::test(start_paused = true)]
async fn a_job_honours_parallelism_and_completions() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({"completions": 5, "parallelism": 2});
    let begun = Instant::now();
    cluster.create::<Job>(job(&spec, "complete-after=10s")).await;
    cluster
        .until::<Pod>("five completed", |pods| {
            assert!(pods.values().filter(|pod| is_active(pod)).count() <= 2);
            pods.len() == 5 && pods.values().all(|pod| !is_active(pod))
        })
        .await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    assert_eq!(begun.elapsed().as_secs(), 30);
    let status = sum.status.clone().unwrap();
    assert!(has_condition(&sum, "Complete") && has_condition(&sum, "SuccessCriteriaMet"));
    assert_eq!((status.succeeded, status.failed, status.active), (Some(5), None, None));
    assert!(status.start_time.is_some() && status.completion_time.is_some());
    let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
    assert_eq!((uncounted.succeeded, uncounted.failed), (None, None));
    cluster
        .until::<Pod>("released", |pods| {
            pods.len() == 5 && pods.values().all(|pod| pod.metadata.finalizers.is_none())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_job_backs_off_exponentially_up_to_its_limit() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Job>(job(&json!({"backoffLimit": 3}), "fail-after=0s")).await;
    let mut starts: BTreeMap<String, Instant> = BTreeMap::new();
    let watch = cluster.until::<Pod>("four attempts", |pods| {
        for name in pods.keys() {
            starts.entry(name.clone()).or_insert_with(Instant::now);
        }
        starts.len() == 4
    });
    watch.await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    assert!(has_condition(&sum, "Failed") && has_condition(&sum, "FailureTarget"));
    assert_eq!(reason(&sum).as_deref(), Some("BackoffLimitExceeded"));
    assert_eq!(sum.status.unwrap().failed, Some(4));
    let mut starts: Vec<Instant> = starts.into_values().collect();
    starts.sort();
    let waits: Vec<u64> = starts.windows(2).map(|w| (w[1] - w[0]).as_secs()).collect();
    assert_eq!(waits, [10, 20, 40]);
}

#[tokio::test(start_paused = true)]
async fn restarts_in_place_count_towards_the_backoff_limit() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = job(&json!({"backoffLimit": 2}), "crash-loop");
    object["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    cluster.create::<Job>(object).await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    assert_eq!(reason(&sum).as_deref(), Some("BackoffLimitExceeded"));
    cluster.until::<Pod>("the pod is deleted", BTreeMap::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_completes_each_index_once() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({"completions": 4, "parallelism": 3, "completionMode": "Indexed"});
    cluster.create::<Job>(job(&spec, "complete-after=1s")).await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    let status = sum.status.unwrap();
    assert_eq!(status.completed_indexes.as_deref(), Some("0-3"));
    assert_eq!(status.succeeded, Some(4));
    let pods = cluster.until::<Pod>("four", |pods| pods.len() == 4).await;
    let mut indexes: Vec<_> = pods
        .values()
        .map(|pod| pod.metadata.annotations.as_ref().unwrap()[INDEX].clone())
        .collect();
    indexes.sort();
    assert_eq!(indexes, ["0", "1", "2", "3"]);
    let (name, pod) = pods.first_key_value().unwrap();
    assert!(name.starts_with("sum-0-"), "{name}");
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("sum-0"));
    assert_eq!(spec.containers[0].env.as_ref().unwrap()[0].name, "JOB_COMPLETION_INDEX");
}

#[tokio::test(start_paused = true)]
async fn a_job_may_be_suspended_and_resumed() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({"parallelism": 2, "completions": 2, "suspend": true});
    cluster.create::<Job>(job(&spec, "complete-after=60s")).await;
    let sum = cluster.until_one::<Job>("sum", |job| has_condition(job, "Suspended")).await;
    assert_eq!(sum.status.unwrap().start_time, None);
    assert!(cluster.until::<Pod>("none", BTreeMap::is_empty).await.is_empty());
    cluster.patch::<Job>("sum", json!({"spec": {"suspend": false}})).await;
    cluster.until::<Pod>("two", |pods| pods.len() == 2).await;
    cluster.patch::<Job>("sum", json!({"spec": {"suspend": true}})).await;
    cluster.until::<Pod>("none", BTreeMap::is_empty).await;
    let sum = cluster
        .until_one::<Job>("sum", |job| {
            has_condition(job, "Suspended") && job.status.as_ref().unwrap().active.is_none()
        })
        .await;
    assert_eq!(sum.status.unwrap().failed, None, "suspension is not a failure");
    cluster.patch::<Job>("sum", json!({"spec": {"suspend": false}})).await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    assert!(has_condition(&sum, "Complete"));
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_active_deadline_fails() {
    let delays = Delays { stop: Duration::from_secs(1), ..Delays::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { delays, ..ClusterOptions::default() }).await;
    let begun = Instant::now();
    cluster.create::<Job>(job(&json!({"activeDeadlineSeconds": 20}), "complete-after=60s")).await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    assert!((20..=22).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(reason(&sum).as_deref(), Some("DeadlineExceeded"));
    cluster.until::<Pod>("none", BTreeMap::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_is_deleted_after_its_ttl() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Job>(job(&json!({"ttlSecondsAfterFinished": 30}), "")).await;
    cluster.until_one::<Job>("sum", is_finished).await;
    let begun = Instant::now();
    cluster.until::<Job>("none", BTreeMap::is_empty).await;
    assert!(cluster.until::<Pod>("none", BTreeMap::is_empty).await.is_empty());
    assert!((29..=31).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pods_of_an_orphaned_job_are_released() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Job>(job(&json!({}), "complete-after=60s")).await;
    cluster.until::<Pod>("one", |pods| pods.values().any(is_tracked)).await;
    let params =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..Default::default() };
    cluster.api::<Job>().delete("sum", &params).await.unwrap();
    let free = |pod: &Pod| !is_tracked(pod) && pod.metadata.owner_references.is_none();
    cluster.until::<Pod>("released", |pods| pods.len() == 1 && pods.values().all(free)).await;
}

fn is_tracked(pod: &Pod) -> bool {
    crate::finalizers::has(pod, FINALIZER)
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_are_released_regardless_of_their_labels() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = job(&json!({}), "complete-after=60s");
    // With `manualSelector` the pods do not get the labels that name the Job.
    object["spec"]["manualSelector"] = json!(true);
    object["spec"]["selector"] = json!({"matchLabels": {"app": "sum"}});
    object["spec"]["template"]["metadata"]["labels"] = json!({"app": "sum"});
    cluster.create::<Job>(object).await;
    cluster.until::<Pod>("one", |pods| pods.values().any(is_tracked)).await;
    let params =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..Default::default() };
    cluster.api::<Job>().delete("sum", &params).await.unwrap();
    cluster
        .until::<Pod>("released", |pods| pods.len() == 1 && !pods.values().any(is_tracked))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_released_pod_loses_finalizer_and_owner_reference_in_one_write() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Job>(job(&json!({}), "complete-after=60s")).await;
    let pods = cluster.until::<Pod>("one", |pods| pods.values().any(is_tracked)).await;
    let name = pods.into_keys().next().unwrap();
    cluster
        .patch::<Pod>(
            &name,
            json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "x"}}}),
        )
        .await;
    cluster
        .until::<Pod>("released and replaced", |pods| {
            let pod = &pods[&name];
            let owned = pod.metadata.owner_references.is_some();
            // Both are removed in one write: no pod has the finalizer but no owner.
            assert_eq!(owned, is_tracked(pod), "{pod:#?}");
            !owned && pods.len() == 2
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_recorded_as_failed_is_released_even_if_it_succeeds_later() {
    let options = ClusterOptions::default()
        .disable_controller(super::NAME)
        .disable_controller(crate::kubelet::NAME);
    let cluster = VirtualCluster::start(options).await;
    // With one completion the success would finish the Job, which releases every pod.
    let owner = cluster.create::<Job>(job(&json!({"completions": 2}), "")).await;
    let uid = owner.metadata.uid.clone().unwrap();
    let pod: Pod = cluster
        .create(json!({
            "metadata": {
                "name": "sum-x",
                "labels": owner.spec.as_ref().unwrap().template.metadata.as_ref().unwrap().labels,
                "finalizers": [FINALIZER],
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": uid,
                    "controller": true,
                }],
            },
            "spec": {"nodeName": "node", "containers": [{"name": "app", "image": "sum:1"}]},
        }))
        .await;
    // As after a reconcile that wrote the status and could not remove the finalizer.
    let status = json!({"status": {"uncountedTerminatedPods": {"failed": [pod.metadata.uid]}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    cluster.api::<Job>().patch_status("sum", &params, &patch).await.unwrap();
    let succeeded = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    cluster.api::<Pod>().patch_status("sum-x", &params, &succeeded).await.unwrap();

    let only_jobs = crate::testing::options(&[super::NAME]);
    let _controllers = crate::run_controllers(cluster.client.clone(), &only_jobs).unwrap();
    cluster.until_one::<Pod>("sum-x", |pod| !is_tracked(pod)).await;
    let sum = cluster
        .until_one::<Job>("sum", |job| job.status.as_ref().is_some_and(|s| s.failed == Some(1)))
        .await;
    let uncounted = sum.status.unwrap().uncounted_terminated_pods.unwrap_or_default();
    assert_eq!((uncounted.succeeded, uncounted.failed), (None, None));
}

#[tokio::test(start_paused = true)]
async fn pods_kept_for_their_failure_count_do_not_block_their_namespace() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({
        "completions": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 3,
    });
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let short = serde_json::from_value(json!({"metadata": {"name": "short"}})).unwrap();
    namespaces.create(&PostParams::default(), &short).await.unwrap();
    let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), "short");
    let object = serde_json::from_value(job(&spec, "fail-after=1s")).unwrap();
    jobs.create(&PostParams::default(), &object).await.unwrap();
    // The pod that failed last waits for its replacement.
    let kept = |pod: &Pod| is_tracked(pod) && crate::pods::phase(pod) == "Failed";
    until::<Pod>(&cluster.client, "short", "one is kept", |pods| pods.values().any(kept)).await;
    namespaces.delete("short", &DeleteParams::default()).await.unwrap();
    cluster.until::<Namespace>("deleted", |all| !all.contains_key("short")).await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_with_running_jobs_are_deleted() {
    let delays = Delays { stop: Duration::from_secs(2), ..Delays::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { delays, ..ClusterOptions::default() }).await;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let names: Vec<String> = (0..15).map(|number| format!("short-{number}")).collect();
    let params = PostParams::default();
    for name in &names {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        namespaces.create(&params, &namespace).await.unwrap();
        let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), name);
        let running = job(&json!({"parallelism": 3, "completions": 6}), "complete-after=30s");
        jobs.create(&params, &serde_json::from_value(running).unwrap()).await.unwrap();
    }
    cluster.advance(Duration::from_secs(29)).await;
    for name in &names {
        namespaces.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let deleted =
        |all: &BTreeMap<String, Namespace>| !names.iter().any(|name| all.contains_key(name));
    cluster.until("all are deleted", deleted).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_matched_by_the_policy_fails_the_job_immediately() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let spec = json!({"backoffLimit": 6, "podFailurePolicy": {"rules": [rule]}});
    cluster.create::<Job>(job(&spec, "fail-after=1s,exit-code=42")).await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    assert!(has_condition(&sum, "Failed") && has_condition(&sum, "FailureTarget"));
    assert_eq!(reason(&sum).as_deref(), Some("PodFailurePolicy"));
    assert_eq!(sum.status.unwrap().failed, Some(1));
    assert_eq!(cluster.until::<Pod>("one", |_| true).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_ignored_by_the_policy_is_retried_without_counting() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let rule = json!({"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [42]}});
    let spec = json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [rule]}});
    cluster.create::<Job>(job(&spec, "fail-after=1s")).await;
    cluster.until::<Pod>("three attempts", |pods| pods.len() == 3).await;
    let sum = cluster.until_one::<Job>("sum", |_| true).await;
    assert!(!is_finished(&sum));
    assert_eq!(sum.status.unwrap().failed, None);
}

fn attempts(pods: &BTreeMap<String, Pod>) -> Vec<(String, String)> {
    let annotation =
        |pod: &Pod, name: &str| pod.metadata.annotations.as_ref().unwrap()[name].clone();
    let count = "batch.kubernetes.io/job-index-failure-count";
    let mut attempts: Vec<_> =
        pods.values().map(|pod| (annotation(pod, INDEX), annotation(pod, count))).collect();
    attempts.sort();
    attempts
}

#[tokio::test(start_paused = true)]
async fn backoff_limit_per_index_counts_each_index() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 2,
    });
    let begun = Instant::now();
    cluster.create::<Job>(job(&spec, "fail-after=0s")).await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    assert_eq!(
        begun.elapsed().as_secs(),
        30,
        "10 s after the first failure, 20 s after the second"
    );
    assert_eq!(reason(&sum).as_deref(), Some("FailedIndexes"));
    let status = sum.status.unwrap();
    assert_eq!((status.failed_indexes.as_deref(), status.failed), (Some("0,1"), Some(6)));
    let pods = cluster.until::<Pod>("six", |pods| pods.len() == 6).await;
    let expected = ["00", "01", "02", "10", "11", "12"].map(|text| {
        let (index, count) = text.split_at(1);
        (index.to_owned(), count.to_owned())
    });
    assert_eq!(attempts(&pods), expected);
}

#[tokio::test(start_paused = true)]
async fn too_many_failed_indexes_fail_the_job() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let rule = json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [7]}});
    let spec = json!({
        "completions": 9, "parallelism": 1, "completionMode": "Indexed", "maxFailedIndexes": 1,
        "backoffLimitPerIndex": 5, "podFailurePolicy": {"rules": [rule]},
    });
    cluster.create::<Job>(job(&spec, "fail-after=1s,exit-code=7")).await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    assert_eq!(reason(&sum).as_deref(), Some("MaxFailedIndexesExceeded"));
    let status = sum.status.unwrap();
    assert_eq!(status.failed_indexes.as_deref(), Some("0,1"), "none is retried");
    assert_eq!(cluster.until::<Pod>("two", |_| true).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_when_its_success_policy_is_met() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({
        "completions": 6, "parallelism": 2, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "1-4", "succeededCount": 3}]},
    });
    let begun = Instant::now();
    cluster.create::<Job>(job(&spec, "complete-after=10s")).await;
    let sum = cluster.until_one::<Job>("sum", is_finished).await;
    assert_eq!(begun.elapsed().as_secs(), 20);
    assert!(has_condition(&sum, "Complete") && has_condition(&sum, "SuccessCriteriaMet"));
    assert_eq!(reason(&sum).as_deref(), Some("SuccessPolicy"));
    let status = sum.status.unwrap();
    assert_eq!((status.completed_indexes.as_deref(), status.failed), (Some("0-3"), None));
}

#[tokio::test(start_paused = true)]
async fn a_terminating_pod_is_not_replaced_with_replacement_policy_failed() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let spec = json!({"podReplacementPolicy": "Failed"});
    cluster.create::<Job>(job(&spec, "complete-after=60s,ignore-term")).await;
    let runs = |pod: &Pod| crate::pods::phase(pod) == "Running";
    let pods = cluster.until::<Pod>("one", |pods| pods.values().any(runs)).await;
    let name = pods.into_keys().next().unwrap();
    cluster.api::<Pod>().delete(&name, &DeleteParams::default()).await.unwrap();
    let sum = cluster
        .until_one::<Job>("sum", |job| job.status.as_ref().unwrap().terminating == Some(1))
        .await;
    assert_eq!(sum.status.unwrap().failed, None);
    cluster
        .until::<Pod>("another", |pods| {
            assert!(pods.values().filter(|pod| !crate::pods::is_terminal(pod)).count() <= 1);
            pods.keys().any(|other| *other != name)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_deleted_before_it_was_scheduled_counts_as_failed() {
    let cluster =
        VirtualCluster::start(ClusterOptions { nodes: 0, ..ClusterOptions::default() }).await;
    cluster.create::<Job>(job(&json!({"podReplacementPolicy": "Failed"}), "")).await;
    let pods = cluster.until::<Pod>("one", |pods| pods.len() == 1).await;
    let name = pods.into_keys().next().unwrap();
    cluster.api::<Pod>().delete(&name, &DeleteParams::default()).await.unwrap();
    cluster
        .until::<Pod>("another", |pods| pods.len() == 1 && pods.keys().all(|other| *other != name))
        .await;
    cluster.until_one::<Job>("sum", |job| job.status.as_ref().unwrap().failed == Some(1)).await;
}
