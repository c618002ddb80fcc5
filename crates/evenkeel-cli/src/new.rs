//! `evenkeel new`: creates the project of an operator that compiles, runs and is tested.

mod checkout;

pub(crate) mod names;

pub(crate) mod template;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};

use crate::output;
use names::Names;
use template::{File, Project, Template};

#[derive(Args)]
#[command(after_help = "\
Example:
  evenkeel new web-operator --template deployment --kind Website --group example.com")]
pub(crate) struct New {
    /// Name of the operator, and of the directory and the package
    name: String,
    /// What the operator does
    #[arg(long, value_enum, default_value_t = Template::Minimal)]
    template: Template,
    /// API group of the kind
    #[arg(long, default_value = "example.com")]
    group: String,
    /// API version of the kind
    #[arg(long, default_value = "v1")]
    version: String,
    /// Kind of the custom resource [default: the name without -operator, in CamelCase]
    #[arg(long)]
    kind: Option<String>,
    /// Scope of the kind
    #[arg(long, value_enum, default_value_t = Scope::Namespaced)]
    scope: Scope,
    /// Directory to create [default: NAME in the current directory]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Create a workspace with the types in a package of their own, for use by other programs
    #[arg(long)]
    workspace: bool,
    /// Checkout of Evenkeel that the project depends on [default: the one around the current
    /// directory]
    #[arg(long, value_name = "DIR")]
    evenkeel_path: Option<PathBuf>,
    /// Print the files instead of writing them
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// Objects are in namespaces
    Namespaced,
    /// Objects are cluster-scoped
    Cluster,
}

pub(crate) fn run(new: &New) -> anyhow::Result<()> {
    let names = Names::new(&new.name, new.kind.as_deref(), &new.group, &new.version)?;
    let directory = new.path.clone().unwrap_or_else(|| PathBuf::from(&new.name));
    let directory = std::path::absolute(&directory)
        .with_context(|| format!("cannot resolve {}", directory.display()))?;
    let checkout = checkout::find(new.evenkeel_path.as_deref())?;
    let project = Project {
        names: &names,
        namespaced: new.scope == Scope::Namespaced,
        workspace: new.workspace,
        standalone: !checkout::is_workspace_member(&directory),
        checkout: &checkout,
    };
    let files = project.files(new.template);
    if new.dry_run {
        return output::print(&listing(&files));
    }
    if directory.exists() && directory.read_dir().is_ok_and(|mut found| found.next().is_some()) {
        bail!("{} is not empty\nhint: choose another name or --path DIR", directory.display());
    }
    for file in &files {
        write(&directory.join(&file.path), &file.text)?;
    }
    format_sources(&directory, &files);
    let count = |file: &File| std::fs::read_to_string(directory.join(&file.path));
    let lines: usize = files.iter().flat_map(count).map(|text| text.lines().count()).sum();
    output::progress(&format!(
        "Created {} ({} files, {lines} lines): the kind {} in {}/{}.",
        directory.display(),
        files.len(),
        names.kind,
        names.group,
        names.version,
    ));
    output::progress("");
    output::progress(&format!("  cd {}", shown(&directory)));
    output::progress("  cargo test   # tests it on an embedded cluster");
    output::progress("  evenkeel dev # runs it on an embedded cluster, restarts on change");
    Ok(())
}

/// Returns the files one after another, each with its path as heading.
fn listing(files: &[File]) -> String {
    let mut text = String::new();
    for file in files {
        text.push_str(&format!("==> {} <==\n{}\n", file.path.display(), file.text));
    }
    text
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Formats the Rust files. The order of imports and the line breaks depend on the names.
fn format_sources(directory: &Path, files: &[File]) {
    let sources = files.iter().filter(|file| file.path.extension().is_some_and(|it| it == "rs"));
    // Without rustfmt the project compiles as well.
    let _ = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .args(sources.map(|file| directory.join(&file.path)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Returns the path relative to the current directory, if it is below it.
fn shown(directory: &Path) -> String {
    let current = std::env::current_dir().ok();
    let relative = current.as_deref().and_then(|current| directory.strip_prefix(current).ok());
    relative.unwrap_or(directory).display().to_string()
}
