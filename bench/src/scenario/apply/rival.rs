//! Runs Go's structured-merge-diff in a child process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::go;

const MODULE: &str = "sigs.k8s.io/structured-merge-diff/v6";
/// The schema of the module's own benchmarks, which includes Deployments.
const SCHEMA: &str = "internal/testdata/k8s-schema.yaml";

pub(super) struct Rival {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Rival {
    /// Builds and starts the program; fails if Go is not installed.
    pub(super) fn build() -> anyhow::Result<Self> {
        let module = go::run(&go::rival("smd"), &["list", "-m", "-f", "{{.Dir}}", MODULE])?;
        let program = go::build("smd")?;
        let schema = PathBuf::from(module.trim()).join(SCHEMA);
        let started =
            Command::new(&program).arg(schema).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        // A running program can be unlinked.
        std::fs::remove_file(&program)?;
        let mut child = started?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, input, output })
    }

    /// Returns the time of one merge, one comparison and one apply.
    pub(super) fn measure(
        &mut self,
        live: &Value,
        applied: &Value,
        changed: &Value,
    ) -> anyhow::Result<[Duration; 3]> {
        let strip = |object: &Value| {
            let mut object = object.clone();
            if let Some(meta) = object["metadata"].as_object_mut() {
                meta.remove("managedFields");
            }
            object
        };
        let request = json!({"live": strip(live), "applied": applied, "changed": strip(changed)});
        let input = self.input.as_mut().context("no input")?;
        writeln!(input, "{request}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let response: Value = serde_json::from_str(&line).context("no response from the rival")?;
        let time = |what: &str| {
            let nanos = response[what].as_u64().with_context(|| format!("no {what}"))?;
            anyhow::Ok(Duration::from_nanos(nanos))
        };
        Ok([time("merge")?, time("compare")?, time("apply")?])
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // It exits when its stdin is closed.
        self.input = None;
        let _ = self.child.wait();
    }
}
