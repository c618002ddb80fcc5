//! `evenkeel manifests`: everything that a cluster needs to run an operator, rendered from the
//! compiled operator.

pub(crate) mod drift;

mod helm;

pub(crate) mod model;

pub(crate) mod objects;

pub(crate) mod settings;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::output;
use model::Model;
use settings::{Settings, Table};

#[derive(Args)]
#[command(after_help = "\
Settings are read from evenkeel.toml:
  namespace        namespace of the operator [default: the operator's name]
  image            container image [default: NAME:VERSION]
  replicas         number of replicas [default: 1]
  cpu, memory      limits of the container [default: 500m, 128Mi]
  service-monitor  whether to render a ServiceMonitor [default: false]
  network-policy   whether to render a NetworkPolicy [default: true]

Examples:
  evenkeel manifests | kubectl apply --server-side -f -
  evenkeel manifests --format helm --output chart
  evenkeel manifests --output deploy && evenkeel manifests --output deploy --check")]
pub(crate) struct Manifests {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Format::Yaml)]
    format: Format,
    /// Directory to write to; by default YAML is printed
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Compare with the files in the directory instead of writing them; the exit code is 1 if they
    /// differ
    #[arg(long, requires = "output")]
    check: bool,
}

/// Where the description of the operator comes from.
#[derive(Args)]
pub(crate) struct Source {
    /// Executable of the operator; by default `cargo run` builds it
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
    /// Executable to build, if the workspace has several
    #[arg(long, value_name = "NAME", conflicts_with = "binary")]
    pub(crate) bin: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Plain YAML
    Yaml,
    /// YAML with a kustomization.yaml
    Kustomize,
    /// A Helm chart
    Helm,
}

/// A file of the output.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// Checks `evenkeel.toml`.
///
/// # Errors
/// If it is not valid; the error names the setting.
pub(crate) fn check_settings() -> anyhow::Result<()> {
    Table::read().map(drop)
}

/// Returns the description of an operator and the settings of its manifests.
///
/// # Errors
/// If the operator cannot be built or run, or `evenkeel.toml` is not valid.
pub(crate) fn describe(source: &Source) -> anyhow::Result<(Model, Settings)> {
    let table = Table::read()?;
    let model = Model::of(source, table.namespace.as_deref())?;
    let settings = table.complete(&model);
    Ok((model, settings))
}

pub(crate) fn run(manifests: &Manifests) -> anyhow::Result<()> {
    let (model, settings) = describe(&manifests.source)?;
    let documents = objects::all(&model, &settings);
    let files = match manifests.format {
        Format::Yaml => yaml_files(&documents)?,
        Format::Kustomize => kustomize_files(&documents, &settings)?,
        Format::Helm => helm::files(&documents, &model, &settings)?,
    };
    match &manifests.output {
        Some(directory) if manifests.check => drift::check(directory, &files),
        Some(directory) => write(directory, &files),
        None if manifests.format == Format::Yaml => {
            output::print(&stream(documents.iter().map(|it| &it.object))?)
        }
        None => bail!("this format has several files; pass --output DIR"),
    }
}

/// Returns objects as a YAML stream.
///
/// # Errors
/// If an object cannot be encoded.
pub(crate) fn stream<'a>(objects: impl Iterator<Item = &'a Value>) -> anyhow::Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(&evenkeel::manifest::yaml(object)?);
    }
    Ok(text)
}

/// Returns a file per topic, in the order of their names, which is that of their installation.
fn yaml_files(documents: &[objects::Document]) -> anyhow::Result<Vec<File>> {
    let mut files = Vec::<File>::new();
    for document in documents {
        let yaml = format!("---\n{}", evenkeel::manifest::yaml(&document.object)?);
        match files.iter_mut().find(|file| file.path == Path::new(document.file)) {
            Some(file) => file.text.push_str(&yaml),
            None => files.push(File { path: document.file.into(), text: yaml }),
        }
    }
    Ok(files)
}

fn kustomize_files(
    documents: &[objects::Document],
    settings: &Settings,
) -> anyhow::Result<Vec<File>> {
    let mut files = yaml_files(documents)?;
    let resources: Vec<_> = files.iter().map(|file| file.path.display().to_string()).collect();
    let (name, tag) = settings.image.rsplit_once(':').unwrap_or((&settings.image, "latest"));
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": settings.namespace,
        "resources": resources,
        "images": [{"name": name, "newTag": tag}],
    });
    files.push(File {
        path: "kustomization.yaml".into(),
        text: evenkeel::manifest::yaml(&kustomization)?,
    });
    Ok(files)
}

fn write(directory: &Path, files: &[File]) -> anyhow::Result<()> {
    for file in files {
        let path = directory.join(&file.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot create {}", parent.display()))?;
        }
        std::fs::write(&path, &file.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    output::progress(&format!("Wrote {} files to {}.", files.len(), directory.display()));
    Ok(())
}
