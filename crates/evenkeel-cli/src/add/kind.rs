//! `evenkeel add kind`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;

use super::Output;
use super::plan::Plan;
use super::project::{CustomKind, Project};
use super::source::Source;
use crate::new::Scope;
use crate::new::names::Names;
use crate::new::template;

#[derive(Args)]
#[command(after_help = "\
Examples:
  evenkeel add kind Certificate
  evenkeel add kind Certificate --version v1beta1 --scope cluster --dry-run")]
pub(crate) struct Kind {
    /// Kind of the custom resource, in CamelCase
    name: String,
    /// API group of the kind [default: that of the project's kinds]
    #[arg(long)]
    group: Option<String>,
    /// API version of the kind [default: v1]
    #[arg(long)]
    version: Option<String>,
    /// Scope of the kind [default: namespaced]
    #[arg(long, value_enum)]
    scope: Option<Scope>,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(command: &Kind) -> anyhow::Result<()> {
    let mut project = Project::find()?;
    let found = project.custom(&command.name);
    let sibling = found.or(project.kinds.first());
    let group = command.group.as_deref().or(sibling.map(|it| &*it.group)).unwrap_or("example.com");
    let version = command.version.as_deref().or(found.map(|it| &*it.version)).unwrap_or("v1");
    let (package, library) = (&*project.package, &*project.library);
    let names = Names::in_package(package, library, &command.name, group, version)?;
    let module = &*names.module;
    let file = child(&project.api, module);
    if let Some(found) = found {
        check_same(found, &file, command)?;
    }
    let rendered = template::Project {
        names: &names,
        namespaced: command.scope != Some(Scope::Cluster),
        workspace: false,
        standalone: false,
        checkout: Path::new(""),
    };
    let [api_text, controller, test, sample] = rendered.kind_texts();
    let reconciler = format!("{}Reconciler", names.kind);
    let directory = project.directory.clone();
    let mut plan = Plan::default();
    plan.create(&file, &format!("{}Spec", names.kind), &api_text)?;
    plan.create(&directory.join(format!("src/{module}.rs")), &reconciler, &controller)?;
    plan.create_missing(&directory.join(format!("tests/{module}.rs")), &test);
    plan.create_missing(&directory.join(format!("samples/{module}.yaml")), &sample);

    let mut api = Source::read(&project.api)?;
    api.add_module(module)?;
    project.lib.add_module(module)?;
    if !project.lib.mentions(&reconciler) {
        let owned = match project.lib.imports("ConfigMap") {
            true => "ConfigMap",
            false => "k8s_openapi::api::core::v1::ConfigMap",
        };
        project.lib.add_registration(&format!(
            "{{manager}}.controller({module}::{reconciler}).owns::<{owned}>().register()?;"
        ))?;
    }
    project.add_crd(&format!("api::{module}::{}", names.kind))?;
    plan.change(api);
    plan.change(project.lib);
    plan.change(project.main);
    let what = format!("the kind {} in {}/{}", names.kind, names.group, names.version);
    plan.finish(&what, command.output.dry_run)
}

/// Returns the file of a module that is declared in another file.
pub(super) fn child(parent: &Path, module: &str) -> PathBuf {
    let stem = parent.file_stem().and_then(|it| it.to_str()).unwrap_or_default();
    let directory = match matches!(stem, "lib" | "main" | "mod") {
        true => parent.parent().map(Path::to_owned).unwrap_or_default(),
        false => parent.with_extension(""),
    };
    directory.join(format!("{module}.rs"))
}

/// Fails unless the kind that was found is the one that the command adds.
fn check_same(found: &CustomKind, file: &Path, command: &Kind) -> anyhow::Result<()> {
    let differs =
        |requested: &Option<String>, found: &str| requested.as_ref().is_some_and(|it| it != found);
    let scope = if found.namespaced { Scope::Namespaced } else { Scope::Cluster };
    if found.file != file
        || differs(&command.group, &found.group)
        || differs(&command.version, &found.version)
        || command.scope.is_some_and(|it| it != scope)
    {
        bail!(
            "the kind {} exists: {}/{} in {}\n\
             hint: `evenkeel add version` adds a version, `evenkeel add controller` a reconciler",
            found.kind,
            found.group,
            found.version,
            found.file.display()
        );
    }
    Ok(())
}
