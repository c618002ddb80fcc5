//! Rewrites the objects of a resource.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::{Action, BoxError, Context, Kind, Reconciler, Result};
use k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;
use kube::core::DynamicObject;
use serde_json::json;

use super::{
    FAILED, NAME, RUNNING, SUCCEEDED, apply, code, is, is_conflict, is_terminal, resource,
    set_condition, update_status,
};
use crate::discovery::Types;

/// How long a migration may take before it is interrupted and continued.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How long a resource may be missing, as upstream: its CRD may be about to be served.
const MISSING_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(5);

/// How many objects are listed at once.
const PAGE: u32 = 500;

const NEEDED_VERBS: [&str; 3] = ["update", "patch", "list"];

/// Rewrites the objects of running migrations.
pub(super) struct Migrator;

impl Reconciler for Migrator {
    type Object = StorageVersionMigration;

    async fn reconcile(&self, cx: &Context<StorageVersionMigration>) -> Result<Action> {
        let Some(found) = cx.object() else { return Ok(Action::done()) };
        if !is(&found, RUNNING) || is_terminal(&found) {
            return Ok(Action::done());
        }
        let Some(resource) = resource(&found) else { return Ok(Action::done()) };
        let types = Types::discover(cx.client().kube()).await?;
        let Some(target) = types.find_resource(&resource.group, &resource.resource) else {
            let age = found.metadata.creation_timestamp.as_ref();
            let age = age.map(|created| cx.clock().now().duration_since(created.0));
            if age.is_some_and(|age| age.unsigned_abs() < MISSING_TIMEOUT) {
                return Ok(Action::requeue_after(RETRY));
            }
            return fail(cx, &found, "resource does not exist in discovery").await;
        };
        let kind = &target.kind;
        if !target.supports(&NEEDED_VERBS) {
            let why = format!(
                "resource \"{}/{}, Resource={}\" does not support discovery operations: [{}]",
                kind.group(),
                kind.version(),
                kind.plural(),
                NEEDED_VERBS.join(" ")
            );
            return fail(cx, &found, &why).await;
        }
        let migration = with_resource_version(cx, &found, kind).await?;
        let until = version(migration.status.as_ref().and_then(|s| s.resource_version.as_ref()));
        if let Some(why) = rewrite(cx, kind, until).await? {
            let why = format!("migration encountered unhandled error: {why}");
            return fail(cx, &migration, &why).await;
        }
        let mut next = StorageVersionMigration::clone(&migration);
        let reason = "StorageVersionMigrationSucceeded";
        set_condition(&mut next, cx.clock(), (SUCCEEDED, "True"), reason, "");
        update_status(cx, &next).await?;
        Ok(Action::done())
    }
}

async fn fail(
    cx: &Context<StorageVersionMigration>,
    migration: &StorageVersionMigration,
    why: &str,
) -> Result<Action> {
    let mut next = migration.clone();
    let reason = "StorageVersionMigrationFailed";
    set_condition(&mut next, cx.clock(), (FAILED, "True"), reason, why);
    update_status(cx, &next).await?;
    Ok(Action::done())
}

/// Returns the migration with a resourceVersion in its status: that of the resource, if it has none
/// yet.
async fn with_resource_version(
    cx: &Context<StorageVersionMigration>,
    migration: &StorageVersionMigration,
    kind: &Kind,
) -> Result<Arc<StorageVersionMigration>> {
    let mut next = migration.clone();
    let status = next.status.get_or_insert_default();
    if status.resource_version.as_ref().is_some_and(|version| !version.is_empty()) {
        return Ok(Arc::new(next));
    }
    let list = objects(cx, kind).list_metadata(&ListParams::default().limit(1)).await?;
    status.resource_version = list.metadata.resource_version;
    update_status(cx, &next).await
}

/// Rewrites the objects that were last written until a resourceVersion. Returns why an object cannot
/// be rewritten; errors that may not last are returned as such, to be retried.
async fn rewrite(
    cx: &Context<StorageVersionMigration>,
    kind: &Kind,
    until: u64,
) -> Result<Option<String>> {
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = objects(cx, kind).list_metadata(&page).await?;
        for object in &list.items {
            if version(object.metadata.resource_version.as_ref()) > until {
                continue;
            }
            match touch(cx, kind, &object.metadata).await {
                Ok(()) => {}
                // It was written, deleted or replaced since, so it needs no migration.
                Err(error) if is_conflict(&error) => {}
                Err(error) if is_retryable(&error) => return Err(error.into()),
                Err(error) => return Ok(Some(evenkeel::chain(&*error))),
            }
        }
        page.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
        if page.continue_token.is_none() {
            return Ok(None);
        }
    }
}

/// Applies a configuration without fields: the server only changes how the object is stored. The
/// uid keeps it from being created again, and the resourceVersion from being written needlessly.
async fn touch(
    cx: &Context<StorageVersionMigration>,
    kind: &Kind,
    object: &ObjectMeta,
) -> Result<(), BoxError> {
    let applied = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind(),
        "metadata": {"uid": object.uid, "resourceVersion": object.resource_version},
    });
    let name = object.name.as_deref().unwrap_or_default();
    let path = format!("{}/{name}", kind.path(object.namespace.as_deref()));
    apply(cx.client(), NAME, &path, false, &applied).await
}

/// Returns whether the same request may succeed later.
fn is_retryable(error: &BoxError) -> bool {
    code(error).is_none_or(|code| matches!(code, 429 | 500 | 502..=504))
}

fn objects(cx: &Context<StorageVersionMigration>, kind: &Kind) -> Api<DynamicObject> {
    Api::all_with(cx.client().kube().clone(), &kind.api_resource())
}

/// Returns a resourceVersion as a number; 0 if it is none.
fn version(text: Option<&String>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
