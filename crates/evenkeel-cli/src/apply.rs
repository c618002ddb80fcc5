//! Server-side apply and deletion of rendered objects.

use std::time::Duration;

use anyhow::{Context as _, bail};
use evenkeel::kube;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PropagationPolicy};
use kube::core::GroupVersionKind;
use kube::discovery::{self, ApiResource, Scope};
use serde_json::Value;

use crate::output;
use crate::target::Connection;

/// The field manager of applied objects.
const FIELD_MANAGER: &str = "evenkeel";

/// How long a CRD may take to be served, and an object to be deleted.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The time between two reads while waiting.
const INTERVAL: Duration = Duration::from_millis(50);

/// Names the cluster, and requests a confirmation before a cluster that is not on this machine is changed.
///
/// # Errors
/// If the answer is not yes, or cannot be given.
pub(crate) fn confirm(connection: &Connection, what: &str, yes: bool) -> anyhow::Result<()> {
    let Connection { context, url, .. } = connection;
    output::progress(&format!("{what} (context {context}, {url})."));
    if yes || connection.is_loopback() {
        return Ok(());
    }
    let question = format!("This cluster is not on this machine. Continue with {context}? [y/N] ");
    match output::ask(&question)? {
        true => Ok(()),
        false => bail!("cancelled; --yes skips the question"),
    }
}

/// Applies objects in order. The CRDs among them are awaited.
///
/// # Errors
/// If the server rejects an object; the error names it.
pub(crate) async fn apply(connection: &Connection, objects: &[Value]) -> anyhow::Result<()> {
    apply_with(connection, objects, output::progress).await
}

/// Same as [`apply`], without output.
///
/// # Errors
/// Same as [`apply`].
pub(crate) async fn apply_quietly(
    connection: &Connection,
    objects: &[Value],
) -> anyhow::Result<()> {
    apply_with(connection, objects, |_| {}).await
}

/// Same as [`apply`], with a line per object to `report`.
///
/// # Errors
/// Same as [`apply`].
pub(crate) async fn apply_with(
    connection: &Connection,
    objects: &[Value],
    report: impl Fn(&str),
) -> anyhow::Result<()> {
    for object in objects {
        let name = reference(object);
        let api = api(connection, object).await.with_context(|| format!("cannot apply {name}"))?;
        let before = api.get_opt(object_name(object)).await.ok().flatten();
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api
            .patch(object_name(object), &parameters, &Patch::Apply(object))
            .await
            .with_context(|| format!("cannot apply {name}"))?;
        let result = match before {
            None => "created",
            Some(before)
                if before.metadata.resource_version == applied.metadata.resource_version =>
            {
                "unchanged"
            }
            Some(_) => "configured",
        };
        report(&format!("{name} {result}"));
        if object["kind"] == "CustomResourceDefinition" {
            wait_until_established(&api, object_name(object)).await?;
        }
    }
    Ok(())
}

/// Deletes objects, the last first, and waits until they are gone.
///
/// # Errors
/// If one cannot be deleted; the error names the finalizers that it waits for.
pub(crate) async fn delete(connection: &Connection, objects: &[Value]) -> anyhow::Result<()> {
    for object in objects.iter().rev() {
        let name = reference(object);
        // The CRD of the object may be deleted already.
        let Ok(api) = api(connection, object).await else { continue };
        let parameters = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match api.delete(object_name(object), &parameters).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot delete {name}")),
        }
        wait_until_deleted(&api, object_name(object), &name).await?;
        output::progress(&format!("{name} deleted"));
    }
    Ok(())
}

/// Waits until an object is gone.
///
/// # Errors
/// If it still exists at the end of the timeout; the error names what holds it.
async fn wait_until_deleted(
    api: &Api<DynamicObject>,
    name: &str,
    shown: &str,
) -> anyhow::Result<()> {
    let mut finalizers = Vec::new();
    let gone = wait_for(async || {
        let found = api.get_opt(name).await.with_context(|| format!("cannot get {shown}"))?;
        let Some(found) = found else { return Ok(Some(())) };
        finalizers = found.metadata.finalizers.unwrap_or_default();
        Ok(None)
    });
    if gone.await?.is_some() {
        return Ok(());
    }
    bail!(
        "{shown} is still being deleted after {TIMEOUT:?}; it is held by the finalizers [{}], which the \
         program that set them has to remove\n\
         hint: `evenkeel tree` shows what blocks a deletion",
        finalizers.join(", ")
    )
}

async fn wait_until_established(api: &Api<DynamicObject>, name: &str) -> anyhow::Result<()> {
    let established = wait_for(async || {
        let crd = api.get(name).await?;
        let conditions = crd.data.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let established =
            conditions.any(|it| it["type"] == "Established" && it["status"] == "True");
        Ok(established.then_some(()))
    });
    match established.await? {
        Some(()) => Ok(()),
        None => bail!("the CRD {name} was not served within {TIMEOUT:?}"),
    }
}

/// Calls `check` until it returns a value; `None` at the end of the timeout. A command reads each
/// object a few times at most, so it has no cache whose changes could be awaited.
async fn wait_for<T>(
    mut check: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let found = async {
        loop {
            if let Some(found) = check().await? {
                return Ok(found);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    tokio::time::timeout(TIMEOUT, found).await.ok().transpose()
}

/// Returns the API of an object, in its namespace or that of the command.
async fn api(connection: &Connection, object: &Value) -> anyhow::Result<Api<DynamicObject>> {
    let (resource, scope) = resource(connection, object).await?;
    let client = connection.client.clone();
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
    Ok(match scope {
        Scope::Cluster => Api::all_with(client, &resource),
        Scope::Namespaced => {
            let namespace = namespace.unwrap_or(&connection.namespace);
            Api::namespaced_with(client, namespace, &resource)
        }
    })
}

/// Returns the resource of the kind of an object.
///
/// # Errors
/// If the server does not serve it.
pub(crate) async fn resource(
    connection: &Connection,
    object: &Value,
) -> anyhow::Result<(ApiResource, Scope)> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = match text("/apiVersion").split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", text("/apiVersion")),
    };
    let gvk = GroupVersionKind::gvk(group, version, text("/kind"));
    match discovery::pinned_kind(&connection.client, &gvk).await {
        Ok((resource, capabilities)) => Ok((resource, capabilities.scope)),
        Err(kube::Error::Discovery(_)) => {
            bail!("the server has no kind {:?} in {}", gvk.kind, text("/apiVersion"))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => {
            bail!("the server does not serve {}, the API of {}", text("/apiVersion"), gvk.kind)
        }
        Err(error) => Err(error).with_context(|| format!("cannot discover {}", gvk.kind)),
    }
}

fn object_name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// Returns `Kind name` or `Kind namespace/name`.
fn reference(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default();
    match object.pointer("/metadata/namespace").and_then(Value::as_str) {
        Some(namespace) => format!("{kind} {namespace}/{}", object_name(object)),
        None => format!("{kind} {}", object_name(object)),
    }
}
