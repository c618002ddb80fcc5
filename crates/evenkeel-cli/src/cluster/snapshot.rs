//! `evenkeel cluster snapshot` and `load`: all objects of a cluster as a file.
//!
//! A snapshot has one JSON object per line, as the API server returns it: uids, owner references,
//! status and managed fields are kept.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use evenkeel::kube;
use kube::discovery::{ApiResource, Discovery, verbs};
use serde_json::Value;

use super::connect::Cluster;
use super::{Target, detach};
use crate::output;

#[derive(Args)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    target: Target,
    /// File to write
    file: PathBuf,
}

#[derive(Args)]
pub(crate) struct Load {
    #[command(flatten)]
    target: Target,
    /// File that `cluster snapshot` wrote
    file: PathBuf,
}

/// Objects per request.
const PAGE: usize = 500;

pub(crate) async fn write(snapshot: &Snapshot) -> anyhow::Result<()> {
    let cluster = Cluster::running(&snapshot.target.kubeconfig).await?;
    let Export { objects, failures } = export(&cluster.client().await?, |_| true).await?;
    if let Some(failure) = failures.first() {
        bail!("{failure}");
    }
    let path = &snapshot.file;
    // Secrets are part of it.
    let file = private_file(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut file = std::io::BufWriter::new(file);
    for object in &objects {
        writeln!(file, "{object}").with_context(|| format!("cannot write {}", path.display()))?;
    }
    file.flush().with_context(|| format!("cannot write {}", path.display()))?;
    output::progress(&format!("Wrote {} objects to {}.", objects.len(), path.display()));
    Ok(())
}

#[cfg(unix)]
fn private_file(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The objects of a cluster.
pub(crate) struct Export {
    pub(crate) objects: Vec<Value>,
    /// The resources that the server refused to list, with its reason.
    pub(crate) failures: Vec<String>,
}

/// Returns the objects that the server stores, each in the preferred version of its group. Only
/// `wanted` resources are listed. All requests are reads.
///
/// # Errors
/// If the server does not respond.
pub(crate) async fn export(
    client: &kube::Client,
    wanted: impl Fn(&ApiResource) -> bool,
) -> anyhow::Result<Export> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await;
    let discovery = discovery.context("cannot discover the resources of the cluster")?;
    let (mut objects, mut failures) = (Vec::new(), Vec::new());
    // Events are served by two groups.
    let mut uids = BTreeSet::new();
    for group in discovery.groups_alphabetical() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST) || !wanted(&resource) {
                continue;
            }
            let failed = || format!("cannot list {}.{}", resource.plural, resource.group);
            let listed = match list(client, &resource).await {
                Ok(listed) => listed,
                Err(kube::Error::Api(status)) => {
                    failures.push(format!("{}: {}", failed(), status.message));
                    continue;
                }
                Err(error) => return Err(error).with_context(failed),
            };
            for object in listed {
                let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
                // Objects without uid are not stored.
                if uid.is_some_and(|uid| uids.insert(uid.to_owned())) {
                    objects.push(object);
                }
            }
        }
    }
    Ok(Export { objects, failures })
}

async fn list(client: &kube::Client, resource: &ApiResource) -> kube::Result<Vec<Value>> {
    let prefix = match resource.group.is_empty() {
        true => format!("/api/{}", resource.version),
        false => format!("/apis/{}", resource.api_version),
    };
    let mut items = Vec::new();
    let mut token = String::new();
    loop {
        let query = match token.is_empty() {
            true => String::new(),
            false => format!("&continue={}", percent_encode(&token)),
        };
        let path = format!("{prefix}/{}?limit={PAGE}{query}", resource.plural);
        let request = http::Request::get(path).body(Vec::new());
        let mut page: Value = client.request(request.map_err(kube::Error::HttpError)?).await?;
        if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
            items.extend(found.into_iter().map(|mut item| {
                item["apiVersion"] = resource.api_version.clone().into();
                item["kind"] = resource.kind.clone().into();
                item
            }));
        }
        token = page.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or("").to_owned();
        if token.is_empty() {
            return Ok(items);
        }
    }
}

fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

pub(crate) async fn load(load: &Load) -> anyhow::Result<()> {
    // Before the cluster is stopped.
    let objects = read(&load.file)?;
    detach::restart(&load.target.kubeconfig, Some(&load.file)).await?;
    output::progress(&format!("Loaded {} objects from {}.", objects.len(), load.file.display()));
    Ok(())
}

/// Reads a snapshot.
///
/// # Errors
/// If a line is not an object with apiVersion, kind and name.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut objects = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = || format!("{}, line {}", path.display(), number + 1);
        let object: Value = serde_json::from_str(line).with_context(place)?;
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        if [text("/apiVersion"), text("/kind"), text("/metadata/name")].contains(&"") {
            bail!("{}: not an object with apiVersion, kind and name", place());
        }
        objects.push(object);
    }
    Ok(objects)
}
