//! `evenkeel types`: Rust types from a CustomResourceDefinition.

mod names;

mod schema;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};

use crate::output;
use schema::Generator;

#[derive(Args)]
#[command(after_help = "\
Examples:
  evenkeel types crd.yaml > certificate.rs
  kubectl get crd certificates.cert-manager.io -o yaml | evenkeel types -")]
pub(crate) struct Types {
    /// File with the CRD as YAML or JSON; - reads standard input
    file: PathBuf,
    /// Version to generate [default: the storage version]
    #[arg(long, value_name = "NAME")]
    version: Option<String>,
}

pub(crate) fn run(types: &Types) -> anyhow::Result<()> {
    let name = types.file.display();
    let text = match types.file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()).context("cannot read stdin")?,
        _ => std::fs::read_to_string(&types.file).with_context(|| format!("cannot read {name}"))?,
    };
    let crd: CustomResourceDefinition = serde_saphyr::from_str(&text)
        .with_context(|| format!("{name} is not a CustomResourceDefinition"))?;
    if crd.spec.names.kind.is_empty() {
        bail!("{name} is not a CustomResourceDefinition: it has no spec.names.kind");
    }
    output::print(&generate(&crd, types.version.as_deref())?)
}

/// Returns the Rust source for one version of a CRD.
fn generate(crd: &CustomResourceDefinition, version: Option<&str>) -> anyhow::Result<String> {
    let spec = &crd.spec;
    let found = spec.versions.iter().find(|it| match version {
        Some(version) => it.name == version,
        None => it.storage,
    });
    let Some(found) = found else {
        let names: Vec<_> = spec.versions.iter().map(|it| &*it.name).collect();
        let version = version.unwrap_or("that is stored");
        bail!("the CRD has no version {version}; its versions: {}", names.join(", "));
    };
    let schema = found.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
    let properties = schema.and_then(|it| it.properties.as_ref());
    let kind = &spec.names.kind;
    let mut generator = Generator::default();
    let status = properties.and_then(|it| it.get("status"));
    if let Some(status) = status {
        generator.object(&format!("{kind}Status"), status, "");
    }
    let attributes = resource_attributes(crd, found, status.is_some());
    let empty = Default::default();
    let spec = properties.and_then(|it| it.get("spec")).unwrap_or(&empty);
    generator.object(&format!("{kind}Spec"), spec, &attributes);
    Ok(generator.source(kind))
}

/// Returns the `#[kube(..)]` attributes of the spec.
fn resource_attributes(
    crd: &CustomResourceDefinition,
    version: &CustomResourceDefinitionVersion,
    status: bool,
) -> String {
    let spec = &crd.spec;
    let names = &spec.names;
    let mut text = format!(
        "#[kube(group = {:?}, version = {:?}, kind = {:?})]\n",
        spec.group, version.name, names.kind
    );
    // The CRD is that of another program, so no schema is generated from the types.
    text.push_str(&format!("#[kube(plural = {:?}, schema = \"disabled\"", names.plural));
    if let Some(singular) = &names.singular {
        text.push_str(&format!(", singular = {singular:?}"));
    }
    if spec.scope == "Namespaced" {
        text.push_str(", namespaced");
    }
    text.push_str(")]\n");
    if status {
        text.push_str(&format!("#[kube(status = \"{}Status\")]\n", names.kind));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_every_schema_construct_are_generated() {
        let crd = serde_saphyr::from_str(include_str!("types/example.yaml")).unwrap();
        let source = generate(&crd, None).unwrap();
        assert_eq!(source, include_str!("types/example.rs.txt"));
        let error = generate(&crd, Some("v2")).unwrap_err().to_string();
        assert_eq!(error, "the CRD has no version v2; its versions: v1");
    }
}
