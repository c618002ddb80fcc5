//! `contend`: a process of client-go and one of the runtime compete for one Lease.
//!
//! Needs Go. The test is `crates/evenkeel/tests/it/contender.rs`.

use std::error::Error;
use std::path::Path;
use std::process::Command;

/// Builds the Go program and runs the test with it.
///
/// # Errors
/// If Go is missing, the program does not build, or the test fails.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("contender");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        std::path::PathBuf::from,
    );
    let program = std::path::absolute(target.join("contender"))?;
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(folder)
        .status()
        .map_err(|error| format!("cannot run go: {error}"))?;
    if !built.success() {
        return Err("go build failed".into());
    }
    let test = ["test", "-p", "evenkeel", "--test", "it", "contender::", "--"];
    let tested = Command::new(env!("CARGO"))
        .args(test)
        .args(["--ignored", "--nocapture"])
        .env("EVENKEEL_CONTENDER", program)
        .status()?;
    match tested.success() {
        true => Ok(()),
        false => Err("the test failed".into()),
    }
}
