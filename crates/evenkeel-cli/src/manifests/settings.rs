//! `evenkeel.toml`: what the manifests need besides the operator itself.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::model::Model;

/// The name of the file.
const FILE: &str = "evenkeel.toml";

/// The file as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Table {
    pub(super) namespace: Option<String>,
    image: Option<String>,
    replicas: Option<u32>,
    cpu: Option<String>,
    memory: Option<String>,
    service_monitor: Option<bool>,
    network_policy: Option<bool>,
}

/// The settings with their defaults.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) namespace: String,
    pub(crate) image: String,
    pub(crate) replicas: u32,
    pub(crate) cpu: String,
    pub(crate) memory: String,
    pub(crate) service_monitor: bool,
    pub(crate) network_policy: bool,
}

impl Table {
    /// Reads the file in the current directory, if it exists.
    ///
    /// # Errors
    /// If it is not valid; the error names the setting.
    pub(super) fn read() -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(Path::new(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {FILE}")),
        };
        Self::parse(&text).context(FILE)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let table: Self = toml::from_str(text)?;
        if [&table.namespace, &table.image].into_iter().flatten().any(String::is_empty) {
            bail!("namespace and image must not be empty");
        }
        Ok(table)
    }

    /// Adds the defaults.
    pub(super) fn complete(self, model: &Model) -> Settings {
        let version = model.version.as_deref().unwrap_or("latest");
        Settings {
            namespace: model.namespace.clone(),
            image: self.image.unwrap_or_else(|| format!("{}:{version}", model.name)),
            replicas: self.replicas.unwrap_or(1),
            cpu: self.cpu.unwrap_or_else(|| "500m".to_owned()),
            memory: self.memory.unwrap_or_else(|| "128Mi".to_owned()),
            service_monitor: self.service_monitor.unwrap_or(false),
            network_policy: self.network_policy.unwrap_or(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unset_values_follow_from_the_operator() {
        let model = r#"{"name": "web", "version": "1.2.0", "namespace": "web"}"#;
        let model = serde_json::from_str(model).unwrap();
        let settings = Table::parse("replicas = 3").unwrap().complete(&model);
        assert_eq!(settings.namespace, "web");
        assert_eq!(settings.image, "web:1.2.0");
        assert_eq!(settings.replicas, 3);
        assert!(settings.network_policy && !settings.service_monitor);
    }

    #[test]
    fn misspelled_settings_are_rejected_by_name() {
        let refused = |text| Table::parse(text).err().unwrap().to_string();
        let error = refused("replica = 3");
        assert!(error.contains("replica") && error.contains("replicas"), "{error}");
        assert!(refused("namespace = ''").contains("must not be empty"));
    }
}
