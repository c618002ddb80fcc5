//! `batch.kubernetes.io/job-tracking` on pods, with the garbage collector's finalizers on Jobs.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

use super::{Model, accept, run, terminating};

const CONTROLLERS: &[&str] = &[
    crate::job::NAME,
    crate::garbage::NAME,
    crate::namespace::NAME,
    crate::node_lifecycle::POD_GC,
];

const PHASES: &[&str] = &["Pending", "Running", "Succeeded", "Failed"];

#[tokio::test(start_paused = true)]
async fn every_pod_of_a_job_is_released() {
    run(model).await;
}

async fn model(seed: u64) -> Result<(), String> {
    let model = Model::after(seed, CONTROLLERS, 40, step).await;
    model.delete_namespaces().await;
    model.wait_until_deleted(left).await
}

async fn left(client: kube::Client) -> Vec<String> {
    let mut left = terminating::<Namespace>(client.clone()).await;
    left.extend(terminating::<Job>(client.clone()).await);
    left.extend(terminating::<Pod>(client).await);
    left
}

async fn step(model: &mut Model) {
    let action = model.random.below(16);
    if action < 3 {
        return create(model).await;
    }
    if action == 3 {
        return model.restart();
    }
    if action == 4 && model.chance(4) {
        let namespaces = Api::<Namespace>::all(model.client.clone());
        accept(namespaces.delete(model.namespace(), &DeleteParams::default()).await);
        return;
    }
    if action < 8 {
        let Some(job) = model.any::<Job>().await else { return };
        let jobs = model.of(&job);
        match action {
            5 => model.delete(&jobs, &job).await,
            6 => {
                let suspend = model.chance(2);
                model.patch(&jobs, &job, json!({"spec": {"suspend": suspend}})).await;
            }
            _ => model.touch(&jobs, &job).await,
        }
        return;
    }
    let Some(pod) = model.any::<Pod>().await else { return };
    let pods = model.of(&pod);
    match action {
        8 => model.delete(&pods, &pod).await,
        9 => {
            // A value that no Job selects, or none, which releases the pod as well.
            let value = if model.chance(2) { json!("other") } else { json!(null) };
            let labels = json!({"batch.kubernetes.io/controller-uid": value, "app": value});
            model.patch(&pods, &pod, json!({"metadata": {"labels": labels}})).await;
        }
        10 => model.touch(&pods, &pod).await,
        11 => model.end_pods().await,
        _ => model.set_phase(&pod, PHASES).await,
    }
}

async fn create(model: &mut Model) {
    let count = 1 + model.random.below(3);
    let mut job = json!({
        "metadata": {"name": model.name("job")},
        "spec": {
            "completions": count, "parallelism": 1 + model.random.below(3),
            "backoffLimit": model.random.below(4),
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "app", "image": "app:1"}],
            }},
        },
    });
    if model.chance(2) {
        job["spec"]["template"]["spec"]["nodeName"] = json!("node");
    }
    if model.chance(3) {
        job["spec"]["podReplacementPolicy"] = json!("Failed");
    }
    if model.chance(3) {
        job["spec"]["completionMode"] = json!("Indexed");
        if model.chance(2) {
            job["spec"]["backoffLimitPerIndex"] = json!(1);
        }
    }
    if model.chance(4) {
        job["spec"]["manualSelector"] = json!(true);
        job["spec"]["selector"] = json!({"matchLabels": {"app": "one"}});
        job["spec"]["template"]["metadata"] = json!({"labels": {"app": "one"}});
    }
    model.create::<Job>(job).await;
}
