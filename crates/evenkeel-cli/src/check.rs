//! `evenkeel check`: what would go wrong with the next version of an operator, for CI.

mod conventions;

mod crd;

mod objects;

mod permissions;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use clap::Args;
use evenkeel::kube::Api;
use evenkeel::kube::api::DynamicObject;
use evenkeel_apiserver::MinimalRole;
use serde_json::{Value, json};

use crate::apply;
use crate::manifests::{self, Source};
use crate::output;
use crate::samples;
use crate::target::TargetArgs;

#[derive(Args)]
#[command(after_help = "\
Checked are the samples, against the schemas and rules of the CRDs, and the CRDs, against the API
conventions of Kubernetes. With --against, the CRDs are compared with those in use: of a commit, or of
the current cluster, whose objects are validated against the new CRDs as well. Nothing is written to
the cluster. With --access, the permissions of the operator are compared with those that its tests
used, and the roles that these needed are printed.

Examples:
  evenkeel check
  evenkeel check --against cluster --json
  EVENKEEL_TEST_ACCESS_DIR=$PWD/access cargo test && evenkeel check --access access")]
pub(crate) struct Check {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    target: TargetArgs,
    /// What to compare the CRDs with: `cluster`, or COMMIT:FILE, a file that `evenkeel manifests` wrote
    #[arg(long, value_name = "WHAT")]
    against: Option<String>,
    /// Directory that the requests of the operator were written to: by tests with
    /// EVENKEEL_TEST_ACCESS_DIR, or by `evenkeel dev --access`
    #[arg(long, value_name = "DIR")]
    access: Option<PathBuf>,
    /// Exit with code 1 also if there are only warnings
    #[arg(long)]
    deny_warnings: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// The object, field or permission.
    place: String,
    problem: String,
    /// Whether existing objects, clients or the operator stop working.
    breaking: bool,
}

impl Finding {
    fn breaking(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into(), breaking: true }
    }

    fn warning(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { breaking: false, ..Self::breaking(place, problem) }
    }
}

/// Prints the findings. The exit code is 1 if one of them is breaking, or with `--deny-warnings` if
/// there is one.
pub(crate) async fn run(check: &Check) -> anyhow::Result<()> {
    let (model, _) = manifests::describe(&check.source)?;
    let mut findings: Vec<_> = model.crds.iter().flat_map(conventions::check).collect();
    let mut minimal = Vec::new();
    if let Some(directory) = &check.access {
        let (found, roles) = permissions::check(&model, directory)?;
        findings.extend(found);
        minimal = roles;
    }
    let old = match check.against.as_deref() {
        None => Vec::new(),
        Some("cluster") => cluster_crds(&check.target, &model.crds).await?,
        Some(revision) => revision_crds(revision)?,
    };
    for crd in &old {
        let name = &crd["metadata"]["name"];
        match model.crds.iter().find(|it| it["metadata"]["name"] == *name) {
            Some(new) => findings.extend(crd::compare(crd, new)),
            None => {
                let name = name.as_str().unwrap_or_default();
                findings.push(Finding::breaking(name, "the CRD was removed, with all its objects"));
            }
        }
    }
    let validator = objects::Validator::start(&model.crds).await?;
    for (place, object) in samples::read()? {
        findings.extend(validator.validate_strictly(&place, &object).await);
    }
    if check.against.as_deref() == Some("cluster") {
        let connection = check.target.connect().await?;
        for (place, object) in objects::stored(&connection, &old).await? {
            findings.extend(validator.validate(&place, &object).await);
        }
    }
    print_roles(check, &minimal)?;
    report(check, &findings)
}

/// Prints the roles that the requests of the operator needed.
fn print_roles(check: &Check, roles: &[MinimalRole]) -> anyhow::Result<()> {
    if check.json && !roles.is_empty() {
        return output::print(&format!("{}\n", json!({"minimal": roles})));
    }
    for role in roles {
        let mut text = match &role.namespace {
            None => "minimal ClusterRole:\n".to_owned(),
            Some(namespace) => format!("minimal Role in namespace {namespace}:\n"),
        };
        for rule in &role.rules {
            text.push_str(&format!("  {rule}\n"));
        }
        output::print(&text)?;
    }
    Ok(())
}

fn report(check: &Check, findings: &[Finding]) -> anyhow::Result<()> {
    for Finding { place, problem, breaking } in findings {
        output::print(&match check.json {
            true => {
                let line = json!({"place": place, "problem": problem, "breaking": breaking});
                format!("{line}\n")
            }
            false => {
                let level = if *breaking { "error" } else { "warning" };
                format!("{level}: {place}: {problem}\n")
            }
        })?;
    }
    if findings.iter().any(|finding| finding.breaking || check.deny_warnings) {
        std::process::exit(1);
    }
    output::progress(&format!("No breaking changes found, {} warnings.", findings.len()));
    Ok(())
}

/// Returns the CRDs of the operator that the cluster has.
async fn cluster_crds(target: &TargetArgs, crds: &[Value]) -> anyhow::Result<Vec<Value>> {
    let connection = target.connect().await?;
    let mut found = Vec::new();
    for crd in crds {
        let (resource, _) = apply::resource(&connection, crd).await?;
        let api = Api::<DynamicObject>::all_with(connection.client.clone(), &resource);
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        let old = api.get_opt(name).await.with_context(|| format!("cannot get the CRD {name}"))?;
        found.extend(old.map(serde_json::to_value).transpose()?);
    }
    Ok(found)
}

/// Returns the CRDs in a file of a commit.
fn revision_crds(revision: &str) -> anyhow::Result<Vec<Value>> {
    if !revision.contains(':') {
        bail!("invalid --against {revision:?}: expected `cluster`, or COMMIT:FILE");
    }
    let mut git = Command::new("git");
    let output = git.args(["show", revision]).stdin(Stdio::null()).output();
    let output = output.context("cannot run git")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("git show {revision} failed: {}", error.trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text)
        .with_context(|| format!("{revision} is not valid YAML"))?;
    Ok(objects.into_iter().filter(|it| it["kind"] == "CustomResourceDefinition").collect())
}
