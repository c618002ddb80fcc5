//! Runs the `go` command, which builds the rivals that are written in Go.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// The output of a `go` command in a folder; fails if Go is not installed.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output =
        Command::new("go").args(arguments).current_dir(folder).output().context("no go")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "go {}: {}", arguments[0], stderr.trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// The folder of a rival's source.
pub(crate) fn rival(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("rival").join(name)
}

/// Builds a rival and returns its path in the temporary directory.
pub(crate) fn build(name: &str) -> anyhow::Result<PathBuf> {
    let program =
        std::env::temp_dir().join(format!("evenkeel-bench-{name}-{}", std::process::id()));
    let target = program.to_str().context("the temporary directory is not UTF-8")?;
    run(&rival(name), &["build", "-o", target, "."])?;
    Ok(program)
}
