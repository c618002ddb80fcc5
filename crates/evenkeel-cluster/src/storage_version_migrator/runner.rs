//! Starts and ends migrations.

use evenkeel::client::Client;
use evenkeel::{Action, Clock, Context, Key, Kind, Reconciler, Result};
use k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{
    RESOURCE, RUNNER, RUNNING, SUCCEEDED, apply, is, is_conflict, is_terminal, name, resource,
    set_condition, update_status,
};
use crate::pods;

/// How often a status is applied to a CRD that changes meanwhile, as upstream.
const ATTEMPTS: usize = 5;

/// Lets one migration of each resource run. It has one worker, so no two start at once.
pub(super) struct Runner;

impl Reconciler for Runner {
    type Object = StorageVersionMigration;

    async fn reconcile(&self, cx: &Context<StorageVersionMigration>) -> Result<Action> {
        let Some(found) = cx.object() else { return Ok(Action::done()) };
        let Some(name) = resource(&found).map(name) else { return Ok(Action::done()) };
        match (is(&found, RUNNING), is_terminal(&found)) {
            (true, true) => end(cx, &found, &name).await?,
            (false, false) if is_next(cx, &found, &name).await? => start(cx, &found, &name).await?,
            _ => {}
        }
        Ok(Action::done())
    }
}

/// Returns whether a migration is the oldest that waits, and none is running.
async fn is_next(
    cx: &Context<StorageVersionMigration>,
    migration: &StorageVersionMigration,
    name: &str,
) -> Result<bool> {
    let age = |migration: &StorageVersionMigration| {
        (migration.creation_timestamp().map(|time| time.0), migration.name_any())
    };
    let all = cx.client().list::<StorageVersionMigration>().index(RESOURCE, name).await?;
    Ok(all
        .iter()
        .all(|other| !is(other, RUNNING) && (is_terminal(other) || age(other) >= age(migration))))
}

/// Starts a migration. The CRD is marked first: the generation in its condition shows at the end
/// whether it was changed meanwhile.
async fn start(
    cx: &Context<StorageVersionMigration>,
    migration: &StorageVersionMigration,
    name: &str,
) -> Result<()> {
    let message = format!("Migration {} is running", migration.name_any());
    edit_crd(cx.client(), name, |crd| {
        let condition = condition(crd, cx.clock(), "True", "MigrationRunning", &message);
        json!({"conditions": [condition]})
    })
    .await?;
    let mut next = migration.clone();
    let reason = "MigrationRunning";
    set_condition(&mut next, cx.clock(), (RUNNING, "True"), reason, "The migration is running");
    update_status(cx, &next).await?;
    Ok(())
}

/// Ends a migration. The stored versions of the CRD are only trimmed if all objects were migrated
/// and the CRD has not changed since: otherwise objects may be stored in another version.
async fn end(
    cx: &Context<StorageVersionMigration>,
    migration: &StorageVersionMigration,
    name: &str,
) -> Result<()> {
    let succeeded = is(migration, SUCCEEDED);
    edit_crd(cx.client(), name, |crd| {
        let unchanged = is_unchanged(crd);
        let (reason, message) = match (succeeded, unchanged) {
            (true, true) => (
                "MigrationSucceeded",
                "The migration has succeeded and the stored versions have been updated",
            ),
            (true, false) => (
                "MigrationSucceeded",
                "The migration has succeeded but the stored versions have not been updated due to \
                 a generation mismatch",
            ),
            (false, _) => ("MigrationFailed", "The migration has failed"),
        };
        let condition = condition(crd, cx.clock(), "False", reason, message);
        let mut status = json!({"conditions": [condition]});
        if succeeded && unchanged {
            let stored = crd.spec.versions.iter().filter(|version| version.storage);
            status["storedVersions"] = stored.map(|version| version.name.clone()).collect();
        }
        status
    })
    .await?;
    let mut next = migration.clone();
    let message = "Migration completed";
    set_condition(&mut next, cx.clock(), (RUNNING, "False"), "MigrationCompleted", message);
    update_status(cx, &next).await?;
    Ok(())
}

/// Returns whether the CRD is as it was when the migration started.
fn is_unchanged(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let migrating = conditions.find(|condition| condition.type_ == "StorageMigrating");
    migrating.is_some_and(|found| found.observed_generation == crd.metadata.generation)
}

fn condition(
    crd: &CustomResourceDefinition,
    clock: &Clock,
    status: &str,
    reason: &str,
    message: &str,
) -> Value {
    json!({
        "type": "StorageMigrating",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": pods::timestamp(clock),
        "observedGeneration": crd.metadata.generation,
    })
}

/// Applies a status to the CRD of a resource, if it has one. It is computed from the version of the
/// CRD that it is applied to.
async fn edit_crd(
    client: &Client,
    name: &str,
    status: impl Fn(&CustomResourceDefinition) -> Value,
) -> Result<()> {
    let kind = Kind::of::<CustomResourceDefinition>();
    let path = format!("{}/{name}/status", kind.path(None));
    for _ in 0..ATTEMPTS {
        let found = client.live().get::<CustomResourceDefinition>(&Key::cluster(name)).await?;
        let Some(crd) = found else { return Ok(()) };
        let applied = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind(),
            "metadata": {"name": name, "resourceVersion": crd.metadata.resource_version},
            "status": status(&crd),
        });
        match apply(client, RUNNER, &path, true, &applied).await {
            Err(error) if is_conflict(&error) => {}
            result => return Ok(result?),
        }
    }
    Err(format!("CustomResourceDefinition {name} changes all the time").into())
}
