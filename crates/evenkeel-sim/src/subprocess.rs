//! Runs in processes of their own, for operators with state in statics: the test executes itself, and
//! the child process runs one plan.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_cluster::ClusterOptions;
use serde::{Deserialize, Serialize};

use crate::fail;
use crate::plan::Plan;
use crate::simulation::Config;
use crate::world::{self, Run};

/// The variable with the file of the job of a child process.
const JOB: &str = "SIM_JOB";

/// The arguments of libtest after the name of a test.
const ARGUMENTS: [&str; 3] = ["--exact", "--nocapture", "--test-threads=1"];

/// What a child process runs.
#[derive(Deserialize, Serialize)]
struct Job {
    /// The name of the simulation: a test may have several.
    operator: String,
    plan: Plan,
    cluster: Parts,
}

/// The parts of the cluster: plans are run without those that the operator does not need.
#[derive(Deserialize, Serialize)]
struct Parts {
    disabled_controllers: BTreeSet<String>,
    rbac: bool,
    events: bool,
    heartbeats: bool,
    gc_resources: Option<BTreeSet<String>>,
}

impl Parts {
    fn of(options: &ClusterOptions) -> Self {
        Self {
            disabled_controllers: options.disabled_controllers.clone(),
            rbac: options.rbac,
            events: options.events,
            heartbeats: options.heartbeats,
            gc_resources: options.gc_resources.clone(),
        }
    }

    fn apply(self, options: &mut ClusterOptions) {
        options.disabled_controllers = self.disabled_controllers;
        options.rbac = self.rbac;
        options.events = self.events;
        options.heartbeats = self.heartbeats;
        options.gc_resources = self.gc_resources;
    }
}

/// Whether this process runs one plan.
pub(crate) fn is_child() -> bool {
    std::env::var_os(JOB).is_some()
}

/// Returns the name of the test that is running, for [`Config::subprocess`].
pub(crate) fn current_test() -> String {
    let current = std::thread::current();
    match current.name() {
        // libtest runs the tests of a single thread on the main one, and does not name it.
        None | Some("main") => fail(
            "a simulation in subprocesses must be able to execute its test alone: its name is not \
             known if the tests are run with --test-threads=1",
        ),
        Some(name) => name.to_owned(),
    }
}

/// Runs a plan in a process of its own.
pub(crate) fn run(config: &Config, plan: &Plan, test: &str) -> Run {
    match try_run(config, plan, test) {
        Ok(run) => run,
        Err(error) => fail(&format!("cannot run a plan in a process of its own: {error}")),
    }
}

fn try_run(config: &Config, plan: &Plan, test: &str) -> Result<Run, Box<dyn std::error::Error>> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("evenkeel-sim-{}-{number}.json", std::process::id());
    let file = Temporary(std::env::temp_dir().join(name));
    let operator = config.name.clone();
    let job = Job { operator, plan: plan.clone(), cluster: Parts::of(&config.cluster) };
    std::fs::write(&file.0, serde_json::to_vec(&job)?)?;
    let output = Command::new(std::env::current_exe()?)
        .arg(test)
        .args(ARGUMENTS)
        .env(JOB, &file.0)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, error.trim()).into());
    }
    let result = std::fs::read(result(&file.0)).map_err(|error| {
        format!("the test {test} has not run the simulation {}: {error}", config.name)
    })?;
    Ok(serde_json::from_slice(&result)?)
}

/// In a child process: runs the plan of its job and ends the process. Returns whether this is a child
/// process whose job is another simulation.
pub(crate) fn is_of_another_simulation(config: &Config) -> bool {
    let Some(file) = std::env::var_os(JOB).map(PathBuf::from) else { return false };
    match serve(config, &file) {
        Ok(true) => std::process::exit(0),
        Ok(false) => true,
        Err(error) => fail(&format!("cannot run the plan of {}: {error}", file.display())),
    }
}

fn serve(config: &Config, file: &Path) -> Result<bool, Box<dyn std::error::Error>> {
    let job: Job = serde_json::from_slice(&std::fs::read(file)?)?;
    if job.operator != config.name {
        return Ok(false);
    }
    let mut config = config.clone();
    config.subprocess = None;
    job.cluster.apply(&mut config.cluster);
    let run = world::run(&config, &job.plan);
    std::fs::write(result(file), serde_json::to_vec(&run)?)?;
    Ok(true)
}

/// Returns the file of the result of a job.
fn result(job: &Path) -> PathBuf {
    job.with_extension("run.json")
}

/// A file that is removed together with the result of its job.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Either may be absent after an error.
        let _ = std::fs::remove_file(result(&self.0));
        let _ = std::fs::remove_file(&self.0);
    }
}
