//! `evenkeel run`: runs the operator outside of a cluster, with the current kubeconfig.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::apply;
use crate::build::{self, BuildArgs};
use crate::operator::socket;
use crate::output;
use crate::process::Running;
use crate::signals::StopSignals;
use crate::target::TargetArgs;

#[derive(Args)]
#[command(after_help = "Example:\n  evenkeel install && evenkeel run -- --log-level debug")]
pub(crate) struct Run {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    build: BuildArgs,
    /// Executable of the operator; by default `cargo build` builds it
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Do not ask before a cluster on another machine is changed
    #[arg(short, long)]
    yes: bool,
    /// Arguments of the operator
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// The time between two checks of the process.
const INTERVAL: Duration = Duration::from_millis(50);

/// Runs the operator until it ends. The exit code is that of the operator.
pub(crate) async fn run(run: &Run) -> anyhow::Result<()> {
    let connection = run.target.connect().await?;
    let executable = match &run.binary {
        Some(path) => std::path::absolute(path)?,
        None => build::build(&run.build).await?,
    };
    let name = build::name(&executable);
    apply::confirm(&connection, &format!("Running {name} outside of the cluster"), run.yes)?;
    let mut signals = StopSignals::install()?;
    let mut command = Command::new(executable);
    // The path of the kubeconfig is that of this command; a context has to be passed on.
    if let Some(path) = run.target.kubeconfig() {
        command.env("KUBECONFIG", path);
    }
    if let Some(context) = run.target.context() {
        command.args(["--context", context]);
    }
    command.args(&run.arguments).env(socket::VARIABLE, socket::path(&name)?);
    let mut operator = Running::start_operator(&mut command)?;
    loop {
        if let Some(status) = operator.ended() {
            match status.code() {
                Some(0) => return Ok(()),
                code => {
                    output::progress(&format!("{name} ended: {status}"));
                    std::process::exit(code.unwrap_or(2));
                }
            }
        }
        tokio::select! {
            () = signals.received() => operator.terminate(),
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}
