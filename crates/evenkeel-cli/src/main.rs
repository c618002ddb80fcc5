//! The `evenkeel` command. The only crate that prints.

mod cluster;

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
    /// A Kubernetes API on this machine, in one process
    #[command(subcommand)]
    Cluster(cluster::Command),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result = match command {
        Command::Cluster(command) => cluster::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            cluster::print_line(&format!("error: {error:#}"));
            // 1 would mean "the answer is no"; this is trouble.
            ExitCode::from(2)
        }
    }
}
