//! `evenkeel envtest`: the drop-in executables for envtest of controller-runtime.

use std::path::Path;

use anyhow::{Context as _, bail};
use clap::Subcommand;

use crate::output;

#[derive(Subcommand)]
pub(crate) enum Envtest {
    /// Print the directory with kube-apiserver and etcd, for KUBEBUILDER_ASSETS
    #[command(after_help = "Example:\n  KUBEBUILDER_ASSETS=$(evenkeel envtest path) go test ./...")]
    Path,
}

pub(crate) fn run(envtest: &Envtest) -> anyhow::Result<()> {
    let Envtest::Path = envtest;
    let executable = std::env::current_exe().context("cannot find this executable")?;
    let directory = executable.parent().unwrap_or(Path::new("."));
    for name in ["kube-apiserver", "etcd"] {
        if !directory.join(name).is_file() {
            bail!(
                "there is no {name} beside {}\n\
                 hint: install it with `cargo install --path crates/evenkeel-envtest` in the \
                 checkout of Evenkeel",
                executable.display()
            );
        }
    }
    output::print(&format!("{}\n", directory.display()))
}
