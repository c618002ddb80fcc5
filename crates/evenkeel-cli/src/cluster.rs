//! `evenkeel cluster`: the embedded API server on a loopback address, with controllers and
//! simulated nodes.

mod connect;

mod describe;

mod detach;

mod embedded;

pub(crate) mod snapshot;

pub(crate) mod start;

mod stop;

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start a cluster and run it until Ctrl-C or SIGTERM, or in the background
    #[command(after_help = "Example:\n  evenkeel cluster start --detach --nodes 3")]
    Start(Box<start::Start>),
    /// Stop a cluster
    #[command(after_help = "Example:\n  evenkeel cluster stop")]
    Stop(Target),
    /// Show whether a cluster is running and ready
    #[command(after_help = "Example:\n  evenkeel cluster status --json")]
    Status(describe::Status),
    /// Print the kubeconfig of a cluster
    #[command(after_help = "Example:\n  evenkeel cluster kubeconfig > admin.kubeconfig")]
    Kubeconfig(Target),
    /// Delete all objects of a background cluster
    #[command(after_help = "Example:\n  evenkeel cluster reset")]
    Reset(Target),
    /// Write all objects of a cluster to a file
    #[command(after_help = "Example:\n  evenkeel cluster snapshot before.jsonl")]
    Snapshot(snapshot::Snapshot),
    /// Replace all objects of a background cluster with those of a snapshot
    #[command(
        after_help = "Example:\n  evenkeel cluster snapshot before.jsonl && evenkeel cluster load before.jsonl"
    )]
    Load(snapshot::Load),
}

/// The cluster that a command is about.
#[derive(Args)]
pub(crate) struct Target {
    /// Kubeconfig that `cluster start` wrote
    #[arg(long, value_name = "FILE", default_value = "evenkeel.kubeconfig")]
    pub(crate) kubeconfig: PathBuf,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    if let Command::Start(start) = command {
        return start::run(start);
    }
    crate::block_on(async {
        match command {
            Command::Start(_) => Ok(()),
            Command::Stop(target) => stop::run(&target.kubeconfig).await,
            Command::Status(status) => describe::status(status).await,
            Command::Kubeconfig(target) => describe::kubeconfig(&target.kubeconfig).await,
            Command::Reset(target) => detach::restart(&target.kubeconfig, None).await,
            Command::Snapshot(snapshot) => snapshot::write(snapshot).await,
            Command::Load(load) => snapshot::load(load).await,
        }
    })
}
