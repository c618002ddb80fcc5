//! `evenkeel plan`: what a new build of an operator would write to a cluster.
//!
//! The operator runs on a copy of the cluster in an embedded API server, without cluster
//! controllers. The cluster itself is only read.

mod activity;

mod changes;

mod copy;

mod print;

mod redact;

mod session;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;

use crate::build::{self, BuildArgs};
use crate::manifests::{self, Source};
use crate::output::{self, progress};
use crate::signals::StopSignals;
use crate::target::TargetArgs;
use session::{End, Session};

#[derive(Args)]
#[command(after_help = "\
The objects of the cluster are copied to an embedded API server, with their uids, status, managed
fields and owner references. The operator runs there, as its service account with the permissions of
this build and with the CRDs of this build, until it is idle. What it wrote is printed. Nothing is
written to the cluster.

The plan does not have what the cluster's controllers and webhooks would do: garbage collection, pods
of a Deployment, changes by admission webhooks of other programs. Calls of the operator to other
systems are real. Values of Secrets are replaced in the copy and in the output.

Examples:
  evenkeel plan
  evenkeel plan --for 1m --detailed-exitcode --json")]
pub(crate) struct Plan {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    build: BuildArgs,
    /// Executable of the operator; by default `cargo build` builds it
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// How long the operator runs, if it is not idle before
    #[arg(long = "for", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    deadline: Duration,
    /// Copy the values of Secrets, for operators that need them; the output has none
    #[arg(long)]
    copy_secrets: bool,
    /// Exit with code 2 if there are writes, and 1 on errors
    #[arg(long)]
    detailed_exitcode: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Arguments of the operator
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Parses a duration such as `90s` or `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    let nanoseconds = evenkeel_types::duration::parse(text)?;
    match u64::try_from(nanoseconds) {
        Ok(nanoseconds) if nanoseconds > 0 => Ok(Duration::from_nanos(nanoseconds)),
        _ => Err("the duration must be positive".to_owned()),
    }
}

/// Prints the plan. The exit code is 0, or that of `--detailed-exitcode`.
pub(crate) async fn run(plan: &Plan) -> anyhow::Result<()> {
    match print_plan(plan).await {
        Ok(true) if plan.detailed_exitcode => std::process::exit(2),
        Ok(_) => Ok(()),
        Err(error) if plan.detailed_exitcode => {
            progress(&format!("error: {}", output::error(&error)));
            std::process::exit(1)
        }
        Err(error) => Err(error),
    }
}

/// Prints the plan and returns whether there are writes.
async fn print_plan(plan: &Plan) -> anyhow::Result<bool> {
    let overriding = ["--kubeconfig", "--context"];
    let given = |argument: &&String| overriding.contains(&argument.split('=').next().unwrap_or(""));
    if let Some(argument) = plan.arguments.iter().find(given) {
        bail!("the operator must run on the copy: remove its argument {argument}");
    }
    let mut signals = StopSignals::install()?;
    let cluster = plan.target.connect().await?;
    let executable = match &plan.binary {
        Some(path) => std::path::absolute(path)?,
        None => build::build(&plan.build).await?,
    };
    let source = Source { binary: Some(executable.clone()), bin: None };
    let (model, settings) = manifests::describe(&source)?;
    let (context, url) = (&cluster.context, &cluster.url);
    progress(&format!(
        "Copying the objects of context {context}, {url}; nothing is written there."
    ));
    let redactor = redact::Redactor::new()?;
    let secrets = (!plan.copy_secrets).then_some(&redactor);
    let copy = copy::read(&cluster, &model, secrets).await?;
    progress(&format!("Copied {} objects.", copy.objects.len()));
    copy.notes.iter().for_each(|note| progress(&format!("note: {note}")));
    let mut session = Session::start(copy.objects, &model, &settings).await?;
    progress(&format!(
        "warning: {} runs with its real code: calls to systems other than this API server have \
         their effects.",
        model.name
    ));
    let end = tokio::select! {
        end = session.run(&executable, &plan.arguments, plan.deadline) => end,
        () = signals.received() => Err(anyhow!("interrupted")),
    };
    let (changes, failures) = (session.changes(&redactor), session.failures());
    session.stop().await;
    let end = end?;
    for failure in failures {
        progress(&format!("warning: the reconcile of {failure}"));
    }
    match &end {
        End::Idle => {}
        End::Busy(problems) => {
            progress(&format!(
                "warning: the operator was not idle after {:?}; a longer --for may show more.",
                plan.deadline
            ));
            problems.iter().for_each(|problem| progress(&format!("warning: {problem}")));
        }
        // Reported below, after what it wrote.
        End::Exited(_) => {}
    }
    print::changes(&changes, plan.json)?;
    if let End::Exited(status) = end {
        bail!("the plan is incomplete: the operator ended ({status})");
    }
    if !plan.json {
        output::print(&print::summary(&changes))?;
    }
    Ok(!changes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_positive_and_have_a_unit() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        for invalid in ["0", "-1s", "5", ""] {
            assert!(duration(invalid).is_err(), "{invalid}");
        }
    }
}
