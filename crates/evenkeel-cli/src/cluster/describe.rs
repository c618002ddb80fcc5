//! `evenkeel cluster status` and `kubeconfig`: what is known about a cluster.

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::Target;
use super::connect::Cluster;
use crate::output;

#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the status. The exit code is 1 if the cluster is not ready.
pub(crate) async fn status(status: &Status) -> anyhow::Result<()> {
    let cluster = Cluster::read(&status.target.kubeconfig)?;
    let version = cluster.version().await.ok();
    let ready = version.is_some() && cluster.text("/readyz").await.is_ok_and(|text| text == "ok");
    let state = match (&version, ready) {
        (None, _) => "stopped",
        (Some(_), false) => "not ready",
        (Some(_), true) => "ready",
    };
    let process = &cluster.process;
    if status.json {
        let report = json!({
            "state": state,
            "server": cluster.url,
            "version": version,
            "pid": version.is_some().then_some(process.pid),
            "background": process.background.is_some(),
            "dataDir": process.data_dir,
            "log": process.log,
        });
        output::print(&format!("{report:#}\n"))?;
    } else {
        let mut rows = vec![("State", state.to_owned()), ("Server", cluster.url.clone())];
        if let Some(version) = version {
            rows.push(("Version", version));
            let mode = if process.background.is_some() { "background" } else { "foreground" };
            rows.push(("Process", format!("{} ({mode})", process.pid)));
        }
        let objects = process.data_dir.as_ref().map(|it| it.display().to_string());
        rows.push(("Objects", objects.unwrap_or_else(|| "in memory".to_owned())));
        if let Some(log) = &process.log {
            rows.push(("Log", log.display().to_string()));
        }
        let lines = rows.iter().map(|(name, value)| format!("{name:<9}{value}\n"));
        output::print(&lines.collect::<String>())?;
    }
    if !ready {
        std::process::exit(1);
    }
    Ok(())
}

pub(crate) async fn kubeconfig(path: &Path) -> anyhow::Result<()> {
    Cluster::running(path).await?;
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    output::print(&text)
}
