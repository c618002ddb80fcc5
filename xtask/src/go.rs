//! `contend` and `scrape`: tests together with a program in Go, which must be installed.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::cargo;

/// A program in Go and the ignored tests that run it.
pub(crate) struct GoTests {
    /// The folder of the program in `xtask/`.
    folder: &'static str,
    /// The variable that the tests read the path of the program from.
    variable: &'static str,
    /// The name of the tests.
    tests: &'static str,
}

/// A process of client-go and one of the runtime compete for one Lease.
pub(crate) const CONTEND: GoTests =
    GoTests { folder: "contender", variable: "EVENKEEL_CONTENDER", tests: "contender::" };

/// Prometheus' own parser and the checks of promtool read scrapes of a manager and of the server.
pub(crate) const SCRAPE: GoTests =
    GoTests { folder: "scrape", variable: "EVENKEEL_SCRAPE", tests: "scrape::" };

impl GoTests {
    /// Builds the program and runs the tests with it.
    ///
    /// # Errors
    /// If Go is missing, the program does not build, or a test fails.
    pub(crate) fn run(&self) -> Result<(), Box<dyn Error>> {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| xtask.join("../target"), PathBuf::from);
        let program = std::path::absolute(target.join(self.folder))?;
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(xtask.join(self.folder))
            .status()
            .map_err(|error| format!("cannot run go: {error}"))?;
        if !built.success() {
            return Err("go build failed".into());
        }
        // All tests, so that the features are those of the tests in CI and nothing is built again.
        let tested = cargo()
            .args(["test", "--workspace", "--tests", self.tests, "--"])
            .args(["--ignored", "--nocapture"])
            .env(self.variable, program)
            .status()?;
        match tested.success() {
            true => Ok(()),
            false => Err("the test failed".into()),
        }
    }
}
