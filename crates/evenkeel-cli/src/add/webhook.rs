//! `evenkeel add webhook`.

use clap::Args;

use super::plan::Plan;
use super::project::Project;
use super::{Output, use_declaration};
use crate::new::names::snake_case;

const TEMPLATE: &str = include_str!("../../templates/add/webhook.rs.tmpl");
const TEST: &str = include_str!("../../templates/add/webhook_test.rs.tmpl");

#[derive(Args)]
#[command(after_help = "\
Examples:
  evenkeel add webhook Website
  evenkeel add webhook Pod --dry-run")]
pub(crate) struct Webhook {
    /// Kind of the objects: one of the project or of Kubernetes
    kind: String,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(command: &Webhook) -> anyhow::Result<()> {
    let mut project = Project::find()?;
    let object = project.resolve(&command.kind)?;
    let mut plan = Plan::default();
    // A webhook that was written by hand counts as well.
    let registered = project.lib.calls().0.iter().any(|it| it.is("webhook", &[&object.root]));
    if !registered {
        let module = format!("{}_webhook", snake_case(&command.kind));
        let validator = format!("{}Validator", command.kind);
        let text = TEMPLATE
            .replace("{{use}}", &use_declaration(&object.path))
            .replace("{{Kind}}", &object.root)
            .replace("{{Type}}", &validator);
        plan.create(&project.directory.join(format!("src/{module}.rs")), &validator, &text)?;
        let test = TEST.replace("{{Type}}", &validator);
        project.add_test(&mut plan, &object, &module, &test);
        project.lib.add_module(&module)?;
        let path = Project::in_root(&object.path);
        project.lib.add_registration(&format!(
            "{{manager}}.webhook::<{path}>().defaulter({module}::default)\
             .validator({module}::{validator}).register()?;"
        ))?;
    }
    plan.change(project.lib);
    plan.finish(&format!("the webhook of {}", command.kind), command.output.dry_run)
}
