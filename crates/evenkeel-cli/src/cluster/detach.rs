//! Clusters in the background: a second process of this executable, started with the same
//! arguments.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::connect::Cluster;
use super::stop;
use crate::output;

/// How long a cluster may take to become ready.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The hidden flag that a process in the background gets; its value is the path of its log.
pub(super) const FLAG: &str = "--background-log";

/// Starts a cluster in the background with the arguments after `cluster start`, and waits until it
/// is ready.
///
/// # Errors
/// If it ends before that; its output is part of the error.
pub(super) async fn start(arguments: &[String], kubeconfig: &Path) -> anyhow::Result<Cluster> {
    let log = log_path(kubeconfig);
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let executable = std::env::current_exe().context("cannot find this executable")?;
    let mut command = Command::new(executable);
    command.args(["cluster", "start"]).args(arguments).arg(FLAG).arg(&log);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    // A Ctrl-C in this terminal must not reach it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().context("cannot start the cluster")?;
    let ready = wait_until_ready(&mut child, kubeconfig);
    match tokio::time::timeout(TIMEOUT, ready).await {
        Ok(Ok(cluster)) => Ok(cluster),
        Ok(Err(())) => {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let text = text.trim_end();
            bail!("{}", text.strip_prefix("error: ").unwrap_or(text));
        }
        Err(_) => {
            let _ = child.kill();
            bail!("the cluster was not ready within {TIMEOUT:?}; its log is {}", log.display());
        }
    }
}

/// Waits until the kubeconfig of the process exists and its server responds. Fails if the process
/// ends.
async fn wait_until_ready(child: &mut Child, kubeconfig: &Path) -> Result<Cluster, ()> {
    loop {
        if !matches!(child.try_wait(), Ok(None)) {
            return Err(());
        }
        let found = Cluster::read(kubeconfig).ok().filter(|it| it.process.pid == child.id());
        if let Some(cluster) = found
            && cluster.version().await.is_ok()
        {
            return Ok(cluster);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn log_path(kubeconfig: &Path) -> PathBuf {
    let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
    kubeconfig.with_extension("log")
}

/// Stops a background cluster, deletes its objects, and starts it again with the same arguments,
/// with the objects of `snapshot` if there is one.
///
/// # Errors
/// If it runs in the foreground, or cannot be stopped or started.
pub(super) async fn restart(kubeconfig: &Path, snapshot: Option<&Path>) -> anyhow::Result<()> {
    let cluster = Cluster::running(kubeconfig).await?;
    let Some(arguments) = cluster.process.background.clone() else {
        bail!(
            "the cluster at {} runs in the foreground (process {})\n\
             hint: stop it with Ctrl-C and start it again{}",
            cluster.url,
            cluster.process.pid,
            if snapshot.is_some() { " with --load FILE" } else { "" },
        );
    };
    stop::stop(&cluster).await?;
    if let Some(directory) = &cluster.process.data_dir {
        delete_objects(directory)?;
    }
    let port = cluster.url.rsplit_once(':').map(|(_, port)| port.to_owned());
    let mut started = arguments.clone();
    // Clients keep their address.
    started.extend(port.into_iter().flat_map(|port| ["--port".to_owned(), port]));
    if let Some(file) = snapshot {
        let file = std::path::absolute(file)?;
        started.extend(["--load".to_owned(), file.display().to_string()]);
    }
    let cluster = start(&started, kubeconfig).await?;
    output::progress(&format!("Restarted the cluster at {}.", cluster.url));
    if cluster.process.data_dir.is_none() {
        output::progress("Its certificates are new: clients must read the kubeconfig again.");
    }
    Ok(())
}

/// Deletes the stored objects. The certificate authority stays, so that kubeconfigs stay valid.
fn delete_objects(directory: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot delete the objects in {}", directory.display());
    for entry in directory.read_dir().with_context(failed)? {
        let entry = entry.with_context(failed)?;
        if entry.file_name() == "pki" {
            continue;
        }
        let path = entry.path();
        let deleted = match path.is_dir() {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
        deleted.with_context(failed)?;
    }
    Ok(())
}
