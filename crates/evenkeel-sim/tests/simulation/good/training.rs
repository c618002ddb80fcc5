//! A training job: a parameter server, then workers that need it; a worker that is lost is replaced,
//! and nothing runs on when all have succeeded.

use evenkeel::owner::is_controller;
use evenkeel::prelude::*;
use k8s_openapi::api::core::v1::{Pod, Service};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A training run.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(
    group = "sim.test",
    version = "v1",
    kind = "Training",
    namespaced,
    status = "TrainingStatus"
)]
#[serde(rename_all = "camelCase")]
struct TrainingSpec {
    #[schemars(range(min = 1, max = 3))]
    workers: i32,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct TrainingStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    /// Workers that have succeeded.
    #[serde(default)]
    succeeded: i32,
}

struct Trainings;

impl Reconciler for Trainings {
    type Object = Training;

    async fn reconcile(&self, cx: &Context<Training>) -> Result<Action> {
        let Some(training) = cx.object() else { return Ok(Action::done()) };
        let status = training.status.as_ref();
        let server = format!("{}-server", cx.key().name());
        if status.is_some_and(|status| status.conditions.is_true("Complete")) {
            // The workers are kept for their logs; the server is of no more use.
            if let Some(pod) = cx.client().get::<Pod>(&cx.key().sibling(&server)).await?
                && is_controller(&*training, &*pod)
                && pod.metadata.deletion_timestamp.is_none()
            {
                cx.client().delete(&*pod).await?;
            }
            cx.status(&training).write().await?;
            return Ok(Action::done());
        }
        let selector = json!({"server": server});
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": server},
            "spec": {"selector": selector, "ports": [{"port": 2222}]},
        }))?;
        cx.apply_owned(service).force().await?;
        let parameters = pod(&server, &selector, "Always", json!({}))?;
        let parameters = cx.apply_owned(parameters).force().await?;
        if phase(&parameters) == "Failed" {
            // A kubelet never restarts an evicted pod.
            cx.client().delete(&*parameters).await?;
        }
        if phase(&parameters) != "Running" {
            return report(cx, &training, 0, "WaitingForServer").await;
        }
        let mut succeeded = 0;
        for number in 0..training.spec.workers {
            let name = format!("{}-worker-{number}", cx.key().name());
            let found = cx.client().get::<Pod>(&cx.key().sibling(&name)).await?;
            match found {
                Some(found) if !is_controller(&*training, &*found) => {
                    return Err(format!("{name} is owned by another object").into());
                }
                Some(found) if phase(&found) == "Succeeded" => succeeded += 1,
                Some(found) if phase(&found) == "Failed" => {
                    cx.client().delete(&*found).await?;
                }
                Some(_) => {}
                None => {
                    let command = json!({"command": ["sleep", "5"]});
                    let worker = pod(&name, &json!({"worker": name}), "Never", command)?;
                    cx.apply_owned(worker).force().await?;
                }
            }
        }
        let reason = if succeeded == training.spec.workers { "Complete" } else { "Training" };
        report(cx, &training, succeeded, reason).await
    }
}

async fn report(
    cx: &Context<Training>,
    training: &Training,
    succeeded: i32,
    reason: &str,
) -> Result<Action> {
    let complete = Condition::new("Complete", reason == "Complete", reason, reason);
    let status = cx.status(training).set(|status| status.succeeded = succeeded);
    status.condition(complete).write().await?;
    Ok(Action::done())
}

fn pod(name: &str, labels: &Value, restart: &str, container: Value) -> Result<Pod> {
    let mut container = container;
    container["name"] = "main".into();
    container["image"] = "training:1".into();
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "restartPolicy": restart, "terminationGracePeriodSeconds": 1, "containers": [container],
        },
    }))?)
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

#[test]
fn training_survives_faults() {
    evenkeel_sim::operator("training", |manager| {
        manager.controller(Trainings).owns::<Pod>().owns::<Service>().register()
    })
    .install::<Training>()
    .sample(
        "{apiVersion: sim.test/v1, kind: Training, metadata: {name: digits}, spec: {workers: 2}}",
    )
    .expect(expected)
    .invariant("the server of a completed training is gone", |objects| {
        let is_server = |object: &&Value| {
            object["kind"] == "Pod" && !object["metadata"]["labels"]["server"].is_null()
        };
        match objects.iter().copied().find(is_server) {
            Some(pod) => Err(format!("Pod {} exists", pod["metadata"]["name"])),
            None => Ok(()),
        }
    })
    .check();
}

/// Returns a training that has completed, with its Service and workers.
fn expected(training: &Training, _: &[&Value]) -> Vec<Value> {
    let name = training.name_any();
    let server = format!("{name}-server");
    let itself = json!({"apiVersion": "sim.test/v1", "kind": "Training", "metadata": {"name": name},
        "status": {"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": server},
        "spec": {"selector": {"server": server}, "ports": [{"port": 2222}]}});
    let worker = |number: i32| {
        let name = format!("{name}-worker-{number}");
        let container = json!({"name": "main", "image": "training:1", "command": ["sleep", "5"]});
        json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"},
        "metadata": {"name": name, "labels": {"worker": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }})
    };
    // What is declared when it is complete has no effect.
    [itself, service].into_iter().chain((0..2).map(worker)).collect()
}
