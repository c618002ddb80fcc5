//! `evenkeel cluster stop`: ends the process of a cluster with SIGTERM and waits for it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::connect::Cluster;
use crate::output;

/// How long a cluster may take to stop.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn run(kubeconfig: &Path) -> anyhow::Result<()> {
    let cluster = Cluster::running(kubeconfig).await?;
    stop(&cluster).await?;
    output::progress(&format!("Stopped the cluster at {}.", cluster.url));
    Ok(())
}

/// Stops a running cluster and waits until its process has ended.
///
/// # Errors
/// If it does not end in time.
pub(super) async fn stop(cluster: &Cluster) -> anyhow::Result<()> {
    let process = i32::try_from(cluster.process.pid).ok().and_then(Pid::from_raw);
    let process = process.context("the kubeconfig has an invalid process id")?;
    match kill_process(process, Signal::TERM) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(error).context("cannot send SIGTERM to the cluster"),
    }
    let ended = async {
        while test_kill_process(process).is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(TIMEOUT, ended).await.is_err() {
        bail!("the cluster (process {}) did not stop within {TIMEOUT:?}", cluster.process.pid);
    }
    Ok(())
}
