//! `evenkeel doctor`: what is wrong with the setup of a developer.

use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::output;
use crate::target::TargetArgs;

#[derive(Args)]
#[command(after_help = "Example:\n  evenkeel doctor --json")]
pub(crate) struct Doctor {
    #[command(flatten)]
    target: TargetArgs,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// The result of one check.
struct Check {
    name: &'static str,
    /// What was found.
    found: String,
    /// What to do, if it is a problem.
    problem: Option<String>,
    /// Whether the problem prevents the use of other commands.
    fatal: bool,
}

impl Check {
    fn new(name: &'static str, found: Result<String, String>, hint: &str, fatal: bool) -> Self {
        match found {
            Ok(found) => Self { name, found, problem: None, fatal },
            Err(found) => {
                // The hint of an error is that of another command.
                let found = found.split("\nhint: ").next().unwrap_or_default().to_owned();
                Self { name, found, problem: Some(hint.to_owned()), fatal }
            }
        }
    }
}

/// How long the API server may take to respond.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Prints the checks. The exit code is 1 if one found a problem that prevents something.
pub(crate) async fn run(doctor: &Doctor) -> anyhow::Result<()> {
    let mut checks = vec![
        Check::new("cargo", program("cargo"), "install Rust: https://rustup.rs", true),
        Check::new("rustfmt", program("rustfmt"), "rustup component add rustfmt", false),
        Check::new("project", project(), "create one with `evenkeel new`", false),
        Check::new("settings", settings(), "correct evenkeel.toml", true),
    ];
    let cluster = cluster(&doctor.target).await;
    let hint = "start one with `evenkeel cluster start`, or use `evenkeel dev`";
    checks.push(Check::new("cluster", cluster, hint, false));
    let failed = checks.iter().any(|check| check.fatal && check.problem.is_some());
    for check in &checks {
        output::print(&match doctor.json {
            true => {
                let ok = check.problem.is_none();
                let (found, hint) = (&check.found, &check.problem);
                let line = json!({"check": check.name, "ok": ok, "found": found, "hint": hint});
                format!("{line}\n")
            }
            false => match &check.problem {
                None => format!("ok       {:<9}{}\n", check.name, check.found),
                Some(hint) => {
                    let level = if check.fatal { "problem" } else { "missing" };
                    format!("{level}  {:<9}{}\n{:18}hint: {hint}\n", check.name, check.found, "")
                }
            },
        })?;
    }
    if failed {
        std::process::exit(1);
    }
    Ok(())
}

/// Returns the first line of the version of a program.
fn program(name: &str) -> Result<String, String> {
    let mut command = Command::new(name);
    let output = command.arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match output.status.success() {
        true => Ok(text.lines().next().unwrap_or_default().to_owned()),
        false => Err(format!("{name} --version failed")),
    }
}

/// Returns whether the current directory is an operator.
fn project() -> Result<String, String> {
    let manifest = std::fs::read_to_string("Cargo.toml").map_err(|_| "no Cargo.toml here")?;
    let table: toml::Table = manifest.parse().map_err(|error| format!("Cargo.toml: {error}"))?;
    if table.contains_key("workspace") && !table.contains_key("package") {
        return Ok("a workspace".to_owned());
    }
    let dependencies = table.get("dependencies").and_then(toml::Value::as_table);
    match dependencies.is_some_and(|it| it.contains_key("evenkeel")) {
        true => Ok("an operator".to_owned()),
        false => Err("the package does not depend on evenkeel".to_owned()),
    }
}

fn settings() -> Result<String, String> {
    crate::manifests::check_settings().map_err(|error| output::error(&error))?;
    Ok("evenkeel.toml is valid or not there".to_owned())
}

/// Returns the cluster of the current context and its version.
async fn cluster(target: &TargetArgs) -> Result<String, String> {
    let connection = target.connect().await.map_err(|error| output::error(&error))?;
    let version = tokio::time::timeout(TIMEOUT, connection.client.apiserver_version()).await;
    let (context, url) = (&connection.context, &connection.url);
    match version {
        Ok(Ok(version)) => Ok(format!("{context} at {url}, {}", version.git_version)),
        Ok(Err(error)) => Err(format!("{context} at {url}: {}", output::error(&error.into()))),
        Err(_) => Err(format!("{context} at {url} does not respond")),
    }
}
