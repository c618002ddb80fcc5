//! Jobs: pod failure policy, backoff limit per index, success policy.

use std::sync::Arc;

use evenkeel::Key;
use evenkeel_test::TestCluster;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::{cluster, format_condition, pending_pods, set_pod_status, template};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// A cluster with one Job, whose pods are not scheduled.
struct JobTest {
    cluster: TestCluster,
    key: Key,
}

impl JobTest {
    async fn start(spec: Value) -> Option<Self> {
        let cluster = cluster().await?;
        let mut job = json!({"metadata": {"name": "sum"}, "spec": spec});
        job["spec"]["template"] = template("sum", "sum:1");
        job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        let job = cluster.parse::<Job>(&job.to_string());
        cluster.client().create(&job).await.unwrap();
        let key = Key::of(&job);
        Some(Self { cluster, key })
    }

    async fn pods(&self, count: usize) -> Vec<Arc<Pod>> {
        pending_pods(&self.cluster, count).await
    }

    /// Sets the status of a pod whose container exited with this code.
    async fn finish_pod(&self, pod: &Pod, code: i32) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let container = json!({
            "name": "app", "image": "sum:1", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code}},
        });
        let status = json!({"phase": phase, "containerStatuses": [container]});
        set_pod_status(&self.cluster, pod, status).await;
    }

    /// Waits until the Job is complete or failed; returns its formatted conditions and the Job.
    async fn wait_until_finished(&self) -> (Vec<String>, Arc<Job>) {
        let conditions = |job: &Job| {
            let status = job.status.clone().unwrap_or_default();
            status.conditions.unwrap_or_default()
        };
        let over = |job: &Job| {
            let last = ["Complete", "Failed"];
            conditions(job).iter().any(|it| last.contains(&it.type_.as_str()))
        };
        let job = self.cluster.eventually::<Job>(&self.key, over).await;
        let conditions = conditions(&job).into_iter().map(|it| {
            format_condition(&it.type_, &it.status, it.reason.as_deref(), it.message.as_deref())
        });
        (conditions.collect(), job)
    }
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

#[tokio::test]
async fn pod_failure_policy_fails_the_job() {
    let rules = json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]);
    let Some(test) = JobTest::start(json!({"podFailurePolicy": {"rules": rules}})).await else {
        return;
    };
    let pods = test.pods(1).await;
    test.finish_pod(&pods[0], 42).await;
    let (conditions, job) = test.wait_until_finished().await;
    let (namespace, pod) = (test.cluster.namespace(), pods[0].metadata.name.as_deref().unwrap());
    let why = format!(
        "PodFailurePolicy: Container app for pod {namespace}/{pod} failed with exit code 42 matching \
         FailJob rule at index 1"
    );
    assert_eq!(conditions, [format!("FailureTarget=True {why}"), format!("Failed=True {why}")]);
    assert_eq!(job.status.as_ref().unwrap().failed, Some(1));
    test.cluster.stop().await;
}

#[tokio::test]
async fn backoff_limit_per_index_fails_one_index() {
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    });
    let Some(test) = JobTest::start(spec).await else { return };
    let pods = test.pods(2).await;
    let at = |index: &str| pods.iter().find(|pod| annotation(pod, INDEX) == Some(index)).unwrap();
    assert_eq!(annotation(at("0"), FAILURES), Some("0"));
    test.finish_pod(at("1"), 0).await;
    test.finish_pod(at("0"), 1).await;
    // After the backoff of ten seconds, with the failure count of the previous pod plus one.
    let again = test.pods(1).await;
    assert_eq!(annotation(&again[0], INDEX), Some("0"));
    assert_eq!(annotation(&again[0], FAILURES), Some("1"));
    test.finish_pod(&again[0], 1).await;
    let (conditions, job) = test.wait_until_finished().await;
    let why = "FailedIndexes: Job has failed indexes";
    assert_eq!(conditions, [format!("FailureTarget=True {why}"), format!("Failed=True {why}")]);
    let status = job.status.as_ref().unwrap();
    assert_eq!((status.succeeded, status.failed), (Some(1), Some(2)));
    let indexes = (status.completed_indexes.as_deref(), status.failed_indexes.as_deref());
    assert_eq!(indexes, (Some("1"), Some("0")));
    test.cluster.stop().await;
}

#[tokio::test]
async fn success_policy_completes_the_job_early() {
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}, {"succeededCount": 1}]},
    });
    let Some(test) = JobTest::start(spec).await else { return };
    let pods = test.pods(3).await;
    let two = pods.iter().find(|pod| annotation(pod, INDEX) == Some("2")).unwrap();
    test.finish_pod(two, 0).await;
    let (conditions, job) = test.wait_until_finished().await;
    let why = "SuccessPolicy: Matched rules at index 1";
    let expected = [format!("SuccessCriteriaMet=True {why}"), format!("Complete=True {why}")];
    assert_eq!(conditions, expected);
    let status = job.status.as_ref().unwrap();
    assert_eq!((status.succeeded, status.failed, status.active), (Some(1), None, None));
    assert_eq!(status.completed_indexes.as_deref(), Some("2"));
    test.cluster.eventually_all::<Pod>(|pods| pods.len() == 1).await;
    test.cluster.stop().await;
}
