//! The `evenkeel` command.

mod account;

mod add;

mod apply;

mod build;

mod check;

mod cluster;

mod completions;

mod dev;

mod diff;

mod doctor;

mod envtest;

mod image;

mod install;

mod manifests;

mod new;

mod operator;

mod output;

mod plan;

mod process;

mod run;

mod samples;

mod signals;

mod target;

mod tree;

mod types;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// The version, and that of Kubernetes.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (Kubernetes 1.36)");

/// The operator framework for Rust.
#[derive(Parser)]
#[command(name = "evenkeel", version = VERSION)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create the project of an operator
    New(new::New),
    /// Add a kind, a controller, a webhook or a version to a project
    #[command(subcommand)]
    Add(add::Add),
    /// Run the operator on an embedded cluster, and again on each change of its sources
    Dev(dev::Dev),
    /// Run the operator outside of a cluster, with the current kubeconfig
    Run(run::Run),
    /// Show why an object was reconciled by a running operator, and the outcome
    Why(operator::why::Why),
    /// Show the workqueues of a running operator
    Queue(operator::queue::Queue),
    /// Show the types that a running operator caches
    Cache(operator::cache::Cache),
    /// Show the controllers of a running operator, refreshed every second
    Top(operator::top::Top),
    /// Pause controllers of a running operator: no reconcile starts
    #[command(after_help = "Example:\n  evenkeel pause greeting")]
    Pause(operator::control::Pause),
    /// Resume paused controllers
    #[command(after_help = "Example:\n  evenkeel resume")]
    Resume(operator::control::Pause),
    /// Reconcile an object now
    Trigger(operator::control::Trigger),
    /// Show the objects that an object owns, and what blocks deletions
    Tree(tree::Tree),
    /// Render the manifests of an operator: CRDs, RBAC, Deployment and so on
    Manifests(manifests::Manifests),
    /// Check the samples, CRDs and permissions of an operator
    Check(check::Check),
    /// Show what a new build of an operator would write to a cluster
    Plan(plan::Plan),
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
    /// Write a container image of an operator, without a container runtime
    Image(image::Image),
    /// Run a local Kubernetes cluster in one process
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Use the embedded API server with envtest of controller-runtime
    #[command(subcommand)]
    Envtest(envtest::Envtest),
    /// Generate Rust types from a CustomResourceDefinition
    Types(types::Types),
    /// Check the setup of this machine and project
    Doctor(doctor::Doctor),
    /// Print a script that completes commands in a shell
    Completions(completions::Completions),
}

/// Runs a command that makes requests.
fn block_on(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

/// Runs a command that serves a cluster.
fn block_on_many(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    // Errors of requests are returned.
    evenkeel::logging::init(Some("warn,kube_client=off"))?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result = match command {
        Command::New(command) => new::run(&command),
        Command::Add(command) => add::run(&command),
        Command::Dev(command) => block_on_many(dev::run(&command)),
        Command::Run(command) => block_on(run::run(&command)),
        Command::Why(command) => operator::why::run(&command),
        Command::Queue(command) => operator::queue::run(&command),
        Command::Cache(command) => operator::cache::run(&command),
        Command::Top(command) => operator::top::run(&command),
        Command::Pause(command) => operator::control::pause(&command, true),
        Command::Resume(command) => operator::control::pause(&command, false),
        Command::Trigger(command) => operator::control::trigger(&command),
        Command::Tree(command) => block_on(tree::run(&command)),
        Command::Manifests(command) => manifests::run(&command),
        Command::Check(command) => block_on(check::run(&command)),
        Command::Plan(command) => block_on_many(plan::run(&command)),
        Command::Install(command) => block_on(install::install(&command)),
        Command::Uninstall(command) => block_on(install::uninstall(&command)),
        Command::Deploy(command) => block_on(install::deploy(&command)),
        Command::Undeploy(command) => block_on(install::undeploy(&command)),
        Command::Image(command) => image::run(&command),
        Command::Cluster(command) => cluster::run(&command),
        Command::Envtest(command) => envtest::run(&command),
        Command::Types(command) => types::run(&command),
        Command::Doctor(command) => block_on(doctor::run(&command)),
        Command::Completions(command) => completions::run(&command, Arguments::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::progress(&format!("error: {}", output::error(&error)));
            // Exit code 1 is reserved for commands that return a negative result.
            ExitCode::from(2)
        }
    }
}
