//! `evenkeel add controller`.

use anyhow::bail;
use clap::Args;

use super::plan::Plan;
use super::project::Project;
use super::{Output, use_declaration};
use crate::new::names::is_label;

const TEMPLATE: &str = include_str!("../../templates/add/controller.rs.tmpl");
const TEST: &str = include_str!("../../templates/add/controller_test.rs.tmpl");

#[derive(Args)]
#[command(after_help = "\
Examples:
  evenkeel add controller node-labels --kind Node
  evenkeel add controller website-backup --kind Website")]
pub(crate) struct Controller {
    /// Name of the controller, which is unique in the operator
    name: String,
    /// Kind that it reconciles: one of the project or of Kubernetes
    #[arg(long)]
    kind: String,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(command: &Controller) -> anyhow::Result<()> {
    let mut project = Project::find()?;
    let (name, object) = (&*command.name, project.resolve(&command.kind)?);
    // The module has the name too, and `lib` and `main` are files.
    let free = !matches!(name, "api" | "lib" | "main" | "mod");
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) || !free {
        bail!("invalid name {name:?}: an example is {}-backup", command.kind.to_lowercase());
    }
    let module = name.replace('-', "_");
    if syn::parse_str::<syn::Ident>(&module).is_err() {
        bail!("invalid name {name:?}: it is a keyword of Rust");
    }
    let reconciler = format!("{}Reconciler", camel_case(name));
    let text = TEMPLATE
        .replace("{{use}}", &use_declaration(&object.path))
        .replace("{{Kind}}", &object.root)
        .replace("{{Type}}", &reconciler);
    let mut plan = Plan::default();
    plan.create(&project.directory.join(format!("src/{module}.rs")), &reconciler, &text)?;
    let test = TEST.replace("{{name}}", name).replace("{{Type}}", &reconciler);
    project.add_test(&mut plan, &object, &module, &test);
    project.lib.add_module(&module)?;
    if !project.lib.mentions(&reconciler) {
        project.lib.add_registration(&format!(
            "{{manager}}.controller({module}::{reconciler}).named({name:?}).register()?;"
        ))?;
    }
    plan.change(project.lib);
    let what = format!("the controller {name} of {}", command.kind);
    plan.finish(&what, command.output.dry_run)
}

/// Returns `node-labels` as `NodeLabels`.
fn camel_case(name: &str) -> String {
    let words = name.split('-').filter_map(|word| {
        let first = word.chars().next()?;
        Some(format!("{}{}", first.to_ascii_uppercase(), word.get(1..)?))
    });
    words.collect()
}
