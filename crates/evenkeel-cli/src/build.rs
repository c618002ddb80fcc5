//! Builds the operator in the current directory with Cargo.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use serde::Deserialize;

use crate::process::Running;

/// Which operator to build, and how.
#[derive(Args, Clone, Default)]
pub(crate) struct BuildArgs {
    /// Executable to build, if the workspace has several
    #[arg(long, value_name = "NAME")]
    pub(crate) bin: Option<String>,
    /// Build with optimizations
    #[arg(long)]
    pub(crate) release: bool,
}

/// A line of `cargo build --message-format=json`.
#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
}

/// Fails outside of a project.
///
/// # Errors
/// If there is no package or workspace around the current directory.
pub(crate) fn check_project() -> anyhow::Result<()> {
    let current = std::env::current_dir().context("cannot read the current directory")?;
    if !current.ancestors().any(|directory| directory.join("Cargo.toml").is_file()) {
        bail!(
            "there is no Cargo.toml in {} or above it\n\
             hint: `evenkeel new NAME` creates a project",
            current.display()
        );
    }
    Ok(())
}

/// Builds the operator and returns its executable. Cargo prints its progress and errors to stderr.
///
/// # Errors
/// If the build fails, or there is not exactly one executable.
pub(crate) async fn build(arguments: &BuildArgs) -> anyhow::Result<PathBuf> {
    check_project()?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--message-format=json-render-diagnostics"]);
    if arguments.release {
        cargo.arg("--release");
    }
    match &arguments.bin {
        Some(name) => cargo.args(["--bin", name]),
        None => cargo.arg("--bins"),
    };
    cargo.stdout(Stdio::piped());
    // If this program was started with `cargo run`, its variables would make build scripts run again.
    let set = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|it| name.starts_with(it));
    for (name, _) in std::env::vars().filter(|(name, _)| set(name)) {
        cargo.env_remove(name);
    }
    let mut running = Running::start(&mut cargo)?;
    let mut stdout = running.stdout().context("cargo has no output")?;
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| bytes)
    });
    if !running.wait().await.success() {
        bail!("the build failed");
    }
    let bytes = reader.join().map_err(|_| anyhow!("cannot read the output of cargo"))??;
    let text = String::from_utf8_lossy(&bytes);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let mut executables: Vec<PathBuf> = messages
        .filter(|message| message.reason == "compiler-artifact")
        .filter_map(|message| message.executable)
        .collect();
    executables.dedup();
    match (executables.pop(), executables.is_empty()) {
        (Some(executable), true) => Ok(executable),
        (None, _) => bail!("the package in the current directory has no executable"),
        (Some(last), false) => {
            executables.push(last);
            let names: Vec<_> = executables.iter().map(|it| name(it)).collect();
            bail!("there are several executables; choose one with --bin: {}", names.join(", "))
        }
    }
}

/// Returns the name of an executable.
pub(crate) fn name(executable: &Path) -> String {
    executable.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
}
