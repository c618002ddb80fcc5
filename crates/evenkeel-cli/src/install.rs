//! `evenkeel install`, `uninstall`, `deploy` and `undeploy`: an operator on a cluster.

use anyhow::Context as _;
use clap::Args;
use evenkeel::kube;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::apply;
use crate::manifests::model::Model;
use crate::manifests::objects::{self, Document};
use crate::manifests::{self, Source};
use crate::output;
use crate::target::{Connection, TargetArgs};

#[derive(Args)]
pub(crate) struct Install {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    target: TargetArgs,
    /// Do not ask before a cluster on another machine is changed
    #[arg(short, long)]
    yes: bool,
}

/// Applies the CRDs.
pub(crate) async fn install(install: &Install) -> anyhow::Result<()> {
    let (model, _) = manifests::describe(&install.source)?;
    let connection = install.target.connect().await?;
    let crds = match model.crds.len() {
        1 => "1 CRD".to_owned(),
        count => format!("{count} CRDs"),
    };
    apply::confirm(&connection, &format!("Installing {crds} of {}", model.name), install.yes)?;
    apply::apply(&connection, &model.crds).await
}

/// Applies everything that the operator needs.
pub(crate) async fn deploy(install: &Install) -> anyhow::Result<()> {
    let (model, settings) = manifests::describe(&install.source)?;
    let connection = install.target.connect().await?;
    let what = format!("Deploying {} to namespace {}", model.name, settings.namespace);
    apply::confirm(&connection, &what, install.yes)?;
    let objects: Vec<Value> =
        objects::all(&model, &settings).into_iter().map(|it| it.object).collect();
    apply::apply(&connection, &objects).await?;
    if is_simulated(&connection).await {
        output::progress(
            "The pods of this cluster are simulated: no container runs, so nothing reconciles. \
             Run the operator with `cargo run` or `evenkeel dev`.",
        );
    }
    Ok(())
}

/// Deletes the CRDs in a safe order: the custom objects first, while the operator can remove its
/// finalizers.
pub(crate) async fn uninstall(install: &Install) -> anyhow::Result<()> {
    let (model, _) = manifests::describe(&install.source)?;
    let connection = install.target.connect().await?;
    let what = format!("Deleting the CRDs of {} and all their objects", model.name);
    apply::confirm(&connection, &what, install.yes)?;
    drain(&connection, &model).await?;
    apply::delete(&connection, &model.crds).await
}

/// Deletes the operator: its custom objects while it runs, its webhooks, the operator, its CRDs.
pub(crate) async fn undeploy(install: &Install) -> anyhow::Result<()> {
    let (model, settings) = manifests::describe(&install.source)?;
    let connection = install.target.connect().await?;
    let what = format!("Deleting {} with its CRDs and all their objects", model.name);
    apply::confirm(&connection, &what, install.yes)?;
    drain(&connection, &model).await?;
    let documents = objects::all(&model, &settings);
    let (crds, rest): (Vec<Document>, Vec<Document>) =
        documents.into_iter().partition(|it| it.object["kind"] == "CustomResourceDefinition");
    for documents in [rest, crds] {
        let objects: Vec<Value> = documents.into_iter().map(|it| it.object).collect();
        apply::delete(&connection, &objects).await?;
    }
    Ok(())
}

/// Deletes all custom objects and waits until the operator has removed its finalizers.
async fn drain(connection: &Connection, model: &Model) -> anyhow::Result<()> {
    for crd in &model.crds {
        let text = |pointer| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let mut versions = versions.into_iter().flatten();
        let served = versions.find(|it| it["served"] == true).cloned().unwrap_or_default();
        let version = served["name"].as_str().unwrap_or_default();
        let kind = json!({
            "apiVersion": format!("{}/{version}", text("/spec/group")),
            "kind": text("/spec/names/kind"),
        });
        // An older version of the operator may have been installed without it.
        let Ok((resource, _)) = apply::resource(connection, &kind).await else { continue };
        let all = kube::Api::<DynamicObject>::all_with(connection.client.clone(), &resource);
        let found = all.list(&ListParams::default()).await;
        let found = found.with_context(|| format!("cannot list {}", text("/spec/names/plural")))?;
        let objects: Vec<Value> = found
            .into_iter()
            .map(|object| {
                let meta = object.metadata;
                let mut value = kind.clone();
                value["metadata"] = json!({"name": meta.name, "namespace": meta.namespace});
                value
            })
            .collect();
        apply::delete(connection, &objects).await?;
    }
    Ok(())
}

/// Whether the nodes of the cluster are simulated.
async fn is_simulated(connection: &Connection) -> bool {
    use evenkeel::k8s_openapi::api::core::v1::Node;
    let nodes = kube::Api::<Node>::all(connection.client.clone());
    let found = nodes.list(&ListParams::default().limit(1)).await;
    found.is_ok_and(|nodes| {
        nodes.items.first().is_some_and(|node| {
            let info = node.status.as_ref().and_then(|it| it.node_info.as_ref());
            info.is_some_and(|info| info.container_runtime_version.starts_with("evenkeel"))
        })
    })
}
