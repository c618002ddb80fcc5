//! The description that an operator prints of itself.

use std::io::IsTerminal as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

use super::Source;
use crate::build;

/// What an operator prints if this variable is set. The library defines it: `manager/describe.rs`.
const VARIABLE: &str = "EVENKEEL_DESCRIBE";

/// The description.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Model {
    /// The operator.
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// Its namespace.
    pub(crate) namespace: String,
    /// The flags that it accepts.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    /// The CustomResourceDefinitions.
    #[serde(default)]
    pub(crate) crds: Vec<Value>,
    /// The permissions in all watched namespaces.
    #[serde(default)]
    pub(crate) rules: Vec<Value>,
    /// Those of them that the author added; the others follow from what controllers register.
    #[serde(default)]
    pub(crate) added_rules: Vec<Value>,
    /// The permissions in the operator's own namespace.
    #[serde(default)]
    pub(crate) namespace_rules: Vec<Value>,
    /// The webhook server, if there is one.
    pub(crate) webhooks: Option<Webhooks>,
}

/// The webhook server of an operator.
#[derive(Debug, Deserialize)]
pub(crate) struct Webhooks {
    /// The name of its Service.
    pub(crate) service: String,
    /// The port of its Service.
    pub(crate) port: u16,
    /// The webhook configurations.
    pub(crate) configurations: Vec<Value>,
}

impl Model {
    /// Whether the operator accepts a flag.
    pub(crate) fn accepts(&self, flag: &str) -> bool {
        self.flags.iter().any(|it| it == flag)
    }

    /// Runs the operator to describe itself in a namespace, by default that of its name.
    ///
    /// # Errors
    /// If it cannot be built or run, or does not describe itself.
    pub(crate) fn of(source: &Source, namespace: Option<&str>) -> anyhow::Result<Self> {
        let mut command = match &source.binary {
            Some(path) => Command::new(path),
            None => {
                build::check_project()?;
                let mut cargo = Command::new("cargo");
                cargo.arg("run");
                // A person sees that the operator is being built, which can take minutes.
                if !std::io::stderr().is_terminal() {
                    cargo.arg("--quiet");
                }
                if let Some(name) = &source.bin {
                    cargo.args(["--bin", name]);
                }
                cargo
            }
        };
        command.env(VARIABLE, namespace.unwrap_or_default());
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().with_context(|| match &source.binary {
            Some(path) => format!("cannot run {}", path.display()),
            None => "cannot run cargo".to_owned(),
        })?;
        if !output.status.success() {
            let program = if source.binary.is_some() { "the operator" } else { "`cargo run`" };
            bail!("cannot describe the operator: {program} failed ({})", output.status);
        }
        serde_json::from_slice(&output.stdout).context(
            "the operator printed no description\n\
             hint: its main function must connect a manager, register its controllers and run it",
        )
    }
}
