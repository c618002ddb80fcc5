//! A database with an ordered upgrade: a snapshot, then the replicas one by one, then the promotion of
//! an upgraded replica, then the old primary.

use evenkeel::owner::is_controller;
use evenkeel::prelude::*;
use evenkeel_sim::Oracle;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A replicated database.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(
    group = "sim.test",
    version = "v1",
    kind = "Database",
    namespaced,
    status = "DatabaseStatus"
)]
#[serde(rename_all = "camelCase")]
struct DatabaseSpec {
    #[schemars(range(min = 2, max = 3))]
    members: i32,
    version: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct DatabaseStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    /// The member that accepts writes.
    #[serde(default)]
    primary: i32,
}

struct Databases;

impl Reconciler for Databases {
    type Object = Database;

    async fn reconcile(&self, cx: &Context<Database>) -> Result<Action> {
        let Some(database) = cx.object() else { return Ok(Action::done()) };
        let primary = database.status.as_ref().map_or(0, |status| status.primary);
        let mut outdated = Vec::new();
        let mut ready = Vec::new();
        for member in 0..database.spec.members {
            match cx.client().get::<Pod>(&cx.key().sibling(&name(&database, member))).await? {
                Some(pod) if !is_controller(&*database, &*pod) => {
                    return Err(format!("{} is owned by another object", pod.name_any()).into());
                }
                Some(pod) if pod.metadata.deletion_timestamp.is_some() => {}
                // A kubelet never restarts an evicted pod.
                Some(pod) if is_failed(&pod) => drop(cx.client().delete(&*pod).await?),
                Some(pod) if image(&pod) != Some(&desired(&database)) => {
                    outdated.push((member, pod))
                }
                Some(pod) if is_ready(&pod) => ready.push(member),
                Some(_) => {}
                None => drop(cx.apply_owned(pod(&database, member)).force().await?),
            }
        }
        for pod in cx.client().list::<Pod>().in_namespace("default").await? {
            let surplus =
                || (database.spec.members..4).any(|it| pod.name_any() == name(&database, it));
            if is_controller(&*database, &*pod) && surplus() {
                cx.client().delete(&*pod).await?;
            }
        }
        let others = |member: &i32| *member != primary;
        let complete = ready.len() + outdated.len() == usize::try_from(database.spec.members)?;
        let mut next = primary;
        let reason = if !complete {
            "Starting"
        } else if outdated.is_empty() {
            "Complete"
        } else if !snapshot_is_complete(cx, &database).await? {
            "Snapshot"
        } else if let Some((_, pod)) = outdated.iter().rev().find(|(member, _)| others(member)) {
            cx.client().delete(&**pod).await?;
            "UpgradingReplicas"
        } else if outdated.iter().any(|(member, _)| *member == primary) {
            // All others are upgraded: one of them takes over before the old primary stops.
            match ready.iter().copied().find(others) {
                Some(member) => next = member,
                None => cx.client().delete(&*outdated[0].1).await.map(drop)?,
            }
            "Promoting"
        } else {
            "Starting"
        };
        let ready = Condition::new("Ready", reason == "Complete", reason, reason);
        let status = cx.status(&database).set(|status| status.primary = next);
        status.condition(ready).write().await?;
        Ok(Action::done())
    }
}

/// Creates the Job of the snapshot before an upgrade; returns whether it has completed.
async fn snapshot_is_complete(cx: &Context<Database>, database: &Database) -> Result<bool> {
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": format!("{}-before-{}", database.name_any(), database.spec.version)},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "snapshot", "image": "snapshot:1"}],
        }}},
    }))?;
    let job = cx.apply_owned(job).force().await?;
    Ok(job.status.as_ref().and_then(|status| status.succeeded).unwrap_or_default() > 0)
}

fn name(database: &Database, member: i32) -> String {
    format!("{}-{member}", database.name_any())
}

fn desired(database: &Database) -> String {
    format!("database:{}", database.spec.version)
}

fn pod(database: &Database, member: i32) -> Pod {
    let pod = json!({
        "metadata": {"name": name(database, member)},
        "spec": {"containers": [{"name": "main", "image": desired(database)}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn image(pod: &Pod) -> Option<&String> {
    pod.spec.as_ref()?.containers.first()?.image.as_ref()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
}

fn is_failed(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed")
}

#[test]
fn database_survives_faults() {
    let main = "{apiVersion: sim.test/v1, kind: Database, metadata: {name: main}, \
                spec: {members: 2, version: '1'}}";
    evenkeel_sim::operator("database", |manager| {
        manager.controller(Databases).owns::<Pod>().owns::<Job>().register()
    })
    .install::<Database>()
    .sample(main)
    .patch::<Database>("main", json!({"spec": {"version": "2"}}))
    .disable(Oracle::Transition, "snapshots of earlier upgrades are kept")
    .expect(expected)
    .invariant("there are no other members", |objects| {
        let of = |kind: &'static str| {
            objects.iter().copied().filter(move |object| object["kind"] == kind)
        };
        let is_member = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["kind"] == "Database";
        let declared: i64 = of("Database").filter_map(|it| it["spec"]["members"].as_i64()).sum();
        match of("Pod").filter(is_member).count() as i64 {
            members if members <= declared => Ok(()),
            members => Err(format!("there are {members} of {declared} members")),
        }
    })
    .check();
}

/// Returns a database with its members, and the snapshot before an upgrade.
fn expected(database: &Database, _: &[&Value]) -> Vec<Value> {
    let (name, version) = (database.name_any(), &database.spec.version);
    let member = |number: i32| {
        let containers = json!([{"name": "main", "image": format!("database:{version}")}]);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{name}-{number}")},
            "spec": {"containers": containers}})
    };
    let itself = json!({"apiVersion": "sim.test/v1", "kind": "Database", "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let containers = json!([{"name": "snapshot", "image": "snapshot:1"}]);
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"succeeded": 1},
        "metadata": {"name": format!("{name}-before-{version}")},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}}});
    let members = (0..database.spec.members).map(member);
    // The first version needs none.
    [itself].into_iter().chain(members).chain((version == "2").then_some(job)).collect()
}
