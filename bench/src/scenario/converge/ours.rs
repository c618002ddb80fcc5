//! The operator for Evenkeel.

use std::sync::Arc;

use anyhow::Context as _;
use evenkeel::{Condition, prelude::*, reconciler_fn};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinSet;

use super::Progress;
use super::objects::{Site, child};

pub(super) async fn run(
    manager: &Manager,
    workers: u16,
    progress: Arc<Progress>,
) -> anyhow::Result<()> {
    let counted = progress.clone();
    let reconciler = reconciler_fn(move |site: Arc<Site>, cx: Context<Site>| {
        let progress = counted.clone();
        counted.clone().count_polls(async move {
            cx.apply_owned(child(&site)).await?;
            let hosts = site.spec.hosts.len() as i32;
            let status = cx
                .status(&site)
                .condition(Condition::new("Ready", true, "Applied", "the ConfigMap exists"))
                .set(|status| status.hosts = hosts);
            let written = status.write().await?;
            progress.reconciled(&site.name_any(), written.is_none());
            Ok(Action::done())
        })
    });
    let builder = manager.controller(reconciler).owns::<ConfigMap>();
    builder.workers(workers.into()).register()?;
    let mut running = JoinSet::new();
    running.spawn(manager.clone().run_until(std::future::pending()));
    tokio::select! {
        () = progress.done() => Ok(()),
        ended = running.join_next() => {
            ended.context("the manager task ended")???;
            anyhow::bail!("the manager ended")
        }
    }
}
