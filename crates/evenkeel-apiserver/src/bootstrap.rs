//! The objects every cluster has, made through the pipeline like any other.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::call::Call;
use crate::core::Core;
use crate::registry::custom;
use crate::route::Verb;
use crate::status::Status;
use crate::storage::{Key, Range};
use crate::verbs;

/// Brings the server's memory in step with its storage, then makes what is missing.
pub(crate) async fn run(core: &Arc<Core>) -> Result<(), Status> {
    restore(core).await?;
    for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
        make(core, ("", "namespaces"), "", json!({"metadata": {"name": name}})).await?;
    }
    for (name, value, description) in [
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ] {
        let class = json!({
            "metadata": {"name": name}, "value": value, "description": description,
        });
        make(core, ("scheduling.k8s.io", "priorityclasses"), "", class).await?;
    }
    let service = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": core.services.first().to_string(),
            "ports": [{"name": "https", "port": 443, "targetPort": 6443, "protocol": "TCP"}],
        },
    });
    make(core, ("", "services"), "default", service).await
}

async fn restore(core: &Arc<Core>) -> Result<(), Status> {
    for record in list(core, ("", "services"))? {
        core.services.restore(&record);
    }
    for record in list(core, ("apiextensions.k8s.io", "customresourcedefinitions"))? {
        custom::settle(core, record.key.name()).await;
    }
    Ok(())
}

fn list(
    core: &Arc<Core>,
    (group, plural): (&str, &str),
) -> Result<Vec<Arc<crate::storage::Record>>, Status> {
    let Some(resource) = core.builtin(group, plural) else { return Ok(Vec::new()) };
    let page = resource.table.list(Range::default(), None).map_err(Status::internal)?;
    Ok(page.items)
}

async fn make(
    core: &Arc<Core>,
    (group, plural): (&str, &str),
    namespace: &str,
    object: Value,
) -> Result<(), Status> {
    let Some(resource) = core.builtin(group, plural) else { return Ok(()) };
    let name = object["metadata"]["name"].as_str().unwrap_or("");
    if resource.table.get(&Key::new(namespace, name)).is_some() {
        return Ok(());
    }
    let call = Call::internal(core, &resource, Verb::Create, &Key::new(namespace, ""), None);
    match verbs::create_value(&call, object).await {
        Ok(_) => Ok(()),
        Err(status) if status.reason() == "AlreadyExists" => Ok(()),
        Err(status) => Err(status),
    }
}
