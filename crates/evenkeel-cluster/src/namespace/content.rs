//! Deletes the content of a namespace, type by type.

use std::time::Duration;

use evenkeel::client::Client;
use evenkeel::{BoxError, Key, Kind};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams, PropagationPolicy};
use kube::core::DynamicObject;

use super::conditions::DeletionReport;
use crate::discovery::{Type, Types};

/// How long finalizers of other controllers are given before the next attempt.
const FINALIZER_ESTIMATE: Duration = Duration::from_secs(15);

/// What is left after one attempt.
#[derive(Debug, Default)]
pub(super) struct RemainingContent {
    /// When it should be deleted; zero if nothing is left.
    pub(super) estimate: Duration,
    /// The types that have objects left.
    pub(super) kinds: Vec<Kind>,
}

/// Deletes the content of a namespace that has been terminating for `age`. Pods are deleted first;
/// while any exist, nothing else is deleted, since they may need it to terminate.
pub(super) async fn remove(
    client: &Client,
    namespace: &str,
    age: Duration,
    report: &mut DeletionReport,
) -> RemainingContent {
    let mut left = RemainingContent::default();
    let types = match Types::discover(client.kube()).await {
        Ok(types) => types,
        Err(error) => {
            report.undiscovered = Some(error.to_string());
            return left;
        }
    };
    if !types.stale.is_empty() {
        let (count, all) = (types.stale.len(), types.stale.join(", "));
        report.undiscovered =
            Some(format!("Discovery failed for some groups, {count} failing: {all}"));
    }
    let deletable = |found: &&Type| found.kind.namespaced() && found.supports(&["delete"]);
    let (pods, others): (Vec<&Type>, Vec<&Type>) =
        types.iter().filter(deletable).partition(|found| found.kind.is("", "Pod"));
    for found in pods {
        match estimate_pods(client, namespace, age).await {
            Ok(estimate) => {
                delete_type(client, found, namespace, estimate, report, &mut left).await
            }
            Err(error) => report.failures.push(error.to_string()),
        }
    }
    if !left.kinds.is_empty() {
        // As upstream: remaining content is reported once the pods are deleted.
        report.remaining.clear();
        report.finalizers.clear();
        return left;
    }
    for found in others {
        delete_type(client, found, namespace, Duration::ZERO, report, &mut left).await;
    }
    left
}

/// Deletes all objects of one type and records what is left of them.
async fn delete_type(
    client: &Client,
    found: &Type,
    namespace: &str,
    estimate: Duration,
    report: &mut DeletionReport,
    left: &mut RemainingContent,
) {
    let kind = &found.kind;
    let remaining = match delete(client, found, namespace).await {
        Ok(remaining) => remaining,
        Err(error) => {
            report.failures.push(error.to_string());
            left.estimate = left.estimate.max(estimate);
            return;
        }
    };
    if remaining.is_empty() {
        return;
    }
    let mut finalized = false;
    for name in remaining.iter().flat_map(|meta| meta.finalizers.iter().flatten()) {
        *report.finalizers.entry(name.clone()).or_default() += 1;
        finalized = true;
    }
    let name = format!("{}.{}", kind.plural(), kind.group());
    report.remaining.insert(name, remaining.len());
    left.kinds.push(kind.clone());
    if !estimate.is_zero() {
        left.estimate = left.estimate.max(estimate);
    } else if finalized {
        left.estimate = left.estimate.max(FINALIZER_ESTIMATE);
    } else {
        let (group, version, plural) = (kind.group(), kind.version(), kind.plural());
        report.failures.push(format!(
            "unexpected items still remain in namespace: {namespace} for gvr: \
             {group}/{version}, Resource={plural}"
        ));
    }
}

/// Deletes all objects of one type. Returns those that still exist.
async fn delete(
    client: &Client,
    found: &Type,
    namespace: &str,
) -> Result<Vec<ObjectMeta>, BoxError> {
    let resource = found.kind.api_resource();
    let api: Api<DynamicObject> = Api::namespaced_with(client.kube().clone(), namespace, &resource);
    if !found.supports(&["list"]) {
        return Ok(Vec::new());
    }
    // The server rejects creates in the namespace, so a type without objects is done.
    let present = list(&api).await?;
    if present.is_empty() {
        return Ok(present);
    }
    // All content is deleted, so nothing is orphaned.
    let objects = client.dynamic(&found.kind);
    if found.supports(&["deletecollection"]) {
        let all = objects.delete_collection().in_namespace(namespace);
        all.propagation(PropagationPolicy::Background).await?;
    } else {
        for name in present.iter().filter_map(|meta| meta.name.as_deref()) {
            let delete = objects.delete_by_key(&Key::namespaced(namespace, name));
            match delete.propagation(PropagationPolicy::Background).await {
                Err(error) if error.status().is_some_and(|it| matches!(it.code, 404 | 405)) => {}
                result => drop(result?),
            }
        }
    }
    list(&api).await
}

async fn list(api: &Api<DynamicObject>) -> Result<Vec<ObjectMeta>, BoxError> {
    match api.list_metadata(&ListParams::default()).await {
        Ok(list) => Ok(list.items.into_iter().map(|object| object.metadata).collect()),
        // The type may have been removed since discovery.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the longest grace period of the namespace's pods; zero once it has passed.
async fn estimate_pods(
    client: &Client,
    namespace: &str,
    age: Duration,
) -> Result<Duration, BoxError> {
    let pods = client.live().list::<Pod>().in_namespace(namespace).await?;
    let running = pods.iter().filter(|pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        !matches!(phase, Some("Succeeded" | "Failed"))
    });
    let graces = running.filter_map(|pod| pod.spec.as_ref()?.termination_grace_period_seconds);
    let longest = graces.max().and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    let longest = Duration::from_secs(longest);
    Ok(if age >= longest { Duration::ZERO } else { longest })
}
