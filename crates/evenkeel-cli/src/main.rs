//! The `evenkeel` command.

mod apply;

mod cluster;

mod image;

mod install;

mod manifests;

mod new;

mod output;

mod target;

mod tree;

mod types;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The operator framework for Rust.
#[derive(Parser)]
#[command(name = "evenkeel", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a local Kubernetes cluster in one process
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Write a container image of an operator, without a container runtime
    Image(image::Image),
    /// Install the CRDs of an operator
    #[command(after_help = "Example:\n  evenkeel install")]
    Install(install::Install),
    /// Delete the CRDs of an operator and all their objects
    #[command(after_help = "Example:\n  evenkeel uninstall --yes")]
    Uninstall(install::Install),
    /// Install an operator with everything that it needs
    #[command(after_help = "Example:\n  evenkeel deploy --context evenkeel --yes")]
    Deploy(install::Install),
    /// Delete an operator with its CRDs and all their objects
    #[command(after_help = "Example:\n  evenkeel undeploy --yes")]
    Undeploy(install::Install),
    /// Render the manifests of an operator: CRDs, RBAC, Deployment and so on
    Manifests(manifests::Manifests),
    /// Create the project of an operator
    New(new::New),
    /// Show the objects that an object owns, and what blocks deletions
    Tree(tree::Tree),
    /// Generate Rust types from a CustomResourceDefinition
    Types(types::Types),
}

/// Runs a command that makes requests.
fn block_on(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result = match command {
        Command::Cluster(command) => cluster::run(&command),
        Command::Image(command) => image::run(&command),
        Command::Install(command) => block_on(install::install(&command)),
        Command::Uninstall(command) => block_on(install::uninstall(&command)),
        Command::Deploy(command) => block_on(install::deploy(&command)),
        Command::Undeploy(command) => block_on(install::undeploy(&command)),
        Command::Manifests(command) => manifests::run(&command),
        Command::New(command) => new::run(&command),
        Command::Tree(command) => block_on(tree::run(&command)),
        Command::Types(command) => types::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::progress(&format!("error: {error:#}"));
            // Exit code 1 is reserved for commands that return a negative result.
            ExitCode::from(2)
        }
    }
}
