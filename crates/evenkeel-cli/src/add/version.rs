//! `evenkeel add version`.

use anyhow::bail;
use clap::Args;

use super::kind::child;
use super::plan::Plan;
use super::project::{CustomKind, Project};
use super::sample::Sample;
use super::source::{Call, Source};
use super::{Output, rustfmt};
use crate::new::names::{is_version, snake_case};

const TEST: &str = include_str!("../../templates/add/conversion_test.rs.tmpl");

#[derive(Args)]
#[command(after_help = "\
The new version begins as a copy. The present version stays the one that is stored and that all
others are converted to and from.

Example:
  evenkeel add version Website v2")]
pub(crate) struct Version {
    /// Kind of the project
    kind: String,
    /// Version to add, such as v1beta1 or v2
    version: String,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(command: &Version) -> anyhow::Result<()> {
    let mut project = Project::find()?;
    let Some(hub) = project.custom(&command.kind) else {
        bail!("{}", project.unknown(&command.kind, ""));
    };
    let (version, file) = (&*command.version, hub.file.display());
    if !is_version(version) {
        bail!("invalid version {version:?}: examples are v1, v1beta1 and v2alpha3");
    }
    if hub.version == version {
        bail!("{} has the version {version} already: it is the one in {file}", hub.kind);
    }
    if hub.inline {
        bail!("{} is in a module with braces in {file}; move it to a file", hub.kind);
    }
    let Some(fields) = &hub.fields else {
        bail!("{} in {file} has no named fields", hub.spec);
    };
    let (kind, root) = (hub.kind.clone(), hub.root.clone());
    let function = format!("{}_conversion", snake_case(&kind));
    let in_module = |name: &str| {
        let names = hub.module.iter().map(String::as_str).chain([name]);
        names.collect::<Vec<_>>().join("::")
    };
    let conversion = in_module(&function);
    let crd = in_module(&format!("{version}::{root}"));

    let mut plan = Plan::default();
    plan.create(&child(&hub.file, version), &hub.spec, &module(hub, version, fields))?;
    let test = TEST.replace("{{Kind}}", &kind).replace("{{crate}}", &project.library);
    let test = test.replace("{{function}}", &conversion);
    let test_file = project.directory.join(format!("tests/{function}.rs"));

    let mut source = Source::read(&hub.file)?;
    source.add_module(version)?;
    add_spoke(&mut source, hub, &function, version)?;
    plan.create_missing(&test_file, &test);
    let sample = Sample::find(&project.directory, hub);
    if let Some(text) = sample.and_then(|it| it.in_version(hub, version)) {
        let file = format!("samples/{}_{version}.yaml", snake_case(&kind));
        plan.create_missing(&project.directory.join(file), &text);
    }
    if !project.lib.mentions(&function) {
        project.lib.add_registration(&format!("{{manager}}.conversion({conversion}())?;"))?;
    }
    project.add_crd(&crd)?;
    plan.change(source);
    plan.change(project.lib);
    plan.change(project.main);
    plan.finish(&format!("the version {version} of {kind}"), command.output.dry_run)
}

/// Returns the module of a version: the spec of the hub, and the conversions.
fn module(hub: &CustomKind, version: &str, fields: &[String]) -> String {
    let CustomKind { kind, root, spec, .. } = hub;
    let text = hub.text.join(&format!("{version:?}"));
    let status = |from: &str| match hub.has_status {
        true => format!(", status: {from}.status"),
        false => String::new(),
    };
    let moved = |from: &str| {
        let moves = fields.iter().map(|it| format!("{it}: {from}.spec.{it}"));
        moves.collect::<Vec<_>>().join(", ")
    };
    let convert = |from: &str, name: &str, to: &str, to_spec: &str| {
        format!(
            "impl From<{from}> for {to} {{\n\
             fn from({name}: {from}) -> Self {{\n\
             let spec = {to_spec} {{ {} }};\n\
             Self {{ metadata: {name}.metadata, spec{} }}\n\
             }}\n}}\n",
            moved(name),
            status(name)
        )
    };
    let (hub_root, hub_spec) = (format!("super::{root}"), format!("super::{spec}"));
    format!(
        "//! The `{kind}` resource in {version}, which is converted to and from {}.\n\n\
         use super::*;\n\n{text}\n\n{}\n{}",
        hub.version,
        convert(root, "spoke", &hub_root, &hub_spec),
        convert(&hub_root, "hub", root, spec),
    )
}

/// Adds a version to the function that returns the conversion, or the function.
fn add_spoke(
    source: &mut Source,
    hub: &CustomKind,
    function: &str,
    version: &str,
) -> anyhow::Result<()> {
    let root = &*hub.root;
    let calls = source.calls().0;
    if calls.iter().any(|it| it.is("spoke", &[version, root])) {
        return Ok(());
    }
    let mut chain: Vec<&Call> = calls.iter().filter(|it| it.is("spoke", &[root])).collect();
    if chain.is_empty() {
        let starts = |it: &&Call| it.is_function(&["hub"]) && it.of.iter().eq([root]);
        chain.extend(calls.iter().find(starts));
    }
    if !chain.is_empty() {
        return source.add_line(&chain, &format!(".spoke::<{version}::{root}>()"));
    }
    source.append(&rustfmt::items(&format!(
        "/// Returns the versions of `{}`; all are converted to and from {}, which is stored.\n\
         pub fn {function}() -> evenkeel::webhook::Conversion<{root}> {{\n\
         evenkeel::webhook::Conversion::hub::<{root}>().spoke::<{version}::{root}>()\n}}\n",
        hub.kind, hub.version
    )))
}
