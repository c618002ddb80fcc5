//! The storage version migrator: rewrites the objects of a resource in its current storage version.
//!
//! A StorageVersionMigration names a resource. The runner starts one migration of each resource at a
//! time and trims the stored versions of its CRD at the end. In between, the migrator rewrites each
//! object that is older than the resourceVersion in the status of the migration. A restart continues
//! from there: what was rewritten since is newer.

mod migrate;

mod runner;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use evenkeel::client::{Client, Requestor};
use evenkeel::{BoxError, Clock, Context, Manager, Result};
use k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, GroupResource};
use serde_json::Value;

use self::migrate::Migrator;
use self::runner::Runner;
use crate::options::ClusterOptions;
use crate::pods;

/// The name in `kube-controller-manager`.
pub(crate) const NAME: &str = "storage-version-migrator-controller";

/// The name of the part that starts and ends migrations.
pub(crate) const RUNNER: &str = "migration-runner-controller";

/// The API of migrations. Servers do not serve it by default.
pub(crate) const API_VERSION: &str = "storagemigration.k8s.io/v1beta1";

/// The index of migrations by resource.
const RESOURCE: &str = "resource";

const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// Registers the controllers, if migrations are served.
pub(crate) fn register(manager: &Manager, options: &ClusterOptions) -> Result<(), BoxError> {
    if !options.serves_storage_migrations {
        return Ok(());
    }
    manager.cache().index::<StorageVersionMigration>(RESOURCE, |migration| {
        resource(migration).map(name).into_iter().collect()
    })?;
    manager
        .controller(Runner)
        .named(RUNNER)
        // One that waits may be next.
        .watches::<StorageVersionMigration>(|migration, cx| {
            let name = resource(migration).map(name).unwrap_or_default();
            cx.select::<StorageVersionMigration>().index(RESOURCE, &name).keys()
        })
        .register()?;
    manager
        .controller(Migrator)
        .named(NAME)
        .workers(5)
        .reconcile_timeout(migrate::TIMEOUT)
        .register()?;
    Ok(())
}

fn resource(migration: &StorageVersionMigration) -> Option<&GroupResource> {
    migration.spec.as_ref().map(|spec| &spec.resource)
}

/// Returns the name of a resource, which is also that of its CRD.
fn name(resource: &GroupResource) -> String {
    format!("{}.{}", resource.resource, resource.group)
}

/// Returns whether a condition is true.
fn is(migration: &StorageVersionMigration, condition: &str) -> bool {
    let conditions = migration.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|found| found.type_ == condition && found.status == "True")
}

fn is_terminal(migration: &StorageVersionMigration) -> bool {
    is(migration, SUCCEEDED) || is(migration, FAILED)
}

/// Sets a condition.
fn set_condition(
    migration: &mut StorageVersionMigration,
    clock: &Clock,
    (condition, status): (&str, &str),
    reason: &str,
    message: &str,
) {
    let conditions = migration.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|found| found.type_ != condition);
    conditions.push(Condition {
        type_: condition.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: pods::timestamp(clock),
        observed_generation: None,
    });
}

/// Applies a configuration to the object at `path`, as one of the controllers. The runtime's client
/// omits the uid and the resourceVersion of a configuration.
async fn apply(
    client: &Client,
    controller: &str,
    path: &str,
    force: bool,
    configuration: &Value,
) -> Result<(), BoxError> {
    let request = http::Request::patch(format!("{path}?fieldManager={controller}&force={force}"))
        .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
        .extension(Requestor(controller.into()))
        .body(serde_json::to_vec(configuration)?)?;
    client.kube().request::<Value>(request).await?;
    Ok(())
}

/// Returns the code of the status that the API server returned, if it did.
fn code(error: &BoxError) -> Option<u16> {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// Returns whether the object has changed, or was deleted or replaced.
fn is_conflict(error: &BoxError) -> bool {
    code(error) == Some(409)
}

async fn update_status(
    cx: &Context<StorageVersionMigration>,
    migration: &StorageVersionMigration,
) -> Result<Arc<StorageVersionMigration>> {
    let status = cx.client().subresource::<StorageVersionMigration>(cx.key(), "status");
    Ok(status.update(migration).await?)
}
