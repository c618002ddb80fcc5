//! An operator that has nothing to do, whose memory and wake-ups the scenario `idle` measures.

use std::net::Ipv4Addr;
use std::sync::Arc;

use clap::Parser;
use evenkeel::leader::LeaderElection;
use evenkeel::manager::BindAddress;
use evenkeel::prelude::*;
use evenkeel::webhook::{AdmissionRequest, WebhookOptions};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};

#[derive(Debug, Parser)]
struct Arguments {
    /// URL of the API server.
    url: String,
    /// Bearer token of an admin user.
    token: String,
    /// With leader election, a webhook, metrics over TLS and health probes.
    #[arg(long)]
    everything: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { url, token, everything } = Arguments::parse();
    let mut config = kube::Config::new(url.parse()?);
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.into());
    config.default_retry = false;
    let client = kube::Client::try_from(config)?;
    let mut builder = Manager::builder("bench");
    if everything {
        let any = BindAddress::At((Ipv4Addr::LOCALHOST, 0).into());
        let webhooks = WebhookOptions::new().bind_address(Ipv4Addr::LOCALHOST.into()).port(0);
        builder = builder
            .leader_election(LeaderElection::new().id("bench").namespace("default"))
            .metrics_bind_address(any)
            .health_probe_bind_address(any)
            .webhooks(webhooks.url("https://127.0.0.1:0"));
    }
    let manager = builder.build(client);
    if everything {
        let default = |_: &mut Pod, _: &AdmissionRequest| Ok(());
        manager.webhook::<Pod>().defaulter(default).register()?;
    }
    let reconciler = reconciler_fn(|_: Arc<Deployment>, _| async { Ok(Action::done()) });
    manager
        .controller(reconciler)
        .owns::<ReplicaSet>()
        .owns::<StatefulSet>()
        .owns::<DaemonSet>()
        .owns::<Job>()
        .owns::<CronJob>()
        .owns::<Pod>()
        .owns::<PersistentVolumeClaim>()
        .reads::<ConfigMap>()
        .reads_with::<Secret>(TypeOptions::new().cluster_wide_secrets())
        .register()?;
    Ok(manager.run().await?)
}
