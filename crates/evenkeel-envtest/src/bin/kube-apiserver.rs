//! `kube-apiserver` for envtest.

use std::process::ExitCode;

use evenkeel_apiserver::{ApiServer, BuildError, Limits, ListenerService};
use evenkeel_envtest::{
    apiserver::{self, Startup},
    process::{self, BoxError},
};

fn main() -> ExitCode {
    process::exit_code(run())
}

fn run() -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(apiserver::main(process::arguments()?, service))
}

async fn service(startup: Startup) -> Result<ListenerService, BuildError> {
    let Startup { settings, tokens, service_accounts, audit, faults, address, stopping, .. } =
        startup;
    let mut enabled = settings.enable_admission_plugins;
    // Enabled by default, as upstream's is.
    let service_account = "ServiceAccount".to_owned();
    if !settings.disable_admission_plugins.contains(&service_account) {
        enabled.push(service_account);
    }
    let mut builder = ApiServer::builder()
        .enable_admission_plugins(enabled)
        .disable_admission_plugins(settings.disable_admission_plugins)
        .tokens(tokens)
        .service_accounts(service_accounts)
        .anonymous_auth(settings.anonymous_auth)
        .authorization_modes(settings.authorization_modes)
        .stop_with(stopping);
    for (api, enabled) in &settings.runtime_config {
        builder = builder.runtime_config(api, *enabled);
    }
    if settings.allow_remote_webhooks {
        builder = builder.allow_remote_webhooks();
    }
    if let Some((policy, log)) = audit {
        builder = builder.audit(policy, log);
    }
    if let Some((plan, log)) = faults {
        builder = builder.faults(plan, log);
    }
    if let Some(interval) = settings.compaction_interval {
        builder = builder.compaction_interval(interval);
    }
    if let Some(ttl) = settings.event_ttl {
        builder = builder.event_ttl(ttl);
    }
    let mut limits = Limits::default();
    if let Some(reads) = settings.max_requests_in_flight {
        limits.reads_in_flight = reads;
    }
    if let Some(writes) = settings.max_mutating_requests_in_flight {
        limits.writes_in_flight = writes;
    }
    builder = builder.limits(limits);
    if let Some(range) = settings.service_cidrs.first() {
        builder = builder.service_cluster_ip_range(range.to_string());
    }
    let server = builder.build().await?;
    server.advertise(address).await;
    Ok(server.into_service())
}
